//! A cache of what the CLI's session files are about.
//!
//! It is a file of its own beside the journal, because it can be made again at any time: a cache that
//! cannot be read is replaced by an empty one.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, params};

use crate::columns::{number, path, path_bytes, unsigned};
use crate::error::Error;

/// Changed with the tables or the meaning of a summary.
const FORMAT: u32 = 1;

/// Another process writes for milliseconds only.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// A cache of what files are about.
#[derive(Debug)]
pub struct SummaryCache {
    connection: Mutex<Connection>,
}

/// What a file is about, as long as its size, time and number are these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedSummary {
    pub path: PathBuf,
    pub size: u64,
    pub modified: u64,
    pub inode: u64,
    /// JSON that the cache does not interpret.
    pub summary: String,
}

impl SummaryCache {
    /// Opens a file, or creates it. Blocks.
    pub fn open(file: &Path) -> Result<Self, Error> {
        Self::try_open(file).or_else(|_| {
            for ending in ["", "-wal", "-shm"] {
                let mut name = file.as_os_str().to_owned();
                name.push(ending);
                match fs::remove_file(&name) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(Error::io(file, error));
                    }
                    _ => {}
                }
            }
            Self::try_open(file)
        })
    }

    fn try_open(file: &Path) -> Result<Self, Error> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(file).map_err(|error| Error::io(file, error))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "trusted_schema", false)?;
        let format: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if format != FORMAT {
            connection.execute_batch(&format!(
                "BEGIN IMMEDIATE;
                 DROP TABLE IF EXISTS summary;
                 CREATE TABLE summary (
                     path BLOB PRIMARY KEY,
                     size INTEGER NOT NULL,
                     modified INTEGER NOT NULL,
                     inode INTEGER NOT NULL,
                     summary TEXT NOT NULL
                 ) STRICT, WITHOUT ROWID;
                 PRAGMA user_version = {FORMAT};
                 COMMIT;"
            ))?;
        }
        // A damaged file fails here and not in the middle of a list.
        connection.query_row("SELECT count(*) FROM summary", [], |_| Ok(()))?;
        Ok(Self { connection: Mutex::new(connection) })
    }

    /// Everything that is cached. Blocks.
    pub fn load(&self) -> Result<Vec<CachedSummary>, Error> {
        let connection = self.connection();
        let mut query = connection
            .prepare_cached("SELECT path, size, modified, inode, summary FROM summary")?;
        let rows = query.query_map([], |row| {
            Ok(CachedSummary {
                path: path(row.get_ref(0)?.as_blob()?),
                size: unsigned(row, 1)?,
                modified: unsigned(row, 2)?,
                inode: row.get::<_, i64>(3)?.cast_unsigned(),
                summary: row.get(4)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Adds or replaces summaries, and removes those of files that are gone. Blocks.
    pub fn update(&self, changed: &[CachedSummary], removed: &[PathBuf]) -> Result<(), Error> {
        let connection = self.connection();
        let transaction = connection.unchecked_transaction()?;
        {
            let mut put = transaction.prepare_cached(
                "INSERT OR REPLACE INTO summary (path, size, modified, inode, summary)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            for CachedSummary { path, size, modified, inode, summary } in changed {
                let (size, modified) = (number(*size), number(*modified));
                put.execute(params![
                    path_bytes(path),
                    size,
                    modified,
                    inode.cast_signed(),
                    summary
                ])?;
            }
            let mut remove = transaction.prepare_cached("DELETE FROM summary WHERE path = ?1")?;
            for path in removed {
                remove.execute([path_bytes(path)])?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{CachedSummary, SummaryCache};

    fn summary(path: &str, size: u64) -> CachedSummary {
        let (path, summary) = (path.into(), "{}".to_owned());
        CachedSummary { path, size, modified: 5, inode: u64::MAX, summary }
    }

    #[test]
    fn summaries_are_kept_replaced_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("transcripts.db");
        let cache = SummaryCache::open(&file).unwrap();
        let all: Vec<_> = (0..5000).map(|it| summary(&format!("/p/{it}"), it)).collect();
        cache.update(&all, &[]).unwrap();
        cache.update(&[summary("/p/1", 77)], &["/p/2".into(), "/p/none".into()]).unwrap();
        drop(cache);
        let found = SummaryCache::open(&file).unwrap().load().unwrap();
        assert_eq!(found.len(), 4999);
        assert!(found.contains(&summary("/p/1", 77)) && !found.contains(&summary("/p/2", 2)));
    }

    #[test]
    fn a_cache_that_cannot_be_read_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("transcripts.db");
        std::fs::write(&file, "not a database, but longer than the header of one: ".repeat(9))
            .unwrap();
        let cache = SummaryCache::open(&file).unwrap();
        assert_eq!(cache.load().unwrap(), []);
        cache.update(&[summary("/p/1", 1)], &[]).unwrap();
        assert_eq!(cache.load().unwrap().len(), 1);
    }
}
