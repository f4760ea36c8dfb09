//! Why the journal could not do what was asked.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{error, io};

use rusqlite::ErrorCode;

use crate::id::SessionId;

/// Why the journal could not do what was asked, by what the caller can do about it.
///
/// It can be cloned, for what fails a group of writes is told to each who waits for it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A later Towpath wrote the file. Nothing of it was touched.
    #[error("the journal `{path}` has format {found}, this program knows up to {known}")]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format it has.
        found: u32,
        /// The newest format known.
        known: u32,
    },
    /// The file is a sound database of something else. Nothing of it was touched.
    #[error("`{path}` is a database, but not a journal")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Part of the file cannot be read; opening it again mends what can be.
    #[error("the journal is damaged")]
    Damaged {
        /// What was met.
        source: Arc<dyn error::Error + Send + Sync>,
    },
    /// The journal is damaged, and cannot be mended while another process has it open.
    #[error("the journal `{path}` is damaged and in use by another process")]
    DamagedInUse {
        /// The file.
        path: PathBuf,
    },
    /// The disk is full. Nothing of what was asked is stored; ask again when there is room.
    #[error("the disk is full")]
    Full,
    /// Another process holds the journal for too long. Nothing was stored; ask again.
    #[error("the journal is held by another process")]
    Busy,
    /// There is no such session.
    #[error("there is no session `{0}`")]
    NoSuchSession(SessionId),
    /// There is such a session already.
    #[error("there is a session `{0}` already")]
    SessionExists(SessionId),
    /// What was followed is no more: the session is deleted, or the journal closed.
    #[error("the session is deleted or its journal closed")]
    Gone,
    /// The journal is closed.
    #[error("the journal is closed")]
    Closed,
    /// The system refused.
    #[error("could not use `{path}`")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The database refused, for a reason that is not among the above.
    #[error("the journal's database failed")]
    Sqlite {
        /// What it said.
        source: Arc<rusqlite::Error>,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::StorageFull {
            return Self::Full;
        }
        Self::Io { path: path.to_owned(), source: Arc::new(source) }
    }

    /// A stored value makes no sense.
    pub(crate) fn nonsense(what: impl Into<String>) -> Self {
        let source = io::Error::new(io::ErrorKind::InvalidData, what.into());
        Self::Damaged { source: Arc::new(source) }
    }

    /// Whether it says something about what was asked, rather than about the database: nothing was
    /// written, and others asked for in the same group need not suffer.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::NoSuchSession(_) | Self::SessionExists(_))
    }
}

impl From<rusqlite::Error> for Error {
    fn from(source: rusqlite::Error) -> Self {
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { source: Arc::new(source) }
            }
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            _ => Self::Sqlite { source: Arc::new(source) },
        }
    }
}
