//! The mark of a run of the tests.
//!
//! `cargo xtask test` sets a variable that everything in the run inherits, and at its end looks for
//! processes that still have it. An environment that a test makes by hand must have it too, or what
//! its programs leave behind is not found.

use std::ffi::OsString;
use std::process::Command;

/// The variable; `xtask` has the same name.
pub const VARIABLE: &str = "TOWPATH_TEST_RUN";

/// The variable with its value; none outside of a run of `cargo xtask test`.
#[expect(clippy::disallowed_methods, reason = "the run of the tests sets it")]
pub fn mark() -> Option<(OsString, OsString)> {
    Some((VARIABLE.into(), std::env::var_os(VARIABLE)?))
}

/// Has a command inherit nothing but the mark.
pub fn clear_environment(command: &mut Command) -> &mut Command {
    command.env_clear().envs(mark())
}
