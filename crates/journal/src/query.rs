//! What is asked of the file, in SQL.
//!
//! Entries are in two tables: settled ones in pages, the rest in rows of their own. A row at or
//! below the mark `settled` is dead: its page holds it, or it was dropped.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};
use uuid::Uuid;

use crate::batch::Outbound;
use crate::entry::{Entry, origin_from_code};
use crate::error::Error;
use crate::grant::Grant;
use crate::id::{Key, Seq, SessionId};
use crate::page::Page;
use crate::prompt::PromptRecord;
use crate::request::RequestRecord;
use crate::session::SessionRecord;
use crate::stored::{self, number};

/// Where a session stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) key: Key,
    pub(crate) last: Seq,
    pub(crate) settled: Seq,
}

/// How much to read at once: as many entries, or so many bytes that one more would be too much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portion {
    pub(crate) entries: usize,
    pub(crate) bytes: usize,
}

/// Entries of a session, and where it stood when they were read.
#[derive(Debug)]
pub(crate) struct Stretch {
    pub(crate) entries: Vec<Entry>,
    pub(crate) last: Seq,
}

pub(crate) fn standing(
    connection: &Connection,
    session: SessionId,
) -> Result<Option<Standing>, Error> {
    let mut query =
        connection.prepare_cached("SELECT key, last, settled FROM session WHERE id = ?1")?;
    let standing = query.query_row([session.to_string()], |row| {
        Ok(Standing {
            key: Key(row.get(0)?),
            last: Seq(stored::unsigned(row, 1)?),
            settled: Seq(stored::unsigned(row, 2)?),
        })
    });
    Ok(standing.optional()?)
}

/// The entries after one, in order.
pub(crate) fn entries(
    connection: &Connection,
    session: SessionId,
    after: Seq,
    portion: Portion,
) -> Result<Stretch, Error> {
    // One snapshot, or an entry could move from its row to a page between the two.
    let snapshot = connection.unchecked_transaction()?;
    let Standing { key, last, settled } =
        standing(&snapshot, session)?.ok_or(Error::NoSuchSession(session))?;
    let mut room = Room { entries: Vec::new(), left: portion };
    if after < settled {
        settled_entries(&snapshot, key, after, &mut room)?;
    }
    if !room.is_full() {
        own_rows(&snapshot, key, after.max(settled), &mut room)?;
    }
    Ok(Stretch { entries: room.entries, last })
}

/// Entries that are not settled yet, up to and with one.
pub(crate) fn unsettled(
    connection: &Connection,
    key: Key,
    after: Seq,
    portion: Portion,
) -> Result<Vec<Entry>, Error> {
    let mut room = Room { entries: Vec::new(), left: portion };
    own_rows(connection, key, after, &mut room)?;
    Ok(room.entries)
}

/// What was read, and how much more there is room for. The first entry always fits.
struct Room {
    entries: Vec<Entry>,
    left: Portion,
}

impl Room {
    fn is_full(&self) -> bool {
        self.left.entries == 0 || self.left.bytes == 0
    }

    fn take(&mut self, entry: Entry) {
        self.left.entries -= 1;
        self.left.bytes = self.left.bytes.saturating_sub(entry.bytes.len());
        self.entries.push(entry);
    }
}

fn settled_entries(
    connection: &Connection,
    key: Key,
    after: Seq,
    room: &mut Room,
) -> Result<(), Error> {
    let mut query = connection.prepare_cached(
        "SELECT raw, bytes FROM page WHERE place > ?1 AND place <= ?2 ORDER BY place",
    )?;
    let mut rows = query.query([key.place(after), key.end()])?;
    while !room.is_full()
        && let Some(row) = rows.next()?
    {
        for entry in page_entries(row)? {
            if entry.seq > after && !room.is_full() {
                room.take(entry);
            }
        }
    }
    Ok(())
}

/// The entries of a page, from its columns `raw` and `bytes`.
pub(crate) fn page_entries(row: &Row<'_>) -> Result<Vec<Entry>, Error> {
    let raw = usize::try_from(stored::unsigned(row, 0)?).unwrap_or(usize::MAX);
    let bytes = row.get_ref(1)?.as_blob().map_err(|error| Error::nonsense(error.to_string()))?;
    Page::unpack(raw, bytes)
}

fn own_rows(connection: &Connection, key: Key, after: Seq, room: &mut Room) -> Result<(), Error> {
    let mut query = connection.prepare_cached(
        "SELECT place, at, origin, bytes FROM entry WHERE place > ?1 AND place <= ?2 ORDER BY place",
    )?;
    let mut rows = query.query([key.place(after), key.end()])?;
    while !room.is_full()
        && let Some(row) = rows.next()?
    {
        room.take(entry(row)?);
    }
    Ok(())
}

/// An entry from the columns `place`, `at`, `origin` and `bytes`.
fn entry(row: &Row<'_>) -> Result<Entry, Error> {
    let (_, seq) = Key::at_place(row.get(0)?);
    let bytes = row.get_ref(3)?.as_blob().map_err(|error| Error::nonsense(error.to_string()))?;
    Ok(Entry {
        seq,
        at: stored::unsigned(row, 1)?,
        origin: origin_from_code(row.get(2)?)
            .ok_or_else(|| Error::nonsense("an entry has no known origin"))?,
        bytes: Bytes::copy_from_slice(bytes),
    })
}

/// The session's last page, where more would fit into it: its last entry, its size, its entries.
pub(crate) fn page_with_room(
    connection: &Connection,
    key: Key,
    room: usize,
) -> Result<Option<(Seq, Vec<Entry>)>, Error> {
    let mut query = connection.prepare_cached(
        "SELECT raw, bytes, place FROM page WHERE place > ?1 AND place <= ?2
         ORDER BY place DESC LIMIT 1",
    )?;
    let mut rows = query.query([key.place(Seq(0)), key.end()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    if usize::try_from(stored::unsigned(row, 0)?).unwrap_or(usize::MAX) >= room {
        return Ok(None);
    }
    let (_, last) = Key::at_place(row.get(2)?);
    Ok(Some((last, page_entries(row)?)))
}

pub(crate) fn sessions(connection: &Connection) -> Result<Vec<SessionRecord>, Error> {
    let snapshot = connection.unchecked_transaction()?;
    let columns = stored::SESSION_COLUMNS;
    let mut query = snapshot
        .prepare_cached(&format!("SELECT {columns} FROM session ORDER BY active DESC, key DESC"))?;
    with_agent_ids(&snapshot, query.query([])?)
}

pub(crate) fn session(
    connection: &Connection,
    id: SessionId,
) -> Result<Option<SessionRecord>, Error> {
    let snapshot = connection.unchecked_transaction()?;
    let columns = stored::SESSION_COLUMNS;
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
        let mut record = stored::session(row)?;
        let key: i64 = row.get(0)?;
        record.agent_ids = ids.query_map([key], |row| row.get(0))?.collect::<Result<_, _>>()?;
        records.push(record);
    }
    Ok(records)
}

/// Sessions whose id, or an id of whose agent, begins so.
pub(crate) fn find(connection: &Connection, prefix: &str) -> Result<Vec<SessionId>, Error> {
    let mut query = connection.prepare_cached(
        "SELECT id FROM session
         WHERE substr(id, 1, length(?1)) = ?1
            OR key IN (SELECT session FROM agent_id WHERE substr(id, 1, length(?2)) = ?2)
         ORDER BY active DESC, key DESC",
    )?;
    let found = query
        .query_map([&prefix.to_lowercase(), prefix], |row| stored::parsed(row, 0))?
        .collect::<Result<_, _>>()?;
    Ok(found)
}

/// Which prompts of a session are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Prompts {
    All,
    Open,
    One(Uuid),
}

pub(crate) fn prompts(
    connection: &Connection,
    session: SessionId,
    which: Prompts,
) -> Result<Vec<PromptRecord>, Error> {
    let (condition, id) = match which {
        Prompts::All => ("true OR id = ?2", Uuid::nil()),
        Prompts::Open => ("open AND (true OR id = ?2)", Uuid::nil()),
        Prompts::One(id) => ("id = ?2", id),
    };
    let columns = stored::PROMPT_COLUMNS;
    let sql = format!(
        "SELECT {columns} FROM prompt
         WHERE session = (SELECT key FROM session WHERE id = ?1) AND ({condition})
         ORDER BY place, created, rowid"
    );
    collect(connection, &sql, [session.to_string(), id.to_string()], stored::prompt)
}

pub(crate) fn request(
    connection: &Connection,
    session: SessionId,
    id: &str,
) -> Result<Option<RequestRecord>, Error> {
    let columns = stored::REQUEST_COLUMNS;
    let sql = format!(
        "SELECT {columns} FROM request
         WHERE session = (SELECT key FROM session WHERE id = ?1) AND id = ?2"
    );
    let found = collect(connection, &sql, [&session.to_string(), id], stored::request)?;
    Ok(found.into_iter().next())
}

/// The lines for a session's agent that may not have reached it, in order.
pub(crate) fn outbound(
    connection: &Connection,
    session: SessionId,
) -> Result<Vec<Outbound>, Error> {
    let sql = "SELECT number, bytes FROM outbound JOIN session ON session.key = outbound.session
         WHERE session.id = ?1 ORDER BY number";
    collect(connection, sql, [session.to_string()], |row| {
        let bytes: Vec<u8> = row.get(1)?;
        Ok(Outbound { number: stored::unsigned(row, 0)?, bytes: bytes.into() })
    })
}

/// Requests of all sessions or one: those open, oldest first.
pub(crate) fn open_requests(
    connection: &Connection,
    session: Option<SessionId>,
) -> Result<Vec<(SessionId, RequestRecord)>, Error> {
    let columns = stored::REQUEST_COLUMNS;
    let sql = format!(
        "SELECT {columns}, session.id FROM request JOIN session ON session.key = request.session
         WHERE outcome IS NULL AND (?1 IS NULL OR session.id = ?1)
         ORDER BY opened, request.rowid"
    );
    collect(connection, &sql, [session.map(|id| id.to_string())], with_session)
}

/// Requests of all sessions or one: those resolved, newest first.
pub(crate) fn ledger(
    connection: &Connection,
    session: Option<SessionId>,
    most: usize,
) -> Result<Vec<(SessionId, RequestRecord)>, Error> {
    let columns = stored::REQUEST_COLUMNS;
    let sql = format!(
        "SELECT {columns}, session.id FROM request JOIN session ON session.key = request.session
         WHERE outcome IS NOT NULL AND (?1 IS NULL OR session.id = ?1)
         ORDER BY resolved DESC, request.rowid DESC LIMIT ?2"
    );
    let session = session.map(|id| id.to_string());
    collect(connection, &sql, params![session, number(most as u64)], with_session)
}

fn with_session(row: &Row<'_>) -> rusqlite::Result<(SessionId, RequestRecord)> {
    Ok((stored::parsed(row, 13)?, stored::request(row)?))
}

/// Grants that are neither revoked nor over.
pub(crate) fn grants(connection: &Connection, now: u64) -> Result<Vec<Grant>, Error> {
    let columns = stored::GRANT_COLUMNS;
    let sql = format!(
        "SELECT {columns} FROM granted
         WHERE revoked IS NULL AND (until IS NULL OR until > ?1) ORDER BY created, rowid"
    );
    collect(connection, &sql, [number(now)], stored::grant)
}

pub(crate) fn kept(connection: &Connection, drawer: &str) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let sql = "SELECT name, value FROM kept WHERE drawer = ?1 ORDER BY name";
    collect(connection, sql, [drawer], |row| Ok((row.get(0)?, row.get(1)?)))
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
