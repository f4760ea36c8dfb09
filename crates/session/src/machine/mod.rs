//! The session machine: everything a session decides, without any I/O.
//!
//! [`Machine::on`] takes what happened and returns what must be done. It knows no process, no clock
//! and no file, so a simulation can run it through every kind of failure in microseconds. The
//! simulation checks these guarantees:
//!
//! - every turn that started ends exactly once, even if the agent never reports the end;
//! - a prompt goes to the agent at most once, in the order of the queue, and reaches a final state;
//! - a request is resolved exactly once, by the first answer;
//! - everything that could wait for ever has a [deadline](Machine::deadline).
//!
//! The caller must make the effects of a step durable before any of them leaves the process: notes
//! and records first, then lines to the agent and replies.

mod agent;
mod budget;
mod choices;
mod clock;
mod commands;
mod controls;
mod hold;
mod hooks;
mod prompts;
mod requests;
mod schedules;
mod settings;
mod turns;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use journal::{Grant, PromptRecord, RequestRecord, SessionId, SessionStatus};
use uuid::Uuid;
use wire::ReportedState;
use wire::note::{Note, PromptState};
use wire::outgoing::{OutgoingPrompt, Priority};

use crate::agent_event::AgentEvent;
use crate::agent_message::AgentMessage;
use crate::catalog::AgentProtocol;
use crate::command::{CommandError, CommandResult, SessionCommand};
use crate::config::{HookRequest, SessionLimits, WatchPolicy};
use crate::options::{SessionOptions, UnreadableOptions};
use agent::AgentState;
pub use clock::ClockReading;
use controls::ControlRequests;
use hooks::Hooks;
use prompts::PromptQueue;
use turns::TurnState;

/// The decisions of one session.
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
#[derive(Debug)]
pub struct Machine {
    /// The monotonic time, for deadlines.
    now: u64,
    /// The wall-clock time, for what is stored and shown.
    wall: u64,
    session: SessionId,
    limits: SessionLimits,
    options: SessionOptions,
    protocol: AgentProtocol,
    /// Whether the agent accepts prompts into a running turn.
    steers: bool,
    /// Why the stored options cannot be read. No agent is started without them: it would run
    /// without its limits.
    unreadable_options: Option<String>,
    agent: AgentState,
    /// Exits in a row without a turn that ended in between.
    failures: u32,
    /// No process is started before this time.
    start_at: u64,
    /// Whether the agent has a conversation to resume.
    resumable: bool,
    /// The number of the last turn that started.
    turns: u64,
    turn: TurnState,
    /// When lines for the agent that did not reach it yet are sent again.
    lines_delayed: Option<u64>,
    prompts: PromptQueue,
    requests: BTreeMap<String, RequestRecord>,
    /// When open requests expire, in monotonic time.
    request_deadlines: BTreeMap<String, u64>,
    grants: Vec<Grant>,
    /// Requests to edit a file behind a symbolic link. No rule covers them, and none is offered: it
    /// names a directory, and the link may lead out of it.
    linked_edits: BTreeSet<String>,
    /// Requests of an earlier owner, whose files may be behind a link. No rule covers them.
    unchecked_edits: BTreeSet<String>,
    controls: ControlRequests,
    hooks: Hooks,
    /// Commands that wait until an agent is ready.
    deferred: Vec<(CommandId, SessionCommand)>,
    /// The agent's answer to `initialize`.
    capabilities: Option<String>,
    /// The time of the last command or output.
    last_activity: u64,
    /// What all sessions have cost today, while it decides about a prompt.
    day_cost: Option<f64>,
    /// Whether that was asked for.
    awaits_day_cost: bool,
    /// Whether the session was closed, or idle for as long as it may be, since it last had an agent.
    ended: bool,
    effects: Vec<Effect>,
}

impl SessionLimits {
    /// Refuses a line that the shim would not accept.
    fn check_size(&self, what: &'static str, message: &AgentMessage) -> Result<(), CommandError> {
        // The newline is added later. Messages without a line for the CLI are short.
        let size = message.to_line().map_or(0, |line| line.as_str().len() + 1);
        if size <= self.longest_write {
            Ok(())
        } else {
            Err(CommandError::TooLarge { what: what.into(), size })
        }
    }

    /// Refuses a prompt that could never be sent to the agent, before it is stored.
    fn check_prompt(&self, prompt: OutgoingPrompt) -> Result<(), CommandError> {
        // As long as the line can become: a prompt may be steered later.
        self.check_size("the prompt", &AgentMessage::Prompt(prompt.priority(Priority::Next)))
    }
}

/// Something that happened to the session.
#[derive(Debug)]
pub enum Input {
    Command {
        id: CommandId,
        command: SessionCommand,
    },
    /// The agent printed a line.
    Agent(AgentEvent),
    /// The grants that apply to this session, which replace the previous ones, and the requests that
    /// are about to be opened for a file behind a symbolic link.
    Grants {
        grants: Vec<Grant>,
        linked: Vec<String>,
    },
    /// The owner is connected to a process that an earlier Towpath started.
    AgentAttached {
        /// Whether the earlier Towpath wrote anything to it.
        used: bool,
    },
    /// The process that [`Effect::Start`] asked for runs.
    AgentStarted,
    /// Lines for the agent did not reach it. They are sent again at this time.
    LinesDelayed {
        until: u64,
    },
    /// All lines for the agent have reached it.
    LinesDelivered,
    /// The process and its shim are gone. The rest of its output comes, then
    /// [`AgentGone`](Self::AgentGone).
    AgentLost,
    /// The process is gone, or could not be started.
    AgentGone(AgentExit),
    /// What all sessions have cost today, in dollars: the answer to [`Effect::LoadDayCost`].
    DayCost(f64),
    /// Time passed.
    Tick,
}

/// Identifies a command, so that its reply reaches the client that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandId(pub u64);

/// How an agent process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentExit {
    /// It could not be started, for this reason.
    NotStarted(String),
    Exited {
        code: i32,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// A signal ended it.
    Killed(i32),
    /// The shim died before it could record the exit.
    Unknown,
}

/// Something to be done. Notes and records must be durable before lines and replies go out.
#[derive(Debug)]
pub enum Effect {
    /// Write a note into the journal.
    Note(Note),
    /// Store the new state of a prompt.
    Prompt(PromptRecord),
    /// Store the new state of a request.
    Request(RequestRecord),
    /// Store a new grant.
    Grant(Grant),
    /// Store changed options.
    Options(Box<SessionOptions>),
    /// Add what the agent has cost, in dollars, to the cost of the day.
    AddCost(f64),
    /// Find out what all sessions have cost on a day, in days since 1970.
    LoadDayCost(u64),
    /// Tell the agent something.
    Send(Box<AgentMessage>),
    /// Start a process.
    Start(StartMode),
    /// Stop the process: close its stdin, then terminate it, then kill it.
    Stop {
        /// Milliseconds between one step and the next.
        timeout: u64,
    },
    /// Kill the process and everything it started.
    Kill,
    Reply(CommandId, CommandResult),
    /// A turn ended: the journal can drop what only served its streaming.
    Compact,
    /// Run a hook. Its answer is a command.
    RunHook(Box<HookRequest>),
}

/// The conversation a process is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartMode {
    NewConversation,
    Resume,
}

/// What a machine is made from: a new session, or the state the journal has of an existing one.
#[derive(Debug)]
pub struct MachineSnapshot {
    pub now: ClockReading,
    /// Differs for every Towpath that drives the session, so that no id of a control request is
    /// used twice.
    pub instance: u64,
    pub session: SessionId,
    pub limits: SessionLimits,
    /// How the agent is spoken with.
    pub protocol: AgentProtocol,
    /// The stored options, or why they cannot be read.
    pub options: Result<SessionOptions, UnreadableOptions>,
    /// All prompts of the session, including finished ones.
    pub prompts: Vec<PromptRecord>,
    /// Requests that are not resolved.
    pub requests: Vec<RequestRecord>,
    /// The number of the last turn that started.
    pub turns: u64,
    /// Whether that turn has not ended.
    pub turn_is_open: bool,
    /// Whether an earlier Towpath may have left an agent process. Its output may come first; then
    /// [`Input::AgentAttached`] or [`Input::AgentGone`] must follow.
    pub agent_may_run: bool,
    /// Whether there is a conversation to resume.
    pub resumable: bool,
    /// What this process does about changed files.
    pub watch: WatchPolicy,
}

impl MachineSnapshot {
    /// The state of a session that has just been created.
    pub fn new(
        now: ClockReading,
        session: SessionId,
        limits: SessionLimits,
        options: SessionOptions,
    ) -> Self {
        Self {
            now,
            instance: 0,
            session,
            limits,
            protocol: AgentProtocol::StreamJson,
            options: Ok(options),
            prompts: Vec::new(),
            requests: Vec::new(),
            turns: 0,
            turn_is_open: false,
            agent_may_run: false,
            resumable: false,
            watch: WatchPolicy::default(),
        }
    }
}

impl Machine {
    pub fn new(snapshot: MachineSnapshot) -> Self {
        let turn = TurnState::restore(&snapshot);
        let request_deadlines = requests::restore_deadlines(&snapshot);
        let MachineSnapshot { session, limits, turns, resumable, instance, .. } = snapshot;
        let ClockReading { wall, monotonic: now } = snapshot.now;
        let (hook_calls, requests): (Vec<_>, Vec<_>) =
            snapshot.requests.into_iter().partition(RequestRecord::is_for_hook);
        // What was found out about their files is not stored.
        let unchecked_edits = requests.iter().map(|it| it.id.clone()).collect();
        let requests = requests.into_iter().map(|it| (it.id.clone(), it)).collect();
        let hooks = Hooks::restore(&snapshot.watch, hook_calls, now.saturating_add(limits.hook));
        let (options, unreadable_options) = match snapshot.options {
            Ok(options) => (options, None),
            Err(UnreadableOptions { directory, reason }) => {
                (SessionOptions { directory, ..SessionOptions::default() }, Some(reason))
            }
        };
        Self {
            now,
            wall,
            session,
            limits,
            options,
            protocol: snapshot.protocol,
            steers: snapshot.protocol == AgentProtocol::StreamJson,
            unreadable_options,
            agent: AgentState::restore(snapshot.agent_may_run),
            failures: 0,
            start_at: now,
            resumable,
            turns,
            turn,
            lines_delayed: None,
            prompts: PromptQueue::restore(snapshot.prompts),
            requests,
            request_deadlines,
            grants: Vec::new(),
            linked_edits: BTreeSet::new(),
            unchecked_edits,
            controls: ControlRequests::of_instance(instance),
            hooks,
            deferred: Vec::new(),
            capabilities: None,
            last_activity: now,
            day_cost: None,
            awaits_day_cost: false,
            ended: false,
            effects: Vec::new(),
        }
    }

    /// Takes in what happened and returns what must be done, in this order.
    #[must_use]
    pub fn on(&mut self, now: ClockReading, input: Input) -> Vec<Effect> {
        self.now = self.now.max(now.monotonic);
        self.wall = now.wall;
        match input {
            Input::Command { id, command } => {
                // A page that polls the capabilities must not keep an idle agent running.
                if command != SessionCommand::Capabilities {
                    self.last_activity = self.now;
                }
                self.command(id, command);
            }
            Input::Agent(event) => {
                self.last_activity = self.now;
                self.agent_event(event);
            }
            Input::Grants { grants, linked } => {
                self.grants = grants;
                self.linked_edits.extend(linked);
            }
            Input::AgentAttached { used } => self.agent_attached(used),
            Input::AgentStarted => self.agent_started(),
            Input::LinesDelayed { until } => self.delay_lines(until),
            Input::LinesDelivered => self.lines_delivered(),
            Input::AgentLost => self.agent_lost(),
            Input::AgentGone(exit) => self.agent_gone(&exit),
            Input::DayCost(cost) => {
                self.day_cost = Some(cost);
                self.awaits_day_cost = false;
            }
            Input::Tick => {}
        }
        self.pass_deadlines();
        self.release_empty_queue();
        self.deliver();
        // Other sessions go on meanwhile.
        self.day_cost = None;
        std::mem::take(&mut self.effects)
    }

    fn agent_event(&mut self, event: AgentEvent) {
        self.turn.note_output(self.now);
        match event {
            AgentEvent::Output => {}
            AgentEvent::TurnStarted { conversation } => {
                self.resumable |= conversation.is_some();
                self.turn_started();
            }
            AgentEvent::TurnEnded(result) => self.turn_ended(&result),
            AgentEvent::TurnCancelled { prompts } => self.turn_cancelled(prompts),
            AgentEvent::Unprompted => self.unprompted(),
            AgentEvent::ConversationOpened(_) => self.resumable = true,
            AgentEvent::ConversationLost => {
                self.resumable = false;
                self.restart_cost();
            }
            AgentEvent::StartFailed { reason, retry } => self.agent_failed(reason, retry),
            AgentEvent::SteeringOffered(offered) => self.steers = offered,
            AgentEvent::PromptReturned(prompt) => self.prompt_returned(prompt),
            AgentEvent::CostReported(total) => self.count_cost(total),
            AgentEvent::PromptAccepted(prompt) => self.prompt_accepted(prompt),
            AgentEvent::PromptDropped(prompt) => self.prompt_dropped(prompt),
            AgentEvent::StateReported(ReportedState::Idle) => self.idle_reported(),
            AgentEvent::StateReported(ReportedState::Running | ReportedState::RequiresAction) => {
                self.running_reported();
            }
            AgentEvent::RequestOpened(request) => self.request_opened(request),
            AgentEvent::HookCalled(call) => self.hook_called(call),
            AgentEvent::UnsupportedRequest { id, subtype } => self.refuse_request(&id, &subtype),
            AgentEvent::RequestWithdrawn { id } => {
                self.withdraw_request(&id);
                self.withdraw_hook(&id);
            }
            AgentEvent::RequestAnswered { id, answer } => self.control_answered(&id, answer),
        }
    }

    /// The next time at which the machine needs an [`Input::Tick`], as monotonic time.
    pub fn deadline(&self) -> Option<u64> {
        [
            self.agent.deadline(),
            (self.agent.is_stopped()
                && self.needs_agent()
                && !self.has_failed()
                && !self.awaits_day_cost)
                .then_some(self.start_at),
            self.turn.deadline(&self.limits, self.waits_for_person()),
            self.controls.deadline(),
            self.request_deadline(),
            self.hooks.deadline().filter(|_| self.agent.accepts_input()),
            self.schedule_deadline(),
            self.park_at(),
            self.end_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn pass_deadlines(&mut self) {
        self.pass_agent_deadline();
        self.pass_turn_deadlines();
        self.expire_controls();
        self.expire_requests();
        self.expire_hooks();
        self.send_scheduled();
        if self.park_at().is_some_and(|at| at <= self.now) {
            self.park();
        }
        if self.end_at().is_some_and(|at| at <= self.now) {
            self.ended = true;
        }
    }

    /// The status of the session as the journal stores it.
    pub fn status(&self) -> SessionStatus {
        if self.waits_for_person() {
            SessionStatus::Waiting
        } else if self.is_busy() {
            SessionStatus::Running
        } else if self.has_failed() {
            SessionStatus::Failed
        } else if self.needs_agent() {
            SessionStatus::Running
        } else if self.agent.died() {
            SessionStatus::Dead
        } else {
            SessionStatus::Idle
        }
    }

    /// Whether the session is to be deleted: it is set so, it was closed or idle for long enough, and
    /// nothing waits for an agent.
    pub fn has_ended(&self) -> bool {
        self.options.delete_when_ended
            && self.ended
            && self.agent.is_stopped()
            && !self.needs_agent()
            && !self.has_later_prompts()
    }

    /// The agent's answer to `initialize`: models, slash commands and so on, as JSON.
    pub fn capabilities(&self) -> Option<&str> {
        self.capabilities.as_deref()
    }

    /// The options of the session, including changed settings.
    pub fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// Whether a turn runs, or the agent still has a prompt to start with.
    pub fn is_busy(&self) -> bool {
        !matches!(self.turn, TurnState::Idle { .. })
    }

    /// The number of the last turn that started.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// Whether lines for the agent did not reach it yet.
    pub(crate) fn has_delayed_lines(&self) -> bool {
        self.lines_delayed.is_some()
    }

    fn waits_for_person(&self) -> bool {
        !self.requests.is_empty()
    }

    fn has_failed(&self) -> bool {
        self.failures > self.limits.restarts
    }

    /// Sends what can be sent now: starts an agent, runs deferred commands, writes prompts.
    fn deliver(&mut self) {
        if self.agent.is_stopped() {
            if self.needs_agent()
                && !self.has_failed()
                && self.start_at <= self.now
                && (!self.deferred.is_empty() || self.has_budget())
            {
                self.start_agent();
            }
            return;
        }
        if !self.agent.is_ready() {
            return;
        }
        for (id, command) in std::mem::take(&mut self.deferred) {
            self.command(id, command);
        }
        if self.controls.has_rewind() || self.restart_for_options() {
            return;
        }
        match &self.turn {
            TurnState::Running(turn) if !turn.is_stopping() && self.steers => {
                if !self.is_queue_held() {
                    self.steer();
                }
            }
            TurnState::Running(_) | TurnState::Carrying { .. } => {}
            TurnState::Idle { .. } => {
                if let Some(prompt) = self.next_prompt()
                    && self.has_budget()
                {
                    self.start_turn_with(prompt);
                }
            }
        }
    }

    fn needs_agent(&self) -> bool {
        self.next_prompt().is_some() || !self.deferred.is_empty()
    }

    fn note(&mut self, note: Note) {
        self.effects.push(Effect::Note(note));
    }

    fn reply(&mut self, id: CommandId, result: CommandResult) {
        self.effects.push(Effect::Reply(id, result));
    }

    /// Sets the state of a prompt and notes the change, if there is one.
    fn set_prompt_state(&mut self, id: Uuid, state: PromptState, turn: Option<u64>) {
        if let Some(record) = self.prompts.set_state(id, state, turn, self.wall) {
            self.effects.push(Effect::Prompt(record));
            self.note(Note::PromptStateChanged { prompt: id, state });
        }
    }
}
