//! Connections to the file: the writer's, and the pool of read-only ones.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, panic};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;
use tokio::task;

use crate::error::Error;
use crate::{repair, schema};

/// How long to wait for another process that is writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The size of the log, in pages, at which it is checkpointed. Many streaming sessions write the same
/// few pages again and again, and a checkpoint copies each page once.
const LOG_PAGES: u32 = 4096;

/// The size, in bytes, to which the log is truncated then.
const LOG_LIMIT: u32 = LOG_PAGES * 4096;

/// The largest size of the file, in pages. Only tests set it, to simulate a full disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PageLimit(pub(crate) Option<u32>);

/// The durability of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Synced to disk before the commit returns.
    Durable,
    /// Lost, with everything committed after it, if the machine goes down soon.
    Relaxed,
}

impl Durability {
    pub(crate) fn set(self, connection: &Connection) -> Result<(), rusqlite::Error> {
        let level = match self {
            Self::Durable => "FULL",
            Self::Relaxed => "NORMAL",
        };
        connection.pragma_update(None, "synchronous", level)
    }
}

/// Opens the file for writing, or creates it, and migrates it to the latest format.
///
/// Until [`allow_checkpoint`] is called, closing it leaves the log as it is: a file that turns out to
/// be damaged or foreign must stay as it was.
pub(crate) fn open_writable(path: &Path, limit: PageLimit) -> Result<Connection, Error> {
    create(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    refuse_foreign(&connection, path)?;
    if schema::format(&connection)? == 0 {
        // This only has an effect on an empty file.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_LIMIT, |_| Ok(()))?;
    connection.pragma_update_and_check(None, "wal_autocheckpoint", LOG_PAGES, |_| Ok(()))?;
    // On macOS a plain `fsync` does not flush the cache of the drive. No effect elsewhere.
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "cache_size", -8192)?;
    if let PageLimit(Some(pages)) = limit {
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    connection.set_prepared_statement_cache_capacity(64);
    schema::migrate(&mut connection)?;
    Ok(connection)
}

/// Lets SQLite checkpoint the log when the connection is closed.
pub(crate) fn allow_checkpoint(connection: &Connection) -> Result<(), Error> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(())
}

/// Opens the file for reading. It was opened for writing before.
fn open_readable(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// The path of a companion file: `journal.db` and `suspect` give `journal.db.suspect`.
pub(crate) fn companion(path: &Path, what: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(what);
    name.into()
}

/// The path of the write-ahead log.
pub(crate) fn wal(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Creates the file, accessible to its owner only. SQLite gives its companions the same mode.
fn create(path: &Path) -> Result<(), Error> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Error::io(path, error)),
    }
}

/// Refuses files of a later version or another program, without changing them.
fn refuse_foreign(connection: &Connection, path: &Path) -> Result<(), Error> {
    // One snapshot, because another process may be creating the tables just now.
    let snapshot = connection.unchecked_transaction()?;
    let objects: i64 =
        snapshot.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let found = schema::format(&snapshot)?;
    let application: i32 = snapshot.pragma_query_value(None, "application_id", |row| row.get(0))?;
    snapshot.finish()?;
    let path = path.to_owned();
    let error = if application != schema::APPLICATION && objects > 0 {
        Error::Foreign { path }
    } else if found > schema::latest() {
        Error::Newer { path, found, known: schema::latest() }
    } else {
        return Ok(());
    };
    Err(error)
}

/// How many reads run at once. Further ones wait.
const CONCURRENT_READS: usize = 4;

/// Read-only connections, opened when needed. Each is used by one blocking task at a time.
#[derive(Debug)]
pub(crate) struct ReadPool {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
    /// How many reads there were.
    #[cfg(test)]
    pub(crate) reads: std::sync::atomic::AtomicU64,
}

impl ReadPool {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            idle: Mutex::default(),
            permits: Semaphore::new(CONCURRENT_READS),
            #[cfg(test)]
            reads: std::sync::atomic::AtomicU64::default(),
        }
    }

    /// Runs a query on a blocking thread.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let _permit = self.permits.acquire().await.map_err(|_| Error::Closed)?;
        let readers = Arc::clone(self);
        match task::spawn_blocking(move || readers.blocking_read(work)).await {
            Ok(result) => result,
            Err(error) if error.is_panic() => panic::resume_unwind(error.into_panic()),
            Err(_) => Err(Error::Closed),
        }
    }

    fn blocking_read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let connection = match self.idle().pop() {
            Some(connection) => connection,
            None => open_readable(&self.path)?,
        };
        #[cfg(test)]
        self.reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let result = work(&connection);
        match &result {
            Err(error @ Error::Damaged { .. }) => repair::mark_suspect(&self.path, error),
            _ if self.permits.is_closed() => {}
            _ => self.idle().push(connection),
        }
        result
    }

    /// Closes the connections. Later reads fail.
    pub(crate) fn close(&self) {
        self.permits.close();
        self.idle().clear();
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
