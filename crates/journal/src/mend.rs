//! Opening the file, and mending it where it is damaged.
//!
//! A damaged file is copied as it is to `….damaged-1` (or the next free number). What can be read
//! goes into a fresh file, which takes the damaged one's place only when it is complete.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tracing::warn;

use crate::connection::{self, Room, beside};
use crate::error::Error;
use crate::salvage::{self, Salvaged};

/// Up to this size the whole file is looked through whenever it is opened; larger ones, for which
/// one would have to wait, only after something odd was met.
const LOOKED_THROUGH: u64 = 32 << 20;

/// What was done to a damaged file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mended {
    /// What was wrong.
    pub fault: String,
    /// Where the damaged file is kept.
    pub backup: PathBuf,
    /// How many sessions could be read.
    pub sessions: u64,
    /// How many of them lost their own record, so that only their entries are left.
    pub nameless: u64,
    /// How many entries could be read.
    pub entries: u64,
    /// How many prompts, requests and grants could be read.
    pub records: u64,
    /// How many stretches of the file could not be read, of any length.
    pub gaps: u64,
}

/// A file that is ready to be written to.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    pub(crate) lock: File,
    pub(crate) mended: Option<Mended>,
}

/// Opens the file; mends it first where it is damaged.
pub(crate) fn open(path: &Path, room: Room) -> Result<Opened, Error> {
    let lock = lock_file(path)?;
    lock.lock_shared().map_err(|error| Error::io(path, error))?;
    let fault = match sound(path, room) {
        Ok(connection) => return Ok(Opened { connection, lock, mended: None }),
        Err(Error::Damaged { source }) => source.to_string(),
        Err(error) => return Err(error),
    };
    lock.unlock().map_err(|error| Error::io(path, error))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(Error::DamagedInUse { path: path.to_owned() });
        }
        Err(TryLockError::Error(error)) => return Err(Error::io(path, error)),
    }
    // Another process may have mended it before this one got the lock.
    let (connection, mended) = match sound(path, room) {
        Ok(connection) => (connection, None),
        Err(Error::Damaged { .. }) => {
            let mended = mend(path, fault)?;
            warn!(%mended, "the journal was damaged");
            (sound(path, room)?, Some(mended))
        }
        Err(error) => return Err(error),
    };
    lock.unlock().and_then(|()| lock.lock_shared()).map_err(|error| Error::io(path, error))?;
    Ok(Opened { connection, lock, mended })
}

/// Remembers that something odd was met, so that the next to open the file looks through it.
pub(crate) fn suspect(path: &Path, error: &Error) {
    let mark = beside(path, "suspect");
    if let Err(trouble) = fs::write(&mark, error.to_string()) {
        warn!(%trouble, "could not mark the journal as suspect");
    }
}

/// The writing connection to a file that shows no fault.
fn sound(path: &Path, room: Room) -> Result<Connection, Error> {
    let mark = beside(path, "suspect");
    let suspicious = mark.exists();
    let connection = connection::writing(path, room)?;
    let size = fs::metadata(path).map_err(|error| Error::io(path, error))?.len();
    if suspicious || size <= LOOKED_THROUGH {
        let said: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if said != "ok" {
            return Err(Error::nonsense(said));
        }
    }
    if suspicious {
        // Pages are checked by what packed them, which the database knows nothing of.
        salvage::check_pages(&connection)?;
        fs::remove_file(&mark).map_err(|error| Error::io(&mark, error))?;
    }
    connection::trust(&connection)?;
    Ok(connection)
}

fn mend(path: &Path, fault: String) -> Result<Mended, Error> {
    let backup = (1..=u32::MAX)
        .map(|n| beside(path, &format!("damaged-{n}")))
        .find(|backup| !backup.exists())
        .unwrap_or_else(|| beside(path, "damaged"));
    let source = beside(path, "mending-from");
    let fresh = beside(path, "mending");
    copy(path, &backup)?;
    remove_with_log(&source)?;
    copy(path, &source)?;
    remove_with_log(&fresh)?;

    let salvaged = salvage::salvage(&source, &fresh)?;
    File::open(&fresh)
        .and_then(|file| file.sync_all())
        .map_err(|error| Error::io(&fresh, error))?;

    // The old log must not be there when the fresh file is: it would be taken for its own.
    remove_log(path)?;
    fs::rename(&fresh, path).map_err(|error| Error::io(path, error))?;
    sync_directory(path)?;
    remove_with_log(&source)?;
    let mark = beside(path, "suspect");
    if mark.exists() {
        fs::remove_file(&mark).map_err(|error| Error::io(&mark, error))?;
    }
    let Salvaged { sessions, nameless, entries, records, gaps } = salvaged;
    Ok(Mended { fault, backup, sessions, nameless, entries, records, gaps })
}

/// Copies a database with its log.
fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    fs::copy(from, to).map_err(|error| Error::io(to, error))?;
    let log = log(from);
    if log.exists() {
        fs::copy(&log, self::log(to)).map_err(|error| Error::io(to, error))?;
    }
    File::open(to).and_then(|file| file.sync_all()).map_err(|error| Error::io(to, error))
}

fn remove_with_log(path: &Path) -> Result<(), Error> {
    remove_log(path)?;
    remove(path)
}

fn remove_log(path: &Path) -> Result<(), Error> {
    remove(&log(path))?;
    remove(&with_suffix(path, "-shm"))
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}

/// The write-ahead log of a database.
fn log(path: &Path) -> PathBuf {
    with_suffix(path, "-wal")
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Makes a rename last.
fn sync_directory(path: &Path) -> Result<(), Error> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    File::open(directory)
        .and_then(|file| file.sync_all())
        .map_err(|error| Error::io(directory, error))
}

/// Everybody who has the journal open holds this file shared; who mends it, alone.
fn lock_file(path: &Path) -> Result<File, Error> {
    let lock = beside(path, "lock");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&lock).map_err(|error| Error::io(&lock, error))
}

impl fmt::Display for Mended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, backup, sessions, nameless, entries, records, gaps } = self;
        write!(
            f,
            "the journal was damaged ({fault}); kept {sessions} sessions with {entries} entries \
             and {records} records, could not read {gaps} stretches"
        )?;
        if *nameless > 0 {
            write!(f, ", {nameless} sessions lost their names")?;
        }
        write!(f, "; the damaged file is `{}`", backup.display())
    }
}
