//! Programs nobody here wrote, which our work must satisfy: installed for a test, once.
//!
//! Each set of packages has a directory of its own, which says in a file what was installed there
//! last. Versions are pinned by whoever asks. For tests alone: it prints, and looks at `CI`.

#![expect(clippy::print_stdout, reason = "a test says what it installs and what it skips")]
#![expect(clippy::disallowed_methods, reason = "programs of others are started by their names")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The file that says what a directory holds.
const HELD: &str = "installed";

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

/// What packages of npm bring along where the platform has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionalPackages {
    /// It is wanted: the program itself, compiled.
    Install,
    /// It is large, and not needed.
    Omit,
}

/// Has a directory hold these packages of npm. The error says why it cannot.
pub fn npm(place: &Path, packages: &[&str], extras: OptionalPackages) -> Result<(), String> {
    available("node")?;
    available("npm")?;
    once(place, packages, || {
        let quietly = ["--no-audit", "--no-fund", "--ignore-scripts"];
        let extras = (extras == OptionalPackages::Omit).then_some("--omit=optional");
        let mut npm = Command::new("npm");
        npm.args(["install", "--prefix"]).arg(place).args(quietly).args(extras).args(packages);
        run(&mut npm)
    })
}

/// The directory of programs of an environment of Python's that has these packages. The error says
/// why there is none.
pub fn python(place: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    available("python3")?;
    let programs = place.join("bin");
    once(place, packages, || {
        run(Command::new("python3").args(["-m", "venv"]).arg(place))?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(Command::new(programs.join("python")).args(install).args(packages))
    })?;
    Ok(programs)
}

/// Runs a program to its end; its last words if it fails.
pub fn run(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output().map_err(|why| format!("{shown}: {why}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{shown} failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

fn available(program: &str) -> Result<(), String> {
    let looked = run(Command::new(program).arg("--version"));
    looked.map_err(|_| format!("`{program}` is not installed"))
}

fn once(
    place: &Path,
    packages: &[&str],
    install: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let (held, wanted) = (place.join(HELD), packages.join(" "));
    if std::fs::read_to_string(&held).is_ok_and(|held| held == wanted) {
        return Ok(());
    }
    println!("installing {wanted} into {}", place.display());
    let failed = |why: std::io::Error| format!("`{}`: {why}", place.display());
    // Half an installation, or one of other versions, is of no use.
    match std::fs::remove_dir_all(place) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => return Err(failed(why)),
        _ => std::fs::create_dir_all(place).map_err(failed)?,
    }
    install()?;
    std::fs::write(held, wanted).map_err(failed)
}
