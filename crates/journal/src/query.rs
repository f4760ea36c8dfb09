//! Queries about sessions and what belongs to them; `entries` has those for entries.
//!
//! A row that cannot be read concerns one session. A query about that session fails; a query about
//! all sessions leaves the row out.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};
use tracing::warn;
use uuid::Uuid;

use crate::batch::OutboundLine;
use crate::columns::{self, number};
use crate::error::Error;
use crate::id::{Seq, SessionId, SessionKey};
use crate::records::{Grant, PromptRecord, RequestRecord, SessionRecord};
use crate::repair::TableScan;
use crate::schema;

/// The largest size of the inputs that [`ledger`] returns, which may be whole files.
const LEDGER_BYTES: usize = 8 << 20;

/// The position of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionHead {
    pub(crate) key: SessionKey,
    pub(crate) last: Seq,
    /// The last entry that is compacted.
    pub(crate) compacted: Seq,
    /// The number of its last change; 0 if its changes are not counted.
    pub(crate) changes: u64,
}

const HEAD_COLUMNS: &str = "key, id, last, compacted, changes";

pub(crate) fn head(
    connection: &Connection,
    session: SessionId,
) -> Result<Option<SessionHead>, Error> {
    let read = |row: &Row<'_>| {
        Ok(SessionHead {
            key: SessionKey(row.get(0)?),
            last: Seq(columns::strictly_unsigned(row, 2)?),
            compacted: Seq(columns::strictly_unsigned(row, 3)?),
            changes: columns::strictly_unsigned(row, 4)?,
        })
    };
    let found = session_row(connection, session, HEAD_COLUMNS, |row| Ok(read(row)))?;
    found.transpose().map_err(|error| damaged_session(session, error))
}

/// The row of a session. The columns start with `key` and `id`.
fn session_row<T>(
    connection: &Connection,
    session: SessionId,
    columns: &str,
    read: impl Fn(&Row<'_>) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    let find = |index: &str| {
        let stand_in = SessionKey::from_stand_in(session);
        let column = if stand_in.is_some() { "key" } else { "id" };
        let sql = format!("SELECT {columns} FROM session {index} WHERE {column} = ?1");
        let mut query = connection.prepare_cached(&sql)?;
        let mut rows = match stand_in {
            Some(key) => query.query([key.0])?,
            None => query.query([session.to_string()])?,
        };
        match rows.next()? {
            // A stand-in means only a session whose own id cannot be read.
            Some(row) if columns::session_id(row, 1, 0)? == session => read(row).map(Some),
            _ => Ok(None),
        }
    };
    match find("") {
        // The index of the ids may be damaged while the table is not.
        Err(Error::Damaged { .. }) => find("NOT INDEXED"),
        found => found,
    }
}

fn key_of(connection: &Connection, session: SessionId) -> Result<Option<SessionKey>, Error> {
    Ok(head(connection, session)?.map(|head| head.key))
}

/// The error for a record of a session: the record itself, or the database.
fn damaged_session(session: SessionId, error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        None => Error::DamagedSession { session, reason: error.to_string() },
        Some(_) => error.into(),
    }
}

pub(crate) fn sessions(connection: &Connection) -> Result<Vec<SessionRecord>, Error> {
    let snapshot = connection.unchecked_transaction()?;
    let columns = columns::SESSION_COLUMNS;
    let mut query = snapshot
        .prepare_cached(&format!("SELECT {columns} FROM session ORDER BY active DESC, key DESC"))?;
    let mut rows = query.query([])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        if !columns::is_importing(row, columns::IMPORTING) {
            records.push(record(&snapshot, row)?);
        }
    }
    Ok(records)
}

/// The sessions that can be read although part of their table cannot.
pub(crate) fn readable_sessions(connection: &Connection) -> Result<Vec<SessionRecord>, Error> {
    let snapshot = connection.unchecked_transaction()?;
    let columns = columns::SESSION_COLUMNS.split(", ").map(str::to_owned).collect();
    let mut records = Vec::new();
    TableScan::of_columns(&snapshot, "session", "key", columns).rows(|row, _| {
        if !columns::is_importing(row, columns::IMPORTING) {
            records.push(record(&snapshot, row)?);
        }
        Ok(())
    })?;
    records.sort_by_key(|record| std::cmp::Reverse(record.active));
    Ok(records)
}

pub(crate) fn session(
    connection: &Connection,
    id: SessionId,
) -> Result<Option<SessionRecord>, Error> {
    let snapshot = connection.unchecked_transaction()?;
    session_in(&snapshot, id)
}

/// The same in a transaction of the caller.
pub(crate) fn session_in(
    snapshot: &Connection,
    id: SessionId,
) -> Result<Option<SessionRecord>, Error> {
    let found = session_row(snapshot, id, columns::SESSION_COLUMNS, |row| {
        if columns::is_importing(row, columns::IMPORTING) {
            return Ok(None);
        }
        record(snapshot, row).map(Some)
    })?;
    Ok(found.flatten())
}

/// A session and the ids that its agent gave it.
fn record(connection: &Connection, row: &Row<'_>) -> Result<SessionRecord, Error> {
    let mut record = columns::session(row);
    let key: i64 = row.get(0)?;
    let mut ids =
        connection.prepare_cached("SELECT id FROM agent_id WHERE session = ?1 ORDER BY rowid")?;
    let found = ids.query_map([key], |row| row.get(0)).and_then(Iterator::collect);
    match found {
        Ok(found) => record.agent_ids = found,
        Err(error) => columns::add_damage(&mut record, &format!("the agent's id: {error}")),
    }
    Ok(record)
}

/// Sessions whose id, or whose agent's id, starts with `prefix`.
pub(crate) fn find(connection: &Connection, prefix: &str) -> Result<Vec<SessionId>, Error> {
    if let Some(key) = prefix.parse().ok().and_then(SessionKey::from_stand_in) {
        return Ok(head(connection, key.stand_in())?.map(|_| key.stand_in()).into_iter().collect());
    }
    let mut query = connection.prepare_cached(
        "SELECT id, key, importing FROM session
         WHERE substr(id, 1, length(?1)) = ?1
            OR key IN (SELECT session FROM agent_id WHERE substr(id, 1, length(?2)) = ?2)
         ORDER BY active DESC, key DESC",
    )?;
    let mut rows = query.query([&prefix.to_lowercase(), prefix])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        if !columns::is_importing(row, 2) {
            found.push(columns::session_id(row, 0, 1)?);
        }
    }
    Ok(found)
}

/// Which prompts of a session to read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PromptFilter {
    All,
    /// All, in the order in which they were inserted.
    Oldest,
    Open,
    One(Uuid),
}

pub(crate) fn prompts(
    connection: &Connection,
    session: SessionId,
    filter: PromptFilter,
) -> Result<Vec<PromptRecord>, Error> {
    let Some(key) = key_of(connection, session)? else { return Ok(Vec::new()) };
    let (condition, id) = match filter {
        PromptFilter::All | PromptFilter::Oldest => ("true OR id = ?2", Uuid::nil()),
        PromptFilter::Open => ("open AND (true OR id = ?2)", Uuid::nil()),
        PromptFilter::One(id) => ("id = ?2", id),
    };
    let order = match filter {
        PromptFilter::Oldest => "rowid",
        _ => "position, created, rowid",
    };
    let columns = columns::PROMPT_COLUMNS;
    let sql = format!(
        "SELECT {columns} FROM prompt WHERE session = ?1 AND ({condition}) ORDER BY {order}"
    );
    of_session(connection, session, &sql, params![key.0, id.to_string()], columns::prompt)
}

/// The beginning of the text of a session's oldest prompt.
pub(crate) fn first_prompt_text(
    connection: &Connection,
    session: SessionId,
    bytes: usize,
) -> Result<Option<String>, Error> {
    let Some(key) = key_of(connection, session)? else { return Ok(None) };
    let mut query = connection.prepare_cached(
        "SELECT substr(CAST(text AS BLOB), 1, ?2) FROM prompt WHERE rowid =
            (SELECT rowid FROM prompt WHERE session = ?1 ORDER BY created, rowid LIMIT 1)",
    )?;
    let found: Option<Vec<u8>> = query
        .query_row(params![key.0, number(bytes as u64)], |row| row.get(0))
        .optional()
        .map_err(|error| damaged_session(session, error))?;
    Ok(found.map(|text| match std::str::from_utf8(&text) {
        Ok(text) => text.to_owned(),
        // The limit may be inside a character.
        Err(error) if error.error_len().is_none() => {
            String::from_utf8_lossy(&text[..error.valid_up_to()]).into_owned()
        }
        Err(_) => String::from_utf8_lossy(&text).into_owned(),
    }))
}

pub(crate) fn request(
    connection: &Connection,
    session: SessionId,
    id: &str,
) -> Result<Option<RequestRecord>, Error> {
    let Some(key) = key_of(connection, session)? else { return Ok(None) };
    let columns = columns::REQUEST_COLUMNS;
    let sql = format!("SELECT {columns} FROM request WHERE session = ?1 AND id = ?2");
    Ok(of_session(connection, session, &sql, params![key.0, id], columns::request)?.pop())
}

/// The lines that may not have reached the agent of a session, in order.
pub(crate) fn outbound(
    connection: &Connection,
    session: SessionId,
) -> Result<Vec<OutboundLine>, Error> {
    let Some(key) = key_of(connection, session)? else { return Ok(Vec::new()) };
    let sql = "SELECT number, bytes FROM outbound WHERE session = ?1 ORDER BY number";
    of_session(connection, session, sql, [key.0], |row| {
        let bytes: Vec<u8> = row.get(1)?;
        Ok(OutboundLine { number: columns::unsigned(row, 0)?, bytes: bytes.into() })
    })
}

/// What is true of requests to a person, and not of those that a hook answers. The name is that of
/// [`RequestRecord::is_for_hook`].
const FOR_PERSON: &str = "(tool_name <> 'hook_callback' OR kind <> '\"unknown\"')";

/// The calls of hooks that a session has not answered, oldest first.
pub(crate) fn open_hook_requests(
    connection: &Connection,
    session: SessionId,
) -> Result<Vec<RequestRecord>, Error> {
    let Some(key) = key_of(connection, session)? else { return Ok(Vec::new()) };
    let columns = columns::REQUEST_COLUMNS;
    let sql = format!(
        "SELECT {columns} FROM request WHERE session = ?1 AND outcome IS NULL AND NOT {FOR_PERSON}
         ORDER BY opened, rowid"
    );
    of_session(connection, session, &sql, [key.0], columns::request)
}

/// The open requests of one session or of all, oldest first.
pub(crate) fn open_requests(
    connection: &Connection,
    session: Option<SessionId>,
) -> Result<Vec<(SessionId, RequestRecord)>, Error> {
    let columns = columns::REQUEST_COLUMNS;
    let Some(session) = session else {
        let sql = format!(
            "SELECT {columns}, session.id, session.key
             FROM request JOIN session ON session.key = request.session
             WHERE outcome IS NULL AND {FOR_PERSON} ORDER BY opened, request.rowid"
        );
        return readable(connection, &sql, [], "open request", with_session);
    };
    let Some(key) = key_of(connection, session)? else { return Ok(Vec::new()) };
    let sql = format!(
        "SELECT {columns} FROM request WHERE session = ?1 AND outcome IS NULL AND {FOR_PERSON}
         ORDER BY opened, rowid"
    );
    of_session(connection, session, &sql, [key.0], |row| Ok((session, columns::request(row)?)))
}

/// How many requests of each session are open.
pub(crate) fn open_request_counts(
    connection: &Connection,
) -> Result<HashMap<SessionId, usize>, Error> {
    let sql = format!(
        "SELECT session.id, session.key, count(*)
         FROM request JOIN session ON session.key = request.session
         WHERE outcome IS NULL AND {FOR_PERSON} GROUP BY session.key"
    );
    let counts = readable(connection, &sql, [], "open request", |row| {
        let count = usize::try_from(columns::unsigned(row, 2)?).unwrap_or(usize::MAX);
        Ok((columns::session_id(row, 0, 1)?, count))
    })?;
    Ok(counts.into_iter().collect())
}

/// The resolved requests of one session or of all, newest first.
pub(crate) fn ledger(
    connection: &Connection,
    session: Option<SessionId>,
    most: usize,
) -> Result<Vec<(SessionId, RequestRecord)>, Error> {
    let key = match session {
        Some(session) => match key_of(connection, session)? {
            Some(key) => Some(key.0),
            None => return Ok(Vec::new()),
        },
        None => None,
    };
    let columns = columns::REQUEST_COLUMNS;
    let mut query = connection.prepare_cached(&format!(
        "SELECT {columns}, session.id, session.key
         FROM request JOIN session ON session.key = request.session
         WHERE outcome IS NOT NULL AND (?1 IS NULL OR session.key = ?1) AND {FOR_PERSON}
         ORDER BY resolved DESC, request.rowid DESC LIMIT ?2"
    ))?;
    let mut rows = query.query(params![key, number(most as u64)])?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        match with_session(row) {
            Ok((session, request)) => {
                bytes += request.input.len() + request.suggestions.as_ref().map_or(0, String::len);
                if bytes > LEDGER_BYTES && !found.is_empty() {
                    break;
                }
                found.push((session, request));
            }
            Err(error) => warn!(%error, "left out a resolved request that cannot be read"),
        }
    }
    Ok(found)
}

fn with_session(row: &Row<'_>) -> rusqlite::Result<(SessionId, RequestRecord)> {
    Ok((columns::session_id(row, 14, 15)?, columns::request(row)?))
}

/// Grants that are neither revoked nor expired. One that cannot be read grants nothing.
pub(crate) fn grants(connection: &Connection, now: u64) -> Result<Vec<Grant>, Error> {
    let columns = columns::GRANT_COLUMNS;
    let sql = format!(
        "SELECT {columns} FROM grants
         WHERE revoked IS NULL AND (until IS NULL OR until > ?1) ORDER BY created, rowid"
    );
    readable(connection, &sql, [number(now)], "grant", columns::grant)
}

/// What all sessions have cost on a day, in dollars.
pub(crate) fn cost_of_day(connection: &Connection, day: u64) -> Result<f64, Error> {
    let mut query =
        connection.prepare_cached("SELECT coalesce(sum(dollars), 0.0) FROM cost WHERE day = ?1")?;
    Ok(query.query_row([number(day)], |row| row.get(0))?)
}

pub(crate) fn state(
    connection: &Connection,
    follower: &str,
) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let sql = "SELECT key, value FROM state WHERE follower = ?1 ORDER BY key";
    readable(connection, sql, [follower], "state of a follower", |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
}

/// All rows of one session.
pub(crate) fn of_session<T>(
    connection: &Connection,
    session: SessionId,
    sql: &str,
    parameters: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Error> {
    let mut query = connection.prepare_cached(sql)?;
    let found = query.query_map(parameters, read).and_then(Iterator::collect);
    found.map_err(|error| damaged_session(session, error))
}

/// The rows that can be read.
fn readable<T>(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
    what: &str,
    mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Error> {
    let mut query = connection.prepare_cached(sql)?;
    let mut rows = query.query(parameters)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        match read(row) {
            Ok(value) => found.push(value),
            Err(error) => warn!(%error, "left out a stored {what} that cannot be read"),
        }
    }
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
