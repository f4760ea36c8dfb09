//! Maintenance that the writer does in small steps while no command waits: deleting rows that were
//! compacted or belong to deleted sessions, and returning free pages to the file system.
//!
//! The work left is found again when the file is opened, so a crash only costs disk space. What fails
//! is tried again later, and does not hold up the rest.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::columns::unsigned;
use crate::error::Error;
use crate::id::{Seq, SessionKey};

/// Rows deleted in one step.
const ROWS: u32 = 128;

/// Pages returned to the file system in one step.
const PAGES: u32 = 64;

/// Free pages kept for the next turn.
const SPARE: u32 = 64;

/// When work that failed is tried again: first, and at most.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_mins(1);

/// The work left.
#[derive(Debug, Default)]
pub(crate) struct Maintenance {
    /// Sessions with rows that are also in a segment.
    trim: BTreeSet<SessionKey>,
    /// Deleted sessions.
    remove: BTreeSet<SessionKey>,
    shrink: ShrinkStage,
    failed: FailedWork,
}

/// Work that failed.
#[derive(Debug, Default)]
struct FailedWork {
    trim: BTreeSet<SessionKey>,
    remove: BTreeSet<SessionKey>,
    shrink: ShrinkStage,
    /// When it is tried again, and how long after the last failure that is.
    retry: Option<(Instant, Duration)>,
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
        let mut trim = keys("SELECT key FROM session WHERE compacted > 0")?;
        let mut dead = connection
            .prepare("SELECT EXISTS (SELECT 1 FROM entry WHERE row > ?1 AND row <= ?2)")?;
        // A session that cannot be read must not keep the journal closed.
        trim.retain(|key| {
            let obsolete = last_obsolete(connection, *key);
            let found = obsolete.and_then(|last| {
                dead.query_row([key.row(Seq(0)), last], |row| row.get(0)).map_err(Error::from)
            });
            found.unwrap_or(false)
        });
        let mut this = Self { trim, ..Self::default() };
        this.find_deleted(connection)?;
        Ok(this)
    }

    /// Adds the sessions that another process deleted and did not remove.
    pub(crate) fn find_deleted(&mut self, connection: &Connection) -> Result<(), Error> {
        let mut query = connection.prepare_cached("SELECT session FROM deleted_session")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let key = SessionKey(row.get(0)?);
            if !self.failed.remove.contains(&key) {
                self.remove.insert(key);
            }
        }
        Ok(())
    }

    pub(crate) fn compacted(&mut self, key: SessionKey) {
        self.trim.insert(key);
    }

    pub(crate) fn deleted(&mut self, key: SessionKey) {
        self.trim.remove(&key);
        self.remove.insert(key);
    }

    /// Whether there is nothing to do now.
    pub(crate) fn is_done(&mut self) -> bool {
        if self.failed.retry.is_some_and(|(at, _)| at <= Instant::now()) {
            self.retry();
        }
        self.trim.is_empty() && self.remove.is_empty() && self.shrink == ShrinkStage::Done
    }

    /// Tries again what failed.
    pub(crate) fn retry(&mut self) {
        let FailedWork { trim, remove, shrink, retry } = &mut self.failed;
        self.trim.append(trim);
        self.remove.append(remove);
        if *shrink != ShrinkStage::Done {
            self.shrink = std::mem::take(shrink);
        }
        if let Some((at, delay)) = retry {
            // The next failure sets the time again.
            *at = Instant::now() + *delay;
        }
    }

    /// Puts off the work that a step failed at.
    fn put_off(&mut self) {
        if let Some(key) = self.trim.pop_first() {
            self.failed.trim.insert(key);
        } else if let Some(key) = self.remove.pop_first() {
            self.failed.remove.insert(key);
        } else {
            self.failed.shrink = std::mem::take(&mut self.shrink);
        }
        let delay = self.failed.retry.map_or(FIRST_RETRY, |(_, delay)| (delay * 2).min(LAST_RETRY));
        self.failed.retry = Some((Instant::now() + delay, delay));
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

    /// Does a few milliseconds of work. What fails is tried again later.
    pub(crate) fn step(&mut self, connection: &Connection) -> Result<(), Error> {
        let done = self.try_step(connection);
        match done {
            Err(_) => self.put_off(),
            Ok(()) if self.failed.is_empty() => self.failed.retry = None,
            Ok(()) => {}
        }
        done
    }

    fn try_step(&mut self, connection: &Connection) -> Result<(), Error> {
        if let Some(&key) = self.trim.first() {
            let trimmed = connection
                .prepare_cached(
                    "DELETE FROM entry WHERE row IN (
                        SELECT row FROM entry WHERE row > ?1 AND row <= ?2
                        ORDER BY row LIMIT ?3)",
                )?
                .execute(params![key.row(Seq(0)), last_obsolete(connection, key)?, ROWS])?;
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

/// The last row of a session that a segment replaces. A damaged number must not make others of it.
fn last_obsolete(connection: &Connection, key: SessionKey) -> Result<i64, Error> {
    let first = key.row(Seq(0));
    let last = connection
        .prepare_cached(
            "SELECT min(?1 + compacted,
                (SELECT max(row) FROM segment WHERE row > ?1 AND row <= ?2))
             FROM session WHERE key = ?3",
        )?
        .query_row([first, key.end(), key.0], |row| row.get::<_, Option<i64>>(0))
        .optional()?;
    Ok(last.flatten().unwrap_or(first))
}

impl FailedWork {
    fn is_empty(&self) -> bool {
        self.trim.is_empty() && self.remove.is_empty() && self.shrink == ShrinkStage::Done
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
