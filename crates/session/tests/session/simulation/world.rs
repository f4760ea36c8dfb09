//! Everything around the machine: its owner, the journal, the agent process, users and the clock.
//!
//! The simulated owner works like the real one: the effects of a batch are durable before any of
//! them leaves, and Towpath may die before the batch, after it, or between any two effects that it
//! lets out.

use journal::SessionId;
use towpath_session::machine::{
    AgentExit, CommandId, Effect, Input, Machine, MachineSnapshot, StartMode,
};
use towpath_session::{AgentEvent, SessionCommand, SessionLimits};
use uuid::Uuid;
use wire::note::{ExitCause, Note, PromptState};

use super::agent_model::{AgentModel, AgentStorage, Faults, Generation};
use super::invariants::Invariants;
use super::storage::{SimulatedShim, StoredSession};
use super::users::{Random, Users};

#[expect(clippy::struct_excessive_bools, reason = "the state of a run has many independent parts")]
pub(super) struct World {
    pub(super) random: Random,
    pub(super) now: u64,
    pub(super) limits: SessionLimits,
    pub(super) machine: Machine,
    /// Whether Towpath is down and must be started again.
    pub(super) down: bool,
    /// Whether faults may happen.
    pub(super) faulty: bool,
    /// How rarely Towpath dies in a step.
    crashes: u64,
    pub(super) generation: Generation,
    pub(super) stored: StoredSession,
    pub(super) shim: Option<SimulatedShim>,
    pub(super) storage: AgentStorage,
    pub(super) invariants: Invariants,
    pub(super) users: Users,
    commands: u64,
    /// Whether there is a connection to the shim.
    pub(super) connected: bool,
    /// A process that is being started, and the model it is started with.
    starting: Option<(StartMode, Option<String>)>,
    offset: usize,
    writes: u64,
    conversation: bool,
    pending: Vec<Effect>,
    /// How often Towpath has died.
    deaths: u32,
    /// Prompts that were with an agent when it died.
    pub(super) orphaned: Vec<Uuid>,
    pub(super) agent_died: bool,
    /// Whether a timeout passed because the agent was slow.
    pub(super) timed_out: bool,
    /// The last turn that an agent was slow to start.
    pub(super) slow_turn: u64,
    /// Whether the settings of the agent cannot be known.
    pub(super) settings_unknown: bool,
    last_output: u64,
    pub(super) trace: Option<Vec<String>>,
}

impl World {
    pub(super) fn new(seed: u64, traced: bool) -> Self {
        let mut random = Random::seeded(seed);
        let generations = [Generation::Old, Generation::Middle, Generation::New];
        let generation = *random.pick(&generations).unwrap_or(&Generation::New);
        let limits = SessionLimits {
            request: random.one_in(2).then_some(60_000),
            park: (!random.one_in(4)).then_some(90_000),
            ..SessionLimits::default()
        };
        let mut stored = StoredSession::default();
        stored.options.continue_after_cut = random.one_in(3);
        let now = 1_000_000;
        let session = SessionId(Uuid::nil());
        let snapshot = MachineSnapshot::new(now, session, limits, stored.options.clone());
        Self {
            random,
            now,
            limits,
            machine: Machine::new(snapshot),
            down: false,
            faulty: true,
            crashes: [25, 100, 1000][usize::try_from(seed % 3).unwrap_or(0)],
            generation,
            stored,
            shim: None,
            storage: AgentStorage::default(),
            invariants: Invariants::default(),
            users: Users::default(),
            commands: 0,
            connected: false,
            starting: None,
            offset: 0,
            writes: 0,
            conversation: false,
            pending: Vec::new(),
            deaths: 0,
            orphaned: Vec::new(),
            agent_died: false,
            timed_out: false,
            slow_turn: 0,
            settings_unknown: false,
            last_output: now,
            trace: traced.then(Vec::new),
        }
    }

    pub(super) fn record(&mut self, what: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{now} {}", what()));
        }
    }

    // The owner.

    fn input(&mut self, input: Input) {
        self.record(|| format!("> {input:?}"));
        if let Input::Agent(_) = input {
            self.last_output = self.now;
        }
        let effects = self.machine.on(self.now, input);
        if let Some(at) = self.machine.deadline() {
            assert!(at > self.now, "a deadline of {at} is left at {}", self.now);
        }
        for effect in &effects {
            self.record(|| format!("    {effect:?}"));
            match effect {
                Effect::Write(line) => {
                    assert!(self.connected, "written to no agent: {}", line.as_str());
                    self.writes += 1;
                }
                Effect::Note(Note::RequestResolved { .. }) => self.last_output = self.now,
                Effect::Note(Note::Stalled { .. }) => {
                    let silence = self.now - self.last_output;
                    assert!(silence >= self.limits.stall, "stalled after {silence} ms");
                }
                _ => {}
            }
        }
        self.pending.extend(effects);
    }

    fn commit(&mut self) {
        if self.chance(self.crashes) {
            self.record(|| "towpath dies before it has stored that".to_owned());
            return self.die();
        }
        let pending = std::mem::take(&mut self.pending);
        let mut out = Vec::new();
        let mut number = self.writes;
        number -= pending.iter().filter(|it| matches!(it, Effect::Write(_))).count() as u64;
        for effect in pending {
            match effect {
                Effect::Note(note) => {
                    match note {
                        Note::TurnStarted { turn, .. } => self.stored.turn = turn,
                        Note::TurnEnded { turn, .. } => self.stored.turn_ended = turn,
                        _ => {}
                    }
                    self.check_end_of_prompt(&note);
                    self.invariants.note(&note);
                }
                Effect::Prompt(record) => drop(self.stored.prompts.insert(record.id, record)),
                Effect::Request(record) => {
                    drop(self.stored.requests.insert(record.id.clone(), record));
                }
                Effect::Grant(grant) => self.stored.grants.push(grant),
                Effect::Options(options) => self.stored.options = *options,
                Effect::Write(line) => {
                    number += 1;
                    self.stored.outbound.push((number, line.as_str().to_owned()));
                    out.push(Outgoing::Write(number, line.as_str().to_owned()));
                }
                Effect::Start(start) => out.push(Outgoing::Start(start)),
                Effect::Stop { timeout } => out.push(Outgoing::Stop(timeout)),
                Effect::Kill => out.push(Outgoing::Kill),
                Effect::Reply(id, _) => out.push(Outgoing::Reply(id)),
                Effect::Compact => {}
            }
        }
        self.stored.offset = self.offset;
        self.stored.writes = self.writes;
        self.stored.conversation = self.conversation;
        self.stored.status = self.machine.status();
        self.invariants.check_status(self.stored.status);
        let dies = self.chance(self.crashes);
        let all = out.len() as u64;
        let most = if dies { self.random.below(all + 1) } else { all };
        for outgoing in out.into_iter().take(usize::try_from(most).unwrap_or(usize::MAX)) {
            self.let_out(outgoing);
        }
        if dies {
            self.record(|| format!("towpath dies after {most} of {all}"));
            self.die();
        }
    }

    /// A prompt is not done before the agent has started with it, and an agent that has a prompt is
    /// not parked.
    fn check_end_of_prompt(&self, note: &Note) {
        match note {
            Note::PromptStateChanged { prompt, state: PromptState::Done } => {
                let runs = self.storage.runs.get(prompt).copied().unwrap_or(0);
                // 2.1.37 does not report whether it started a turn by itself.
                let loses = self.shim.as_ref().is_some_and(|it| it.agent.faults.loses_results);
                // Only the Towpath that gave up waiting for a result knows that it is late.
                let excused = self.timed_out
                    || self.generation == Generation::Old
                    || loses && self.deaths > 0;
                assert!(runs > 0 || excused, "{prompt} is done and was not started");
            }
            Note::AgentExited { cause: ExitCause::Parked } => {
                let mut ends = self.stored.prompts.values().filter(|it| it.changed == self.now);
                let lost = ends.find(|it| it.state == PromptState::Indeterminate);
                assert!(lost.is_none() || self.timed_out, "parked with {lost:?}");
            }
            _ => {}
        }
    }

    fn let_out(&mut self, outgoing: Outgoing) {
        match outgoing {
            Outgoing::Write(number, line) => self.write(number, &line),
            Outgoing::Reply(id) => self.invariants.command_replied(id),
            Outgoing::Start(start) => {
                self.stored.run += 1;
                (self.stored.offset, self.offset) = (0, 0);
                (self.stored.writes, self.writes) = (0, 0);
                self.stored.outbound.clear();
                self.starting = Some((start, self.stored.options.model.clone()));
            }
            Outgoing::Stop(timeout) => {
                let now = self.now;
                if let Some(shim) = self.shim.as_mut().filter(|_| self.connected) {
                    shim.agent.closed = true;
                    shim.kill_at = Some(now + 3 * timeout);
                }
            }
            Outgoing::Kill => {
                if self.connected {
                    self.kill_agent();
                }
            }
        }
    }

    fn write(&mut self, number: u64, line: &str) {
        if let Some(shim) = self.shim.as_mut().filter(|_| self.connected)
            && number > shim.last_write
            && shim.write(number, line.to_owned())
        {
            self.invariants.line_written(line);
        }
    }

    /// A user sends a command.
    pub(super) fn command(&mut self, command: SessionCommand) {
        self.commands += 1;
        let id = CommandId(self.commands);
        self.invariants.command_sent(id);
        self.input(Input::Command { id, command });
        self.commit();
    }

    pub(super) fn tick(&mut self) {
        self.input(Input::Tick);
        self.commit();
    }

    /// Takes in some of the agent's output. Returns whether there was any.
    pub(super) fn read_output(&mut self, most: u64) -> bool {
        let Some(shim) = self.shim.as_ref().filter(|_| self.connected) else { return false };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let event: Vec<AgentEvent> =
            shim.spool.iter().skip(self.offset).take(most).cloned().collect();
        let some = !event.is_empty();
        self.input_output(event);
        some
    }

    fn input_output(&mut self, output: Vec<AgentEvent>) {
        for event in output {
            self.offset += 1;
            match &event {
                AgentEvent::TurnStarted { .. } => self.conversation = true,
                AgentEvent::RequestOpened(_) => {
                    let grants = self.stored.grants.clone();
                    self.input(Input::Grants(grants));
                }
                _ => {}
            }
            self.input(Input::Agent(event));
        }
        self.commit();
    }

    /// Takes in the agent's exit after all its output. Returns whether it has exited.
    pub(super) fn read_exit(&mut self) -> bool {
        let Some(shim) = self.shim.as_ref().filter(|_| self.connected) else { return false };
        let Some(exit) = shim.exit().cloned().filter(|_| shim.spool.len() <= self.offset) else {
            return false;
        };
        self.agent_gone(exit);
        true
    }

    fn agent_gone(&mut self, exit: AgentExit) {
        self.connected = false;
        let run = self.stored.run;
        // Some may have been written when it was dead already.
        self.orphan_prompts();
        self.input(Input::AgentGone(exit));
        self.commit();
        if !self.down {
            // The files of the process are removed.
            self.shim = self.shim.take().filter(|shim| shim.run != run);
        }
    }

    /// Finishes the start of a process. Returns whether one was being started.
    pub(super) fn finish_start(&mut self) -> bool {
        let Some((start, model)) = self.starting.take() else { return false };
        if self.chance(8) {
            self.shim = None;
            self.agent_gone(AgentExit::NotStarted("no such file".to_owned()));
        } else {
            self.spawn(start, model);
            self.connected = true;
            self.input(Input::AgentStarted);
            self.commit();
        }
        true
    }

    fn spawn(&mut self, start: StartMode, model: Option<String>) {
        let faults = if self.faulty {
            Faults {
                ignores_interrupts: self.random.one_in(6),
                loses_results: self.random.one_in(4),
                never_ready: self.random.one_in(20),
                crashes: self.random.one_in(8),
                loses_prompts: self.random.one_in(8),
            }
        } else {
            Faults::default()
        };
        let mut agent = AgentModel::new(self.generation, faults, model);
        self.settings_unknown = false;
        match start {
            StartMode::NewConversation => AgentModel::start_conversation(&mut self.storage),
            StartMode::Resume if !self.storage.saved => agent.fail_to_resume(),
            StartMode::Resume => {}
        }
        self.record(|| format!("a process starts: {start:?}, {faults:?}"));
        let run = self.stored.run;
        self.shim = Some(SimulatedShim {
            run,
            agent,
            lives: true,
            spool: Vec::new(),
            last_write: 0,
            kill_at: None,
        });
        self.collect_output();
    }

    // Deaths.

    fn chance(&mut self, times: u64) -> bool {
        self.faulty && self.random.one_in(times)
    }

    pub(super) fn kill_agent(&mut self) {
        self.record(|| "the agent dies".to_owned());
        if let Some(shim) = &mut self.shim {
            shim.kill();
            shim.lives = !self.faulty || self.random.one_in(2);
        }
        self.collect_output();
    }

    /// Lets the agent take one step. Returns whether it did anything.
    pub(super) fn step_agent(&mut self) -> bool {
        let Some(shim) = &mut self.shim else { return false };
        let did = shim.agent.step(self.now, &mut self.random, &mut self.storage);
        if let Some(violation) = shim.agent.violation.take() {
            // 2.1.37 does not report which turn it works on, so a prompt may seem done too early.
            let excused = self.timed_out || self.generation == Generation::Old;
            assert!(excused || shim.agent.faults.loses_results, "{violation}");
        }
        self.collect_output();
        did
    }

    fn collect_output(&mut self) {
        let Some(shim) = &mut self.shim else { return };
        shim.collect_output();
        if shim.exit().is_some() {
            self.orphan_prompts();
        }
    }

    fn orphan_prompts(&mut self) {
        self.agent_died = true;
        let with_it = self
            .stored
            .prompts
            .values()
            .filter(|it| matches!(it.state, PromptState::Written | PromptState::Accepted));
        self.orphaned.extend(with_it.map(|it| it.id));
    }

    pub(super) fn die(&mut self) {
        self.deaths += 1;
        self.down = true;
        self.pending.clear();
        self.invariants.clear_commands();
        self.connected = false;
        self.settings_unknown = true;
        if let Some((start, model)) = self.starting.take()
            && self.random.one_in(2)
        {
            self.spawn(start, model);
        }
    }

    /// Starts Towpath again, which takes the session over.
    pub(super) fn take_over(&mut self) {
        self.record(|| "towpath takes over".to_owned());
        self.down = false;
        let open = matches!(
            self.stored.status,
            journal::SessionStatus::Running | journal::SessionStatus::Waiting
        );
        let shim = self.shim.as_ref().filter(|shim| shim.run == self.stored.run);
        let attached = shim.is_some_and(|shim| shim.lives);
        let agent_may_run = shim.is_some() || open;
        self.machine = Machine::new(MachineSnapshot {
            now: self.now,
            session: SessionId(Uuid::nil()),
            limits: self.limits,
            options: self.stored.options.clone(),
            prompts: self.stored.prompts.values().cloned().collect(),
            requests: self
                .stored
                .requests
                .values()
                .filter(|it| it.resolution.is_none())
                .cloned()
                .collect(),
            turns: self.stored.turn,
            turn_is_open: self.stored.turn > self.stored.turn_ended,
            agent_may_run,
            resumable: self.stored.conversation,
        });
        self.offset = self.stored.offset;
        self.writes = self.stored.writes;
        self.conversation = self.stored.conversation;
        self.last_output = self.now;
        if attached {
            self.connected = true;
            for (number, line) in self.stored.outbound.clone() {
                self.write(number, &line);
            }
            self.input(Input::AgentAttached);
            self.commit();
        } else if agent_may_run {
            let (exit, rest) = match &mut self.shim {
                Some(shim) if shim.run == self.stored.run => {
                    // The agent of a dead shim is reaped.
                    shim.kill();
                    shim.collect_output();
                    let rest = shim.spool.iter().skip(self.offset).cloned().collect();
                    (shim.exit().cloned().unwrap_or(AgentExit::Unknown), rest)
                }
                _ => (AgentExit::Unknown, Vec::new()),
            };
            self.collect_output();
            self.input_output(rest);
            if !self.down {
                self.agent_gone(exit);
            }
        } else {
            self.tick();
        }
    }
}

/// What may leave once a batch is stored.
enum Outgoing {
    Write(u64, String),
    Start(StartMode),
    Stop(u64),
    Kill,
    Reply(CommandId),
}
