//! The index file: its tables, and making it again if it cannot be used.
//!
//! `words` says which rows have a word, and nothing else: no positions, no counts, no text. `document`
//! says which line a row is. The number of a row grows with the time of its line, so the newest lines
//! come first without sorting. Before each word is the period of its line (see `period`).

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::error::Error;

// The beginnings of words are listed for two letters only, behind the two characters of the period. Each
// further list takes a tenth of the text, and three letters are found fast enough without.

/// Changed with the tables, with how text is divided into words, or with what is searched of a line.
const FORMAT: u32 = 3;

/// The size of the log, in pages, at which it is copied into the file.
const LOG_PAGES: u32 = 4096;

/// How long to wait for another process that is writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the index is.
#[derive(Clone, Debug)]
pub(crate) struct IndexFile(PathBuf);

impl IndexFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Opens the file for writing. One that is damaged, or of another version, is replaced. Blocks.
    pub(crate) fn open_writable(&self) -> Result<Connection, Error> {
        match self.try_open() {
            Err(error) if error.is_damage() => {
                tracing::info!(%error, "the search index is made again");
                self.remove()?;
                self.try_open()
            }
            opened => opened,
        }
    }

    /// Opens the file for reading; none if there is none. Blocks.
    pub(crate) fn open_readable(&self) -> Result<Option<Connection>, Error> {
        if !self.0.exists() {
            return Ok(None);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.0, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "query_only", true)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "cache_size", -8192)?;
        // The writer has not created the tables yet, or replaces another version.
        let is_current = format(&connection)? == FORMAT;
        Ok(is_current.then_some(connection))
    }

    /// The number of the file in its file system, to notice that it was replaced.
    pub(crate) fn inode(&self) -> Option<u64> {
        let metadata = fs::metadata(&self.0).ok()?;
        #[cfg(unix)]
        return Some(std::os::unix::fs::MetadataExt::ino(&metadata));
        #[cfg(not(unix))]
        return Some(u64::from(metadata.is_file()));
    }

    pub(crate) fn remove(&self) -> Result<(), Error> {
        for ending in ["-wal", "-shm", ""] {
            let mut name = self.0.as_os_str().to_owned();
            name.push(ending);
            match fs::remove_file(&name) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::Create { path: self.0.clone(), source });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn try_open(&self) -> Result<Connection, Error> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let create = |source| Error::Create { path: self.0.clone(), source };
        options.open(&self.0).map_err(create)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.0, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        if format(&connection)? == 0 {
            // This only has an effect on an empty file.
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        }
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        connection.pragma_update_and_check(None, "wal_autocheckpoint", LOG_PAGES, |_| Ok(()))?;
        let log_limit = LOG_PAGES * 4096;
        connection.pragma_update_and_check(None, "journal_size_limit", log_limit, |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "cache_size", -8192)?;
        // What a user deleted must not be in the file any more.
        connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
        create_tables(&connection)?;
        Ok(connection)
    }
}

fn format(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn create_tables(connection: &Connection) -> Result<(), Error> {
    match format(connection)? {
        FORMAT => {
            // A damaged file fails here and not in the middle of a search.
            connection.query_row("SELECT count(*) FROM source", [], |_| Ok(()))?;
            return Ok(());
        }
        0 => {}
        // Of another version: as useless as a damaged one.
        _ => return Err(rusqlite::Error::InvalidQuery.into()),
    }
    connection.execute_batch("BEGIN IMMEDIATE")?;
    // Another process may have created them while this one waited.
    if format(connection)? == 0 {
        connection.execute_batch(&format!(
            "CREATE TABLE source (
                 key INTEGER PRIMARY KEY AUTOINCREMENT,
                 kind INTEGER NOT NULL,
                 name BLOB NOT NULL,
                 inode INTEGER NOT NULL,
                 done INTEGER NOT NULL,
                 UNIQUE (kind, name)
             ) STRICT;
             CREATE TABLE document (
                 row INTEGER PRIMARY KEY,
                 source INTEGER NOT NULL,
                 place INTEGER NOT NULL,
                 length INTEGER NOT NULL,
                 role INTEGER NOT NULL
             ) STRICT;
             CREATE INDEX document_source ON document (source);
             CREATE VIRTUAL TABLE words USING fts5 (
                 terms, content = '', contentless_delete = 1, detail = none,
                 tokenize = 'ascii', prefix = '4'
             );
             INSERT INTO words (words, rank) VALUES ('hashsize', 4194304);
             PRAGMA user_version = {FORMAT};"
        ))?;
    }
    Ok(connection.execute_batch("COMMIT")?)
}
