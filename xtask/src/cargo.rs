//! Running cargo on this workspace.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::error::XtaskError;

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// The cargo that runs this program, which need not be the first in `PATH`.
pub(crate) fn program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Cargo, to be run at the root of the workspace.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(program());
    cargo.args(arguments).current_dir(root());
    cargo
}

/// Cargo as [`command`] runs it, for what must not slow down what runs beside it.
pub(crate) fn low_priority_command(arguments: &[&str]) -> Command {
    if !cfg!(unix) {
        return command(arguments);
    }
    let mut nice = Command::new("nice");
    nice.args(["-n", "5"]).arg(program()).args(arguments).current_dir(root());
    nice
}

/// The directory that cargo builds into.
pub(crate) fn target_directory() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root().join(directory),
        None => root().join("target"),
    }
}

/// Runs cargo with its output on ours, and passes on whether it succeeded.
pub(crate) fn forward(arguments: &[&str]) -> Result<ExitCode, XtaskError> {
    eprintln!("xtask: cargo {}", arguments.join(" "));
    // In the directory of the user, because the arguments of `corpus` may name a file.
    let status = Command::new(program())
        .args(arguments)
        .status()
        .map_err(|error| XtaskError::new("start cargo", &error))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
