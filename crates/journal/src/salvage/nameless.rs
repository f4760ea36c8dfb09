//! Sessions whose own record is lost while their entries are not.

use std::path::PathBuf;

use rusqlite::{Connection, params};
use uuid::Uuid;
use wire::event::Body;

use crate::entry::Entry;
use crate::error::Error;
use crate::id::{Key, Seq, SessionId};
use crate::query;
use crate::session::Status;
use crate::stored::{json, number, path_bytes};

/// How many of a session's first entries are asked for its name.
const ASKED: usize = 100;

/// Makes records for entries that have none, and brings all records up to their entries. Returns
/// how many were made.
pub(super) fn adopt(connection: &Connection) -> Result<u64, Error> {
    let orphans: Vec<Key> = keys(
        connection,
        "SELECT DISTINCT place >> 40 FROM entry UNION SELECT DISTINCT place >> 40 FROM page
         EXCEPT SELECT key FROM session EXCEPT SELECT session FROM remains",
    )?;
    for &key in &orphans {
        make_record(connection, key)?;
    }
    // A record may be older than its entries, and no number may be used twice.
    connection.execute_batch(
        "UPDATE session SET last = max(last,
            coalesce((SELECT max(place) FROM entry WHERE place BETWEEN key << 40 AND (key << 40) | 1099511627775), 0) & 1099511627775,
            coalesce((SELECT max(place) FROM page WHERE place BETWEEN key << 40 AND (key << 40) | 1099511627775), 0) & 1099511627775,
            settled);
         INSERT INTO sqlite_sequence (name, seq)
            SELECT 'session', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'session');
         UPDATE sqlite_sequence SET seq = max(seq, coalesce((SELECT max(session) FROM remains), 0))
            WHERE name = 'session';",
    )?;
    Ok(orphans.len() as u64)
}

fn make_record(connection: &Connection, key: Key) -> Result<(), Error> {
    let settled: i64 = connection.query_row(
        "SELECT coalesce(max(place), 0) FROM page WHERE place BETWEEN ?1 AND ?2",
        [key.place(Seq(0)), key.end()],
        |row| row.get(0),
    )?;
    let (_, settled) = Key::at_place(settled);
    let entries = first_entries(connection, key, settled)?;
    let (id, directory) = name_in(&entries);
    let taken = |id: SessionId| Ok::<_, Error>(query::standing(connection, id)?.is_some());
    let id = match id {
        Some(id) if !taken(id)? => id,
        _ => SessionId(Uuid::from_u128(u128::from(key.0.unsigned_abs()))),
    };
    connection.execute(
        "INSERT INTO session (key, id, directory, title, status, options, created, active, settled)
         VALUES (?1, ?2, ?3, ?4, ?5, '{}', ?6, ?7, ?8)",
        params![
            key.0,
            id.to_string(),
            path_bytes(&directory.unwrap_or_default()),
            "recovered",
            json(&Status::Dead),
            number(entries.first().map_or(0, |entry| entry.at)),
            number(entries.last().map_or(0, |entry| entry.at)),
            number(settled.0),
        ],
    )?;
    Ok(())
}

fn first_entries(connection: &Connection, key: Key, settled: Seq) -> Result<Vec<Entry>, Error> {
    let portion = query::Portion { entries: ASKED, bytes: 1 << 20 };
    if settled == Seq(0) {
        return query::unsettled(connection, key, Seq(0), portion);
    }
    let mut pages = connection.prepare_cached(
        "SELECT raw, bytes FROM page WHERE place BETWEEN ?1 AND ?2 ORDER BY place LIMIT 1",
    )?;
    let mut rows = pages.query([key.place(Seq(0)), key.end()])?;
    let mut entries = match rows.next()? {
        Some(row) => query::page_entries(row)?,
        None => Vec::new(),
    };
    entries.truncate(ASKED);
    Ok(entries)
}

/// The agent's own id of the session and its directory, as its lines tell. Towpath gives the agent
/// the session's own id when it starts it, so it is the best guess there is.
fn name_in(entries: &[Entry]) -> (Option<SessionId>, Option<PathBuf>) {
    let (mut id, mut directory) = (None, None);
    for line in entries.iter().flat_map(|entry| wire::read(&entry.bytes)) {
        let Some(event) = line.event() else { continue };
        if id.is_none() {
            id = event.envelope.session_id.and_then(|id| id.decode().parse().ok());
        }
        if let Body::Init(init) = &event.body
            && directory.is_none()
        {
            directory = init.cwd.map(|cwd| PathBuf::from(&*cwd.decode()));
        }
    }
    (id, directory)
}

fn keys(connection: &Connection, sql: &str) -> Result<Vec<Key>, Error> {
    let keys = connection
        .prepare(sql)?
        .query_map([], |row| row.get(0).map(Key))?
        .collect::<Result<_, _>>()?;
    Ok(keys)
}
