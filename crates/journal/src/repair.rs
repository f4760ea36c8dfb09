//! Opening the file, and repairing it if it is damaged.
//!
//! A damaged file is kept as `….damaged-1` (or the next free number). Everything readable is copied
//! into a new file, which replaces the damaged one only when it is complete.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, Row, params_from_iter};
use tracing::warn;

use crate::connection::{self, PageLimit, companion, wal};
use crate::error::Error;
use crate::records::origin_from_code;
use crate::segment::Segment;
use crate::{entries, schema};

/// Files up to this size are checked whenever they are opened. Larger ones, for which the user would
/// have to wait, are checked only after an error.
const ALWAYS_CHECKED: u64 = 32 << 20;

/// The tables, and the name of their row id column.
const TABLES: &[(&str, &str)] = &[
    ("session", "key"),
    ("agent_id", "rowid"),
    ("entry", "row"),
    ("segment", "row"),
    ("prompt", "rowid"),
    ("outbound", "rowid"),
    ("request", "rowid"),
    ("grants", "rowid"),
    ("state", "rowid"),
    ("cost", "rowid"),
    ("outbox", "row"),
    ("deleted_session", "session"),
];

/// What was recovered from a damaged file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// What was wrong.
    pub fault: String,
    /// Where the damaged file is kept.
    pub backup: PathBuf,
    pub sessions: u64,
    pub entries: u64,
    /// Prompts, requests, grants, follower state and costs.
    pub records: u64,
    /// How many parts of the file, of any length, could not be read.
    pub gaps: u64,
}

/// A file that is ready for the writer.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    pub(crate) connection: Connection,
    pub(crate) lock: File,
    pub(crate) repair: Option<Repair>,
}

/// Opens the file. Migrates it if it is of an older format, and repairs it if it is damaged; both
/// need the file for this process alone.
pub(crate) fn open(path: &Path, limit: PageLimit) -> Result<OpenedFile, Error> {
    let lock = lock_file(path)?;
    let outdated = schema::is_outdated(path);
    if !outdated {
        lock.lock_shared().map_err(|error| Error::io(path, error))?;
        match open_checked(path, limit) {
            Ok(connection) => return Ok(OpenedFile { connection, lock, repair: None }),
            Err(Error::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
        lock.unlock().map_err(|error| Error::io(path, error))?;
    }
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let path = path.to_owned();
            return Err(if outdated {
                Error::OutdatedInUse { path }
            } else {
                Error::DamagedInUse { path }
            });
        }
        Err(TryLockError::Error(error)) => return Err(Error::io(path, error)),
    }
    // Another process may have repaired it before this one got the lock.
    let (connection, repair) = match open_checked(path, limit) {
        Ok(connection) => (connection, None),
        Err(Error::Damaged { source }) => {
            let repair = rebuild(path, source.to_string())?;
            warn!(%repair, "repaired the journal");
            (open_checked(path, limit)?, Some(repair))
        }
        Err(error) => return Err(error),
    };
    lock.unlock().and_then(|()| lock.lock_shared()).map_err(|error| Error::io(path, error))?;
    Ok(OpenedFile { connection, lock, repair })
}

/// Records that an error was found, so that the next open checks the file.
pub(crate) fn mark_suspect(path: &Path, error: &Error) {
    let mark = companion(path, "suspect");
    if let Err(failure) = fs::write(&mark, error.to_string()) {
        warn!(%failure, "could not mark the journal as suspect");
    }
}

/// The writer's connection to a file without known damage.
fn open_checked(path: &Path, limit: PageLimit) -> Result<Connection, Error> {
    let mark = companion(path, "suspect");
    let suspect = mark.exists();
    let connection = connection::open_writable(path, limit)?;
    let size = fs::metadata(path).map_err(|error| Error::io(path, error))?.len();
    if suspect || size <= ALWAYS_CHECKED {
        quick_check(&connection, "1")?;
    } else {
        // One damaged page of these tables would concern every session. They are small.
        let small = TABLES.iter().filter(|(table, _)| !matches!(*table, "entry" | "segment"));
        for (table, _) in small {
            quick_check(&connection, table)?;
        }
    }
    if suspect {
        // SQLite cannot check what is inside a segment.
        check_segments(&connection)?;
        fs::remove_file(&mark).map_err(|error| Error::io(&mark, error))?;
    }
    connection::allow_checkpoint(&connection)?;
    Ok(connection)
}

fn quick_check(connection: &Connection, what: &str) -> Result<(), Error> {
    let sql = format!("PRAGMA quick_check({what})");
    let result: String = connection.query_row(&sql, [], |row| row.get(0))?;
    if result == "ok" { Ok(()) } else { Err(Error::corrupt(result)) }
}

fn check_segments(connection: &Connection) -> Result<(), Error> {
    let mut segments = connection.prepare("SELECT raw, bytes FROM segment")?;
    let mut rows = segments.query([])?;
    while let Some(row) = rows.next()? {
        entries::entries_of_segment(row)?;
    }
    Ok(())
}

/// Keeps the damaged file and puts a new one with its readable rows in its place.
fn rebuild(path: &Path, fault: String) -> Result<Repair, Error> {
    let backup = (1..=u32::MAX)
        .map(|n| companion(path, &format!("damaged-{n}")))
        .find(|backup| !backup.exists())
        .unwrap_or_else(|| companion(path, "damaged"));
    // Reading a damaged file may change it, so that is done on another copy.
    let source = companion(path, "repair-source");
    let fresh = companion(path, "repair");
    copy_with_log(path, &backup)?;
    remove_with_log(&source)?;
    copy_with_log(path, &source)?;
    remove_with_log(&fresh)?;

    let mut repair = Repair { fault, backup, sessions: 0, entries: 0, records: 0, gaps: 0 };
    let target = connection::open_writable(&fresh, PageLimit::default())?;
    connection::allow_checkpoint(&target)?;
    match open_damaged(&source) {
        Some(source) => {
            let transaction = target.unchecked_transaction()?;
            for &(table, row_id) in TABLES {
                repair.copy_table(&source, &transaction, table, row_id)?;
            }
            repair.sessions += restore_lost_sessions(&transaction)?;
            transaction.commit()?;
        }
        None => repair.gaps = 1,
    }
    target.close().map_err(|(_, error)| Error::from(error))?;
    sync(&fresh)?;

    // The old log must be gone before the new file is there: SQLite would apply it.
    remove_log(path)?;
    fs::rename(&fresh, path).map_err(|error| Error::io(path, error))?;
    sync(path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
    remove_with_log(&source)?;
    remove(&companion(path, "suspect"))?;
    Ok(repair)
}

/// A connection to a damaged file whose tables can be found.
fn open_damaged(path: &Path) -> Option<Connection> {
    if let Ok(connection) = connection::open_writable(path, PageLimit::default()) {
        return Some(connection);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).ok()?;
    let current = schema::format(&connection).is_ok_and(|format| format == schema::latest());
    (current && connection.prepare("SELECT key FROM session").is_ok()).then_some(connection)
}

impl Repair {
    fn copy_table(
        &mut self,
        source: &Connection,
        target: &Connection,
        table: &str,
        row_id: &str,
    ) -> Result<(), Error> {
        let Some(mut scan) = TableScan::new(source, table, row_id) else {
            self.gaps += 1;
            return Ok(());
        };
        let names = scan.columns.join(", ");
        let marks = vec!["?"; scan.columns.len()].join(", ");
        let mut insert =
            target.prepare(&format!("INSERT INTO {table} ({names}) VALUES ({marks})"))?;
        scan.rows(|row, columns| {
            let Some(entries) = entries_in(table, row) else {
                self.gaps += 1;
                return Ok(());
            };
            let values: Vec<StoredValue<'_>> = (0..columns)
                .map(|column| row.get_ref(column).map(StoredValue))
                .collect::<Result<_, _>>()?;
            match insert.execute(params_from_iter(values)).map_err(Error::from) {
                Ok(_) => match table {
                    "session" => self.sessions += 1,
                    "entry" | "segment" => self.entries += entries,
                    "prompt" | "request" | "grants" | "state" | "cost" => self.records += 1,
                    _ => {}
                },
                Err(Error::Full) => return Err(Error::Full),
                // The row is garbage: an id twice, a number in a text column. A session whose row
                // is lost is restored from its entries.
                Err(_) => self.gaps += 1,
            }
            Ok(())
        })?;
        self.gaps += scan.gaps;
        Ok(())
    }
}

/// A value as it is stored. Text need not be UTF-8.
struct StoredValue<'a>(ValueRef<'a>);

impl ToSql for StoredValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(self.0))
    }
}

/// Adds sessions for the entries whose session was lost, so that they can be exported. Returns how
/// many. What the agent was allowed is lost too, so they get no valid id and cannot be driven.
fn restore_lost_sessions(target: &Connection) -> Result<u64, Error> {
    let sql = "
        WITH number AS (
            SELECT row >> 40 AS key, row & 0xffffffffff AS last, 0 AS compacted FROM entry
            UNION ALL
            SELECT row >> 40, row & 0xffffffffff, row & 0xffffffffff FROM segment)
        INSERT INTO session (key, id, directory, title, status, options, created, active, last,
            compacted)
        SELECT key, 'lost-' || key, x'', 'recovered', '\"failed\"', '', 0, 0, max(last),
            max(compacted)
        FROM number
        WHERE key > 0 AND key NOT IN (SELECT key FROM session)
            AND key NOT IN (SELECT session FROM deleted_session)
        GROUP BY key";
    Ok(target.execute(sql, [])? as u64)
}

/// How many entries a row holds; `None` if the row is not valid.
fn entries_in(table: &str, row: &Row<'_>) -> Option<u64> {
    match table {
        "entry" => row.get("origin").ok().and_then(origin_from_code).map(|_| 1),
        "segment" => {
            let raw: i64 = row.get("raw").ok()?;
            let bytes: Vec<u8> = row.get("bytes").ok()?;
            let entries = Segment::decompress(usize::try_from(raw).ok()?, &bytes).ok()?;
            Some(entries.len() as u64)
        }
        _ => Some(0),
    }
}

/// A scan of a table by row id that continues behind unreadable rows.
pub(crate) struct TableScan<'c> {
    source: &'c Connection,
    sql: String,
    columns: Vec<String>,
    gaps: u64,
}

impl<'c> TableScan<'c> {
    fn new(source: &'c Connection, table: &str, rowid: &str) -> Option<Self> {
        let all = source.prepare(&format!("SELECT * FROM {table}")).ok()?;
        let mut columns: Vec<String> = all.column_names().map(str::to_owned).collect();
        if !columns.iter().any(|column| column == rowid) {
            columns.push(rowid.to_owned());
        }
        Some(Self::of_columns(source, table, rowid, columns))
    }

    /// A scan of some columns.
    pub(crate) fn of_columns(
        source: &'c Connection,
        table: &str,
        rowid: &str,
        columns: Vec<String>,
    ) -> Self {
        let names = columns.join(", ");
        let sql = format!(
            "SELECT {names}, {rowid} FROM {table} NOT INDEXED WHERE {rowid} >= ?1 ORDER BY {rowid}"
        );
        Self { source, sql, columns, gaps: 0 }
    }

    /// Visits each readable row once.
    pub(crate) fn rows(
        &mut self,
        mut visit: impl FnMut(&Row<'_>, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut from = 0;
        loop {
            if self.visit_until_error(&mut from, usize::MAX, &mut visit)? {
                return Ok(());
            }
            self.gaps += 1;
            match self.next_readable(from)? {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// Visits rows until one cannot be read, and moves `from` along. True if it reached the end.
    fn visit_until_error(
        &self,
        from: &mut i64,
        most: usize,
        visit: &mut impl FnMut(&Row<'_>, usize) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let columns = self.columns.len();
        let Ok(mut query) = self.source.prepare_cached(&self.sql) else { return Ok(false) };
        let Ok(mut rows) = query.query([*from]) else { return Ok(false) };
        for _ in 0..most {
            match rows.next() {
                Ok(None) => return Ok(true),
                Ok(Some(row)) => match row.get::<_, i64>(columns) {
                    Ok(rowid) if rowid >= *from && rowid < i64::MAX => {
                        visit(row, columns)?;
                        *from = rowid + 1;
                    }
                    // Row ids out of order: the tree is corrupt.
                    _ => return Ok(false),
                },
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The first row id behind an unreadable one from which the scan can continue. It is looked for
    /// at growing distances and then by bisection.
    fn next_readable(&self, unreadable: i64) -> Result<Option<i64>, Error> {
        let readable = |from: i64| {
            self.visit_until_error(&mut { from }, 1, &mut |_: &Row<'_>, _: usize| Ok(()))
        };
        let mut bad = unreadable;
        for distance in (0..62).map(|power| 1i64 << power) {
            let Some(mut good) = unreadable.checked_add(distance) else { break };
            if !readable(good)? {
                bad = good;
                continue;
            }
            while good - bad > 1 {
                let middle = bad + (good - bad) / 2;
                if readable(middle)? { good = middle } else { bad = middle }
            }
            return Ok(Some(good));
        }
        Ok(None)
    }
}

fn copy_with_log(from: &Path, to: &Path) -> Result<(), Error> {
    fs::copy(from, to).map_err(|error| Error::io(to, error))?;
    let log = wal(from);
    if log.exists() {
        fs::copy(&log, wal(to)).map_err(|error| Error::io(to, error))?;
    }
    sync(to)
}

fn remove_with_log(path: &Path) -> Result<(), Error> {
    remove_log(path)?;
    remove(path)
}

fn remove_log(path: &Path) -> Result<(), Error> {
    let mut shared_memory = path.as_os_str().to_owned();
    shared_memory.push("-shm");
    remove(&wal(path))?;
    remove(Path::new(&shared_memory))
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}

/// Syncs a file or directory to disk.
fn sync(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|error| Error::io(path, error))
}

/// The lock file. Every process that has the journal open holds it shared; the one that repairs it,
/// exclusively.
fn lock_file(path: &Path) -> Result<File, Error> {
    let lock = companion(path, "lock");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&lock).map_err(|error| Error::io(&lock, error))
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, backup, sessions, entries, records, gaps } = self;
        write!(
            f,
            "the journal was damaged ({fault}); recovered {sessions} sessions with {entries} \
             entries and {records} records; {gaps} parts could not be read; the damaged file is \
             kept as `{}`",
            backup.display()
        )
    }
}
