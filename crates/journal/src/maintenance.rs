//! Maintenance that the writer does in small steps while no command waits: deleting rows that were
//! compacted or belong to deleted sessions, and returning free pages to the file system.
//!
//! The work left is found again when the file is opened, so a crash only costs disk space.

use std::collections::BTreeSet;
use std::time::Duration;

use rusqlite::{Connection, params};

use crate::columns::unsigned;
use crate::error::Error;
use crate::id::{Seq, SessionKey};

/// Rows deleted in one step.
const ROWS: u32 = 128;

/// Pages returned to the file system in one step.
const PAGES: u32 = 64;

/// Free pages kept for the next turn.
const SPARE: u32 = 64;

/// The work left.
#[derive(Debug, Default)]
pub(crate) struct Maintenance {
    /// Sessions with rows that are also in a segment.
    trim: BTreeSet<SessionKey>,
    /// Deleted sessions.
    remove: BTreeSet<SessionKey>,
    shrink: ShrinkStage,
}

/// What is left of returning free pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ShrinkStage {
    #[default]
    Done,
    /// The log must be checkpointed.
    Log,
    /// Free pages must be returned.
    File,
}

impl Maintenance {
    /// The work an earlier process left.
    pub(crate) fn in_file(connection: &Connection) -> Result<Self, Error> {
        let keys = |sql: &str| -> Result<BTreeSet<SessionKey>, rusqlite::Error> {
            connection.prepare(sql)?.query_map([], |row| row.get(0).map(SessionKey))?.collect()
        };
        let remove = keys("SELECT session FROM deleted_session")?;
        let mut trim = keys("SELECT key FROM session WHERE compacted > 0")?;
        let mut dead = connection
            .prepare("SELECT EXISTS (SELECT 1 FROM entry WHERE row > ?1 AND row <= ?2)")?;
        let mut compacted = connection.prepare("SELECT compacted FROM session WHERE key = ?1")?;
        let mut kept = BTreeSet::new();
        for key in std::mem::take(&mut trim) {
            let compacted = compacted.query_row([key.0], |row| unsigned(row, 0))?;
            if dead.query_row([key.row(Seq(0)), key.row(Seq(compacted))], |row| row.get(0))? {
                kept.insert(key);
            }
        }
        Ok(Self { trim: kept, remove, shrink: ShrinkStage::Done })
    }

    pub(crate) fn compacted(&mut self, key: SessionKey) {
        self.trim.insert(key);
    }

    pub(crate) fn deleted(&mut self, key: SessionKey) {
        self.trim.remove(&key);
        self.remove.insert(key);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.trim.is_empty() && self.remove.is_empty() && self.shrink == ShrinkStage::Done
    }

    /// Gives up until the next compaction, after an error.
    pub(crate) fn postpone(&mut self) {
        *self = Self::default();
    }

    /// Copies the log into the file and empties it, unless a reader is using it.
    pub(crate) fn checkpoint(connection: &Connection) -> Result<(), Error> {
        // Does not wait for readers: the next checkpoint will do.
        let timeout =
            connection.pragma_query_value(None, "busy_timeout", |row| unsigned(row, 0))?;
        connection.busy_timeout(Duration::ZERO)?;
        let checkpoint = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        connection.busy_timeout(Duration::from_millis(timeout))?;
        match checkpoint.map_err(Error::from) {
            Err(Error::Busy) => Ok(()),
            result => result,
        }
    }

    /// Does a few milliseconds of work.
    pub(crate) fn step(&mut self, connection: &Connection) -> Result<(), Error> {
        if let Some(&key) = self.trim.first() {
            let trimmed = connection
                .prepare_cached(
                    "DELETE FROM entry WHERE row IN (
                        SELECT row FROM entry
                        WHERE row > ?1 AND row <= ?1 + (SELECT compacted FROM session WHERE key = ?2)
                        ORDER BY row LIMIT ?3)",
                )?
                .execute(params![key.row(Seq(0)), key.0, ROWS])?;
            if trimmed < ROWS as usize {
                self.trim.remove(&key);
                self.shrink = ShrinkStage::File;
            }
        } else if let Some(&key) = self.remove.first() {
            if !remove(connection, key)? {
                self.remove.remove(&key);
                self.shrink = ShrinkStage::File;
            }
        } else {
            self.shrink = self.shrink.step(connection)?;
        }
        Ok(())
    }
}

/// Deletes some rows of a deleted session. False once there are none left.
fn remove(connection: &Connection, key: SessionKey) -> Result<bool, Error> {
    for table in ["entry", "segment"] {
        let removed = connection
            .prepare_cached(&format!(
                "DELETE FROM {table} WHERE row IN (
                    SELECT row FROM {table} WHERE row >= ?1 AND row <= ?2 LIMIT ?3)"
            ))?
            .execute(params![key.row(Seq(0)), key.end(), ROWS])?;
        if removed > 0 {
            return Ok(true);
        }
    }
    connection
        .prepare_cached("DELETE FROM deleted_session WHERE session = ?1")?
        .execute([key.0])?;
    Ok(false)
}

impl ShrinkStage {
    fn step(self, connection: &Connection) -> Result<Self, Error> {
        match self {
            Self::Done => Ok(Self::Done),
            Self::File => {
                let free: u32 =
                    connection.pragma_query_value(None, "freelist_count", |row| row.get(0))?;
                if free <= SPARE {
                    return Ok(Self::Log);
                }
                let pages = PAGES.min(free - SPARE);
                connection.execute_batch(&format!("PRAGMA incremental_vacuum({pages})"))?;
                Ok(Self::File)
            }
            Self::Log => {
                Maintenance::checkpoint(connection)?;
                Ok(Self::Done)
            }
        }
    }
}
