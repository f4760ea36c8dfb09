//! Reading what can be read of a damaged file.
//!
//! Tables are walked along their rowids. Where the walk breaks off, the next readable row is looked
//! for at growing distances and then closed in on, so a broken leaf costs its rows and no more.
//! A file whose first page is gone gets that of a fresh one: tables are always created in the same
//! order, so it points to the right places.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, Row, params_from_iter};

use crate::connection::{self, Room};
use crate::entry::origin_from_code;
use crate::error::Error;
use crate::query;
use crate::salvage::nameless::adopt;

mod nameless;

/// The tables, and the column that is the rowid where it has a name.
const TABLES: &[(&str, &str)] = &[
    ("session", "key"),
    ("agent_id", "rowid"),
    ("entry", "place"),
    ("page", "place"),
    ("prompt", "rowid"),
    ("outbound", "rowid"),
    ("request", "rowid"),
    ("granted", "rowid"),
    ("kept", "rowid"),
    ("remains", "session"),
];

/// The size of SQLite's header on the first page.
const HEADER: usize = 100;

/// The size of the file's pages; SQLite's default, which nothing here changes.
const FILE_PAGE: usize = 4096;

/// What was saved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Salvaged {
    pub(crate) sessions: u64,
    pub(crate) nameless: u64,
    pub(crate) entries: u64,
    pub(crate) records: u64,
    pub(crate) gaps: u64,
}

/// Copies what is readable of a damaged file, which may be changed by it, into a fresh one.
pub(crate) fn salvage(damaged: &Path, fresh: &Path) -> Result<Salvaged, Error> {
    // Made and closed once, so that its first page is complete in the file.
    connection::trust(&connection::writing(fresh, Room::default())?)?;
    let target = connection::writing(fresh, Room::default())?;
    connection::trust(&target)?;
    let mut salvaged = Salvaged::default();
    match readable(damaged, fresh)? {
        None => salvaged.gaps = 1,
        Some(source) => {
            let copied = target.unchecked_transaction()?;
            for &(table, rowid) in TABLES {
                salvaged.copy(&source, &copied, table, rowid)?;
            }
            salvaged.nameless = adopt(&copied)?;
            salvaged.sessions += salvaged.nameless;
            copied.commit()?;
        }
    }
    target.close().map_err(|(_, error)| Error::from(error))?;
    Ok(salvaged)
}

/// Whether all pages of settled entries can be unpacked.
pub(crate) fn check_pages(connection: &Connection) -> Result<(), Error> {
    let mut pages = connection.prepare("SELECT raw, bytes FROM page")?;
    let mut rows = pages.query([])?;
    while let Some(row) = rows.next()? {
        query::page_entries(row)?;
    }
    Ok(())
}

/// A connection to a damaged file, with as much of its first page replaced as is needed to find its
/// tables.
fn readable(damaged: &Path, fresh: &Path) -> Result<Option<Connection>, Error> {
    for replaced in [0, HEADER, FILE_PAGE] {
        if replaced > 0 && !transplant(fresh, damaged, replaced)? {
            return Ok(None);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let Ok(connection) = Connection::open_with_flags(damaged, flags) else { continue };
        // Reading a row finds out whether the tables are where the first page says.
        if connection.prepare("SELECT key FROM session").is_ok() {
            return Ok(Some(connection));
        }
    }
    Ok(None)
}

/// Replaces the beginning of a file by that of a fresh one; false where it is too short for that.
fn transplant(fresh: &Path, damaged: &Path, length: usize) -> Result<bool, Error> {
    let failed = |error| Error::io(damaged, error);
    let size = fs::metadata(damaged).map_err(failed)?.len();
    let Some(pages) = u32::try_from(size / FILE_PAGE as u64).ok().filter(|pages| *pages > 0) else {
        return Ok(false);
    };
    let mut first = [0; FILE_PAGE];
    fs::File::open(fresh).and_then(|mut file| file.read_exact(&mut first)).map_err(failed)?;
    // The size of the file, and an empty list of free pages.
    first[28..32].copy_from_slice(&pages.to_be_bytes());
    first[32..40].fill(0);
    OpenOptions::new()
        .write(true)
        .open(damaged)
        .and_then(|mut file| {
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&first[..length])?;
            file.sync_all()
        })
        .map_err(failed)?;
    Ok(true)
}

impl Salvaged {
    fn copy(
        &mut self,
        source: &Connection,
        target: &Connection,
        table: &str,
        rowid: &str,
    ) -> Result<(), Error> {
        let Some(mut walk) = Walk::along(source, table, rowid) else {
            self.gaps += 1;
            return Ok(());
        };
        let names = walk.columns.join(", ");
        let marks = vec!["?"; walk.columns.len()].join(", ");
        let mut insert =
            target.prepare(&format!("INSERT INTO {table} ({names}) VALUES ({marks})"))?;
        walk.rows(|row, columns| {
            let Some(entries) = sensible(table, row) else {
                self.gaps += 1;
                return Ok(());
            };
            let values: Vec<Value> =
                (0..columns).map(|column| row.get(column)).collect::<Result<_, _>>()?;
            match insert.execute(params_from_iter(values)).map_err(Error::from) {
                Ok(_) => match table {
                    "session" => self.sessions += 1,
                    "entry" | "page" => self.entries += entries,
                    "prompt" | "request" | "granted" | "kept" => self.records += 1,
                    _ => {}
                },
                Err(Error::Full) => return Err(Error::Full),
                // Garbage that passed for a row: twice the same id, a number for a text.
                Err(_) => self.gaps += 1,
            }
            Ok(())
        })?;
        self.gaps += walk.gaps;
        Ok(())
    }
}

/// How many entries a row stands for; nothing where it makes no sense.
fn sensible(table: &str, row: &Row<'_>) -> Option<u64> {
    match table {
        "entry" => row.get("origin").ok().and_then(origin_from_code).map(|_| 1),
        "page" => {
            let raw: i64 = row.get("raw").ok()?;
            let bytes: Vec<u8> = row.get("bytes").ok()?;
            let entries = crate::page::Page::unpack(usize::try_from(raw).ok()?, &bytes).ok()?;
            Some(entries.len() as u64)
        }
        _ => Some(0),
    }
}

/// A walk along the rowids of a table that may break off anywhere.
struct Walk<'c> {
    source: &'c Connection,
    sql: String,
    columns: Vec<String>,
    gaps: u64,
}

impl<'c> Walk<'c> {
    fn along(source: &'c Connection, table: &str, rowid: &str) -> Option<Self> {
        let all = source.prepare(&format!("SELECT * FROM {table}")).ok()?;
        let mut columns: Vec<String> = all.column_names().map(str::to_owned).collect();
        if !columns.iter().any(|column| column == rowid) {
            columns.push(rowid.to_owned());
        }
        let names = columns.join(", ");
        let sql = format!(
            "SELECT {names}, {rowid} FROM {table} NOT INDEXED WHERE {rowid} >= ?1 ORDER BY {rowid}"
        );
        Some(Self { source, sql, columns, gaps: 0 })
    }

    /// Visits each row that can be read, once.
    fn rows(
        &mut self,
        mut visit: impl FnMut(&Row<'_>, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut from = 0;
        loop {
            if self.stretch(&mut from, usize::MAX, &mut visit)? {
                return Ok(());
            }
            self.gaps += 1;
            match self.next_readable(from)? {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// Visits rows until one cannot be read; true if there was none such. `from` follows.
    fn stretch(
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
                    // Rows out of order: the tree is tangled.
                    _ => return Ok(false),
                },
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The first rowid after an unreadable one from which the walk can go on.
    fn next_readable(&self, unreadable: i64) -> Result<Option<i64>, Error> {
        let readable =
            |from: i64| self.stretch(&mut { from }, 1, &mut |_: &Row<'_>, _: usize| Ok(()));
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
