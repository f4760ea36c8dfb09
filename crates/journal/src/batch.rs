//! A batch: everything written to a session in one transaction.

use std::path::PathBuf;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::change::path_json;
use crate::records::{Grant, NewEntry, PromptRecord, RequestRecord, SessionStatus, SpoolPosition};

/// Entries and the changes that belong to them, committed together or not at all.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The time, in milliseconds since 1970.
    pub at: u64,
    /// Entries to append, in order.
    pub entries: Vec<NewEntry>,
    /// The positions in `entries` of those whose line goes on in the next entry.
    pub unfinished: Vec<usize>,
    /// Prompts to insert, or to replace by id.
    pub prompts: Vec<PromptRecord>,
    /// Requests to insert, or to replace by id.
    pub requests: Vec<RequestRecord>,
    /// Lines for the agent, stored until they are [delivered](SessionChange::delivered).
    pub outbound: Vec<OutboundLine>,
    /// Grants to insert, or to replace by id. A grant is stored with the answer that gave it, so
    /// that neither exists without the other.
    pub grants: Vec<Grant>,
    /// What the entries say that the agent has cost, in dollars. It is added to the day of the batch.
    pub cost: f64,
    /// Changes to the session itself.
    pub change: SessionChange,
}

/// A line for the agent. It is stored before it is sent, so that the next owner can send it again
/// after a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboundLine {
    /// Its number among the lines for one agent process.
    pub number: u64,
    /// The line with its newline.
    pub bytes: Bytes,
}

/// Changes to a session. A field that is `None` leaves the stored value as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionChange {
    pub title: Option<String>,
    pub status: Option<SessionStatus>,
    /// An id the agent gave the session, added to the ones known.
    pub agent_id: Option<String>,
    /// How the agent is started, as JSON.
    pub options: Option<String>,
    /// How much of the agent's output is in the journal.
    pub spool: Option<SpoolPosition>,
    /// How many lines were written to the agent.
    pub writes: Option<u64>,
    /// The number of the last turn that started.
    pub turn: Option<u64>,
    /// The number of the last turn that ended.
    pub turn_ended: Option<u64>,
    /// What was agreed with the agent, as JSON.
    pub agent_state: Option<String>,
    /// How many lines have reached the agent and need not be stored any longer.
    pub delivered: Option<u64>,
    /// Where the session works from now on: another machine has taken it over.
    #[serde(with = "path_json::optional", skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
}

impl Batch {
    /// Whether it must be synced to disk before it is acknowledged. The spool position alone need
    /// not be: if it is lost, the lines before it are lost too, and both are read again.
    pub(crate) fn must_be_durable(&self) -> bool {
        let Self {
            at: _,
            entries,
            unfinished: _,
            prompts,
            requests,
            outbound,
            grants,
            cost,
            change,
        } = self;
        let spool_alone = SessionChange { spool: change.spool, ..SessionChange::default() };
        entries.iter().any(|entry| !entry.transient)
            || !prompts.is_empty()
            || !requests.is_empty()
            || !outbound.is_empty()
            || !grants.is_empty()
            || *cost > 0.0
            || *change != spool_alone
    }

    /// Roughly how much memory it holds.
    pub(crate) fn size(&self) -> usize {
        self.entries.iter().map(|entry| entry.bytes.len() + 64).sum::<usize>() + 256
    }
}

impl SessionChange {
    /// Applies a later change on top of this one. Agent ids and deliveries are not merged: the
    /// transaction writes each of them.
    pub(crate) fn merge(&mut self, later: &Self) {
        let Self {
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
        } = later;
        if directory.is_some() {
            self.directory.clone_from(directory);
        }
        if title.is_some() {
            self.title.clone_from(title);
        }
        if options.is_some() {
            self.options.clone_from(options);
        }
        if agent_state.is_some() {
            self.agent_state.clone_from(agent_state);
        }
        self.status = status.or(self.status);
        self.spool = spool.or(self.spool);
        self.writes = writes.or(self.writes);
        self.turn = turn.or(self.turn);
        self.turn_ended = turn_ended.or(self.turn_ended);
    }
}

#[cfg(test)]
mod tests {
    use wire::Origin;

    use super::{Batch, SessionChange};
    use crate::records::{NewEntry, SessionStatus, SpoolPosition};

    #[test]
    fn only_deltas_and_the_spool_position_may_be_lost_with_the_machine() {
        let entry = |transient| NewEntry { origin: Origin::Agent, bytes: "{}".into(), transient };
        let spool = Some(SpoolPosition { run: 1, offset: 9 });
        let spool = SessionChange { spool, ..SessionChange::default() };
        let status =
            SessionChange { status: Some(SessionStatus::Running), ..SessionChange::default() };

        let deltas =
            Batch { entries: vec![entry(true); 3], change: spool.clone(), ..Batch::default() };
        assert!(!deltas.must_be_durable());
        let message = Batch { entries: vec![entry(true), entry(false)], ..Batch::default() };
        assert!(message.must_be_durable());
        assert!(Batch { change: status, ..Batch::default() }.must_be_durable());
    }
}
