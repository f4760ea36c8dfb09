//! One write transaction: the mutations that are committed together.
//!
//! The head of a session is read once per transaction and written back at its end. That makes a token
//! stream cheap, and is correct even if another process has written to the session in between.

use std::collections::HashMap;
use std::ffi::CStr;

use rusqlite::blob::ZeroBlob;
use rusqlite::types::ToSql;
use rusqlite::{Connection, MAIN_DB, params};
use tracing::debug;
use wire::Origin;

use crate::batch::{Batch, SessionChange};
use crate::columns::{json, number, path_bytes};
use crate::error::Error;
use crate::id::{Seq, SessionId, SessionKey};
use crate::query::{self, SessionHead};
use crate::records::{
    Entry, Grant, NewSession, PromptRecord, RequestRecord, SessionStatus, StateChange, origin_code,
};
use crate::writer::{Mutation, NewSegment};

/// A write transaction while it is open.
pub(crate) struct WriteTransaction<'c> {
    connection: &'c Connection,
    sessions: HashMap<SessionId, PendingSession>,
    deleted: Vec<(SessionId, SessionKey)>,
    compacted: Vec<SessionKey>,
}

/// What the writer does after the commit.
#[derive(Debug, Default)]
pub(crate) struct CommitEvents {
    pub(crate) entries: Vec<(SessionId, Vec<Entry>)>,
    pub(crate) deleted: Vec<(SessionId, SessionKey)>,
    pub(crate) compacted: Vec<SessionKey>,
}

/// A session that the transaction writes to.
struct PendingSession {
    head: SessionHead,
    active: u64,
    change: SessionChange,
    written: bool,
    entries: Vec<Entry>,
}

/// Bytes from this size on are written in place. To bind them to a statement would copy them twice.
const WRITTEN_IN_PLACE: usize = 8 << 20;

/// The column `bytes` of a row.
struct BlobPlace {
    table: &'static CStr,
    row: i64,
}

impl BlobPlace {
    /// Inserts a row with the statement, which gets the value of the column.
    fn insert(
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
        Self { connection, sessions: HashMap::new(), deleted: Vec::new(), compacted: Vec::new() }
    }

    /// Applies a mutation. A [rejection](Error::is_rejection) has written nothing; after any other
    /// error the transaction must be rolled back.
    pub(crate) fn apply(&mut self, mutation: &Mutation) -> Result<Seq, Error> {
        match mutation {
            Mutation::Create(new) => self.create(new),
            Mutation::Write(session, batch) => self.write(*session, batch),
            Mutation::Compact(segment) => self.compact(segment),
            Mutation::AddGrant(grant) => self.put_grant(grant).map(|()| Seq(0)),
            Mutation::RevokeGrant(id, at) => {
                self.connection
                    .prepare_cached(
                        "UPDATE grants SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL",
                    )?
                    .execute(params![id.to_string(), number(*at)])?;
                Ok(Seq(0))
            }
            Mutation::WriteState(follower, changes) => self.write_state(follower, changes),
            Mutation::Delete(session) => self.delete(*session),
        }
    }

    /// Writes the heads of the sessions back, after the last mutation.
    pub(crate) fn finish(self) -> Result<CommitEvents, Error> {
        let mut events =
            CommitEvents { entries: Vec::new(), deleted: self.deleted, compacted: self.compacted };
        let mut update = self.connection.prepare_cached(
            "UPDATE session SET last = ?2, active = max(active, ?3), title = coalesce(?4, title),
                status = coalesce(?5, status), options = coalesce(?6, options),
                spool_run = coalesce(?7, spool_run), spool_offset = coalesce(?8, spool_offset),
                writes = coalesce(?9, writes), turn = coalesce(?10, turn),
                turn_ended = coalesce(?11, turn_ended)
             WHERE key = ?1",
        )?;
        for (session, pending) in self.sessions {
            if pending.written {
                let SessionChange {
                    title,
                    status,
                    agent_id: _,
                    options,
                    spool,
                    writes,
                    turn,
                    turn_ended,
                    delivered: _,
                } = &pending.change;
                update.execute(params![
                    pending.head.key.0,
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
                ])?;
                events.entries.push((session, pending.entries));
            }
        }
        Ok(events)
    }

    fn pending(&mut self, session: SessionId) -> Result<&mut PendingSession, Error> {
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
                    entries: Vec::new(),
                }))
            }
        }
    }

    fn create(&mut self, new: &NewSession) -> Result<Seq, Error> {
        if query::head(self.connection, new.id)?.is_some() {
            return Err(Error::SessionExists(new.id));
        }
        self.connection
            .prepare_cached(
                "INSERT INTO session (id, directory, title, status, options, created, active)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
            )?
            .execute(params![
                new.id.to_string(),
                path_bytes(&new.directory),
                new.title,
                json(&SessionStatus::default()),
                new.options,
                number(new.at),
            ])?;
        Ok(Seq(0))
    }

    fn write(&mut self, session: SessionId, batch: &Batch) -> Result<Seq, Error> {
        let connection = self.connection;
        let pending = self.pending(session)?;
        let key = pending.head.key;
        let mut insert = connection
            .prepare_cached("INSERT INTO entry (row, at, origin, bytes) VALUES (?1, ?2, ?3, ?4)")?;
        for (position, new) in batch.entries.iter().enumerate() {
            let seq = pending.head.last.next();
            let continues = new.origin == Origin::Agent && batch.unfinished.contains(&position);
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
        if let Some(id) = &batch.change.agent_id {
            connection
                .prepare_cached("INSERT OR IGNORE INTO agent_id (session, id) VALUES (?1, ?2)")?
                .execute(params![key.0, id])?;
        }
        Ok(last)
    }

    fn put_prompt(&self, key: SessionKey, prompt: &PromptRecord) -> Result<(), Error> {
        self.connection
            .prepare_cached(
                "INSERT INTO prompt (session, id, position, text, content, delivery, state, open, by,
                    turn, created, changed)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
                 ON CONFLICT (session, id) DO UPDATE SET position = excluded.position,
                    text = excluded.text, content = excluded.content,
                    delivery = excluded.delivery, state = excluded.state, open = excluded.open,
                    by = excluded.by, turn = excluded.turn, created = excluded.created,
                    changed = excluded.changed",
            )?
            .execute(params![
                key.0,
                prompt.id.to_string(),
                prompt.position,
                prompt.text,
                prompt.content,
                json(&prompt.delivery),
                json(&prompt.state),
                !prompt.state.is_final(),
                json(&prompt.by),
                prompt.turn.map(number),
                number(prompt.created),
                number(prompt.changed),
            ])?;
        Ok(())
    }

    /// Deletes the lines that reached the agent before it inserts new ones: the numbers start again
    /// with every agent process.
    fn put_outbound(&self, key: SessionKey, batch: &Batch) -> Result<(), Error> {
        if let Some(delivered) = batch.change.delivered {
            self.connection
                .prepare_cached("DELETE FROM outbound WHERE session = ?1 AND number <= ?2")?
                .execute(params![key.0, number(delivered)])?;
        }
        for line in &batch.outbound {
            self.connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO outbound (session, number, bytes) VALUES (?1, ?2, ?3)",
                )?
                .execute(params![key.0, number(line.number), &line.bytes[..]])?;
        }
        Ok(())
    }

    fn put_request(&self, key: SessionKey, request: &RequestRecord) -> Result<(), Error> {
        let resolution = request.resolution.as_ref();
        self.connection
            .prepare_cached(
                "INSERT INTO request (session, id, kind, tool_name, tool_use_id, input,
                    suggestions, agent, opened, expires, outcome, by, message, resolved)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
                 ON CONFLICT (session, id) DO UPDATE SET kind = excluded.kind,
                    tool_name = excluded.tool_name, tool_use_id = excluded.tool_use_id,
                    input = excluded.input, suggestions = excluded.suggestions,
                    agent = excluded.agent, opened = excluded.opened, expires = excluded.expires,
                    outcome = excluded.outcome, by = excluded.by, message = excluded.message,
                    resolved = excluded.resolved",
            )?
            .execute(params![
                key.0,
                request.id,
                json(&request.kind),
                request.tool_name,
                request.tool_use_id,
                request.input,
                request.suggestions,
                request.agent,
                number(request.opened),
                request.expires.map(number),
                resolution.map(|resolution| json(&resolution.outcome)),
                resolution.and_then(|resolution| resolution.by.as_ref()).map(json),
                resolution.and_then(|resolution| resolution.message.as_ref()),
                resolution.map(|resolution| number(resolution.at)),
            ])?;
        Ok(())
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

    fn put_grant(&self, grant: &Grant) -> Result<(), Error> {
        self.connection
            .prepare_cached(
                "INSERT OR REPLACE INTO grants
                    (id, session, directory, tool, pattern, until, by, created)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                grant.id.to_string(),
                grant.session.map(|session| session.to_string()),
                grant.directory.as_deref().map(path_bytes),
                grant.tool,
                grant.pattern,
                grant.until.map(number),
                json(&grant.by),
                number(grant.created),
            ])?;
        Ok(())
    }

    fn write_state(&mut self, follower: &str, changes: &[StateChange]) -> Result<Seq, Error> {
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
    fn delete(&mut self, session: SessionId) -> Result<Seq, Error> {
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
        Ok(Seq(0))
    }
}
