//! The official Agent SDKs, driving `towpath play` as if it were the CLI.
//!
//! The SDKs are installed under `target/` on first use. Without Python, node or a way to install,
//! the tests report that they were skipped; if `CI` is `true` that is a failure.

#![expect(clippy::print_stdout, reason = "the output of the SDKs helps to explain a failure")]
#![expect(clippy::disallowed_methods, reason = "tests start programs")]

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use test_support::packages::{self, OptionalPackages};

const PYTHON: &str = "claude-agent-sdk==0.2.182";
const NODE: [&str; 2] = ["@anthropic-ai/claude-agent-sdk@0.3.325", "zod@4"];

#[test]
fn the_python_agent_sdk_drives_the_player() {
    if let Some(python) = packages::or_skip(python()) {
        drive(python, &scripts().join("drive.py"));
    }
}

#[test]
fn the_typescript_agent_sdk_drives_the_player() {
    // Node looks for packages beside the module.
    if let Some(script) = packages::or_skip(node()) {
        drive("node", &script);
    }
}

fn drive(program: impl AsRef<OsStr>, script: &Path) {
    let home = tempfile::tempdir().expect("a temporary directory");
    let project = home.path().join("project");
    std::fs::create_dir(&project).expect("a directory");
    // SDKs start one program and append their arguments.
    let agent = home.path().join("claude");
    let text = format!("#!/bin/sh\nexec '{}' play \"$@\"\n", env!("CARGO_BIN_EXE_towpath"));
    std::fs::write(&agent, text).expect("a script");
    std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let mut command = Command::new(program);
    for variable in ["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"] {
        command.env_remove(variable);
    }
    command.arg(script).current_dir(&project).stdin(Stdio::null());
    command.env("HOME", home.path()).env("TMPDIR", home.path()).env("AGENT", &agent);
    command.env("TOWPATH_PLAY_PACE", "5");
    let output = command.output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    println!("{}", text(&output.stdout));
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

/// A Python with the SDK.
fn python() -> Result<PathBuf, String> {
    Ok(packages::python(&install_directory("python"), &[PYTHON])?.join("python"))
}

/// The script, in a directory with the SDK.
fn node() -> Result<PathBuf, String> {
    let directory = install_directory("node");
    packages::npm(&directory, &NODE, OptionalPackages::Omit)?;
    let script = directory.join("drive.mjs");
    std::fs::copy(scripts().join("drive.mjs"), &script).map_err(|error| error.to_string())?;
    Ok(script)
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testbed/tests/agents")
}

fn install_directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("agent-sdk").join(name)
}
