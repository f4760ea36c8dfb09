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
mod link;
mod output;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use bytes::Bytes;
use journal::{
    Batch, Grant, OutboundLine, PromptRecord, RequestRecord, Seq, SessionId, SessionRecord,
    SessionStatus, SpoolPosition,
};
use uuid::Uuid;
use wire::Splitter;
use wire::note::Note;

use crate::agent_event::AgentEvent;
use crate::command::{CommandOutput, SessionCommand};
use crate::config::SessionLimits;
use crate::machine::{
    AgentExit, ClockReading, CommandId, Effect, Input, Machine, MachineSnapshot, StartMode,
};
use crate::options::{CliConversation, SessionOptions, UnreadableOptions};
use crate::session::{Error, LeaveOutcome};
use crate::shim::{AgentSignal, ShimCommand, ShimEvent};
use awake_clock::AwakeClock;
use batch::{Outgoing, PendingBatch};
use link::Link;

/// How long to wait before a full disk is tried again.
const FULL_DISK_RETRY: u64 = 1_000;

/// How long to wait before a journal that another process has locked is tried again.
const BUSY_RETRY: u64 = 100;

/// After this time, commands no longer wait for a write that is neither done nor refused.
const SLOW_WRITE: u64 = 10_000;

/// The decisions of one owner.
#[derive(Debug)]
pub struct OwnerCore {
    id: SessionId,
    now: ClockReading,
    clock: AwakeClock,
    machine: Machine,
    link: Link,
    /// The number of the current process in the session.
    run: u64,
    /// How much of its output is in the journal or in the batch: whole lines.
    offset: u64,
    /// How many lines were written to it.
    writes: u64,
    splitter: Splitter,
    /// How much of its output the splitter has got.
    received: u64,
    /// What the line means whose end has not come yet and which is too long to be held.
    long_line: Option<AgentEvent>,
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
}

/// Something that happened to an owner.
#[derive(Debug)]
pub enum OwnerInput {
    /// The first input: take over what an earlier owner left.
    TakeOver,
    Command {
        id: CommandId,
        command: Box<SessionCommand>,
    },
    /// Stop driving the session.
    Leave,
    /// The shim reported something.
    Shim(ShimEvent),
    /// The connection to the shim ended without an exit.
    Disconnected,
    /// The result of [`OwnerEffect::Attach`].
    Attached(AttachOutcome),
    /// The result of [`OwnerEffect::Start`].
    Started(StartOutcome),
    /// The next piece of the output that [`OwnerEffect::ReadLeftovers`] asked for.
    Leftover {
        offset: u64,
        bytes: Vec<u8>,
    },
    /// There is no more of it, and this is how the process ended.
    LeftoversEnd(AgentExit),
    /// The result of [`OwnerEffect::Write`]: the number of the session's last entry.
    Written(Result<Seq, WriteFailure>),
    /// The result of [`OwnerEffect::LoadGrants`]: all grants that have not expired.
    Grants(Vec<Grant>),
    /// The result of [`OwnerEffect::LoadOutbound`].
    Outbound(Vec<OutboundLine>),
    /// Time passed.
    Tick,
}

/// What an attempt to attach to a shim found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachOutcome {
    /// It runs, and this is the last line it has received.
    Attached { last_write: u64 },
    /// It does not run.
    Gone,
}

/// What became of the start of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartOutcome {
    /// It runs, and its shim is attached.
    Running,
    /// It has exited at once, and its shim with it.
    Exited,
    /// It was not started, for this reason.
    Failed(String),
}

/// Why a batch was not stored. It can be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    Full,
    Busy,
}

/// Something to be done for an owner.
#[derive(Debug)]
pub enum OwnerEffect {
    /// Store a batch.
    Write(Box<Batch>),
    LoadGrants,
    /// Load the stored lines for the agent.
    LoadOutbound,
    /// Send a command to the attached shim. It may be lost with the connection.
    Send(ShimCommand),
    Reply(CommandId, Result<CommandOutput, Error>),
    Start {
        run: u64,
        conversation: CliConversation,
    },
    /// Attach to the shim of a run, to receive its output from an offset on.
    Attach {
        run: u64,
        from: u64,
    },
    /// Read the output of a run whose shim is gone.
    ReadLeftovers {
        run: u64,
        from: u64,
    },
    /// Close the connection: the process has exited.
    Disconnect,
    /// Remove the files of a run, whose output is in the journal.
    RemoveRun(u64),
    /// Let the journal drop what only served streaming, up to an entry.
    Compact(Seq),
    /// Nothing more is to be done.
    Leave(LeaveOutcome),
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
}

/// What the core waits for.
#[derive(Debug)]
enum Stage {
    Ready,
    LoadingGrants,
    /// Loading the lines behind this number, which did not reach the shim.
    LoadingOutbound {
        behind: u64,
        /// What the machine is told then.
        then: Option<Input>,
    },
    Writing {
        pending: Box<UnwrittenBatch>,
        since: u64,
        slow: bool,
    },
    /// The journal could not store the batch.
    Refused {
        pending: Box<UnwrittenBatch>,
        failure: WriteFailure,
        retry_at: u64,
    },
    Left,
}

/// A batch that is being written, and what waits for it.
#[derive(Debug)]
struct UnwrittenBatch {
    batch: Batch,
    outgoing: Vec<Outgoing>,
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
        let OwnerSnapshot { now, seed, limits, record, prompts, requests, has_process } = snapshot;
        let was_active = matches!(record.status, SessionStatus::Running | SessionStatus::Waiting);
        let agent_may_run = was_active || record.spool.run > 0 && has_process;
        let mut ids = IdSequence(seed);
        let [_, instance] = halves(ids.next().as_u128());
        let machine = Machine::new(MachineSnapshot {
            now,
            instance,
            session: record.id,
            limits,
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
        });
        Self {
            id: record.id,
            now,
            clock: AwakeClock::default(),
            machine,
            link: if agent_may_run { Link::Unknown } else { Link::None },
            run: record.spool.run,
            offset: record.spool.offset,
            writes: record.writes,
            splitter: Splitter::new(),
            received: record.spool.offset,
            long_line: None,
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
        self.now = self.clock.read(now, self.deadline());
        self.take(input);
        while matches!(self.stage, Stage::Ready) {
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

    /// How long it is until a [tick](OwnerInput::Tick) is needed, in milliseconds.
    pub fn pause(&self, now: ClockReading) -> Option<u64> {
        self.deadline().map(|deadline| self.clock.until(deadline, now))
    }

    /// The number of the current process in the session.
    pub fn run(&self) -> u64 {
        self.run
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Whether nothing is known of the agent's stderr, which the shim has stored.
    pub fn lacks_stderr(&self) -> bool {
        self.stderr.is_empty()
    }

    fn deadline(&self) -> Option<u64> {
        match &self.stage {
            Stage::Ready => {
                [self.machine.deadline(), self.link.deadline()].into_iter().flatten().min()
            }
            Stage::LoadingGrants | Stage::LoadingOutbound { .. } | Stage::Left => None,
            Stage::Writing { since, slow, .. } => (!slow).then_some(since + SLOW_WRITE),
            Stage::Refused { retry_at, .. } => Some(*retry_at),
        }
    }

    fn take(&mut self, input: OwnerInput) {
        match (&mut self.stage, input) {
            (Stage::Left, _) => {}
            (_, OwnerInput::Written(result)) => self.written(result),
            (_, OwnerInput::Grants(grants)) => self.grants_loaded(grants),
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
                    self.step(Input::Tick);
                }
            }
            OwnerInput::Written(_) | OwnerInput::Grants(_) | OwnerInput::Outbound(_) => {}
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
                CoreStep::Input(Input::Agent(AgentEvent::RequestOpened(_)))
                    if !self.grants_loaded =>
                {
                    // Other sessions may have added some.
                    self.steps.push_front(step);
                    self.stage = Stage::LoadingGrants;
                    self.effects.push(OwnerEffect::LoadGrants);
                    return;
                }
                CoreStep::Input(input) => self.input(input),
            }
        }
        self.grants_loaded = false;
        self.commit();
    }

    fn input(&mut self, input: Input) {
        if let Input::Agent(AgentEvent::TurnStarted { conversation: Some(id) }) = &input {
            self.add_conversation(id);
        }
        for effect in self.machine.on(self.now, input) {
            match effect {
                Effect::Start(mode) => self.start(mode),
                Effect::Grant(grant) => {
                    let id = self.ids.next();
                    self.batch.add_grant(grant, id);
                }
                effect => {
                    if let Effect::Write(_) = effect {
                        self.writes += 1;
                    }
                    self.batch.add_effect(effect, self.writes, &mut self.titled);
                }
            }
        }
    }

    /// Records the CLI's id of the conversation, which changes with `/clear`.
    fn add_conversation(&mut self, id: &str) {
        if self.conversations.last().is_none_or(|last| last != id) {
            self.conversations.retain(|known| known != id);
            self.conversations.push(id.to_owned());
            self.batch.set_conversation(id);
        }
    }

    /// Gives the machine the grants that apply to this session.
    fn grants_loaded(&mut self, mut grants: Vec<Grant>) {
        let directory = &self.machine.options().directory;
        grants.retain(|grant| {
            grant.session.is_none_or(|session| session == self.id)
                && grant.directory.as_ref().is_none_or(|it| it == directory)
        });
        self.stage = Stage::Ready;
        self.grants_loaded = true;
        self.steps.push_front(CoreStep::Input(Input::Grants(grants)));
        self.work();
    }

    /// Prepares the start of a new process. Its number is in the same batch: after a crash, the
    /// next owner must know which process the output belongs to.
    fn start(&mut self, mode: StartMode) {
        let conversation = self.choose_conversation(mode);
        self.run += 1;
        self.offset = 0;
        self.received = 0;
        self.writes = 0;
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

    /// Writes the batch, if there is something to write. What waited for it leaves afterwards.
    fn commit(&mut self) {
        let status = self.machine.status();
        self.batch.set_status((status != self.status).then_some(status));
        self.status = status;
        let spool = SpoolPosition { run: self.run, offset: self.offset };
        let batch = self.batch.take_batch(self.now.wall, spool, self.writes);
        let outgoing = self.batch.take_outgoing();
        match batch {
            Some(batch) => self.write(Box::new(UnwrittenBatch { batch, outgoing })),
            None => self.let_out(outgoing, None),
        }
    }

    fn write(&mut self, pending: Box<UnwrittenBatch>) {
        self.effects.push(OwnerEffect::Write(Box::new(pending.batch.clone())));
        self.stage = Stage::Writing { pending, since: self.now.monotonic, slow: false };
    }

    fn written(&mut self, result: Result<Seq, WriteFailure>) {
        let stage = std::mem::replace(&mut self.stage, Stage::Ready);
        let Stage::Writing { pending, .. } = stage else {
            self.stage = stage;
            return;
        };
        match result {
            Ok(last) => {
                if self.is_connected() {
                    self.effects.push(OwnerEffect::Send(ShimCommand::Acknowledge(self.offset)));
                }
                self.let_out(pending.outgoing, Some(last));
            }
            Err(_) if self.leaving => {
                self.drop_replies(pending.outgoing);
                self.leave(LeaveOutcome::NotStored);
            }
            Err(failure) => {
                let mut pending = pending;
                if failure == WriteFailure::Full {
                    self.answer_delayed(&mut pending.outgoing);
                }
                let pause = match failure {
                    WriteFailure::Full => FULL_DISK_RETRY,
                    WriteFailure::Busy => BUSY_RETRY,
                };
                let retry_at = self.now.monotonic + pause;
                self.stage = Stage::Refused { pending, failure, retry_at };
                self.refuse_waiting();
            }
        }
    }

    fn pass_write_deadline(&mut self) {
        let now = self.now.monotonic;
        match &mut self.stage {
            Stage::Writing { since, slow, .. } if *since + SLOW_WRITE <= now => {
                *slow = true;
                if self.leaving {
                    self.leave(LeaveOutcome::NotStored);
                } else {
                    self.refuse_waiting();
                }
            }
            Stage::Refused { retry_at, .. } if *retry_at <= now => self.retry_write(),
            _ => {}
        }
    }

    fn retry_write(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Ready) {
            Stage::Refused { pending, .. } => self.write(pending),
            stage => self.stage = stage,
        }
    }

    /// Refuses the commands that waited for a write that failed or takes too long.
    fn refuse_waiting(&mut self) {
        for input in std::mem::take(&mut self.waiting) {
            self.take(input);
        }
    }

    /// Refuses a command that cannot be stored, except that an interrupt still reaches the agent.
    fn refuse(&mut self, id: CommandId, command: &SessionCommand, failure: WriteFailure) {
        let refusal = match failure {
            WriteFailure::Full => Error::NotStored,
            WriteFailure::Busy => Error::Journal(journal::Error::Busy),
        };
        let result = match command {
            SessionCommand::Capabilities => {
                Ok(CommandOutput::Payload(self.machine.capabilities().map(str::to_owned)))
            }
            SessionCommand::Interrupt { .. } if self.is_connected() => {
                let interrupt = ShimCommand::Signal(AgentSignal::Interrupt);
                self.effects.push(OwnerEffect::Send(interrupt));
                Err(refusal)
            }
            _ => Err(refusal),
        };
        self.effects.push(OwnerEffect::Reply(id, result));
    }

    fn let_out(&mut self, outgoing: Vec<Outgoing>, last: Option<Seq>) {
        for outgoing in outgoing {
            match outgoing {
                Outgoing::Shim(command) => self.send(command),
                Outgoing::Reply(id, result) => {
                    let result = result.map_err(Error::Refused);
                    self.effects.push(OwnerEffect::Reply(id, result));
                }
                Outgoing::Start { run, conversation } => {
                    self.effects.push(OwnerEffect::Start { run, conversation });
                }
                Outgoing::RemoveRun(run) => self.effects.push(OwnerEffect::RemoveRun(run)),
                Outgoing::Compact => {
                    self.effects.extend(last.map(OwnerEffect::Compact));
                }
            }
        }
    }

    /// Tells the clients of the batch that the disk is full. Their commands are carried out when
    /// there is space, but it is unknown when that will be.
    fn answer_delayed(&mut self, outgoing: &mut Vec<Outgoing>) {
        let effects = &mut self.effects;
        outgoing.retain(|outgoing| {
            let Outgoing::Reply(id, _) = outgoing else { return true };
            let error = Error::Journal(journal::Error::Full);
            effects.push(OwnerEffect::Reply(*id, Err(error)));
            false
        });
    }

    fn leave_when_written(&mut self) {
        self.leaving = true;
        if let Stage::Writing { slow: true, .. } = self.stage {
            self.leave(LeaveOutcome::NotStored);
        }
        self.retry_write();
    }

    /// Nothing of a batch that was not stored may be acknowledged.
    fn drop_replies(&mut self, outgoing: Vec<Outgoing>) {
        for outgoing in outgoing {
            if let Outgoing::Reply(id, _) = outgoing {
                self.effects.push(OwnerEffect::Reply(id, Err(Error::NotStored)));
            }
        }
    }

    fn leave(&mut self, outcome: LeaveOutcome) {
        self.stage = Stage::Left;
        self.effects.push(OwnerEffect::Leave(outcome));
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
