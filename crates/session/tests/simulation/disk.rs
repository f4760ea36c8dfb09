//! What survives Towpath: the journal's tables and the shim with its spool.

use std::collections::BTreeMap;

use journal::{Grant, PromptRecord, RequestRecord, Status};
use towpath_session::machine::Gone;
use towpath_session::{Heard, Options};
use uuid::Uuid;

use crate::cli::Cli;

/// What is written down of the session.
#[derive(Default)]
pub(crate) struct Disk {
    pub(crate) prompts: BTreeMap<Uuid, PromptRecord>,
    pub(crate) requests: BTreeMap<String, RequestRecord>,
    pub(crate) grants: Vec<Grant>,
    pub(crate) options: Options,
    pub(crate) status: Status,
    pub(crate) turn: u64,
    pub(crate) turn_over: u64,
    /// Whether the agent has told an id of the conversation.
    pub(crate) conversation: bool,
    /// Which process it is.
    pub(crate) run: u64,
    /// How much of its output is taken in.
    pub(crate) offset: usize,
    /// How many lines were said to it, and those lines.
    pub(crate) writes: u64,
    pub(crate) outbound: Vec<(u64, String)>,
}

/// A process and what holds it.
pub(crate) struct Shim {
    pub(crate) run: u64,
    pub(crate) cli: Cli,
    /// Whether the shim itself lives; one that is gone left its files.
    pub(crate) lives: bool,
    /// Whether it is of another version, and nothing can be said to its agent.
    pub(crate) foreign: bool,
    pub(crate) spool: Vec<Heard>,
    pub(crate) last_write: u64,
    /// When an agent that was told to end is ended by force.
    pub(crate) kill_at: Option<u64>,
}

impl Shim {
    pub(crate) fn collect_output(&mut self) {
        self.spool.append(&mut self.cli.stdout);
    }

    pub(crate) fn gone(&self) -> Option<&Gone> {
        self.cli.gone.as_ref()
    }

    /// Ends the agent, at once.
    pub(crate) fn kill(&mut self) {
        self.cli.gone.get_or_insert(Gone::Killed(9));
    }

    /// Writes a line to the agent; whether it could be.
    pub(crate) fn write(&mut self, number: u64, line: String) -> bool {
        self.last_write = self.last_write.max(number);
        let open = !self.cli.closed && self.gone().is_none();
        if open {
            self.cli.stdin.push_back(line);
        }
        open
    }
}
