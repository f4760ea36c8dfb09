//! What the writer cleans up when nobody waits for it, a few milliseconds at a time.
//!
//! Everything here is found again when the file is opened, so a crash costs nothing but room.

use std::collections::BTreeSet;
use std::time::Duration;

use rusqlite::{Connection, params};

use crate::error::Error;
use crate::id::{Key, Seq};
use crate::stored::unsigned;

/// How many rows go in one step.
const ROWS: u32 = 128;

/// How many pages of the file are given back in one step.
const PAGES: u32 = 64;

/// As many free pages are kept for the next turn.
const SPARE: u32 = 64;

/// What is left to be cleaned up.
#[derive(Debug, Default)]
pub(crate) struct Chores {
    /// Sessions with rows that are settled.
    trim: BTreeSet<Key>,
    /// Sessions that are deleted.
    remove: BTreeSet<Key>,
    shrink: Shrink,
}

/// How far the giving back of room is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shrink {
    #[default]
    Done,
    /// The log must be folded into the file.
    Log,
    /// Free pages must be given back.
    File,
}

impl Chores {
    /// What an earlier process left.
    pub(crate) fn in_file(connection: &Connection) -> Result<Self, Error> {
        let keys = |sql: &str| -> Result<BTreeSet<Key>, rusqlite::Error> {
            connection.prepare(sql)?.query_map([], |row| row.get(0).map(Key))?.collect()
        };
        let remove = keys("SELECT session FROM remains")?;
        let mut trim = keys("SELECT key FROM session WHERE settled > 0")?;
        let mut dead = connection
            .prepare("SELECT EXISTS (SELECT 1 FROM entry WHERE place > ?1 AND place <= ?2)")?;
        let mut settled = connection.prepare("SELECT settled FROM session WHERE key = ?1")?;
        let mut kept = BTreeSet::new();
        for key in std::mem::take(&mut trim) {
            let settled = settled.query_row([key.0], |row| unsigned(row, 0))?;
            if dead.query_row([key.place(Seq(0)), key.place(Seq(settled))], |row| row.get(0))? {
                kept.insert(key);
            }
        }
        Ok(Self { trim: kept, remove, shrink: Shrink::Done })
    }

    pub(crate) fn settled(&mut self, key: Key) {
        self.trim.insert(key);
    }

    pub(crate) fn deleted(&mut self, key: Key) {
        self.trim.remove(&key);
        self.remove.insert(key);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.trim.is_empty() && self.remove.is_empty() && self.shrink == Shrink::Done
    }

    /// Gives up for now, after an error.
    pub(crate) fn put_off(&mut self) {
        *self = Self::default();
    }

    /// Folds the log into the file and empties it, if nobody reads from it just now.
    pub(crate) fn fold_log(connection: &Connection) -> Result<(), Error> {
        // It would wait for readers; if there are any, the next time will do.
        let patience =
            connection.pragma_query_value(None, "busy_timeout", |row| unsigned(row, 0))?;
        connection.busy_timeout(Duration::ZERO)?;
        let folded = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        connection.busy_timeout(Duration::from_millis(patience))?;
        match folded.map_err(Error::from) {
            Err(Error::Busy) => Ok(()),
            result => result,
        }
    }

    /// Does a little.
    pub(crate) fn step(&mut self, connection: &Connection) -> Result<(), Error> {
        if let Some(&key) = self.trim.first() {
            let trimmed = connection
                .prepare_cached(
                    "DELETE FROM entry WHERE place IN (
                        SELECT place FROM entry
                        WHERE place > ?1 AND place <= ?1 + (SELECT settled FROM session WHERE key = ?2)
                        ORDER BY place LIMIT ?3)",
                )?
                .execute(params![key.place(Seq(0)), key.0, ROWS])?;
            if trimmed < ROWS as usize {
                self.trim.remove(&key);
                self.shrink = Shrink::File;
            }
        } else if let Some(&key) = self.remove.first() {
            if !remove(connection, key)? {
                self.remove.remove(&key);
                self.shrink = Shrink::File;
            }
        } else {
            self.shrink = self.shrink.step(connection)?;
        }
        Ok(())
    }
}

/// Removes some of what a deleted session left; false once nothing was left.
fn remove(connection: &Connection, key: Key) -> Result<bool, Error> {
    for table in ["entry", "page"] {
        let removed = connection
            .prepare_cached(&format!(
                "DELETE FROM {table} WHERE place IN (
                    SELECT place FROM {table} WHERE place >= ?1 AND place <= ?2 LIMIT ?3)"
            ))?
            .execute(params![key.place(Seq(0)), key.end(), ROWS])?;
        if removed > 0 {
            return Ok(true);
        }
    }
    connection.prepare_cached("DELETE FROM remains WHERE session = ?1")?.execute([key.0])?;
    Ok(false)
}

impl Shrink {
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
                Chores::fold_log(connection)?;
                Ok(Self::Done)
            }
        }
    }
}
