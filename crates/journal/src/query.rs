//! Queries.
//!
//! Entries are in two tables: compacted ones in segments, the others in rows of their own. A row at or
//! below the session's `compacted` number is obsolete: a segment holds the entry, or it was removed.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};
use uuid::Uuid;

use crate::batch::OutboundLine;
use crate::columns::{self, number};
use crate::error::Error;
use crate::id::{Seq, SessionId, SessionKey};
use crate::records::{Entry, Grant, PromptRecord, RequestRecord, SessionRecord, origin_from_code};
use crate::schema;
use crate::segment::Segment;

/// The position of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionHead {
    pub(crate) key: SessionKey,
    pub(crate) last: Seq,
    /// The last entry that is compacted.
    pub(crate) compacted: Seq,
}

/// How much to read at once. Reading stops with the entry that reaches the number of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadLimit {
    pub(crate) entries: usize,
    pub(crate) bytes: usize,
}

/// Consecutive entries of a session, and its last entry at the time.
#[derive(Debug)]
pub(crate) struct EntryRange {
    pub(crate) entries: Vec<Entry>,
    pub(crate) last: Seq,
}

pub(crate) fn head(
    connection: &Connection,
    session: SessionId,
) -> Result<Option<SessionHead>, Error> {
    let mut query =
        connection.prepare_cached("SELECT key, last, compacted FROM session WHERE id = ?1")?;
    let head = query.query_row([session.to_string()], |row| {
        Ok(SessionHead {
            key: SessionKey(row.get(0)?),
            last: Seq(columns::unsigned(row, 1)?),
            compacted: Seq(columns::unsigned(row, 2)?),
        })
    });
    Ok(head.optional()?)
}

/// The entries after `after`, in order.
pub(crate) fn entries(
    connection: &Connection,
    session: SessionId,
    after: Seq,
    limit: ReadLimit,
) -> Result<EntryRange, Error> {
    // One snapshot: an entry may move from its row to a segment at any time.
    let snapshot = connection.unchecked_transaction()?;
    let SessionHead { key, last, compacted } =
        head(&snapshot, session)?.ok_or(Error::NoSuchSession(session))?;
    let mut collector = EntryCollector { entries: Vec::new(), left: limit };
    if after < compacted {
        segment_entries(&snapshot, key, after, &mut collector)?;
    }
    if !collector.is_full() {
        own_rows(&snapshot, key, after.max(compacted), &mut collector)?;
    }
    Ok(EntryRange { entries: collector.entries, last })
}

/// Entries in rows of their own, after `after`.
pub(crate) fn uncompacted(
    connection: &Connection,
    key: SessionKey,
    after: Seq,
    limit: ReadLimit,
) -> Result<Vec<Entry>, Error> {
    let mut collector = EntryCollector { entries: Vec::new(), left: limit };
    own_rows(connection, key, after, &mut collector)?;
    Ok(collector.entries)
}

/// The entries read so far, and how many more are wanted. The first entry is always taken.
struct EntryCollector {
    entries: Vec<Entry>,
    left: ReadLimit,
}

impl EntryCollector {
    fn is_full(&self) -> bool {
        self.left.entries == 0 || self.left.bytes == 0
    }

    fn take(&mut self, entry: Entry) {
        self.left.entries -= 1;
        self.left.bytes = self.left.bytes.saturating_sub(entry.bytes.len());
        self.entries.push(entry);
    }
}

fn segment_entries(
    connection: &Connection,
    key: SessionKey,
    after: Seq,
    collector: &mut EntryCollector,
) -> Result<(), Error> {
    let mut query = connection.prepare_cached(
        "SELECT raw, bytes FROM segment WHERE row > ?1 AND row <= ?2 ORDER BY row",
    )?;
    let mut rows = query.query([key.row(after), key.end()])?;
    while !collector.is_full()
        && let Some(row) = rows.next()?
    {
        for entry in entries_of_segment(row)? {
            if entry.seq > after && !collector.is_full() {
                collector.take(entry);
            }
        }
    }
    Ok(())
}

/// The entries of a segment, from its columns `raw` and `bytes`.
pub(crate) fn entries_of_segment(row: &Row<'_>) -> Result<Vec<Entry>, Error> {
    let raw = usize::try_from(columns::unsigned(row, 0)?).unwrap_or(usize::MAX);
    let bytes = row.get_ref(1)?.as_blob().map_err(|error| Error::corrupt(error.to_string()))?;
    Segment::decompress(raw, bytes)
}

fn own_rows(
    connection: &Connection,
    key: SessionKey,
    after: Seq,
    collector: &mut EntryCollector,
) -> Result<(), Error> {
    let mut query = connection.prepare_cached(
        "SELECT row, at, origin, bytes FROM entry WHERE row > ?1 AND row <= ?2 ORDER BY row",
    )?;
    let mut rows = query.query([key.row(after), key.end()])?;
    while !collector.is_full()
        && let Some(row) = rows.next()?
    {
        collector.take(entry(row)?);
    }
    Ok(())
}

/// An entry from the columns `row`, `at`, `origin` and `bytes`.
fn entry(row: &Row<'_>) -> Result<Entry, Error> {
    let (_, seq) = SessionKey::from_row(row.get(0)?);
    let bytes = row.get_ref(3)?.as_blob().map_err(|error| Error::corrupt(error.to_string()))?;
    Ok(Entry {
        seq,
        at: columns::unsigned(row, 1)?,
        origin: origin_from_code(row.get(2)?)
            .ok_or_else(|| Error::corrupt("an entry has an unknown origin"))?,
        bytes: Bytes::copy_from_slice(bytes),
    })
}

/// The last segment of a session if its decompressed size is below `size`: the number of its last
/// entry, and its entries.
pub(crate) fn last_segment_below(
    connection: &Connection,
    key: SessionKey,
    size: usize,
) -> Result<Option<(Seq, Vec<Entry>)>, Error> {
    let mut query = connection.prepare_cached(
        "SELECT raw, bytes, row FROM segment WHERE row > ?1 AND row <= ?2
         ORDER BY row DESC LIMIT 1",
    )?;
    let mut rows = query.query([key.row(Seq(0)), key.end()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    if usize::try_from(columns::unsigned(row, 0)?).unwrap_or(usize::MAX) >= size {
        return Ok(None);
    }
    let (_, last) = SessionKey::from_row(row.get(2)?);
    Ok(Some((last, entries_of_segment(row)?)))
}

pub(crate) fn sessions(connection: &Connection) -> Result<Vec<SessionRecord>, Error> {
    let snapshot = connection.unchecked_transaction()?;
    let columns = columns::SESSION_COLUMNS;
    let mut query = snapshot
        .prepare_cached(&format!("SELECT {columns} FROM session ORDER BY active DESC, key DESC"))?;
    with_agent_ids(&snapshot, query.query([])?)
}

pub(crate) fn session(
    connection: &Connection,
    id: SessionId,
) -> Result<Option<SessionRecord>, Error> {
    let snapshot = connection.unchecked_transaction()?;
    let columns = columns::SESSION_COLUMNS;
    let mut query =
        snapshot.prepare_cached(&format!("SELECT {columns} FROM session WHERE id = ?1"))?;
    Ok(with_agent_ids(&snapshot, query.query([id.to_string()])?)?.pop())
}

fn with_agent_ids(
    connection: &Connection,
    mut rows: rusqlite::Rows<'_>,
) -> Result<Vec<SessionRecord>, Error> {
    let mut ids =
        connection.prepare_cached("SELECT id FROM agent_id WHERE session = ?1 ORDER BY rowid")?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let mut record = columns::session(row)?;
        let key: i64 = row.get(0)?;
        record.agent_ids = ids.query_map([key], |row| row.get(0))?.collect::<Result<_, _>>()?;
        records.push(record);
    }
    Ok(records)
}

/// Sessions whose id, or whose agent's id, starts with `prefix`.
pub(crate) fn find(connection: &Connection, prefix: &str) -> Result<Vec<SessionId>, Error> {
    let mut query = connection.prepare_cached(
        "SELECT id FROM session
         WHERE substr(id, 1, length(?1)) = ?1
            OR key IN (SELECT session FROM agent_id WHERE substr(id, 1, length(?2)) = ?2)
         ORDER BY active DESC, key DESC",
    )?;
    let found = query
        .query_map([&prefix.to_lowercase(), prefix], |row| columns::parsed(row, 0))?
        .collect::<Result<_, _>>()?;
    Ok(found)
}

/// Which prompts of a session to read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PromptFilter {
    All,
    Open,
    One(Uuid),
}

pub(crate) fn prompts(
    connection: &Connection,
    session: SessionId,
    filter: PromptFilter,
) -> Result<Vec<PromptRecord>, Error> {
    let (condition, id) = match filter {
        PromptFilter::All => ("true OR id = ?2", Uuid::nil()),
        PromptFilter::Open => ("open AND (true OR id = ?2)", Uuid::nil()),
        PromptFilter::One(id) => ("id = ?2", id),
    };
    let columns = columns::PROMPT_COLUMNS;
    let sql = format!(
        "SELECT {columns} FROM prompt
         WHERE session = (SELECT key FROM session WHERE id = ?1) AND ({condition})
         ORDER BY position, created, rowid"
    );
    collect(connection, &sql, [session.to_string(), id.to_string()], columns::prompt)
}

pub(crate) fn request(
    connection: &Connection,
    session: SessionId,
    id: &str,
) -> Result<Option<RequestRecord>, Error> {
    let columns = columns::REQUEST_COLUMNS;
    let sql = format!(
        "SELECT {columns} FROM request
         WHERE session = (SELECT key FROM session WHERE id = ?1) AND id = ?2"
    );
    let found = collect(connection, &sql, [&session.to_string(), id], columns::request)?;
    Ok(found.into_iter().next())
}

/// The lines that may not have reached the agent of a session, in order.
pub(crate) fn outbound(
    connection: &Connection,
    session: SessionId,
) -> Result<Vec<OutboundLine>, Error> {
    let sql = "SELECT number, bytes FROM outbound JOIN session ON session.key = outbound.session
         WHERE session.id = ?1 ORDER BY number";
    collect(connection, sql, [session.to_string()], |row| {
        let bytes: Vec<u8> = row.get(1)?;
        Ok(OutboundLine { number: columns::unsigned(row, 0)?, bytes: bytes.into() })
    })
}

/// The open requests of one session or of all, oldest first.
pub(crate) fn open_requests(
    connection: &Connection,
    session: Option<SessionId>,
) -> Result<Vec<(SessionId, RequestRecord)>, Error> {
    let columns = columns::REQUEST_COLUMNS;
    let sql = format!(
        "SELECT {columns}, session.id FROM request JOIN session ON session.key = request.session
         WHERE outcome IS NULL AND (?1 IS NULL OR session.id = ?1)
         ORDER BY opened, request.rowid"
    );
    collect(connection, &sql, [session.map(|id| id.to_string())], with_session)
}

/// The resolved requests of one session or of all, newest first.
pub(crate) fn ledger(
    connection: &Connection,
    session: Option<SessionId>,
    most: usize,
) -> Result<Vec<(SessionId, RequestRecord)>, Error> {
    let columns = columns::REQUEST_COLUMNS;
    let sql = format!(
        "SELECT {columns}, session.id FROM request JOIN session ON session.key = request.session
         WHERE outcome IS NOT NULL AND (?1 IS NULL OR session.id = ?1)
         ORDER BY resolved DESC, request.rowid DESC LIMIT ?2"
    );
    let session = session.map(|id| id.to_string());
    collect(connection, &sql, params![session, number(most as u64)], with_session)
}

fn with_session(row: &Row<'_>) -> rusqlite::Result<(SessionId, RequestRecord)> {
    Ok((columns::parsed(row, 13)?, columns::request(row)?))
}

/// Grants that are neither revoked nor expired.
pub(crate) fn grants(connection: &Connection, now: u64) -> Result<Vec<Grant>, Error> {
    let columns = columns::GRANT_COLUMNS;
    let sql = format!(
        "SELECT {columns} FROM grants
         WHERE revoked IS NULL AND (until IS NULL OR until > ?1) ORDER BY created, rowid"
    );
    collect(connection, &sql, [number(now)], columns::grant)
}

pub(crate) fn state(
    connection: &Connection,
    follower: &str,
) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let sql = "SELECT key, value FROM state WHERE follower = ?1 ORDER BY key";
    collect(connection, sql, [follower], |row| Ok((row.get(0)?, row.get(1)?)))
}

fn collect<T>(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Error> {
    let mut query = connection.prepare_cached(sql)?;
    let found = query.query_map(parameters, read)?.collect::<Result<_, _>>()?;
    Ok(found)
}

/// The result of checking the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalHealth {
    /// What is wrong, in SQLite's words; empty if the file is intact.
    pub faults: Vec<String>,
    /// The format of the file.
    pub format: u32,
    pub sessions: u64,
    /// Entries that are not compacted yet.
    pub uncompacted: u64,
    pub segments: u64,
    /// The size of the file without its log.
    pub bytes: u64,
}

pub(crate) fn health(connection: &Connection) -> Result<JournalHealth, Error> {
    let mut faults: Vec<String> = connection
        .prepare("PRAGMA integrity_check(20)")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    faults.retain(|fault| fault != "ok");
    let count = |table: &str| -> Result<u64, rusqlite::Error> {
        let sql = format!("SELECT count(*) FROM {table}");
        connection.query_row(&sql, [], |row| columns::unsigned(row, 0))
    };
    let pragma = |name: &str| -> Result<u64, rusqlite::Error> {
        connection.pragma_query_value(None, name, |row| columns::unsigned(row, 0))
    };
    Ok(JournalHealth {
        faults,
        format: schema::format(connection)?,
        sessions: count("session")?,
        uncompacted: count("entry")?,
        segments: count("segment")?,
        bytes: pragma("page_count")? * pragma("page_size")?,
    })
}
