//! Why something could not be searched.

use std::io;
use std::path::PathBuf;

/// Why something could not be searched or indexed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the search index `{}` could not be created", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("the search index could not be used")]
    Index(#[from] rusqlite::Error),
    #[error("the journal could not be read")]
    Journal(#[from] journal::Error),
    /// Another process has indexed the same lines in the meantime.
    #[error("another process is indexing")]
    Conflict,
    #[error("the thread that indexes has ended")]
    Stopped,
}

impl Error {
    /// Whether the index file itself is the problem, so that a new one is needed.
    pub(crate) fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, Unknown};
        let Self::Index(error) = self else { return false };
        // Without a code, a column has an unexpected type.
        matches!(error.sqlite_error_code(), None | Some(DatabaseCorrupt | NotADatabase | Unknown))
    }
}
