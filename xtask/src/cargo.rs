//! Running cargo on this workspace.

use std::path::Path;
use std::process::{Command, ExitStatus};

use crate::failure::Failure;

/// Runs cargo at the root of the workspace, its output on ours.
pub(crate) fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Result<ExitStatus, Failure> {
    // The cargo that runs us, which need not be the first on the path.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    Command::new(&cargo)
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(root)
        .status()
        .map_err(|error| Failure::could_not(&format!("start `{}`", cargo.display()), &error))
}
