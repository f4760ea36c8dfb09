//! The official Agent SDKs, driving `towpath play` as if it were the CLI.
//!
//! The SDKs are installed under `target/` on first use. Without Python, node or a way to install,
//! the test says that it was skipped; where `CI` is `true` that is a failure.

#![expect(clippy::print_stdout, reason = "what is installed or skipped is said")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and look whether CI runs them"
)]

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PYTHON: &str = "claude-agent-sdk==0.2.182";
const NODE: [&str; 2] = ["@anthropic-ai/claude-agent-sdk@0.3.325", "zod@4"];

#[test]
fn the_python_agent_sdk_drives_the_player() {
    match python() {
        Ok(python) => drive(python, &scripts().join("drive.py")),
        Err(why) => skip(&why),
    }
}

#[test]
fn the_typescript_agent_sdk_drives_the_player() {
    match node() {
        // A module finds its packages beside itself.
        Ok(script) => drive("node", &script),
        Err(why) => skip(&why),
    }
}

fn drive(program: impl AsRef<OsStr>, script: &Path) {
    let home = tempfile::tempdir().expect("a temporary directory");
    let project = home.path().join("project");
    std::fs::create_dir(&project).expect("a directory");
    // SDKs start one program, and append their arguments.
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
    available("python3")?;
    let place = place("python");
    let python = place.join("bin/python");
    let done = place.join("installed");
    if !done.exists() {
        println!("installing {PYTHON} into {}", place.display());
        run(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", PYTHON]))?;
        std::fs::write(done, PYTHON).map_err(|error| error.to_string())?;
    }
    Ok(python)
}

/// The script, in a directory with the SDK.
fn node() -> Result<PathBuf, String> {
    available("node")?;
    available("npm")?;
    let place = place("node");
    let done = place.join("installed");
    if !done.exists() {
        println!("installing {} into {}", NODE.join(" "), place.display());
        // The SDK brings the CLI itself as an optional part, which is large and not needed.
        let install = [
            "install",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--omit=optional",
            "--prefix",
        ];
        std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
        run(Command::new("npm").args(install).arg(&place).args(NODE))?;
        std::fs::write(done, NODE.join(" ")).map_err(|error| error.to_string())?;
    }
    let script = place.join("drive.mjs");
    std::fs::copy(scripts().join("drive.mjs"), &script).map_err(|error| error.to_string())?;
    Ok(script)
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testbed/tests/agents")
}

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("agent-sdk").join(name)
}

fn available(program: &str) -> Result<(), String> {
    let mut command = Command::new(program);
    run(command.arg("--version")).map_err(|_| format!("`{program}` is not installed"))
}

fn run(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(format!("{shown} failed: {}", why.trim()))
}

fn skip(why: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "could not run: {why}");
    println!("skipped: {why}");
}
