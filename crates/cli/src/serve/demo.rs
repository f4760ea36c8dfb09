//! `serve --demo`: a scratch project and a first session.
//!
//! Everything is in a temporary directory that is removed with the server, unless `--data` is given.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use journal::SessionId;
use session::{OpenError, SessionOptions, SessionSpec, Sessions};
use tempfile::TempDir;
use uuid::Uuid;

/// The first session has the same id at each start, so that a demo with `--data` has only one.
const FIRST_SESSION: Uuid = Uuid::from_u128(0x7077_7061_7468_4000_8000_0000_0000_0001);

const FILES: &[(&str, &str)] = &[
    (
        "README.md",
        "# Ferry\n\nA ferry takes a wolf, a goat and a cabbage across a river, one at a time.\n\n\
         - `src/ferry.py` knows the rules\n- `notes.txt` has what is to be done\n",
    ),
    (
        "src/ferry.py",
        "def is_safe(bank):\n    \"\"\"Nobody eats anybody while the ferryman is away.\"\"\"\n    \
         return not {\"wolf\", \"goat\"} <= bank and not {\"goat\", \"cabbage\"} <= bank\n\n\n\
         def cross(banks, passenger):\n    here, there = banks\n    \
         return here - {passenger}, there | {passenger}\n",
    ),
    ("notes.txt", "remember the cabbage\n"),
];

#[derive(Debug)]
pub(crate) struct Demo {
    directory: TempDir,
}

impl Demo {
    pub(crate) fn new() -> io::Result<Self> {
        let demo = Self { directory: tempfile::Builder::new().prefix("towpath-demo-").tempdir()? };
        Self::write_project(&demo.project())?;
        Ok(demo)
    }

    /// Writes the files of the scratch project.
    pub(crate) fn write_project(directory: &Path) -> io::Result<()> {
        for (name, text) in FILES {
            let path = directory.join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, text)?;
        }
        Ok(())
    }

    /// The data directory if none is given.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// The scratch project.
    pub(crate) fn project(&self) -> PathBuf {
        self.directory.path().join("ferry")
    }

    /// Creates a session without prompts, if it does not exist yet.
    pub(super) async fn create_session(&self, sessions: &Sessions) -> Result<(), OpenError> {
        let options = SessionOptions { directory: self.project(), ..SessionOptions::default() };
        let title = Some("Try “show me everything”".to_owned());
        let creation =
            SessionSpec { id: Some(SessionId(FIRST_SESSION)), title, options, resume: None };
        match sessions.create(creation).await {
            Ok(_) | Err(OpenError::Journal(journal::Error::SessionExists(_))) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
