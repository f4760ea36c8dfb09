//! The tables, and the migrations from older formats.
//!
//! Every table has a row id, because the repair of a damaged file scans tables by row id.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::error::Error;

/// Marks the file as a journal: `Twph`.
pub(crate) const APPLICATION: i32 = 0x5477_7068;

/// Each migration takes the file from the format of its index to the next one. A released migration
/// is never changed; a later change of the tables is another migration.
const MIGRATIONS: &[&str] = &[
    FORMAT_1,
    // Plain names. Earlier versions stored grants for command prefixes (`git diff:*`) and for all calls of
    // a shell or edit tool. The consent policy has no such rules, so they are revoked.
    "
    ALTER TABLE kept RENAME TO state;
    ALTER TABLE state RENAME COLUMN drawer TO follower;
    ALTER TABLE state RENAME COLUMN name TO key;
    DROP INDEX kept_in_drawer;
    CREATE UNIQUE INDEX state_of_follower ON state (follower, key);
    ALTER TABLE page RENAME TO segment;
    ALTER TABLE segment RENAME COLUMN place TO row;
    ALTER TABLE entry RENAME COLUMN place TO row;
    ALTER TABLE prompt RENAME COLUMN place TO position;
    ALTER TABLE session RENAME COLUMN settled TO compacted;
    ALTER TABLE session RENAME COLUMN turn_over TO turn_ended;
    ALTER TABLE request RENAME COLUMN wants TO kind;
    ALTER TABLE remains RENAME TO deleted_session;
    ALTER TABLE granted RENAME TO grants;
    UPDATE grants SET revoked = created
        WHERE revoked IS NULL
        AND (pattern LIKE '%:*' OR (pattern IS NULL AND tool IN
            ('Bash', 'Edit', 'MultiEdit', 'NotebookEdit', 'WebFetch', 'Write')));
    ",
    // The origin 2 marks an entry whose line goes on in the next one. The tables stay the same, but
    // earlier versions would take such an entry for damaged.
    "",
    // Sessions that began outside Towpath. `importing` names the import that has not finished; such a
    // session is not shown. The origins 3 and 4 mark imported lines.
    "
    ALTER TABLE session ADD COLUMN imported_turns INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE session ADD COLUMN importing TEXT;
    ",
    // Agents over the Agent Client Protocol: what was agreed with the process, and the choices that a
    // request offers. The origin 5 marks a line that was sent to the agent.
    "
    ALTER TABLE session ADD COLUMN agent_state TEXT;
    ALTER TABLE request ADD COLUMN choices TEXT;
    ",
    // What each session has cost on each day (in days since 1970), in dollars. The rows of a deleted
    // session stay: its cost is still that of the day.
    "
    CREATE TABLE cost (
        day INTEGER NOT NULL,
        session TEXT NOT NULL,
        dollars REAL NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX cost_of_day ON cost (day, session);
    ",
    // Changes of sessions for other machines, until they have been sent there. `number` counts the changes
    // of a session without gaps, and the session has the last number; 0 if its changes are not counted.
    "
    ALTER TABLE session ADD COLUMN changes INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE outbox (
        row INTEGER PRIMARY KEY,
        session TEXT NOT NULL,
        number INTEGER NOT NULL,
        bytes BLOB NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX outbox_of_session ON outbox (session, number);
    ",
    // What the pattern of a grant is. Until now that was guessed from its text, which an agent chose: the
    // rule for a file named `/etc/**` allowed everything below `/etc`. Grants that could have come from
    // such a text are removed, so the user is asked again. They are not revoked, because a grant that
    // is made for every session would not be made again.
    "
    ALTER TABLE grants ADD COLUMN kind TEXT NOT NULL DEFAULT 'unknown';
    DELETE FROM grants WHERE revoked IS NULL AND (
        tool = 'edits' AND (pattern IS NULL OR pattern NOT LIKE '/%' OR pattern LIKE '%/**')
        OR tool IN ('Edit', 'MultiEdit', 'NotebookEdit', 'Write')
        OR tool = 'WebFetch' AND (pattern IS NULL OR pattern NOT LIKE 'http%')
        OR tool NOT IN ('edits', 'WebFetch', 'Bash') AND pattern LIKE 'input:%');
    UPDATE grants SET kind = CASE
        WHEN tool = 'edits' THEN 'file'
        WHEN tool = 'WebFetch' THEN 'address'
        WHEN pattern IS NULL THEN 'tool'
        ELSE 'command'
    END WHERE revoked IS NULL;
    ",
];

/// The tables of the first format.
const FORMAT_1: &str = "
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
    -- `place` is the session's key and the entry's number in one, see `SessionKey::place`.
    CREATE TABLE entry (
        place INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        origin INTEGER NOT NULL,
        bytes BLOB NOT NULL
    ) STRICT;
    -- CompactionStats entries, many to a page; `place` is that of the last one.
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
    -- The persistent state of followers.
    CREATE TABLE kept (
        drawer TEXT NOT NULL,
        name TEXT NOT NULL,
        value BLOB NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX kept_in_drawer ON kept (drawer, name);
    -- Deleted sessions whose entries are still to be removed.
    CREATE TABLE remains (session INTEGER PRIMARY KEY) STRICT;
";

/// The format this version writes.
pub(crate) fn latest() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

/// The format of a file; 0 if it is empty.
pub(crate) fn format(connection: &Connection) -> Result<u32, rusqlite::Error> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Whether a file has an older format and must be migrated.
pub(crate) fn is_outdated(path: &Path) -> bool {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
        .and_then(|connection| {
            connection.busy_timeout(Duration::from_secs(5))?;
            format(&connection)
        })
        .is_ok_and(|format| format > 0 && format < latest())
}

/// Migrates a file to the latest format. The caller has refused later formats.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), Error> {
    if format(connection)? == latest() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have migrated it meanwhile.
    let found = usize::try_from(format(&transaction)?).unwrap_or(usize::MAX);
    for migration in MIGRATIONS.get(found..).unwrap_or_default() {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", latest())?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::{format, latest, migrate};

    /// The tables as they were reviewed. Any change of them needs a new migration and a new file.
    const TABLES: &str = include_str!("../fixtures/tables.sql");

    fn tables(connection: &Connection) -> String {
        let mut query = connection
            .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
            .unwrap();
        let tables = query.query_map([], |row| row.get::<_, String>(0)).unwrap();
        tables.map(|sql| sql.unwrap() + ";\n").collect()
    }

    #[test]
    fn a_new_file_and_a_migrated_one_have_the_tables_that_were_reviewed() {
        let folder = tempfile::TempDir::new().unwrap();
        let old = folder.path().join("old.db");
        std::fs::write(&old, include_bytes!("../fixtures/format-1.db")).unwrap();
        for path in [old, folder.path().join("new.db")] {
            let mut connection = Connection::open(&path).unwrap();
            migrate(&mut connection).unwrap();
            assert_eq!(format(&connection).unwrap(), latest());
            assert_eq!(tables(&connection), TABLES, "{}", path.display());
        }
    }

    #[test]
    fn migrating_twice_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        migrate(&mut connection).unwrap();
        assert_eq!(format(&connection).unwrap(), latest());
    }
}
