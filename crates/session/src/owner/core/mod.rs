//! The decisions of an owner, without any I/O.
//!
//! [`OwnerCore::on`] takes what happened and returns what must be done, in this order. It knows no
//! clock, no journal and no process: its caller performs the [effects](OwnerEffect) and
//! feeds back their results. The owner's task does that with the real ones, the simulation with
//! models of them that fail in every way and at every effect.
//!
//! What happens becomes an [`Input`] of the [`Machine`]. Its decisions go into one batch, and what
//! leaves the process (lines for the agent, replies, the start of a process) is an effect only
//! after [`OwnerInput::Written`] said that the batch is stored. Until then the core is not
//! [ready](OwnerCore::is_ready): what happens in the meantime waits, except that commands are
//! refused while the journal cannot store anything.
//!
//! ```text
//!  input ─► machine ─► batch ─► Write ─► Written ─► Acknowledge, Send, Reply, Start, Compact
//!              │                  ▲         │
//!              └─ LoadGrants      └─ retry ─┘ full or busy
//! ```

mod awake_clock;
mod batch;
mod driving;
mod effect;
mod input;
mod link;
mod liveness;
mod output;
mod storing;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::Path;

use bytes::Bytes;
use journal::{
    Grant, PromptRecord, RequestRecord, Seq, SessionId, SessionRecord, SessionStatus, SpoolPosition,
};
use uuid::Uuid;
use wire::Splitter;
use wire::consent;
use wire::note::Note;

use crate::agent_event::AgentEvent;
use crate::catalog::{AgentProtocol, AgentSpec};
use crate::config::{SessionLimits, WatchPolicy};
use crate::dialect::{AcpDriver, AgentDialect, DialectStep};
use crate::machine::{ClockReading, Effect, Input, Machine, MachineSnapshot, StartMode};
use crate::options::{CliConversation, SessionOptions, UnreadableOptions};
use crate::session::LeaveOutcome;
use awake_clock::AwakeClock;
use batch::{Outgoing, PendingBatch};
pub use effect::OwnerEffect;
pub use input::{AttachOutcome, OwnerInput, StartOutcome, WriteFailure};
use link::Link;
use storing::Stage;

/// The decisions of one owner.
#[derive(Debug)]
pub struct OwnerCore {
    id: SessionId,
    /// The time for everything that waits for the agent.
    now: ClockReading,
    clock: AwakeClock,
    /// The time for everything that waits for the journal.
    journal_now: u64,
    journal_clock: AwakeClock,
    machine: Machine,
    dialect: AgentDialect,
    link: Link,
    /// The number of the current process in the session.
    run: u64,
    /// How much of its output is in the journal or in the batch: whole lines, and parts of one that is
    /// too long to be held.
    offset: u64,
    /// How many lines were written to it.
    writes: u64,
    /// How many of them its shim is known to have.
    delivered: u64,
    splitter: Splitter,
    /// How much of its output the splitter has got.
    received: u64,
    /// The line whose end has not come yet and which is too long to be held.
    long_line: Option<UnfinishedLine>,
    stderr: Vec<u8>,
    /// The CLI's ids of the conversation, oldest first.
    conversations: Vec<String>,
    titled: bool,
    status: SessionStatus,
    ids: IdSequence,
    batch: PendingBatch,
    /// What is still to be put into the batch.
    steps: VecDeque<CoreStep>,
    grants_loaded: bool,
    stage: Stage,
    /// What happened while the core was not ready.
    waiting: VecDeque<OwnerInput>,
    leaving: bool,
    effects: Vec<OwnerEffect>,
}

/// The state of a session that an owner takes over.
#[derive(Debug)]
pub struct OwnerSnapshot {
    pub now: ClockReading,
    /// A random number: ids follow from it.
    pub seed: u128,
    pub limits: SessionLimits,
    pub record: SessionRecord,
    /// All prompts of the session, including finished ones.
    pub prompts: Vec<PromptRecord>,
    /// Requests that are not resolved.
    pub requests: Vec<RequestRecord>,
    /// Whether a shim of the session runs or has left files.
    pub has_process: bool,
    pub watch: WatchPolicy,
    /// How the agent is spoken with.
    pub protocol: AgentProtocol,
    /// The agent's entry in the catalog; none for the CLI, and for an agent that is no longer there.
    pub agent: Option<AgentSpec>,
    /// Where a line begins of which the journal has a part: it is too long to be held, and the agent
    /// had not finished it.
    pub unfinished_line: Option<Bytes>,
}

impl OwnerSnapshot {
    /// The state of a session that has just been created, with its stored options.
    pub fn new(
        now: ClockReading,
        session: SessionId,
        limits: SessionLimits,
        directory: &Path,
        options: &str,
    ) -> Self {
        let record = SessionRecord {
            id: session,
            title: None,
            directory: directory.to_owned(),
            status: SessionStatus::Idle,
            options: options.to_owned(),
            created: now.wall,
            active: now.wall,
            last: Seq(0),
            agent_ids: Vec::new(),
            spool: SpoolPosition::default(),
            writes: 0,
            turn: 0,
            turn_ended: 0,
            imported_turns: 0,
            agent_state: None,
            damage: None,
        };
        let (prompts, requests) = (Vec::new(), Vec::new());
        let watch = WatchPolicy::default();
        Self {
            now,
            seed: 1,
            limits,
            record,
            prompts,
            requests,
            has_process: false,
            watch,
            protocol: AgentProtocol::StreamJson,
            agent: None,
            unfinished_line: None,
        }
    }
}

/// What is to be put into the batch.
#[derive(Debug)]
enum CoreStep {
    /// A line of the agent.
    Line {
        bytes: Bytes,
        transient: bool,
        /// Whether the line goes on in the next step of this kind.
        unfinished: bool,
    },
    Input(Input),
    /// A line of an agent with a driver, which is in the batch already.
    Read(Bytes),
    /// The beginning of such a line that is too long to be held.
    ReadStart(Vec<u8>),
    /// What a driver wants to be done.
    Dialect(DialectStep),
}

/// A line that is too long to be held.
#[derive(Debug)]
enum UnfinishedLine {
    /// What it means, as far as its start says it.
    Event(AgentEvent),
    /// Its start, for a driver.
    Start(Vec<u8>),
}

/// A splitter for the output behind what is in the journal.
fn splitter(cap: usize, long_line: Option<&UnfinishedLine>) -> Splitter {
    match long_line {
        Some(_) => Splitter::inside_long_line(cap),
        None => Splitter::with_cap(cap),
    }
}

/// Random ids that follow from a seed, so that a simulation can be repeated.
#[derive(Debug)]
struct IdSequence(u128);

impl IdSequence {
    fn next(&mut self) -> Uuid {
        // An odd summand makes the period the whole range.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        uuid::Builder::from_random_bytes(self.0.to_be_bytes()).into_uuid()
    }
}

impl OwnerCore {
    pub fn new(snapshot: OwnerSnapshot) -> Self {
        let OwnerSnapshot { now, seed, limits, record, prompts, requests, has_process, .. } =
            snapshot;
        let OwnerSnapshot { watch, protocol, agent, unfinished_line, .. } = snapshot;
        let mut dialect = match protocol {
            AgentProtocol::StreamJson => AgentDialect::StreamJson,
            AgentProtocol::Acp => {
                let driver = AcpDriver::new(agent, record.spool.run, record.agent_state);
                AgentDialect::Acp(Box::new(driver))
            }
        };
        let long_line = unfinished_line.map(|start| UnfinishedLine::new(&start, &mut dialect));
        let was_active = matches!(record.status, SessionStatus::Running | SessionStatus::Waiting);
        let agent_may_run = was_active || record.spool.run > 0 && has_process;
        let mut ids = IdSequence(seed);
        let [_, instance] = halves(ids.next().as_u128());
        let machine = Machine::new(MachineSnapshot {
            now,
            instance,
            session: record.id,
            limits,
            protocol,
            options: match record.damage {
                None => SessionOptions::from_json(&record.options, record.directory),
                // What could not be read may be what restricts the agent.
                Some(reason) => Err(UnreadableOptions { directory: record.directory, reason }),
            },
            prompts,
            requests,
            turns: record.turn,
            turn_is_open: record.turn > record.turn_ended,
            agent_may_run,
            resumable: !record.agent_ids.is_empty(),
            watch,
        });
        Self {
            id: record.id,
            now,
            clock: AwakeClock::default(),
            journal_now: now.monotonic,
            journal_clock: AwakeClock::default(),
            machine,
            dialect,
            link: if agent_may_run { Link::Unknown } else { Link::None },
            run: record.spool.run,
            offset: record.spool.offset,
            writes: record.writes,
            delivered: 0,
            splitter: splitter(limits.longest_line, long_line.as_ref()),
            received: record.spool.offset,
            long_line,
            stderr: Vec::new(),
            conversations: record.agent_ids,
            titled: record.title.is_some(),
            status: record.status,
            ids,
            batch: PendingBatch::default(),
            steps: VecDeque::new(),
            grants_loaded: false,
            stage: Stage::Ready,
            waiting: VecDeque::new(),
            leaving: false,
            effects: Vec::new(),
        }
    }

    /// Takes in what happened and returns what must be done, in this order.
    #[must_use]
    pub fn on(&mut self, now: ClockReading, input: OwnerInput) -> Vec<OwnerEffect> {
        self.read_clocks(now);
        self.take(input);
        while self.is_ready() {
            self.read_clocks(now);
            if self.leaving {
                self.leave(LeaveOutcome::Stored);
            } else if let Some(input) = self.waiting.pop_front() {
                self.take(input);
            } else {
                break;
            }
        }
        std::mem::take(&mut self.effects)
    }

    /// Whether output of the agent and results of attaching and starting can be taken in.
    pub fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready)
    }

    /// Whether the owner knows whether the agent of an earlier one runs, and has read its output.
    pub fn is_settled(&self) -> bool {
        self.is_ready() && matches!(self.link, Link::None | Link::Starting | Link::Connected { .. })
    }

    /// Whether the shim of the agent does not answer, which was reported.
    pub fn is_silent(&self) -> bool {
        self.link.is_silent()
    }

    /// How long it is until a [tick](OwnerInput::Tick) is needed, in milliseconds.
    pub fn pause(&self, now: ClockReading) -> Option<u64> {
        if self.is_ready() {
            self.agent_deadline().map(|deadline| self.clock.until(deadline, now))
        } else {
            self.stage.deadline().map(|deadline| self.journal_clock.until(deadline, now))
        }
    }

    /// The number of the current process in the session.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// How the agent is spoken with.
    pub fn protocol(&self) -> AgentProtocol {
        match self.dialect {
            AgentDialect::StreamJson => AgentProtocol::StreamJson,
            AgentDialect::Acp(_) => AgentProtocol::Acp,
        }
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Whether nothing is known of the agent's stderr, which the shim has stored.
    pub fn lacks_stderr(&self) -> bool {
        self.stderr.is_empty()
    }

    /// Reads the clocks. While the core waits for the journal, the agent's output waits too, so
    /// that this time is not the agent's.
    fn read_clocks(&mut self, now: ClockReading) {
        self.journal_now = self.journal_clock.read(now, self.stage.deadline()).monotonic;
        if self.is_ready() {
            self.now = self.clock.read(now, self.agent_deadline());
        } else {
            self.clock.block();
            self.now.wall = now.wall;
        }
    }

    /// When the machine or the link needs a tick.
    fn agent_deadline(&self) -> Option<u64> {
        let link = self.link.deadline(self.turn_runs());
        [self.machine.deadline(), link, self.dialect.deadline()].into_iter().flatten().min()
    }

    fn take(&mut self, input: OwnerInput) {
        match (&mut self.stage, input) {
            (Stage::Left, _) => {}
            (_, OwnerInput::Written(result)) => self.written(result),
            (_, OwnerInput::Grants { grants, linked }) => self.grants_loaded(grants, &linked),
            (_, OwnerInput::Outbound(lines)) => self.outbound_loaded(lines),
            (Stage::Ready, input) => self.take_when_ready(input),
            (Stage::Refused { failure, .. }, OwnerInput::Command { id, command }) => {
                let failure = *failure;
                self.refuse(id, &command, failure);
            }
            (Stage::Writing { slow: true, .. }, OwnerInput::Command { id, command }) => {
                self.refuse(id, &command, WriteFailure::Busy);
            }
            (_, OwnerInput::Leave) => self.leave_when_written(),
            (_, OwnerInput::Tick) => self.pass_write_deadline(),
            (_, input) => self.waiting.push_back(input),
        }
    }

    fn take_when_ready(&mut self, input: OwnerInput) {
        match input {
            OwnerInput::TakeOver => self.take_over(),
            OwnerInput::Command { id, command } => {
                self.step(Input::Command { id, command: *command });
            }
            OwnerInput::DayCost(cost) => self.step(Input::DayCost(cost)),
            OwnerInput::Leave => self.leaving = true,
            OwnerInput::Shim(event) => self.shim_event(event),
            OwnerInput::Disconnected => self.disconnected(),
            OwnerInput::Attached(outcome) => self.attached(outcome),
            OwnerInput::Started(outcome) => self.started(outcome),
            OwnerInput::Leftover { offset, bytes } => self.output_at(offset, &bytes),
            OwnerInput::LeftoversEnd(exit) => {
                self.finish_output();
                self.agent_gone(exit);
            }
            OwnerInput::Tick => {
                self.pass_link_deadline();
                if self.is_ready() {
                    self.report_undelivered_lines();
                    self.tick_driver();
                    self.step(Input::Tick);
                }
            }
            OwnerInput::Written(_) | OwnerInput::Grants { .. } | OwnerInput::Outbound(_) => {}
        }
    }

    /// Takes in one input of the machine, and lets its effects out once they are written.
    fn step(&mut self, input: Input) {
        self.steps.push_back(CoreStep::Input(input));
        self.work();
    }

    /// Fills the batch, and writes it when nothing is left to be put into it.
    fn work(&mut self) {
        while let Some(step) = self.steps.pop_front() {
            match step {
                CoreStep::Line { bytes, transient, unfinished } => {
                    self.batch.add_line(bytes, transient);
                    if unfinished {
                        self.batch.mark_unfinished();
                    }
                }
                CoreStep::Read(bytes) => self.read_line(&bytes),
                CoreStep::ReadStart(start) => self.read_start(&start),
                CoreStep::Dialect(step) => self.dialect_step(step),
                // Grants do not apply to requests that offer choices.
                CoreStep::Input(Input::Agent(AgentEvent::RequestOpened(ref request)))
                    if !self.grants_loaded && request.choices.is_empty() =>
                {
                    // Other sessions may have added some.
                    self.steps.push_front(step);
                    self.stage = Stage::LoadingGrants;
                    let edited = self.pending_edits().map(|(_, file)| file).collect();
                    self.effects.push(OwnerEffect::LoadGrants { edited });
                    return;
                }
                CoreStep::Input(input) => self.input(input),
            }
        }
        self.grants_loaded = false;
        self.commit();
    }

    fn input(&mut self, input: Input) {
        if let Input::Agent(
            AgentEvent::TurnStarted { conversation: Some(id) } | AgentEvent::ConversationOpened(id),
        ) = &input
        {
            self.add_conversation(id);
        }
        let attached = matches!(input, Input::AgentAttached { .. });
        let mut steps = Vec::new();
        for effect in self.machine.on(self.now, input) {
            match effect {
                Effect::Start(mode) => self.start(mode),
                Effect::Grant(grant) => {
                    let id = self.ids.next();
                    self.batch.add_grant(grant, id);
                }
                Effect::Send(message) => steps.extend(self.translate(*message)),
                effect => self.batch.add_effect(effect, &mut self.titled),
            }
        }
        if attached {
            steps.extend(self.attach_driver());
        }
        self.add_first(steps);
    }

    /// Records the CLI's id of the conversation, which changes with `/clear`.
    fn add_conversation(&mut self, id: &str) {
        if self.conversations.last().is_none_or(|last| last != id) {
            self.conversations.retain(|known| known != id);
            self.conversations.push(id.to_owned());
            self.batch.set_conversation(id);
        }
    }

    /// The requests among the next steps that want to edit a file, and the file.
    fn pending_edits(&self) -> impl Iterator<Item = (&str, String)> {
        self.steps.iter().filter_map(|step| match step {
            CoreStep::Input(Input::Agent(AgentEvent::RequestOpened(request))) => {
                let file = consent::edited_file(&request.tool_name, &request.input)?;
                Some((request.id.as_str(), file))
            }
            _ => None,
        })
    }

    /// Gives the machine the grants that apply to this session.
    fn grants_loaded(&mut self, mut grants: Vec<Grant>, linked: &[String]) {
        let directory = &self.machine.options().directory;
        grants.retain(|grant| grant.applies_in(self.id, directory));
        self.stage = Stage::Ready;
        self.grants_loaded = true;
        let linked = self.pending_edits().filter(|(_, file)| linked.contains(file));
        let linked = linked.map(|(request, _)| request.to_owned()).collect();
        self.steps.push_front(CoreStep::Input(Input::Grants { grants, linked }));
        self.work();
    }

    /// Prepares the start of a new process. Its number is in the same batch: after a crash, the
    /// next owner must know which process the output belongs to.
    fn start(&mut self, mode: StartMode) {
        let conversation = self.choose_conversation(mode);
        self.start_driver(&conversation);
        self.run += 1;
        self.offset = 0;
        self.long_line = None;
        self.restart_output();
        self.writes = 0;
        self.delivered = 0;
        self.link = Link::Starting;
        self.batch.start_run();
        self.batch.add_outgoing(Outgoing::Start { run: self.run, conversation });
    }

    fn choose_conversation(&mut self, mode: StartMode) -> CliConversation {
        let own = self.id.to_string();
        let last = self.conversations.last().cloned();
        match mode {
            StartMode::Resume if self.run == 0 && self.machine.options().fork => {
                CliConversation::Forked(last.unwrap_or(own))
            }
            StartMode::Resume => CliConversation::Resumed(last.unwrap_or(own)),
            StartMode::NewConversation if self.run == 0 => CliConversation::New(own),
            // The CLI refuses an id it has seen, even if that conversation is empty.
            StartMode::NewConversation => CliConversation::New(self.ids.next().to_string()),
        }
    }

    fn report_problem(&mut self, text: &str) {
        self.batch.add_note(&Note::Problem { text: text.to_owned() });
    }
}

fn halves(number: u128) -> [u64; 2] {
    #[expect(clippy::cast_possible_truncation, reason = "that is the purpose")]
    let halves = [(number >> 64) as u64, number as u64];
    halves
}
