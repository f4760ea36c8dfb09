//! The turn machine: everything a session decides, and nothing it does.
//!
//! [`Machine::on`] is told what happened and says what is to be done. It knows no process, no clock
//! and no file, so that a simulation can walk it through every mishap in microseconds. Its promises,
//! which that simulation holds it to:
//!
//! - every turn that began is over exactly once, also when the agent says nothing of it;
//! - a prompt goes to the agent at most once, in the order of the queue, and ends in a final state;
//! - a request is resolved exactly once, whoever answers first;
//! - what can wait for ever has a [deadline](Machine::deadline).
//!
//! Whoever drives it must make the effects of a step durable before any of them leaves the process:
//! notes and records first, then words to the agent and replies.

mod agent;
mod commands;
mod control;
mod effect;
mod input;
mod limits;
mod prompts;
mod requests;
mod turns;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use journal::{Grant, PromptRecord, RequestRecord, SessionId, Status};
use uuid::Uuid;
use wire::note::{Note, PromptState};

use crate::heard::Heard;
use crate::options::Options;
use agent::Agent;
use control::Controls;
pub use effect::{Done, Effect, Refusal, Reply, Start};
pub use input::{Answer, Command, Gone, GrantScope, Input, NewPrompt, Query, RuleChoice, Ticket};
pub use limits::Limits;
use prompts::Prompts;
use turns::Turn;

/// What one session decides.
#[derive(Debug)]
pub struct Machine {
    now: u64,
    session: SessionId,
    limits: Limits,
    options: Options,
    agent: Agent,
    /// Deaths in a row without a turn that ended in between.
    failures: u32,
    /// No process is started before this moment.
    start_at: u64,
    /// Whether the agent has a conversation to go on with.
    resumable: bool,
    /// The number of the last turn that began.
    turns: u64,
    turn: Option<Turn>,
    /// Until when the agent should begin with prompts that it took but did not answer.
    carrying: Option<u64>,
    /// Whether a turn was over without a result that may still come.
    owes_result: bool,
    prompts: Prompts,
    requests: BTreeMap<String, RequestRecord>,
    grants: Vec<Grant>,
    controls: Controls,
    /// Commands that wait for an agent to be ready.
    held: Vec<(Ticket, Command)>,
    /// What the agent said it can do, as it answered `initialize`.
    abilities: Option<String>,
    /// When the session last did or was told something.
    active: u64,
    out: Vec<Effect>,
}

/// What a machine is made from: a new session's beginnings, or what the journal kept of an old one.
#[derive(Debug)]
pub struct Origins {
    /// Milliseconds since 1970.
    pub now: u64,
    /// The session.
    pub session: SessionId,
    /// How patient it is.
    pub limits: Limits,
    /// What is wanted of the agent.
    pub options: Options,
    /// Every prompt there has been.
    pub prompts: Vec<PromptRecord>,
    /// Requests without an answer.
    pub requests: Vec<RequestRecord>,
    /// The number of the last turn that began.
    pub turns: u64,
    /// Whether it is not over yet.
    pub turn_is_open: bool,
    /// Whether there may be an agent process that was started before. What it left may be heard
    /// first; then [`Input::AgentMet`], [`Input::AgentForeign`] or [`Input::AgentGone`] must come.
    pub agent_lives: bool,
    /// Whether there is a conversation to resume.
    pub resumable: bool,
}

impl Origins {
    /// Those of a session that has just been created.
    pub fn new(now: u64, session: SessionId, limits: Limits, options: Options) -> Self {
        Self {
            now,
            session,
            limits,
            options,
            prompts: Vec::new(),
            requests: Vec::new(),
            turns: 0,
            turn_is_open: false,
            agent_lives: false,
            resumable: false,
        }
    }
}

impl Machine {
    /// A machine at rest, or in the middle of what the journal tells.
    pub fn new(origins: Origins) -> Self {
        let Origins { now, session, limits, options, turns, resumable, .. } = origins;
        let prompts = Prompts::restored(origins.prompts);
        let asks = origins.requests.iter().any(|it| it.agent.is_none());
        let turn = origins.turn_is_open.then(|| Turn::restored(turns, now, &prompts, asks));
        let carries = origins.agent_lives && turn.is_none() && prompts.in_flight().next().is_some();
        let requests = origins.requests.into_iter().map(|it| (it.id.clone(), it)).collect();
        Self {
            now,
            session,
            limits,
            options,
            agent: if origins.agent_lives { Agent::found() } else { Agent::asleep() },
            failures: 0,
            start_at: now,
            resumable,
            turns,
            // Nobody knows how the last turn was over.
            owes_result: origins.agent_lives && turn.is_none(),
            turn,
            carrying: carries.then(|| now + limits.carry),
            prompts,
            requests,
            grants: Vec::new(),
            controls: Controls::since(now),
            held: Vec::new(),
            abilities: None,
            active: now,
            out: Vec::new(),
        }
    }

    /// Takes in what happened at a moment and says what is to be done, in this order.
    #[must_use]
    pub fn on(&mut self, now: u64, input: Input) -> Vec<Effect> {
        self.now = self.now.max(now);
        match input {
            Input::Command { ticket, command } => {
                self.active = self.now;
                self.command(ticket, command);
            }
            Input::Heard(heard) => {
                self.active = self.now;
                self.heard(heard);
            }
            Input::Grants(grants) => self.grants = grants,
            Input::AgentMet => self.agent_met(),
            Input::AgentForeign => self.agent_foreign(),
            Input::AgentStarted => self.agent_started(),
            Input::AgentGone(gone) => self.agent_gone(&gone),
            Input::Tick => {}
        }
        self.pass_deadlines();
        self.deliver();
        std::mem::take(&mut self.out)
    }

    fn heard(&mut self, heard: Heard) {
        if let Some(turn) = &mut self.turn {
            turn.broke_silence(self.now);
        }
        match heard {
            Heard::Life => {}
            Heard::TurnBegan { conversation } => {
                self.resumable |= conversation.is_some();
                self.turn_began();
            }
            Heard::Accepted(prompt) => self.accepted(prompt),
            Heard::Dropped(prompt) => self.dropped(prompt),
            Heard::TurnEnded(ended) => self.turn_ended(&ended),
            Heard::Idle => self.went_idle(),
            Heard::Busy => self.went_busy(),
            Heard::Asked(asked) => self.asked(asked),
            Heard::AskedInVain { request, what } => self.asked_in_vain(&request, &what),
            Heard::Withdrawn(request) => self.withdrawn(&request),
            Heard::Answered { request, answer } => self.answered(&request, answer),
        }
    }

    /// The next moment at which the machine wants a [`Input::Tick`].
    pub fn deadline(&self) -> Option<u64> {
        [
            self.agent.deadline(),
            (self.agent.is_asleep() && self.wants_an_agent() && !self.has_failed())
                .then_some(self.start_at),
            self.turn.as_ref().and_then(|turn| turn.deadline(&self.limits, self.asks_a_person())),
            self.carrying,
            self.controls.deadline(),
            self.requests.values().filter_map(|it| it.expires).min(),
            self.park_at(),
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
        if self.park_at().is_some_and(|at| at <= self.now) {
            self.park();
        }
    }

    /// Where the session stands, in one word.
    pub fn status(&self) -> Status {
        if self.asks_a_person() {
            Status::Waiting
        } else if self.turn.is_some() || self.carrying.is_some() {
            Status::Running
        } else if self.wants_an_agent() {
            if self.has_failed() { Status::Failed } else { Status::Running }
        } else if self.has_failed() {
            Status::Failed
        } else if self.agent.died() {
            Status::Dead
        } else {
            Status::Idle
        }
    }

    /// What the agent said it can do as it answered `initialize`: models, commands, and so on.
    pub fn abilities(&self) -> Option<&str> {
        self.abilities.as_deref()
    }

    /// What is wanted of the agent, changed settings included.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether a turn is running or about to.
    pub fn is_busy(&self) -> bool {
        self.turn.is_some() || self.carrying.is_some()
    }

    /// The number of the last turn that began.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    fn asks_a_person(&self) -> bool {
        !self.requests.is_empty()
    }

    fn has_failed(&self) -> bool {
        self.failures > self.limits.restarts
    }

    /// Hands prompts on as far as it is their time.
    fn deliver(&mut self) {
        if self.agent.is_asleep() {
            if self.wants_an_agent() && !self.has_failed() && self.start_at <= self.now {
                self.start_agent();
            }
            return;
        }
        if !self.agent.is_ready() {
            return;
        }
        for (ticket, command) in std::mem::take(&mut self.held) {
            self.command(ticket, command);
        }
        if self.controls.rewinding() {
            return;
        }
        if self.is_busy() {
            if self.turn.as_ref().is_some_and(|turn| !turn.is_stopping()) {
                self.steer();
            }
        } else if let Some(prompt) = self.prompts.next_queued() {
            self.open_turn_with(prompt);
        }
    }

    fn wants_an_agent(&self) -> bool {
        self.prompts.next_queued().is_some() || !self.held.is_empty()
    }

    fn note(&mut self, note: Note) {
        self.out.push(Effect::Note(note));
    }

    fn reply(&mut self, ticket: Ticket, reply: Reply) {
        self.out.push(Effect::Reply(ticket, reply));
    }

    /// Moves a prompt on, once, and says so.
    fn prompt_becomes(&mut self, id: Uuid, state: PromptState, turn: Option<u64>) {
        if let Some(record) = self.prompts.become_state(id, state, turn, self.now) {
            self.out.push(Effect::Prompt(record));
            self.note(Note::PromptBecame { prompt: id, state });
        }
    }
}
