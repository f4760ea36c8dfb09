//! Changes that are made in one transaction.
//!
//! Where a session stands is looked up once per group, inside the transaction, and written back at
//! its end: that is what makes a token stream cheap, and it holds even if another process has
//! written to the same session in between.

use std::collections::HashMap;

use rusqlite::{Connection, params};
use tracing::debug;

use crate::batch::{Batch, SessionChange};
use crate::command::{Change, SettledPage};
use crate::entry::{Entry, origin_code};
use crate::error::Error;
use crate::grant::Grant;
use crate::id::{Key, Seq, SessionId};
use crate::memory::Memory;
use crate::prompt::PromptRecord;
use crate::query::{self, Standing};
use crate::request::RequestRecord;
use crate::session::{NewSession, Status};
use crate::stored::{self, json, number, path_bytes};

/// The changes of one transaction, while it is open.
pub(crate) struct Group<'c> {
    connection: &'c Connection,
    sessions: HashMap<SessionId, Touched>,
    deleted: Vec<(SessionId, Key)>,
    settled: Vec<Key>,
}

/// What others must learn once the transaction is committed.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) entries: Vec<(SessionId, Vec<Entry>)>,
    pub(crate) deleted: Vec<(SessionId, Key)>,
    pub(crate) settled: Vec<Key>,
}

/// A session that the group writes to.
struct Touched {
    standing: Standing,
    active: u64,
    change: SessionChange,
    written: bool,
    entries: Vec<Entry>,
}

impl<'c> Group<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Self { connection, sessions: HashMap::new(), deleted: Vec::new(), settled: Vec::new() }
    }

    /// Makes a change. A [refusal](Error::is_refusal) has written nothing; after any other error
    /// the transaction must be given up.
    pub(crate) fn make(&mut self, change: &Change) -> Result<Seq, Error> {
        match change {
            Change::Create(new) => self.create(new),
            Change::Write(session, batch) => self.write(*session, batch),
            Change::Settle(settled) => self.settle(settled),
            Change::AddGrant(grant) => self.add_grant(grant),
            Change::RevokeGrant(id, at) => {
                self.connection
                    .prepare_cached(
                        "UPDATE granted SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL",
                    )?
                    .execute(params![id.to_string(), number(*at)])?;
                Ok(Seq(0))
            }
            Change::Keep(drawer, memories) => self.keep(drawer, memories),
            Change::Delete(session) => self.delete(*session),
        }
    }

    /// Writes back where the sessions stand, after the last change.
    pub(crate) fn finish(self) -> Result<News, Error> {
        let mut news = News { entries: Vec::new(), deleted: self.deleted, settled: self.settled };
        let mut update = self.connection.prepare_cached(
            "UPDATE session SET last = ?2, active = max(active, ?3), title = coalesce(?4, title),
                status = coalesce(?5, status), options = coalesce(?6, options),
                spool_run = coalesce(?7, spool_run), spool_offset = coalesce(?8, spool_offset),
                writes = coalesce(?9, writes), turn = coalesce(?10, turn),
                turn_over = coalesce(?11, turn_over)
             WHERE key = ?1",
        )?;
        for (session, touched) in self.sessions {
            if touched.written {
                let SessionChange {
                    title,
                    status,
                    agent_id: _,
                    options,
                    spool,
                    writes,
                    turn,
                    turn_over,
                    delivered: _,
                } = &touched.change;
                update.execute(params![
                    touched.standing.key.0,
                    number(touched.standing.last.0),
                    number(touched.active),
                    title,
                    status.as_ref().map(json),
                    options,
                    spool.map(|mark| number(mark.run)),
                    spool.map(|mark| number(mark.offset)),
                    writes.map(number),
                    turn.map(number),
                    turn_over.map(number),
                ])?;
                news.entries.push((session, touched.entries));
            }
        }
        Ok(news)
    }

    fn touch(&mut self, session: SessionId) -> Result<&mut Touched, Error> {
        use std::collections::hash_map::Entry::{Occupied, Vacant};
        match self.sessions.entry(session) {
            Occupied(touched) => Ok(touched.into_mut()),
            Vacant(vacant) => {
                let standing = query::standing(self.connection, session)?
                    .ok_or(Error::NoSuchSession(session))?;
                Ok(vacant.insert(Touched {
                    standing,
                    active: 0,
                    change: SessionChange::default(),
                    written: false,
                    entries: Vec::new(),
                }))
            }
        }
    }

    fn create(&mut self, new: &NewSession) -> Result<Seq, Error> {
        if query::standing(self.connection, new.id)?.is_some() {
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
                json(&Status::default()),
                new.options,
                number(new.at),
            ])?;
        Ok(Seq(0))
    }

    fn write(&mut self, session: SessionId, batch: &Batch) -> Result<Seq, Error> {
        let connection = self.connection;
        let touched = self.touch(session)?;
        let key = touched.standing.key;
        let mut insert = connection.prepare_cached(
            "INSERT INTO entry (place, at, origin, bytes) VALUES (?1, ?2, ?3, ?4)",
        )?;
        for new in &batch.entries {
            let seq = touched.standing.last.next();
            insert.execute(params![
                key.place(seq),
                number(batch.at),
                origin_code(new.origin),
                &new.bytes[..]
            ])?;
            touched.standing.last = seq;
            touched.entries.push(Entry {
                seq,
                at: batch.at,
                origin: new.origin,
                bytes: new.bytes.clone(),
            });
        }
        touched.written = true;
        touched.active = touched.active.max(batch.at);
        touched.change.then(&batch.change);
        let last = touched.standing.last;
        for prompt in &batch.prompts {
            self.put_prompt(key, prompt)?;
        }
        for request in &batch.requests {
            self.put_request(key, request)?;
        }
        self.put_outbound(key, batch)?;
        if let Some(id) = &batch.change.agent_id {
            connection
                .prepare_cached("INSERT OR IGNORE INTO agent_id (session, id) VALUES (?1, ?2)")?
                .execute(params![key.0, id])?;
        }
        Ok(last)
    }

    fn put_prompt(&self, key: Key, prompt: &PromptRecord) -> Result<(), Error> {
        self.connection
            .prepare_cached(
                "INSERT INTO prompt (session, id, place, text, content, delivery, state, open, by,
                    turn, created, changed)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
                 ON CONFLICT (session, id) DO UPDATE SET place = excluded.place,
                    text = excluded.text, content = excluded.content,
                    delivery = excluded.delivery, state = excluded.state, open = excluded.open,
                    by = excluded.by, turn = excluded.turn, created = excluded.created,
                    changed = excluded.changed",
            )?
            .execute(params![
                key.0,
                prompt.id.to_string(),
                prompt.place,
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

    /// Forgets the lines that reached the agent, then keeps the new ones: with another process their
    /// numbers begin again.
    fn put_outbound(&self, key: Key, batch: &Batch) -> Result<(), Error> {
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

    fn put_request(&self, key: Key, request: &RequestRecord) -> Result<(), Error> {
        let resolution = request.resolution.as_ref();
        self.connection
            .prepare_cached(
                "INSERT INTO request (session, id, wants, tool_name, tool_use_id, input,
                    suggestions, agent, opened, expires, outcome, by, message, resolved)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
                 ON CONFLICT (session, id) DO UPDATE SET wants = excluded.wants,
                    tool_name = excluded.tool_name, tool_use_id = excluded.tool_use_id,
                    input = excluded.input, suggestions = excluded.suggestions,
                    agent = excluded.agent, opened = excluded.opened, expires = excluded.expires,
                    outcome = excluded.outcome, by = excluded.by, message = excluded.message,
                    resolved = excluded.resolved",
            )?
            .execute(params![
                key.0,
                request.id,
                json(&request.wants),
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

    fn settle(&mut self, settled: &SettledPage) -> Result<Seq, Error> {
        let connection = self.connection;
        let standing = &mut self.touch(settled.session)?.standing;
        if standing.settled != settled.from {
            debug!(session = %settled.session, "settled by somebody else meanwhile");
            return Ok(standing.settled);
        }
        let key = standing.key;
        if let Some(replaced) = settled.replaces {
            connection
                .prepare_cached("DELETE FROM page WHERE place = ?1")?
                .execute([key.place(replaced)])?;
        }
        if let Some((last, page)) = &settled.page {
            connection
                .prepare_cached("INSERT INTO page (place, raw, bytes) VALUES (?1, ?2, ?3)")?
                .execute(params![key.place(*last), number(page.raw as u64), page.bytes])?;
        }
        connection
            .prepare_cached("UPDATE session SET settled = ?2 WHERE key = ?1")?
            .execute(params![key.0, number(settled.to.0)])?;
        standing.settled = settled.to;
        self.settled.push(key);
        Ok(settled.to)
    }

    fn add_grant(&mut self, grant: &Grant) -> Result<Seq, Error> {
        self.connection
            .prepare_cached(
                "INSERT OR REPLACE INTO granted
                    (id, session, directory, tool, pattern, until, by, created)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                grant.id.to_string(),
                grant.session.map(|session| session.to_string()),
                grant.directory.as_deref().map(stored::path_bytes),
                grant.tool,
                grant.pattern,
                grant.until.map(number),
                json(&grant.by),
                number(grant.created),
            ])?;
        Ok(Seq(0))
    }

    fn keep(&mut self, drawer: &str, memories: &[Memory]) -> Result<Seq, Error> {
        for Memory { name, value } in memories {
            match value {
                Some(value) => self
                    .connection
                    .prepare_cached(
                        "INSERT INTO kept (drawer, name, value) VALUES (?1, ?2, ?3)
                         ON CONFLICT (drawer, name) DO UPDATE SET value = excluded.value",
                    )?
                    .execute(params![drawer, name, value])?,
                None => self
                    .connection
                    .prepare_cached("DELETE FROM kept WHERE drawer = ?1 AND name = ?2")?
                    .execute([drawer, name])?,
            };
        }
        Ok(Seq(0))
    }

    /// Takes the session away at once; its entries, of which there may be many, are removed later.
    fn delete(&mut self, session: SessionId) -> Result<Seq, Error> {
        let key = self.touch(session)?.standing.key;
        self.sessions.remove(&session);
        for sql in [
            "DELETE FROM prompt WHERE session = ?1",
            "DELETE FROM request WHERE session = ?1",
            "DELETE FROM outbound WHERE session = ?1",
            "DELETE FROM agent_id WHERE session = ?1",
            "DELETE FROM session WHERE key = ?1",
            "INSERT INTO remains (session) VALUES (?1)",
        ] {
            self.connection.prepare_cached(sql)?.execute([key.0])?;
        }
        self.connection
            .prepare_cached("DELETE FROM granted WHERE session = ?1")?
            .execute([session.to_string()])?;
        self.deleted.push((session, key));
        Ok(Seq(0))
    }
}
