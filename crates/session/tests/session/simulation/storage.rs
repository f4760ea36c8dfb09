//! What survives Towpath: the journal, and the shim with its spool.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use journal::{
    Batch, Grant, Origin, OutboundLine, PromptRecord, RequestRecord, Seq, SessionId, SessionRecord,
};
use towpath_session::machine::{AgentExit, ClockReading};
use towpath_session::owner::OwnerSnapshot;
use towpath_session::shim::{ExitStatus, ShimCommand, ShimEvent};
use towpath_session::{SessionLimits, SessionOptions};
use uuid::Uuid;

use super::agent_model::AgentModel;
use super::lines;
use super::users::Random;
use super::world::LONGEST_WRITE;

/// The milliseconds of a day.
const DAY: u64 = 24 * 60 * 60 * 1000;

/// The session as the journal has it.
pub(super) struct StoredSession {
    pub(super) record: SessionRecord,
    pub(super) prompts: BTreeMap<Uuid, PromptRecord>,
    pub(super) requests: BTreeMap<String, RequestRecord>,
    pub(super) grants: Vec<Grant>,
    pub(super) outbound: BTreeMap<u64, Bytes>,
    /// What all sessions have cost, by day.
    pub(super) costs: BTreeMap<u64, f64>,
    /// What this session has cost.
    pub(super) cost: f64,
    /// Where the agent's last line begins, if the journal has only a part of it.
    pub(super) unfinished: Option<Bytes>,
}

impl StoredSession {
    pub(super) fn new(options: &SessionOptions) -> Self {
        let options = serde_json::to_string(options).expect("options as JSON");
        let limits = SessionLimits::default();
        let now = ClockReading::default();
        let id = SessionId(Uuid::nil());
        let OwnerSnapshot { record, .. } =
            OwnerSnapshot::new(now, id, limits, Path::new("/p"), &options);
        Self {
            record,
            prompts: BTreeMap::new(),
            requests: BTreeMap::new(),
            grants: Vec::new(),
            outbound: BTreeMap::new(),
            costs: BTreeMap::new(),
            cost: 0.0,
            unfinished: None,
        }
    }

    /// Stores a batch like the journal: all of it.
    pub(super) fn write(&mut self, batch: &Batch) -> Seq {
        let record = &mut self.record;
        record.last.0 += batch.entries.len() as u64;
        let entries = batch.entries.iter().enumerate();
        for (position, entry) in entries.filter(|(_, entry)| entry.origin == Origin::Agent) {
            self.unfinished = if batch.unfinished.contains(&position) {
                self.unfinished.take().or_else(|| Some(entry.bytes.clone()))
            } else {
                None
            };
        }
        for prompt in &batch.prompts {
            self.prompts.insert(prompt.id, prompt.clone());
        }
        for request in &batch.requests {
            self.requests.insert(request.id.clone(), request.clone());
        }
        *self.costs.entry(batch.at / DAY).or_default() += batch.cost;
        self.cost += batch.cost;
        self.grants.extend(batch.grants.iter().cloned());
        let change = &batch.change;
        if let Some(delivered) = change.delivered {
            self.outbound.retain(|number, _| *number > delivered);
        }
        for OutboundLine { number, bytes } in &batch.outbound {
            self.outbound.insert(*number, bytes.clone());
        }
        record.status = change.status.unwrap_or(record.status);
        record.spool = change.spool.unwrap_or(record.spool);
        record.writes = change.writes.unwrap_or(record.writes);
        record.turn = change.turn.unwrap_or(record.turn);
        record.turn_ended = change.turn_ended.unwrap_or(record.turn_ended);
        if let Some(options) = &change.options {
            record.options.clone_from(options);
        }
        if let Some(id) = &change.agent_id {
            record.agent_ids.retain(|known| known != id);
            record.agent_ids.push(id.clone());
        }
        if let Some(state) = &change.agent_state {
            record.agent_state = Some(state.clone());
        }
        if let Some(title) = &change.title {
            record.title = Some(title.clone());
        }
        record.last
    }

    pub(super) fn lines(&self) -> Vec<OutboundLine> {
        let lines = self.outbound.iter();
        lines
            .map(|(number, bytes)| OutboundLine { number: *number, bytes: bytes.clone() })
            .collect()
    }
}

/// An agent process and its shim.
pub(super) struct SimulatedShim {
    pub(super) run: u64,
    pub(super) agent: AgentModel,
    /// Whether the shim itself runs. A dead one left its files.
    pub(super) lives: bool,
    /// Whether the shim was stopped and does nothing.
    pub(super) stopped: bool,
    pub(super) spool: Vec<u8>,
    pub(super) last_write: u64,
    /// When an agent that was asked to stop is killed, in monotonic time.
    pub(super) kill_at: Option<u64>,
    /// Reports to the owner, which are lost with the connection.
    pub(super) reports: Vec<ShimEvent>,
}

/// What became of a command to a shim.
pub(super) enum Received {
    /// A line for the agent.
    Line(String),
    /// The agent is to be killed.
    Kill,
    Nothing,
}

impl SimulatedShim {
    pub(super) fn new(run: u64, agent: AgentModel) -> Self {
        Self {
            run,
            agent,
            lives: true,
            stopped: false,
            spool: Vec::new(),
            last_write: 0,
            kill_at: None,
            reports: Vec::new(),
        }
    }

    pub(super) fn collect_output(&mut self, random: &mut Random) {
        for event in self.agent.stdout.drain(..) {
            lines::print(&mut self.spool, &event, random);
        }
    }

    pub(super) fn exit(&self) -> Option<&AgentExit> {
        self.agent.exit.as_ref()
    }

    pub(super) fn exit_status(&self) -> Option<ExitStatus> {
        self.exit().map(|exit| match exit {
            AgentExit::Exited { code, .. } => ExitStatus::Code(*code),
            AgentExit::Killed(signal) => ExitStatus::Signal(*signal),
            AgentExit::NotStarted(_) | AgentExit::Unknown => ExitStatus::Unknown,
        })
    }

    /// Kills the agent.
    pub(super) fn kill(&mut self) {
        self.agent.exit.get_or_insert(AgentExit::Killed(9));
    }

    /// Obeys a command like the real shim.
    pub(super) fn receive(&mut self, command: ShimCommand, now: u64, has_room: bool) -> Received {
        match command {
            ShimCommand::Write { number, .. } if number <= self.last_write => Received::Nothing,
            ShimCommand::Write { number, bytes } => {
                assert!(bytes.len() <= LONGEST_WRITE, "a line of {} bytes", bytes.len());
                let open = !self.agent.closed && self.exit().is_none();
                if number > self.last_write + 1 || !open || !has_room {
                    let last = self.last_write;
                    self.reports.push(ShimEvent::WriteRefused { number, last });
                    return Received::Nothing;
                }
                self.last_write = number;
                self.reports.push(ShimEvent::Written(number));
                let line = String::from_utf8(bytes).expect("UTF-8");
                self.agent.stdin.push_back(line.clone());
                Received::Line(line)
            }
            ShimCommand::Stop { timeout } => {
                self.agent.closed = true;
                let timeout = u64::try_from(timeout.as_millis()).expect("a short time");
                self.kill_at = Some(now + 3 * timeout);
                Received::Nothing
            }
            ShimCommand::Signal(_) => Received::Kill,
            ShimCommand::CloseStdin => {
                self.agent.closed = true;
                Received::Nothing
            }
            ShimCommand::Ping(number) => {
                self.reports.push(ShimEvent::Pong(number));
                Received::Nothing
            }
            ShimCommand::Acknowledge(_) | ShimCommand::Detach => Received::Nothing,
        }
    }
}
