//! Errors of the journal.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{error, io};

use rusqlite::ErrorCode;

use crate::id::SessionId;

/// Why an operation failed, by what the caller can do about it.
///
/// It is `Clone` because every write of a failed transaction gets the same error.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A later version of Towpath wrote the file. It was left unchanged.
    #[error("the journal `{path}` has format {found}; this version supports formats up to {known}")]
    Newer { path: PathBuf, found: u32, known: u32 },
    /// The file is a database of another program. It was left unchanged.
    #[error("`{path}` is a database but not a Towpath journal")]
    Foreign { path: PathBuf },
    /// Part of the file cannot be read. The next open repairs it.
    #[error("the journal is damaged")]
    Damaged { source: Arc<dyn error::Error + Send + Sync> },
    /// The journal is damaged and cannot be repaired while another process has it open.
    #[error("the journal `{path}` is damaged and another process is using it")]
    DamagedInUse { path: PathBuf },
    /// An older version of Towpath is using the file, which must be migrated first.
    #[error("the journal `{path}` must be migrated, but an older version of towpath is using it")]
    OutdatedInUse { path: PathBuf },
    /// A record of one session cannot be read. Other sessions are not affected.
    #[error("session `{session}` is damaged: {reason}")]
    DamagedSession { session: SessionId, reason: String },
    /// Other users could read or replace what is in a directory.
    #[error("the directory `{path}` is not safe: {reason}")]
    UnsafeDirectory { path: PathBuf, reason: String },
    /// A line is larger than what the database can store in a row. Nothing was stored.
    #[error("the line is too large for the journal")]
    TooLarge,
    /// The disk is full. Nothing was stored.
    #[error("the disk is full")]
    Full,
    /// Another process locked the journal for too long. Nothing was stored.
    #[error("another process is writing to the journal")]
    Busy,
    #[error("no session `{0}`")]
    NoSuchSession(SessionId),
    #[error("session `{0}` already exists")]
    SessionExists(SessionId),
    /// Changes of another journal do not follow the ones that this one has. Nothing was stored.
    #[error("the changes of session `{session}` do not follow the ones before")]
    OutOfOrder { session: SessionId },
    /// The followed session was deleted, or the journal was closed.
    #[error("the session was deleted or the journal was closed")]
    Gone,
    #[error("the journal is closed")]
    Closed,
    #[error("could not access `{path}`")]
    Io { path: PathBuf, source: Arc<io::Error> },
    /// Any other failure of SQLite.
    #[error("the database of the journal failed")]
    Sqlite { source: Arc<rusqlite::Error> },
}

impl Error {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::StorageFull {
            return Self::Full;
        }
        Self::Io { path: path.to_owned(), source: Arc::new(source) }
    }

    /// A stored value is not valid.
    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        let source = io::Error::new(io::ErrorKind::InvalidData, what.into());
        Self::Damaged { source: Arc::new(source) }
    }

    /// Whether the error is about the operation and not about the database: nothing was written,
    /// and other writes of the same transaction are not affected.
    pub(crate) fn is_rejection(&self) -> bool {
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
            Some(ErrorCode::TooBig) => Self::TooLarge,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            _ => Self::Sqlite { source: Arc::new(source) },
        }
    }
}
