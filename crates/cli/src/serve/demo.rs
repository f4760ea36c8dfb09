//! What `serve --demo` shows: a scratch project, and a session to begin with.
//!
//! All of it lies in a temporary directory that goes with the server, unless the data directory was
//! named.

use std::fs;
use std::io;
use std::path::PathBuf;

use journal::SessionId;
use session::{Creation, OpenError, Options, Sessions};
use tempfile::TempDir;
use uuid::Uuid;

/// The first session has the same id at each start, so that a demonstration on data that stays does
/// not collect them.
const FIRST: Uuid = Uuid::from_u128(0x7077_7061_7468_4000_8000_0000_0000_0001);

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

/// A demonstration.
#[derive(Debug)]
pub(crate) struct Demo {
    place: TempDir,
}

impl Demo {
    pub(crate) fn new() -> io::Result<Self> {
        let demo = Self { place: tempfile::Builder::new().prefix("towpath-demo-").tempdir()? };
        for (name, text) in FILES {
            let path = demo.project().join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, text)?;
        }
        Ok(demo)
    }

    /// Where the journal goes where nothing is said.
    pub(crate) fn data(&self) -> PathBuf {
        self.place.path().join("data")
    }

    /// The scratch project.
    pub(super) fn project(&self) -> PathBuf {
        self.place.path().join("ferry")
    }

    /// A session that waits for its first prompt.
    pub(super) async fn first_session(&self, sessions: &Sessions) -> Result<(), OpenError> {
        let options = Options { directory: self.project(), ..Options::default() };
        let title = Some("Try me: say “show me everything”".to_owned());
        let creation = Creation { id: Some(SessionId(FIRST)), title, options, resume: None };
        match sessions.create(creation).await {
            Ok(_) | Err(OpenError::Journal(journal::Error::SessionExists(_))) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
