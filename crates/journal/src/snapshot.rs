//! A session as a whole, for journals that do not have its beginning.
//!
//! A session may be larger than memory, so its snapshot is several changes: one that begins it, some with
//! entries, and one with everything else, which also shows the session. Like an import, it is seen whole or
//! not at all.

use std::borrow::Cow;
use std::path::Path;

use rusqlite::{OptionalExtension as _, params};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::batch::OutboundLine;
use crate::change::JournalChange;
use crate::columns::{self, number, path_bytes};
use crate::entries::{self, ReadLimit};
use crate::error::Error;
use crate::id::{Seq, SessionId, SessionKey};
use crate::query::{self, PromptFilter};
use crate::records::{
    Entry, Grant, NewSession, PromptRecord, RequestRecord, SessionStatus, SpoolPosition,
    origin_code,
};
use crate::transaction::{BlobPlace, WriteTransaction};

/// How much a change with entries holds, unless one entry is larger.
const PART: ReadLimit = ReadLimit { entries: 4096, bytes: 256 << 10, longest: usize::MAX };

/// What marks a session whose snapshot has not finished. No import has this id.
const UNFINISHED: Uuid = Uuid::max();

/// Everything of a session but its entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRecords {
    status: SessionStatus,
    active: u64,
    last: Seq,
    agent_ids: Vec<String>,
    spool: SpoolPosition,
    writes: u64,
    turn: u64,
    turn_ended: u64,
    imported_turns: u64,
    agent_state: Option<String>,
    prompts: Vec<PromptRecord>,
    requests: Vec<RequestRecord>,
    grants: Vec<(Grant, Option<u64>)>,
    /// The days and the bits of what the session has cost: JSON would round it.
    costs: Vec<(u64, u64)>,
    /// Its bytes are behind the head of the change.
    #[serde(skip)]
    pub(crate) outbound: Vec<OutboundLine>,
}

impl WriteTransaction<'_> {
    /// Puts a session into the outbox as a whole.
    pub(crate) fn put_snapshot(&mut self, session: SessionId) -> Result<Seq, Error> {
        self.write_back(session)?;
        let connection = self.connection;
        let record =
            query::session_in(connection, session)?.ok_or(Error::NoSuchSession(session))?;
        if let Some(reason) = record.damage {
            return Err(Error::DamagedSession { session, reason });
        }
        let head = self.pending(session)?.head;
        self.remove_outbox(session, u64::MAX)?;
        let new = NewSession {
            id: session,
            directory: record.directory,
            title: record.title,
            options: record.options,
            at: record.created,
        };
        self.put_numbered(session, &JournalChange::BeginSnapshot(Cow::Borrowed(&new)))?;
        let mut after = Seq(0);
        loop {
            let page = entries::page_in(connection, head, after, PART)?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            self.put_numbered(session, &JournalChange::SnapshotEntries(Cow::Owned(page)))?;
        }
        let records = SnapshotRecords {
            status: record.status,
            active: record.active,
            last: record.last,
            agent_ids: record.agent_ids,
            spool: record.spool,
            writes: record.writes,
            turn: record.turn,
            turn_ended: record.turn_ended,
            imported_turns: record.imported_turns,
            agent_state: record.agent_state,
            prompts: query::prompts(connection, session, PromptFilter::Oldest)?,
            requests: self.requests(session, head.key)?,
            grants: self.grants(session, &new.directory)?,
            costs: self.costs(session)?,
            outbound: query::outbound(connection, session)?,
        };
        self.put_numbered(session, &JournalChange::FinishSnapshot(Cow::Owned(records)))?;
        Ok(head.last)
    }

    fn requests(&self, session: SessionId, key: SessionKey) -> Result<Vec<RequestRecord>, Error> {
        let columns = columns::REQUEST_COLUMNS;
        let sql = format!("SELECT {columns} FROM request WHERE session = ?1 ORDER BY rowid");
        query::of_session(self.connection, session, &sql, [key.0], columns::request)
    }

    /// The grants of the session and of its directory. A change that the snapshot replaces may have given
    /// one for the directory.
    fn grants(
        &self,
        session: SessionId,
        directory: &Path,
    ) -> Result<Vec<(Grant, Option<u64>)>, Error> {
        let columns = columns::GRANT_COLUMNS;
        let sql = format!(
            "SELECT {columns}, revoked FROM grants
             WHERE session = ?1 OR session IS NULL AND directory = ?2 ORDER BY rowid"
        );
        let parameters = params![session.to_string(), path_bytes(directory)];
        query::of_session(self.connection, session, &sql, parameters, |row| {
            let revoked: Option<i64> = row.get(9)?;
            Ok((columns::grant(row)?, revoked.map(|at| u64::try_from(at).unwrap_or(0))))
        })
    }

    fn costs(&self, session: SessionId) -> Result<Vec<(u64, u64)>, Error> {
        let sql = "SELECT day, dollars FROM cost WHERE session = ?1 ORDER BY day";
        query::of_session(self.connection, session, sql, [session.to_string()], |row| {
            Ok((columns::unsigned(row, 0)?, row.get::<_, f64>(1)?.to_bits()))
        })
    }

    /// Begins a session whose snapshot follows, in place of what there is of it.
    pub(crate) fn begin_snapshot(&mut self, new: &NewSession, change: u64) -> Result<(), Error> {
        if query::head(self.connection, new.id)?.is_some() {
            self.remove_session(new.id)?;
        }
        self.insert_session(new, change)?;
        self.connection
            .prepare_cached("UPDATE session SET importing = ?2 WHERE id = ?1")?
            .execute([new.id.to_string(), UNFINISHED.to_string()])?;
        Ok(())
    }

    /// Writes entries with their own numbers. Compaction may have removed some in between.
    pub(crate) fn write_snapshot_entries(
        &mut self,
        session: SessionId,
        entries: &[Entry],
    ) -> Result<(), Error> {
        self.require_unfinished(session)?;
        let connection = self.connection;
        let pending = self.pending(session)?;
        let mut insert = connection
            .prepare_cached("INSERT INTO entry (row, at, origin, bytes) VALUES (?1, ?2, ?3, ?4)")?;
        for entry in entries {
            if entry.seq <= pending.head.last {
                return Err(Error::OutOfOrder { session });
            }
            let place = BlobPlace { table: c"entry", row: pending.head.key.row(entry.seq) };
            let origin = origin_code(entry.origin, entry.continues);
            place.insert(connection, &entry.bytes, |bytes| {
                insert.execute(params![place.row, number(entry.at), origin, bytes])
            })?;
            pending.head.last = entry.seq;
        }
        pending.written = true;
        Ok(())
    }

    /// Writes what belongs to the session beside its entries, and shows it.
    pub(crate) fn finish_snapshot(
        &mut self,
        session: SessionId,
        records: &SnapshotRecords,
    ) -> Result<(), Error> {
        self.require_unfinished(session)?;
        let connection = self.connection;
        let pending = self.pending(session)?;
        if records.last < pending.head.last {
            return Err(Error::OutOfOrder { session });
        }
        let key = pending.head.key;
        pending.head.last = records.last;
        pending.active = records.active;
        pending.change.status = Some(records.status);
        pending.change.spool = Some(records.spool);
        pending.change.writes = Some(records.writes);
        pending.change.turn = Some(records.turn);
        pending.change.turn_ended = Some(records.turn_ended);
        pending.change.agent_state.clone_from(&records.agent_state);
        pending.written = true;
        connection
            .prepare_cached(
                "UPDATE session SET importing = NULL, imported_turns = ?2 WHERE key = ?1",
            )?
            .execute(params![key.0, number(records.imported_turns)])?;
        for id in &records.agent_ids {
            self.put_agent_id(key, id)?;
        }
        for prompt in &records.prompts {
            self.put_prompt(key, prompt)?;
        }
        for request in &records.requests {
            self.put_request(key, request)?;
        }
        self.put_lines(key, &records.outbound)?;
        for (grant, revoked) in &records.grants {
            self.put_grant(grant)?;
            if let Some(at) = revoked {
                self.revoke_grant(grant.id, *at)?;
            }
        }
        for (day, dollars) in &records.costs {
            connection
                .prepare_cached(
                    "INSERT INTO cost (day, session, dollars) VALUES (?1, ?2, ?3)
                     ON CONFLICT (day, session) DO UPDATE SET dollars = excluded.dollars",
                )?
                .execute(params![number(*day), session.to_string(), f64::from_bits(*dollars)])?;
        }
        Ok(())
    }

    /// Fails if no snapshot of the session has begun.
    fn require_unfinished(&self, session: SessionId) -> Result<(), Error> {
        let mark: Option<Option<String>> = self
            .connection
            .prepare_cached("SELECT importing FROM session WHERE id = ?1")?
            .query_row([session.to_string()], |row| row.get(0))
            .optional()?;
        match mark.flatten() {
            Some(mark) if mark == UNFINISHED.to_string() => Ok(()),
            _ => Err(Error::OutOfOrder { session }),
        }
    }
}
