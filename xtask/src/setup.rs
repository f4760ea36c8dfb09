//! What the chores need beyond a Rust toolchain.
//!
//! What cannot be had is skipped out loud by whoever wanted it, with the reason given here.

use std::process::{Command, Stdio};

/// Looks for `jq`, which the benchmark of `inspect` is measured against.
pub(crate) fn jq() -> Result<(), String> {
    let found = Command::new("jq")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if found { Ok(()) } else { Err("`jq` is not installed".to_owned()) }
}
