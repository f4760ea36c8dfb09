//! The outbox: changes of sessions that other machines do not have yet.
//!
//! A change is put into the outbox in the transaction that makes it, so neither exists without the other.
//! The changes of a session are numbered without gaps, and the number of the last one is stored with the
//! session. That the file has an outbox is stored in the file: every process that writes to it fills the
//! outbox, whichever process sends it.
//!
//! [`Journal::apply`] replays changes through the code that made them, in another file.

use std::borrow::Cow;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, params};
use tokio::sync::watch;
use tracing::warn;

use crate::change::JournalChange;
use crate::columns::{self, number};
use crate::error::Error;
use crate::id::{Seq, SessionId};
use crate::journal::Journal;
use crate::query;
use crate::records::StateChange;
use crate::transaction::{BlobPlace, WriteTransaction};
use crate::writer::{ImportStep, Mutation};

/// The follower state that says that the file has an outbox.
const FOLLOWER: &str = "outbox";
const KEPT: &str = "kept";

/// The follower state with the last change of each deleted session.
const DELETED_FOLLOWER: &str = "outbox-deleted";

/// A change in the outbox, as bytes for [`JournalChange::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxRow {
    /// The number of the change in its session. The first is 1.
    pub number: u64,
    pub bytes: Bytes,
}

/// Some changes of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboxPage {
    /// The oldest changes in the outbox, in order.
    pub rows: Vec<OutboxRow>,
    /// The number of the session's last change.
    pub last: u64,
}

/// Changes to be replayed.
#[derive(Debug)]
pub(crate) struct ReplayedChanges {
    pub(crate) session: SessionId,
    /// The number of the first change.
    pub(crate) first: u64,
    pub(crate) changes: Vec<JournalChange<'static>>,
    pub(crate) follower: String,
    pub(crate) state: Vec<StateChange>,
}

impl Journal {
    /// Keeps an outbox from now on, also for later processes. New sessions are in it from their first change
    /// on; [`fill_outbox`](Self::fill_outbox) puts in the others.
    pub async fn keep_outbox(&self) -> Result<(), Error> {
        self.change(Mutation::KeepOutbox(true)).await.map(drop)
    }

    /// Removes the outbox and keeps none any more. The sessions stay.
    pub async fn discard_outbox(&self) -> Result<(), Error> {
        self.change(Mutation::KeepOutbox(false)).await.map(drop)
    }

    /// Puts the sessions into the outbox that are older than it, each as a whole. Returns the sessions that
    /// cannot be read, with the reasons.
    pub async fn fill_outbox(&self) -> Result<Vec<(SessionId, Error)>, Error> {
        let mut failed = Vec::new();
        for session in self.readers().read(uncounted_sessions).await? {
            match self.change(Mutation::PutSnapshot(session)).await {
                // It was deleted meanwhile.
                Ok(_) | Err(Error::NoSuchSession(_)) => {}
                Err(error @ (Error::Closed | Error::Full | Error::Busy)) => return Err(error),
                Err(error) => failed.push((session, error)),
            }
        }
        Ok(failed)
    }

    /// Puts a session into the outbox as a whole, in place of all its changes before.
    pub async fn put_snapshot(&self, session: SessionId) -> Result<(), Error> {
        self.change(Mutation::PutSnapshot(session)).await.map(drop)
    }

    /// The sessions with changes in the outbox.
    pub async fn outbox_sessions(&self) -> Result<Vec<SessionId>, Error> {
        self.readers().read(outbox_sessions).await
    }

    /// The oldest changes of a session in the outbox: at most `bytes` of them, but at least one if there
    /// is any.
    pub async fn read_outbox(&self, session: SessionId, bytes: usize) -> Result<OutboxPage, Error> {
        self.read_outbox_after(session, 0, bytes).await
    }

    /// The same for the changes after a number, where those before it could not be removed.
    pub async fn read_outbox_after(
        &self,
        session: SessionId,
        after: u64,
        bytes: usize,
    ) -> Result<OutboxPage, Error> {
        self.readers().read(move |connection| page(connection, session, after, bytes)).await
    }

    /// Removes the changes of a session up to a number from the outbox.
    pub async fn remove_outbox(&self, session: SessionId, upto: u64) -> Result<(), Error> {
        self.change(Mutation::RemoveOutbox(session, upto)).await.map(drop)
    }

    /// The number of the last change of a session; 0 if there is no such session or its changes are not
    /// counted.
    pub async fn change_number(&self, session: SessionId) -> Result<u64, Error> {
        let head = self.readers().read(move |connection| query::head(connection, session)).await?;
        Ok(head.map_or(0, |head| head.changes))
    }

    /// A counter that increases when there may be something new in the outbox.
    pub fn outbox_changes(&self) -> watch::Receiver<u64> {
        self.shared().outbox.subscribe()
    }

    /// A counter that increases when there may be something new in the outbox besides
    /// [transient](JournalChange::is_transient) changes.
    pub fn urgent_outbox_changes(&self) -> watch::Receiver<u64> {
        self.shared().urgent_outbox.subscribe()
    }

    /// Replays changes of a session that another journal made, and changes the state of a follower in the
    /// same transaction, completely or not at all. `first` is the number of the first change; with any
    /// number but the next one this fails with [`Error::OutOfOrder`].
    pub async fn apply(
        &self,
        session: SessionId,
        first: u64,
        changes: Vec<JournalChange<'static>>,
        follower: &str,
        state: Vec<StateChange>,
    ) -> Result<Seq, Error> {
        let follower = follower.to_owned();
        let replay = ReplayedChanges { session, first, changes, follower, state };
        self.change(Mutation::Apply(replay)).await
    }

    /// Removes a session of another machine with its rows in the outbox, and changes the state of a follower in
    /// the same transaction. The session can then be replayed from its first change on.
    pub async fn discard_replayed(
        &self,
        session: SessionId,
        follower: &str,
        state: Vec<StateChange>,
    ) -> Result<(), Error> {
        self.change(Mutation::DiscardReplayed(session, follower.to_owned(), state)).await.map(drop)
    }
}

impl WriteTransaction<'_> {
    /// Whether the file has an outbox.
    pub(crate) fn keeps_outbox(&mut self) -> Result<bool, Error> {
        if let Some(kept) = self.outbox_kept {
            return Ok(kept);
        }
        let kept = is_kept(self.connection)?;
        self.outbox_kept = Some(kept);
        Ok(kept)
    }

    /// Numbers a change of a session whose changes are counted, and puts it into the outbox.
    pub(crate) fn record<'a>(
        &mut self,
        session: SessionId,
        change: impl FnOnce() -> JournalChange<'a>,
    ) -> Result<(), Error> {
        let counted = self.pending(session)?.head.changes > 0;
        if self.replaying {
            let pending = self.pending(session)?;
            pending.head.changes += 1;
            pending.numbered = true;
        } else if counted && self.keeps_outbox()? {
            self.put_numbered(session, &change())?;
        }
        Ok(())
    }

    /// Puts a change into the outbox under the next number.
    pub(crate) fn put_numbered(
        &mut self,
        session: SessionId,
        change: &JournalChange<'_>,
    ) -> Result<(), Error> {
        let pending = self.pending(session)?;
        pending.head.changes += 1;
        pending.numbered = true;
        let change_number = pending.head.changes;
        self.put_row(session, change_number, change)
    }

    pub(crate) fn put_row(
        &mut self,
        session: SessionId,
        change_number: u64,
        change: &JournalChange<'_>,
    ) -> Result<(), Error> {
        let bytes = change.encode();
        let row: i64 = self
            .connection
            .prepare_cached("SELECT coalesce(max(row), 0) + 1 FROM outbox")?
            .query_row([], |row| row.get(0))?;
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO outbox (row, session, number, bytes) VALUES (?1, ?2, ?3, ?4)",
        )?;
        let place = BlobPlace { table: c"outbox", row };
        place.insert(self.connection, &bytes, |bytes| {
            insert.execute(params![row, session.to_string(), number(change_number), bytes])
        })?;
        self.outbox_filled = true;
        self.outbox_urgent |= !change.is_transient();
        Ok(())
    }

    /// Remembers the number of the last change of a session that is being deleted: another session with its
    /// id goes on counting.
    pub(crate) fn remember_last_change(&mut self, session: SessionId) -> Result<(), Error> {
        let changes = self.pending(session)?.head.changes;
        if changes > 0 {
            let value = Some(changes.to_string().into_bytes());
            let key = session.to_string();
            self.write_state(DELETED_FOLLOWER, &[StateChange { key, value }])?;
        }
        Ok(())
    }

    /// The number of the last change of a session that was deleted; 0 if there was none.
    pub(crate) fn last_change_of_deleted(&self, session: SessionId) -> Result<u64, Error> {
        let found: Option<Vec<u8>> = self
            .connection
            .prepare_cached("SELECT value FROM state WHERE follower = ?1 AND key = ?2")?
            .query_row([DELETED_FOLLOWER, &session.to_string()], |row| row.get(0))
            .optional()?;
        let text = found.and_then(|value| String::from_utf8(value).ok());
        Ok(text.and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    pub(crate) fn keep_outbox(&mut self, keep: bool) -> Result<Seq, Error> {
        let value = keep.then(|| b"1".to_vec());
        self.write_state(FOLLOWER, &[StateChange { key: KEPT.to_owned(), value }])?;
        self.outbox_kept = Some(keep);
        if !keep {
            self.connection.execute_batch("DELETE FROM outbox; UPDATE session SET changes = 0")?;
            self.connection.execute("DELETE FROM state WHERE follower = ?1", [DELETED_FOLLOWER])?;
            for pending in self.sessions.values_mut() {
                pending.head.changes = 0;
            }
        }
        Ok(Seq(0))
    }

    pub(crate) fn remove_outbox(&mut self, session: SessionId, upto: u64) -> Result<Seq, Error> {
        self.connection
            .prepare_cached("DELETE FROM outbox WHERE session = ?1 AND number <= ?2")?
            .execute(params![session.to_string(), number(upto)])?;
        Ok(Seq(0))
    }

    /// The session in whose outbox the revocation of a grant belongs: its own, or for a grant of a directory
    /// the one in it that was last active.
    pub(crate) fn session_of_grant(&self, grant: uuid::Uuid) -> Result<Option<SessionId>, Error> {
        let found = self
            .connection
            .prepare_cached(
                "SELECT session.id FROM grants JOIN session
                    ON session.id = grants.session
                        OR grants.session IS NULL AND session.directory = grants.directory
                 WHERE grants.id = ?1 AND session.changes > 0
                 ORDER BY session.active DESC, session.key DESC LIMIT 1",
            )?
            .query_row([grant.to_string()], |row| columns::parsed(row, 0))
            .optional()?;
        Ok(found)
    }

    pub(crate) fn discard_replayed(
        &mut self,
        session: SessionId,
        follower: &str,
        state: &[StateChange],
    ) -> Result<Seq, Error> {
        if query::head(self.connection, session)?.is_some() {
            self.remove_session(session)?;
        }
        self.remove_outbox(session, u64::MAX)?;
        let key = session.to_string();
        self.write_state(DELETED_FOLLOWER, &[StateChange { key, value: None }])?;
        self.write_state(follower, state)
    }

    /// Replays changes. Any error rolls the whole transaction back.
    pub(crate) fn replay(&mut self, replay: &ReplayedChanges) -> Result<Seq, Error> {
        self.replaying = true;
        let replayed = self.replay_all(replay);
        self.replaying = false;
        // A rejection would let the transaction go on with the changes before it.
        replayed.map_err(|error| match error {
            Error::NoSuchSession(session) | Error::SessionExists(session) => {
                Error::OutOfOrder { session }
            }
            error => error,
        })
    }

    fn replay_all(&mut self, replay: &ReplayedChanges) -> Result<Seq, Error> {
        let session = replay.session;
        for (change_number, change) in (replay.first..).zip(&replay.changes) {
            self.write_back(session)?;
            let head = query::head(self.connection, session)?;
            let before = match head {
                Some(head) => head.changes,
                None => self.last_change_of_deleted(session)?,
            };
            // A snapshot stands for all changes before it.
            let follows = match change {
                JournalChange::BeginSnapshot(_) => change_number > before,
                _ => change_number == before + 1,
            };
            let out_of_order = !follows
                || change.follows().is_some_and(|last| head.is_none_or(|head| head.last != last));
            if out_of_order {
                return Err(Error::OutOfOrder { session });
            }
            self.replay_one(session, change_number, change)?;
        }
        self.write_state(&replay.follower, &replay.state)?;
        self.write_back(session)?;
        Ok(query::head(self.connection, session)?.map_or(Seq(0), |head| head.last))
    }

    fn replay_one(
        &mut self,
        session: SessionId,
        change_number: u64,
        change: &JournalChange<'static>,
    ) -> Result<(), Error> {
        match change {
            JournalChange::Create(new)
            | JournalChange::BeginImport { new, .. }
            | JournalChange::BeginSnapshot(new)
                if new.id != session =>
            {
                return Err(Error::OutOfOrder { session });
            }
            JournalChange::Create(new) => drop(self.create(new)?),
            JournalChange::Write { batch, .. } => drop(self.write(session, batch)?),
            JournalChange::BeginImport { new, import } => drop(self.begin_import(new, *import)?),
            JournalChange::Import { import, batch, finished_with, .. } => {
                let (import, finished_with) = (*import, *finished_with);
                let batch = Cow::clone(batch).into_owned();
                self.import(&ImportStep { session, import, batch, finished_with })?;
            }
            JournalChange::AddGrant(grant) => {
                self.put_grant(grant)?;
                self.count_replayed(session)?;
            }
            JournalChange::RevokeGrant { grant, at } => {
                self.revoke_grant(*grant, *at)?;
                self.count_replayed(session)?;
            }
            JournalChange::BeginSnapshot(new) => self.begin_snapshot(new, change_number)?,
            JournalChange::SnapshotEntries(entries) => {
                self.write_snapshot_entries(session, entries)?;
                self.count_replayed(session)?;
            }
            JournalChange::FinishSnapshot(records) => {
                self.finish_snapshot(session, records)?;
                self.count_replayed(session)?;
            }
            JournalChange::Delete => drop(self.delete(session)?),
        }
        Ok(())
    }

    fn count_replayed(&mut self, session: SessionId) -> Result<(), Error> {
        self.record(session, || JournalChange::Delete)
    }
}

/// Whether the file has an outbox.
pub(crate) fn is_kept(connection: &Connection) -> Result<bool, Error> {
    Ok(connection
        .prepare_cached("SELECT 1 FROM state WHERE follower = ?1 AND key = ?2")?
        .exists([FOLLOWER, KEPT])?)
}

fn uncounted_sessions(connection: &Connection) -> Result<Vec<SessionId>, Error> {
    let sql = "SELECT id FROM session WHERE changes = 0 AND importing IS NULL ORDER BY key";
    ids(connection, sql)
}

fn outbox_sessions(connection: &Connection) -> Result<Vec<SessionId>, Error> {
    ids(connection, "SELECT DISTINCT session FROM outbox ORDER BY session")
}

fn ids(connection: &Connection, sql: &str) -> Result<Vec<SessionId>, Error> {
    let mut query = connection.prepare_cached(sql)?;
    let mut rows = query.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        match columns::parsed(row, 0) {
            Ok(id) => found.push(id),
            Err(error) => warn!(%error, "left out a session whose id cannot be read"),
        }
    }
    Ok(found)
}

fn page(
    connection: &Connection,
    session: SessionId,
    after: u64,
    bytes: usize,
) -> Result<OutboxPage, Error> {
    let snapshot = connection.unchecked_transaction()?;
    let mut query = snapshot.prepare_cached(
        "SELECT number, length(bytes), row FROM outbox WHERE session = ?1 AND number > ?2
         ORDER BY number",
    )?;
    let mut content = snapshot.prepare_cached("SELECT bytes FROM outbox WHERE row = ?1")?;
    let mut rows = query.query(params![session.to_string(), number(after)])?;
    let mut page = OutboxPage::default();
    let mut left = bytes;
    while let Some(row) = rows.next()? {
        let size = usize::try_from(columns::unsigned(row, 1)?).unwrap_or(usize::MAX);
        if size > left && !page.rows.is_empty() {
            break;
        }
        left = left.saturating_sub(size);
        let found: Vec<u8> = content.query_row([row.get::<_, i64>(2)?], |row| row.get(0))?;
        page.rows.push(OutboxRow { number: columns::unsigned(row, 0)?, bytes: found.into() });
    }
    let head = query::head(&snapshot, session)?;
    let last = snapshot
        .prepare_cached("SELECT coalesce(max(number), 0) FROM outbox WHERE session = ?1")?
        .query_row([session.to_string()], |row| columns::unsigned(row, 0))?;
    page.last = head.map_or(0, |head| head.changes).max(last);
    Ok(page)
}
