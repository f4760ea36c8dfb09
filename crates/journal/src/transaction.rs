//! One write transaction: the mutations that are committed together.
//!
//! The head of a session is read once per transaction and written back at its end. That makes a token
//! stream cheap, and is correct even if another process has written to the session in between.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::CStr;

use rusqlite::blob::ZeroBlob;
use rusqlite::types::ToSql;
use rusqlite::{Connection, MAIN_DB, params};
use tracing::debug;
use uuid::Uuid;
use wire::Origin;

use crate::batch::{Batch, SessionChange};
use crate::change::JournalChange;
use crate::columns::{json, number, path_bytes};
use crate::error::Error;
use crate::id::{Seq, SessionId, SessionKey};
use crate::query::{self, SessionHead};
use crate::records::{Entry, NewSession, SessionStatus, StateChange, origin_code};
use crate::writer::{Mutation, NewSegment};

/// A write transaction while it is open.
pub(crate) struct WriteTransaction<'c> {
    pub(crate) connection: &'c Connection,
    pub(crate) sessions: HashMap<SessionId, PendingSession>,
    deleted: Vec<(SessionId, SessionKey)>,
    compacted: Vec<SessionKey>,
    /// Whether the file has an outbox, once that was read.
    pub(crate) outbox_kept: Option<bool>,
    /// Whether something was put into the outbox.
    pub(crate) outbox_filled: bool,
    /// Whether some of that is not [transient](JournalChange::is_transient).
    pub(crate) outbox_urgent: bool,
    /// Whether changes of another journal are replayed, which have their numbers already.
    pub(crate) replaying: bool,
}

/// What the writer does after the commit.
#[derive(Debug, Default)]
pub(crate) struct CommitEvents {
    pub(crate) entries: Vec<(SessionId, Vec<Entry>)>,
    pub(crate) deleted: Vec<(SessionId, SessionKey)>,
    pub(crate) compacted: Vec<SessionKey>,
    /// Whether the file has an outbox, if the transaction has found out.
    pub(crate) outbox_kept: Option<bool>,
    pub(crate) outbox_filled: bool,
    pub(crate) outbox_urgent: bool,
}

/// A session that the transaction writes to.
pub(crate) struct PendingSession {
    pub(crate) head: SessionHead,
    pub(crate) active: u64,
    pub(crate) change: SessionChange,
    pub(crate) written: bool,
    /// Whether a change of it was numbered.
    pub(crate) numbered: bool,
    entries: Vec<Entry>,
}

/// Bytes from this size on are written in place. To bind them to a statement would copy them twice.
const WRITTEN_IN_PLACE: usize = 8 << 20;

/// The column `bytes` of a row.
pub(crate) struct BlobPlace {
    pub(crate) table: &'static CStr,
    pub(crate) row: i64,
}

impl BlobPlace {
    /// Inserts a row with the statement, which gets the value of the column.
    pub(crate) fn insert(
        &self,
        connection: &Connection,
        bytes: &[u8],
        statement: impl FnOnce(&dyn ToSql) -> rusqlite::Result<usize>,
    ) -> Result<(), Error> {
        if bytes.len() < WRITTEN_IN_PLACE {
            statement(&bytes)?;
            return Ok(());
        }
        statement(&ZeroBlob(bytes.len() as u64))?;
        let mut blob = connection.blob_open(MAIN_DB, self.table, c"bytes", self.row, false)?;
        blob.write_all_at(bytes, 0)?;
        Ok(blob.close()?)
    }
}

impl<'c> WriteTransaction<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Self {
            connection,
            sessions: HashMap::new(),
            deleted: Vec::new(),
            compacted: Vec::new(),
            outbox_kept: None,
            outbox_filled: false,
            outbox_urgent: false,
            replaying: false,
        }
    }

    /// Applies a mutation. A [rejection](Error::is_rejection) has written nothing; after any other
    /// error the transaction must be rolled back.
    pub(crate) fn apply(&mut self, mutation: &Mutation) -> Result<Seq, Error> {
        match mutation {
            Mutation::Create(new) => self.create(new),
            Mutation::Write(session, batch) => self.write(*session, batch),
            Mutation::Compact(segment) => self.compact(segment),
            Mutation::AddGrant(grant) => {
                self.put_grant(grant)?;
                self.record_grant(grant.id, || JournalChange::AddGrant(Cow::Borrowed(grant)))
            }
            Mutation::RevokeGrant(id, at) => {
                self.revoke_grant(*id, *at)?;
                self.record_grant(*id, || JournalChange::RevokeGrant { grant: *id, at: *at })
            }
            Mutation::WriteState(follower, changes) => self.write_state(follower, changes),
            Mutation::Delete(session) => self.delete(*session),
            Mutation::BeginImport(new, import) => self.begin_import(new, *import),
            Mutation::Import(step) => self.import(step),
            Mutation::KeepOutbox(keep) => self.keep_outbox(*keep),
            Mutation::PutSnapshot(session) => self.put_snapshot(*session),
            Mutation::RemoveOutbox(session, upto) => self.remove_outbox(*session, *upto),
            Mutation::Apply(replay) => self.replay(replay),
            Mutation::DiscardReplayed(session, follower, state) => {
                self.discard_replayed(*session, follower, state)
            }
        }
    }

    /// Writes the heads of the sessions back, after the last mutation.
    pub(crate) fn finish(self) -> Result<CommitEvents, Error> {
        let written: Vec<SessionId> = self.sessions.keys().copied().collect();
        for session in written {
            self.write_back(session)?;
        }
        let Self {
            sessions, deleted, compacted, outbox_kept, outbox_filled, outbox_urgent, ..
        } = self;
        let entries = sessions.into_iter().filter(|(_, pending)| pending.written);
        Ok(CommitEvents {
            entries: entries.map(|(session, pending)| (session, pending.entries)).collect(),
            deleted,
            compacted,
            outbox_kept,
            outbox_filled,
            outbox_urgent,
        })
    }

    /// Writes the head of a session back, if the transaction has changed it.
    pub(crate) fn write_back(&self, session: SessionId) -> Result<(), Error> {
        let Some(pending) = self.sessions.get(&session) else { return Ok(()) };
        let key = pending.head.key.0;
        if pending.numbered {
            self.connection
                .prepare_cached("UPDATE session SET changes = ?2 WHERE key = ?1")?
                .execute(params![key, number(pending.head.changes)])?;
        }
        if !pending.written {
            return Ok(());
        }
        let SessionChange {
            title,
            status,
            agent_id: _,
            options,
            spool,
            writes,
            turn,
            turn_ended,
            agent_state,
            delivered: _,
            directory,
        } = &pending.change;
        self.connection
            .prepare_cached(
                "UPDATE session SET last = ?2, active = max(active, ?3),
                    title = coalesce(?4, title), status = coalesce(?5, status),
                    options = coalesce(?6, options), spool_run = coalesce(?7, spool_run),
                    spool_offset = coalesce(?8, spool_offset), writes = coalesce(?9, writes),
                    turn = coalesce(?10, turn), turn_ended = coalesce(?11, turn_ended),
                    agent_state = coalesce(?12, agent_state), directory = coalesce(?13, directory)
                 WHERE key = ?1",
            )?
            .execute(params![
                key,
                number(pending.head.last.0),
                number(pending.active),
                title,
                status.as_ref().map(json),
                options,
                spool.map(|mark| number(mark.run)),
                spool.map(|mark| number(mark.offset)),
                writes.map(number),
                turn.map(number),
                turn_ended.map(number),
                agent_state,
                directory.as_deref().map(path_bytes),
            ])?;
        Ok(())
    }

    pub(crate) fn pending(&mut self, session: SessionId) -> Result<&mut PendingSession, Error> {
        use std::collections::hash_map::Entry::{Occupied, Vacant};
        match self.sessions.entry(session) {
            Occupied(pending) => Ok(pending.into_mut()),
            Vacant(vacant) => {
                let head =
                    query::head(self.connection, session)?.ok_or(Error::NoSuchSession(session))?;
                Ok(vacant.insert(PendingSession {
                    head,
                    active: 0,
                    change: SessionChange::default(),
                    written: false,
                    numbered: false,
                    entries: Vec::new(),
                }))
            }
        }
    }

    pub(crate) fn create(&mut self, new: &NewSession) -> Result<Seq, Error> {
        if query::head(self.connection, new.id)?.is_some() {
            return Err(Error::SessionExists(new.id));
        }
        let change_number = 1 + self.last_change_of_deleted(new.id)?;
        self.create_numbered(new, change_number, || JournalChange::Create(Cow::Borrowed(new)))
    }

    /// Creates a session. If its changes are counted, this one has the given number.
    pub(crate) fn create_numbered<'a>(
        &mut self,
        new: &NewSession,
        change_number: u64,
        change: impl FnOnce() -> JournalChange<'a>,
    ) -> Result<Seq, Error> {
        let counted = self.replaying || self.keeps_outbox()?;
        self.insert_session(new, if counted { change_number } else { 0 })?;
        if counted && !self.replaying {
            self.put_row(new.id, change_number, &change())?;
        }
        Ok(Seq(0))
    }

    pub(crate) fn insert_session(&self, new: &NewSession, changes: u64) -> Result<(), Error> {
        self.connection
            .prepare_cached(
                "INSERT INTO session (id, directory, title, status, options, created, active, changes)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7)",
            )?
            .execute(params![
                new.id.to_string(),
                path_bytes(&new.directory),
                new.title,
                json(&SessionStatus::default()),
                new.options,
                number(new.at),
                number(changes),
            ])?;
        Ok(())
    }

    pub(crate) fn write(&mut self, session: SessionId, batch: &Batch) -> Result<Seq, Error> {
        let first = self.pending(session)?.head.last.next();
        let last = self.write_batch(session, batch)?;
        self.record(session, || JournalChange::Write { first, batch: Cow::Borrowed(batch) })?;
        Ok(last)
    }

    pub(crate) fn write_batch(&mut self, session: SessionId, batch: &Batch) -> Result<Seq, Error> {
        let connection = self.connection;
        let pending = self.pending(session)?;
        let key = pending.head.key;
        let mut insert = connection
            .prepare_cached("INSERT INTO entry (row, at, origin, bytes) VALUES (?1, ?2, ?3, ?4)")?;
        for (position, new) in batch.entries.iter().enumerate() {
            let seq = pending.head.last.next();
            let continues = new.origin != Origin::Towpath && batch.unfinished.contains(&position);
            let origin = origin_code(new.origin, continues);
            let place = BlobPlace { table: c"entry", row: key.row(seq) };
            place.insert(connection, &new.bytes, |bytes| {
                insert.execute(params![place.row, number(batch.at), origin, bytes])
            })?;
            pending.head.last = seq;
            pending.entries.push(Entry {
                seq,
                at: batch.at,
                origin: new.origin,
                bytes: new.bytes.clone(),
                continues,
                omitted: 0,
            });
        }
        pending.written = true;
        pending.active = pending.active.max(batch.at);
        pending.change.merge(&batch.change);
        let last = pending.head.last;
        for prompt in &batch.prompts {
            self.put_prompt(key, prompt)?;
        }
        for request in &batch.requests {
            self.put_request(key, request)?;
        }
        self.put_outbound(key, batch)?;
        for grant in &batch.grants {
            self.put_grant(grant)?;
        }
        if batch.cost > 0.0 {
            self.add_cost(session, batch.at, batch.cost)?;
        }
        if let Some(id) = &batch.change.agent_id {
            self.put_agent_id(key, id)?;
        }
        Ok(last)
    }

    fn compact(&mut self, new: &NewSegment) -> Result<Seq, Error> {
        let connection = self.connection;
        let head = &mut self.pending(new.session)?.head;
        if head.compacted != new.from {
            debug!(session = %new.session, "another process compacted the session meanwhile");
            return Ok(head.compacted);
        }
        let key = head.key;
        if let Some(replaced) = new.replaces {
            connection
                .prepare_cached("DELETE FROM segment WHERE row = ?1")?
                .execute([key.row(replaced)])?;
        }
        if let Some((last, segment)) = &new.segment {
            let mut insert = connection
                .prepare_cached("INSERT INTO segment (row, raw, bytes) VALUES (?1, ?2, ?3)")?;
            let place = BlobPlace { table: c"segment", row: key.row(*last) };
            place.insert(connection, &segment.bytes, |bytes| {
                insert.execute(params![place.row, number(segment.raw as u64), bytes])
            })?;
        }
        connection
            .prepare_cached("UPDATE session SET compacted = ?2 WHERE key = ?1")?
            .execute(params![key.0, number(new.to.0)])?;
        head.compacted = new.to;
        self.compacted.push(key);
        Ok(new.to)
    }

    /// Records a change of a grant outside a batch with the session that it concerns.
    fn record_grant<'a>(
        &mut self,
        grant: Uuid,
        change: impl FnOnce() -> JournalChange<'a>,
    ) -> Result<Seq, Error> {
        if self.keeps_outbox()?
            && let Some(session) = self.session_of_grant(grant)?
        {
            self.record(session, change)?;
        }
        Ok(Seq(0))
    }

    pub(crate) fn write_state(
        &mut self,
        follower: &str,
        changes: &[StateChange],
    ) -> Result<Seq, Error> {
        for StateChange { key, value } in changes {
            match value {
                Some(value) => self
                    .connection
                    .prepare_cached(
                        "INSERT INTO state (follower, key, value) VALUES (?1, ?2, ?3)
                         ON CONFLICT (follower, key) DO UPDATE SET value = excluded.value",
                    )?
                    .execute(params![follower, key, value])?,
                None => self
                    .connection
                    .prepare_cached("DELETE FROM state WHERE follower = ?1 AND key = ?2")?
                    .execute([follower, key])?,
            };
        }
        Ok(Seq(0))
    }

    /// Deletes the session at once. Maintenance deletes its entries, of which there may be many.
    pub(crate) fn delete(&mut self, session: SessionId) -> Result<Seq, Error> {
        self.record(session, || JournalChange::Delete)?;
        self.remember_last_change(session)?;
        self.remove_session(session)?;
        Ok(Seq(0))
    }

    pub(crate) fn remove_session(&mut self, session: SessionId) -> Result<(), Error> {
        let key = self.pending(session)?.head.key;
        self.sessions.remove(&session);
        for sql in [
            "DELETE FROM prompt WHERE session = ?1",
            "DELETE FROM request WHERE session = ?1",
            "DELETE FROM outbound WHERE session = ?1",
            "DELETE FROM agent_id WHERE session = ?1",
            "DELETE FROM session WHERE key = ?1",
            "INSERT INTO deleted_session (session) VALUES (?1)",
        ] {
            self.connection.prepare_cached(sql)?.execute([key.0])?;
        }
        self.connection
            .prepare_cached("DELETE FROM grants WHERE session = ?1")?
            .execute([session.to_string()])?;
        self.deleted.push((session, key));
        Ok(())
    }
}
