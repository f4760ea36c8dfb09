//! Rows beside a session's entries: prompts, lines to the agent, requests, grants, ids and costs.

use rusqlite::params;
use uuid::Uuid;

use crate::batch::{Batch, OutboundLine};
use crate::columns::{json, number, path_bytes};
use crate::error::Error;
use crate::id::{SessionId, SessionKey};
use crate::records::{Grant, PromptRecord, RequestRecord};
use crate::transaction::WriteTransaction;

/// The milliseconds of a day.
const DAY: u64 = 24 * 60 * 60 * 1000;

impl WriteTransaction<'_> {
    pub(crate) fn put_agent_id(&self, key: SessionKey, id: &str) -> Result<(), Error> {
        self.connection
            .prepare_cached("INSERT OR IGNORE INTO agent_id (session, id) VALUES (?1, ?2)")?
            .execute(params![key.0, id])?;
        Ok(())
    }

    pub(crate) fn add_cost(&self, session: SessionId, at: u64, dollars: f64) -> Result<(), Error> {
        self.connection
            .prepare_cached(
                "INSERT INTO cost (day, session, dollars) VALUES (?1, ?2, ?3)
                 ON CONFLICT (day, session) DO UPDATE SET dollars = dollars + excluded.dollars",
            )?
            .execute(params![number(at / DAY), session.to_string(), dollars])?;
        Ok(())
    }

    pub(crate) fn put_prompt(&self, key: SessionKey, prompt: &PromptRecord) -> Result<(), Error> {
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
    pub(crate) fn put_outbound(&self, key: SessionKey, batch: &Batch) -> Result<(), Error> {
        if let Some(delivered) = batch.change.delivered {
            self.connection
                .prepare_cached("DELETE FROM outbound WHERE session = ?1 AND number <= ?2")?
                .execute(params![key.0, number(delivered)])?;
        }
        self.put_lines(key, &batch.outbound)
    }

    pub(crate) fn put_lines(&self, key: SessionKey, lines: &[OutboundLine]) -> Result<(), Error> {
        for line in lines {
            self.connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO outbound (session, number, bytes) VALUES (?1, ?2, ?3)",
                )?
                .execute(params![key.0, number(line.number), &line.bytes[..]])?;
        }
        Ok(())
    }

    pub(crate) fn put_request(
        &self,
        key: SessionKey,
        request: &RequestRecord,
    ) -> Result<(), Error> {
        let resolution = request.resolution.as_ref();
        self.connection
            .prepare_cached(
                "INSERT INTO request (session, id, kind, tool_name, tool_use_id, input,
                    suggestions, agent, opened, expires, outcome, by, message, resolved,
                    choices)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
                 ON CONFLICT (session, id) DO UPDATE SET kind = excluded.kind,
                    tool_name = excluded.tool_name, tool_use_id = excluded.tool_use_id,
                    input = excluded.input, suggestions = excluded.suggestions,
                    agent = excluded.agent, opened = excluded.opened, expires = excluded.expires,
                    outcome = excluded.outcome, by = excluded.by, message = excluded.message,
                    resolved = excluded.resolved, choices = excluded.choices",
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
                (!request.choices.is_empty()).then(|| json(&request.choices)),
            ])?;
        Ok(())
    }

    pub(crate) fn put_grant(&self, grant: &Grant) -> Result<(), Error> {
        self.connection
            .prepare_cached(
                // Only a new id allows what was revoked.
                "INSERT INTO grants (id, session, directory, tool, pattern, until, by, created, kind)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
                 ON CONFLICT (id) DO UPDATE SET session = ?2, directory = ?3, tool = ?4, pattern = ?5,
                    until = ?6, by = ?7, created = ?8, kind = ?9 WHERE revoked IS NULL",
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
                grant.kind.name(),
            ])?;
        Ok(())
    }

    pub(crate) fn revoke_grant(&self, id: Uuid, at: u64) -> Result<(), Error> {
        self.connection
            .prepare_cached("UPDATE grants SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL")?
            .execute(params![id.to_string(), number(at)])?;
        Ok(())
    }
}
