//! What is written to a session in one go: all of it or nothing.

use bytes::Bytes;

use crate::entry::NewEntry;
use crate::prompt::PromptRecord;
use crate::request::RequestRecord;
use crate::session::{SpoolMark, Status};

/// Entries, and what they change, in one transaction.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// Entries, in order.
    pub entries: Vec<NewEntry>,
    /// Prompts as they are from here on, each replacing the one with its id.
    pub prompts: Vec<PromptRecord>,
    /// Requests as they are from here on, each replacing the one with its id.
    pub requests: Vec<RequestRecord>,
    /// Lines for the agent, kept until they have [reached](SessionChange::delivered) it.
    pub outbound: Vec<Outbound>,
    /// What changes of the session itself.
    pub change: SessionChange,
}

/// A line for the agent. It is written down before it is sent, so that whoever comes after a crash
/// can send it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbound {
    /// Its number among the lines for that process of the agent.
    pub number: u64,
    /// The line, with its newline.
    pub bytes: Bytes,
}

/// What changes of a session; what is not given stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionChange {
    /// What a person calls it.
    pub title: Option<String>,
    /// What it does.
    pub status: Option<Status>,
    /// An id the agent gave it, added to the others where it is new.
    pub agent_id: Option<String>,
    /// How the agent is started.
    pub options: Option<String>,
    /// How much of the agent's output is in the journal.
    pub spool: Option<SpoolMark>,
    /// How many lines were written to the agent.
    pub writes: Option<u64>,
    /// The number of the last turn that began.
    pub turn: Option<u64>,
    /// The number of the last turn that is over.
    pub turn_over: Option<u64>,
    /// How many lines have reached the agent, and need not be kept any longer.
    pub delivered: Option<u64>,
}

impl Batch {
    /// Whether it must be on the disk before it is acknowledged. The spool mark need not: where it
    /// is lost, the lines before it are lost with it, and both are read again from the spool.
    pub(crate) fn must_last(&self) -> bool {
        let Self { at: _, entries, prompts, requests, outbound, change } = self;
        let spool_alone = SessionChange { spool: change.spool, ..SessionChange::default() };
        entries.iter().any(|entry| !entry.transient)
            || !prompts.is_empty()
            || !requests.is_empty()
            || !outbound.is_empty()
            || *change != spool_alone
    }

    /// About how much memory it holds.
    pub(crate) fn size(&self) -> usize {
        self.entries.iter().map(|entry| entry.bytes.len() + 64).sum::<usize>() + 256
    }
}

impl SessionChange {
    /// Takes over what a later change gives. Ids of the agent are not a state but a list, and are
    /// written down one by one elsewhere.
    pub(crate) fn then(&mut self, later: &Self) {
        let Self {
            title,
            status,
            agent_id: _,
            options,
            spool,
            writes,
            turn,
            turn_over,
            delivered: _,
        } = later;
        if title.is_some() {
            self.title.clone_from(title);
        }
        if options.is_some() {
            self.options.clone_from(options);
        }
        self.status = status.or(self.status);
        self.spool = spool.or(self.spool);
        self.writes = writes.or(self.writes);
        self.turn = turn.or(self.turn);
        self.turn_over = turn_over.or(self.turn_over);
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, SessionChange};
    use crate::entry::NewEntry;
    use crate::session::{SpoolMark, Status};
    use wire::Origin;

    #[test]
    fn only_deltas_and_the_spool_mark_may_be_lost_with_the_machine() {
        let entry = |transient| NewEntry { origin: Origin::Agent, bytes: "{}".into(), transient };
        let spool = Some(SpoolMark { run: 1, offset: 9 });
        let spool = SessionChange { spool, ..SessionChange::default() };
        let status = SessionChange { status: Some(Status::Running), ..SessionChange::default() };

        let deltas =
            Batch { entries: vec![entry(true); 3], change: spool.clone(), ..Batch::default() };
        assert!(!deltas.must_last());
        let said = Batch { entries: vec![entry(true), entry(false)], ..Batch::default() };
        assert!(said.must_last());
        assert!(Batch { change: status, ..Batch::default() }.must_last());
    }
}
