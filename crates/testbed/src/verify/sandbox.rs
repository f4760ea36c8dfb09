//! A place of its own for one scenario: home, working directory, temporary files, environment.
//!
//! Nothing of the caller's environment gets in, so no credential does. Every process started here
//! has the sandbox's home in its environment, which is how it is found again.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::processes::{self, Process};
use crate::scenario::{Names, Start, Version, matches_text};

/// The place.
#[derive(Debug)]
pub(super) struct Sandbox {
    root: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    /// Removes everything when the scenario is over.
    _directory: TempDir,
}

impl Sandbox {
    pub(super) fn new(search_path: &OsStr) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("towpath-").tempdir()?;
        // macOS hands out a link; agents report where it leads.
        let root = directory.path().canonicalize()?;
        for name in ["home", "project", "tmp"] {
            fs::create_dir(root.join(name))?;
        }
        let environment = [
            ("PATH", search_path.to_owned()),
            ("HOME", root.join("home").into()),
            ("TMPDIR", root.join("tmp").into()),
            ("CLAUDE_CODE_TMPDIR", root.join("tmp").into()),
            ("LANG", "C.UTF-8".into()),
            ("IS_SANDBOX", "1".into()),
            ("ANTHROPIC_API_KEY", "sk-dummy".into()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
            ("CLAUDE_CODE_MAX_RETRIES", "1".into()),
            ("DISABLE_AUTOUPDATER", "1".into()),
            ("DISABLE_TELEMETRY", "1".into()),
        ];
        let environment = environment.map(|(name, value)| (name.into(), value)).into();
        Ok(Self { root, environment, _directory: directory })
    }

    /// What scenarios call its places.
    pub(super) fn names(&self) -> Names {
        let mut names = Names::default();
        let cwd = self.project().display().to_string();
        // The CLI keeps the transcripts of a working directory in a folder named after it.
        names.set("folder", cwd.replace(|it: char| !it.is_ascii_alphanumeric(), "-"));
        names.set("cwd", cwd);
        names.set("home", self.home().display().to_string());
        names.set("tmp", self.root.join("tmp").display().to_string());
        names
    }

    fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// The working directory.
    pub(super) fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    pub(super) fn environment(&self) -> &BTreeMap<OsString, OsString> {
        &self.environment
    }

    pub(super) fn set_variable(&mut self, name: &str, value: &str) {
        self.environment.insert(name.into(), value.into());
    }

    /// Lays out files and variables as the scenario says.
    pub(super) fn prepare(
        &mut self,
        start: &Start,
        version: Version,
        names: &Names,
    ) -> io::Result<()> {
        for item in start.env.iter().filter(|item| item.versions.contains(version)) {
            match &item.what {
                (name, Some(value)) => self.set_variable(name, &names.fill(value)),
                (name, None) => {
                    self.environment.remove(OsStr::new(name));
                }
            }
        }
        let files = start.files.iter().map(|item| (self.project(), item));
        let home_files = start.home_files.iter().map(|item| (self.home(), item));
        for (base, item) in files.chain(home_files) {
            if item.versions.contains(version) {
                let (path, content) = &item.what;
                write_file(&base.join(names.fill(path)), &names.fill(content))?;
            }
        }
        Ok(())
    }

    /// The files a path stands for: one in the working directory, or all that a `…` matches.
    pub(super) fn files(&self, path: &str, names: &Names) -> Vec<PathBuf> {
        let whole = self.project().join(names.fill(path));
        if !path.contains('…') {
            return if whole.exists() { vec![whole] } else { Vec::new() };
        }
        let pattern = if Path::new(&names.fill(path)).is_absolute() {
            path.to_owned()
        } else {
            format!("{}/{path}", self.project().display())
        };
        let mut found = Vec::new();
        collect_files(&self.root, &mut found);
        found.retain(|file| matches_text(&pattern, &file.to_string_lossy(), names));
        found.sort();
        found
    }

    /// The processes that were started in here and still run.
    pub(super) fn processes(&self) -> Vec<Process> {
        processes::of(&self.root)
    }

    /// Ends every process in here.
    pub(super) async fn clear(&self) {
        for _ in 0..ROUNDS {
            if self.kill_round() {
                return;
            }
            tokio::time::sleep(ROUND).await;
        }
    }

    /// Kills what runs; whether there was nothing.
    fn kill_round(&self) -> bool {
        let left = self.processes();
        left.iter().for_each(Process::kill);
        left.is_empty()
    }
}

/// What is killed may have forked a moment before, so one round is not always enough.
const ROUNDS: usize = 50;
const ROUND: Duration = Duration::from_millis(10);

impl Drop for Sandbox {
    fn drop(&mut self) {
        // A scenario that was given up in the middle must not leave anything behind either, and
        // what still runs would write into the directory while it is removed.
        for _ in 0..ROUNDS {
            if self.kill_round() {
                return;
            }
            std::thread::sleep(ROUND);
        }
    }
}

fn write_file(path: &Path, content: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, content)?;
    if content.starts_with("#!") {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// All files below a directory; what cannot be listed has none.
fn collect_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect_files(&entry.path(), found),
            Ok(_) => found.push(entry.path()),
            Err(_) => {}
        }
    }
}
