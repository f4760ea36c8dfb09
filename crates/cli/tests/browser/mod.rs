//! Chromium and node for tests, with the scripts of `tests/web` and the packages they need.
//!
//! Packages are installed under `target/` on first use. Without node, npm or Chromium a test reports
//! that it was skipped; if `CI` is `true` that is a failure.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use tempfile::{NamedTempFile, TempDir};
use test_support::packages::{self, OptionalPackages};

const PACKAGES: [&str; 5] = [
    "playwright-core@1.56.1",
    "axe-core@4.11.0",
    "typescript@5.9.3",
    "prettier@3.9.10",
    "@types/node@20",
];
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
/// The same browser without windows, which takes half of the CPU time. Optional.
const BROWSER_WITHOUT_WINDOWS: &str = "chromium-headless-shell";

/// The directory with the scripts and their packages, or `None` if the test is skipped.
pub(crate) fn scripts() -> Option<&'static Path> {
    static SCRIPTS: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    packages::or_skip(SCRIPTS.get_or_init(install).as_deref().map_err(Clone::clone))
}

/// Sets the environment of a command that runs a script. Its files are removed with the directory.
pub(crate) fn prepare(command: &mut Command) -> TempDir {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    for variable in ["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"] {
        command.env_remove(variable);
    }
    command.current_dir(scratch.path()).stdin(Stdio::null());
    command.env("TOWPATH", env!("CARGO_BIN_EXE_towpath")).env("SCRATCH", scratch.path());
    let full = browser().expect("a browser");
    let browser = find_program(&[BROWSER_WITHOUT_WINDOWS]).unwrap_or_else(|| full.clone());
    command.env("BROWSER", browser).env("FULL_BROWSER", full).env("PAGES", pages());
    scratch
}

/// The source of the pages.
pub(crate) fn pages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web")
}

fn install() -> Result<PathBuf, String> {
    browser().ok_or("no Chromium is installed")?;
    // Several test binaries share the directory.
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("web");
    packages::npm(&directory, &PACKAGES, OptionalPackages::Install)?;
    // A module finds its packages in its own directory.
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/web");
    copy_scripts(&scripts, &directory).map_err(|error| error.to_string())?;
    Ok(directory)
}

/// Copies scripts that have changed, each in one step: another program may be running them.
fn copy_scripts(from: &Path, to: &Path) -> std::io::Result<()> {
    for script in std::fs::read_dir(from)? {
        let script = script?;
        let (text, copy) = (std::fs::read(script.path())?, to.join(script.file_name()));
        if std::fs::read(&copy).is_ok_and(|it| it == text) {
            continue;
        }
        let mut temporary = NamedTempFile::new_in(to)?;
        temporary.write_all(&text)?;
        temporary.persist(copy)?;
    }
    Ok(())
}

fn browser() -> Option<PathBuf> {
    let mac = PathBuf::from("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome");
    find_program(&BROWSERS).or_else(|| Some(mac).filter(|program| program.is_file()))
}

/// The first of these programs that is in `PATH`.
fn find_program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places: Vec<_> = std::env::split_paths(&path).collect();
    let mut paths = names.iter().flat_map(|name| places.iter().map(move |place| place.join(name)));
    paths.find(|program| program.is_file())
}
