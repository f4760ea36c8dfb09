//! Connections to the file: the one that writes, and those that read.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::Error;
use crate::schema;

/// How long to wait for another process that writes.
const PATIENCE: Duration = Duration::from_secs(5);

/// How large the log may get before it is folded into the file, in pages. Many sessions that stream
/// at once write the same few pages again and again, and a page is folded in but once.
const LOG_PAGES: u32 = 4096;

/// How large the log may stay then, in bytes.
const LOG_LIMIT: u32 = LOG_PAGES * 4096;

/// How much room the file may take, in pages. Only tests set it: a disk that fills up at will.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room(pub(crate) Option<u32>);

/// How a connection says how durable its next commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// On the disk before the commit returns.
    Lasting,
    /// Lost, as a whole and with all that came after it, if the machine goes down soon.
    Relaxed,
}

impl Durability {
    pub(crate) fn set(self, connection: &Connection) -> Result<(), rusqlite::Error> {
        let level = match self {
            Self::Lasting => "FULL",
            Self::Relaxed => "NORMAL",
        };
        connection.pragma_update(None, "synchronous", level)
    }
}

/// Opens the file for writing, creating it where there is none, and brings it to the newest format.
///
/// Until it is [trusted](trust), closing it leaves the log as it is: a file that turns out to be
/// damaged, or not ours, must stay as it was found.
pub(crate) fn writing(path: &Path, room: Room) -> Result<Connection, Error> {
    create(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    refuse_strangers(&connection, path)?;
    if schema::format(&connection)? == 0 {
        // Only an empty file takes it; any other is written to for nothing.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_LIMIT, |_| Ok(()))?;
    connection.pragma_update_and_check(None, "wal_autocheckpoint", LOG_PAGES, |_| Ok(()))?;
    // On macOS a plain `fsync` stops at the drive's cache; elsewhere these say nothing.
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "cache_size", -8192)?;
    if let Room(Some(pages)) = room {
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    connection.set_prepared_statement_cache_capacity(64);
    schema::migrate(&mut connection)?;
    Ok(connection)
}

/// Lets the log be folded into the file when it is closed.
pub(crate) fn trust(connection: &Connection) -> Result<(), Error> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(())
}

/// Opens the file for reading; it was opened for writing before.
pub(crate) fn reading(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// The path of a file beside the journal: `journal.db` and `suspect` give `journal.db.suspect`.
pub(crate) fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(what);
    name.into()
}

/// Creates the file, for its owner alone. SQLite gives its companions the same mode.
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

/// Refuses what a later Towpath or another program wrote, without changing a byte of it.
fn refuse_strangers(connection: &Connection, path: &Path) -> Result<(), Error> {
    // One look: another process may be making the tables just now.
    let look = connection.unchecked_transaction()?;
    let objects: i64 =
        look.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let found = schema::format(&look)?;
    let application: i32 = look.pragma_query_value(None, "application_id", |row| row.get(0))?;
    look.finish()?;
    let path = path.to_owned();
    let refusal = if application != schema::APPLICATION && objects > 0 {
        Error::Foreign { path }
    } else if found > schema::newest() {
        Error::Newer { path, found, known: schema::newest() }
    } else {
        return Ok(());
    };
    Err(refusal)
}
