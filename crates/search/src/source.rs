//! Where indexed text comes from.

use std::path::{Path, PathBuf};

use journal::SessionId;
use rusqlite::Row;
use uuid::Uuid;

/// A session of Towpath, or a session file of the CLI.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SourceId {
    Session(SessionId),
    File(PathBuf),
}

/// The database's number of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SourceKey(pub(crate) i64);

/// What the index knows of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceRecord {
    pub(crate) key: SourceKey,
    pub(crate) id: SourceId,
    /// The number of the file in its file system.
    pub(crate) inode: u64,
    /// How far it is indexed: the number of the last entry, or the offset behind the last line.
    pub(crate) done: u64,
}

pub(crate) const SOURCE_COLUMNS: &str = "key, kind, name, inode, done";

impl SourceId {
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Self::Session(_) => 0,
            Self::File(_) => 1,
        }
    }

    pub(crate) fn name(&self) -> &[u8] {
        match self {
            Self::Session(id) => id.0.as_bytes(),
            Self::File(path) => path.as_os_str().as_encoded_bytes(),
        }
    }

    fn new(kind: u8, name: &[u8]) -> Option<Self> {
        match kind {
            0 => Some(Self::Session(SessionId(Uuid::from_slice(name).ok()?))),
            1 => Some(Self::File(path(name))),
            _ => None,
        }
    }
}

impl SourceRecord {
    /// Reads [`SOURCE_COLUMNS`].
    pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let (kind, name) = (row.get(1)?, row.get_ref(2)?.as_blob()?);
        let id = SourceId::new(kind, name).ok_or(rusqlite::Error::InvalidQuery)?;
        Ok(Self {
            key: SourceKey(row.get(0)?),
            id,
            inode: row.get::<_, i64>(3)?.cast_unsigned(),
            done: row.get::<_, i64>(4)?.cast_unsigned(),
        })
    }
}

#[cfg(unix)]
fn path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    Path::new(std::ffi::OsStr::from_bytes(bytes)).to_owned()
}

#[cfg(not(unix))]
fn path(bytes: &[u8]) -> PathBuf {
    Path::new(&*String::from_utf8_lossy(bytes)).to_owned()
}
