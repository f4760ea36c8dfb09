//! What survives Towpath: the journal, and the shim with its spool.

use std::collections::BTreeMap;

use journal::{Grant, PromptRecord, RequestRecord, SessionStatus};
use towpath_session::machine::AgentExit;
use towpath_session::{AgentEvent, SessionOptions};
use uuid::Uuid;

use super::agent_model::AgentModel;

/// The session as the journal has it.
#[derive(Default)]
pub(super) struct StoredSession {
    pub(super) prompts: BTreeMap<Uuid, PromptRecord>,
    pub(super) requests: BTreeMap<String, RequestRecord>,
    pub(super) grants: Vec<Grant>,
    pub(super) options: SessionOptions,
    pub(super) status: SessionStatus,
    pub(super) turn: u64,
    pub(super) turn_ended: u64,
    /// Whether the agent has reported an id of the conversation.
    pub(super) conversation: bool,
    /// The number of the process.
    pub(super) run: u64,
    /// How much of its output is in the journal.
    pub(super) offset: usize,
    /// How many lines were written to it, and those lines.
    pub(super) writes: u64,
    pub(super) outbound: Vec<(u64, String)>,
}

/// An agent process and its shim.
pub(super) struct SimulatedShim {
    pub(super) run: u64,
    pub(super) agent: AgentModel,
    /// Whether the shim itself runs. A dead one left its files.
    pub(super) lives: bool,
    pub(super) spool: Vec<AgentEvent>,
    pub(super) last_write: u64,
    /// When an agent that was asked to stop is killed.
    pub(super) kill_at: Option<u64>,
}

impl SimulatedShim {
    pub(super) fn collect_output(&mut self) {
        self.spool.append(&mut self.agent.stdout);
    }

    pub(super) fn exit(&self) -> Option<&AgentExit> {
        self.agent.exit.as_ref()
    }

    /// Kills the agent.
    pub(super) fn kill(&mut self) {
        self.agent.exit.get_or_insert(AgentExit::Killed(9));
    }

    /// Writes a line to the agent. Returns whether its stdin was open.
    pub(super) fn write(&mut self, number: u64, line: String) -> bool {
        self.last_write = self.last_write.max(number);
        let open = !self.agent.closed && self.exit().is_none();
        if open {
            self.agent.stdin.push_back(line);
        }
        open
    }
}
