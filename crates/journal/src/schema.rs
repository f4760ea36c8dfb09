//! The tables, and how a file of an older format becomes one of this.
//!
//! A step is never changed once it was released; what comes later is another step. All tables have
//! a rowid, also where a primary key would do, because mending a damaged file walks along it.

use rusqlite::{Connection, TransactionBehavior};

use crate::error::Error;

/// Marks the file as a journal: `Twph`.
pub(crate) const APPLICATION: i32 = 0x5477_7068;

/// Each step takes the file from the format of its index to the next.
const STEPS: &[&str] = &["
    CREATE TABLE session (
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        directory BLOB NOT NULL,
        title TEXT,
        status TEXT NOT NULL,
        options TEXT NOT NULL,
        created INTEGER NOT NULL,
        active INTEGER NOT NULL,
        last INTEGER NOT NULL DEFAULT 0,
        settled INTEGER NOT NULL DEFAULT 0,
        spool_run INTEGER NOT NULL DEFAULT 0,
        spool_offset INTEGER NOT NULL DEFAULT 0,
        writes INTEGER NOT NULL DEFAULT 0,
        turn INTEGER NOT NULL DEFAULT 0,
        turn_over INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE agent_id (session INTEGER NOT NULL, id TEXT NOT NULL) STRICT;
    CREATE UNIQUE INDEX agent_id_of_session ON agent_id (session, id);
    -- `place` is the session's key and the entry's number in one, see `Key::place`.
    CREATE TABLE entry (
        place INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        origin INTEGER NOT NULL,
        bytes BLOB NOT NULL
    ) STRICT;
    -- Settled entries, many to a page; `place` is that of the last one.
    CREATE TABLE page (
        place INTEGER PRIMARY KEY,
        raw INTEGER NOT NULL,
        bytes BLOB NOT NULL
    ) STRICT;
    CREATE TABLE prompt (
        session INTEGER NOT NULL,
        id TEXT NOT NULL,
        place INTEGER NOT NULL,
        text TEXT NOT NULL,
        content TEXT,
        delivery TEXT NOT NULL,
        state TEXT NOT NULL,
        open INTEGER NOT NULL,
        by TEXT NOT NULL,
        turn INTEGER,
        created INTEGER NOT NULL,
        changed INTEGER NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX prompt_of_session ON prompt (session, id);
    CREATE INDEX prompt_open ON prompt (session) WHERE open;
    -- Lines for the agent that may not have reached it.
    CREATE TABLE outbound (
        session INTEGER NOT NULL,
        number INTEGER NOT NULL,
        bytes BLOB NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX outbound_of_session ON outbound (session, number);
    CREATE TABLE request (
        session INTEGER NOT NULL,
        id TEXT NOT NULL,
        wants TEXT NOT NULL,
        tool_name TEXT NOT NULL,
        tool_use_id TEXT,
        input TEXT NOT NULL,
        suggestions TEXT,
        agent TEXT,
        opened INTEGER NOT NULL,
        expires INTEGER,
        outcome TEXT,
        by TEXT,
        message TEXT,
        resolved INTEGER
    ) STRICT;
    CREATE UNIQUE INDEX request_of_session ON request (session, id);
    CREATE INDEX request_open ON request (session) WHERE outcome IS NULL;
    CREATE INDEX request_resolved ON request (resolved) WHERE outcome IS NOT NULL;
    CREATE TABLE granted (
        id TEXT NOT NULL UNIQUE,
        session TEXT,
        directory BLOB,
        tool TEXT NOT NULL,
        pattern TEXT,
        until INTEGER,
        by TEXT NOT NULL,
        created INTEGER NOT NULL,
        revoked INTEGER
    ) STRICT;
    -- What followers remember, each in a drawer of its own.
    CREATE TABLE kept (
        drawer TEXT NOT NULL,
        name TEXT NOT NULL,
        value BLOB NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX kept_in_drawer ON kept (drawer, name);
    -- Sessions that are deleted but whose entries are not yet.
    CREATE TABLE remains (session INTEGER PRIMARY KEY) STRICT;
"];

/// The format this program writes.
pub(crate) fn newest() -> u32 {
    u32::try_from(STEPS.len()).unwrap_or(u32::MAX)
}

/// The format of a file; 0 is empty.
pub(crate) fn format(connection: &Connection) -> Result<u32, rusqlite::Error> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Brings a file to the newest format. It is of that format or an older one.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), Error> {
    if format(connection)? == newest() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been faster.
    let found = usize::try_from(format(&transaction)?).unwrap_or(usize::MAX);
    for step in STEPS.get(found..).unwrap_or_default() {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", newest())?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::{STEPS, format, migrate, newest};

    #[test]
    fn a_file_of_any_older_format_becomes_one_of_the_newest() {
        let tables = |connection: &Connection| -> Vec<String> {
            let mut query = connection
                .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
                .unwrap();
            query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let mut fresh = Connection::open_in_memory().unwrap();
        migrate(&mut fresh).unwrap();
        for older in 0..STEPS.len() {
            let mut connection = Connection::open_in_memory().unwrap();
            for step in &STEPS[..older] {
                connection.execute_batch(step).unwrap();
            }
            connection.pragma_update(None, "user_version", u32::try_from(older).unwrap()).unwrap();
            migrate(&mut connection).unwrap();
            assert_eq!(format(&connection).unwrap(), newest());
            assert_eq!(tables(&connection), tables(&fresh));
        }
    }

    #[test]
    fn migrating_twice_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        migrate(&mut connection).unwrap();
        assert_eq!(format(&connection).unwrap(), newest());
    }
}
