//! Everything around the core of an owner: the journal, the agent process, users and the clocks.
//!
//! The world performs the core's effects like the owner's task, and everything fails. Towpath may
//! die before and after every effect, the journal may be full or locked at every write, the shim
//! may be stopped, refuse lines or lose its connection with some of the lines.

use std::collections::VecDeque;

use journal::{Batch, Origin, SessionStatus};
use towpath_session::machine::{AgentExit, ClockReading, CommandId};
use towpath_session::owner::{
    AttachOutcome, OwnerCore, OwnerEffect, OwnerInput, OwnerSnapshot, StartOutcome, WriteFailure,
};
use towpath_session::shim::{ShimCommand, ShimEvent};
use towpath_session::{
    CliConversation, CommandOutput, LeaveOutcome, SessionCommand, SessionLimits, SessionOptions,
};
use uuid::Uuid;
use wire::note::{ExitCause, Note, Outcome, PromptState};

use super::agent_model::{AgentModel, AgentStorage, Faults, Generation};
use super::invariants::Invariants;
use super::storage::{Received, SimulatedShim, StoredSession};
use super::users::{Random, Users};

#[expect(clippy::struct_excessive_bools, reason = "the state of a run has many independent parts")]
pub(super) struct World {
    pub(super) random: Random,
    /// The monotonic time.
    pub(super) now: u64,
    /// How far the wall clock is ahead of it.
    pub(super) wall: u64,
    /// Whether Towpath itself was stopped for a while, so that times cannot be compared.
    pub(super) paused: bool,
    pub(super) limits: SessionLimits,
    pub(super) core: OwnerCore,
    /// Whether Towpath is down and must be started again.
    pub(super) down: bool,
    /// Whether Towpath has not yet found out what an earlier one left.
    taking_over: bool,
    /// Whether faults may happen.
    pub(super) faulty: bool,
    /// How rarely Towpath dies at an effect.
    crashes: u64,
    pub(super) generation: Generation,
    pub(super) stored: StoredSession,
    pub(super) shim: Option<SimulatedShim>,
    pub(super) storage: AgentStorage,
    pub(super) invariants: Invariants,
    pub(super) users: Users,
    commands: u64,
    /// The prompts of commands without a reply.
    prompted: Vec<(CommandId, Uuid)>,
    /// Whether there is a connection to the shim.
    pub(super) connected: bool,
    /// How much of the agent's output went over it.
    sent: usize,
    /// Commands on their way to the shim.
    in_flight: VecDeque<ShimCommand>,
    /// A process that is being started: its number, its conversation and its model.
    starting: Option<(u64, CliConversation, Option<String>)>,
    attaching: Option<(u64, u64)>,
    /// How much of the output of a dead agent was read.
    leftovers: Option<usize>,
    writing: Option<Box<Batch>>,
    /// Whether the last write failed.
    refused: bool,
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
        let options =
            SessionOptions { continue_after_cut: random.one_in(3), ..SessionOptions::default() };
        let stored = StoredSession::new(&options);
        let now = 1_000_000;
        let mut world = Self {
            core: new_core(&stored, ClockReading { wall: now, monotonic: now }, limits, 0, false),
            random,
            now,
            wall: 1_700_000_000_000,
            paused: false,
            limits,
            down: false,
            taking_over: true,
            faulty: true,
            crashes: [40, 200, 2000][usize::try_from(seed % 3).unwrap_or(0)],
            generation,
            stored,
            shim: None,
            storage: AgentStorage::default(),
            invariants: Invariants::default(),
            users: Users::default(),
            commands: 0,
            prompted: Vec::new(),
            connected: false,
            sent: 0,
            in_flight: VecDeque::new(),
            starting: None,
            attaching: None,
            leftovers: None,
            writing: None,
            refused: false,
            deaths: 0,
            orphaned: Vec::new(),
            agent_died: false,
            timed_out: false,
            slow_turn: 0,
            settings_unknown: false,
            last_output: now,
            trace: traced.then(Vec::new),
        };
        world.take(OwnerInput::TakeOver);
        world
    }

    pub(super) fn record(&mut self, what: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{now} {}", what()));
        }
    }

    pub(super) fn clock(&self) -> ClockReading {
        ClockReading { wall: self.wall + self.now, monotonic: self.now }
    }

    /// How long it is until the core needs a tick.
    pub(super) fn pause(&self) -> Option<u64> {
        self.core.pause(self.clock())
    }

    /// Whether something may fail now.
    fn chance(&mut self, times: u64) -> bool {
        self.faulty && self.random.one_in(times)
    }

    // The owner's task.

    fn take(&mut self, input: OwnerInput) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            self.record(|| format!("> {input:?}"));
            // A slow write keeps deadlines waiting, but a tick passes them all.
            let passes = self.core.is_ready() && !self.paused && matches!(input, OwnerInput::Tick);
            let effects = self.core.on(self.clock(), input);
            if passes && self.core.is_ready() {
                assert_ne!(self.pause(), Some(0), "a deadline is left at {}", self.now);
            }
            for effect in effects {
                self.record(|| format!("    {effect:?}"));
                if self.chance(self.crashes) {
                    self.record(|| "towpath dies before that".to_owned());
                    return self.die();
                }
                inputs.extend(self.perform(effect));
                if self.down {
                    return;
                }
            }
        }
        self.taking_over &= !self.core.is_settled();
        if self.writing.is_some() && !self.chance(12) {
            self.finish_write();
        }
    }

    fn perform(&mut self, effect: OwnerEffect) -> Option<OwnerInput> {
        match effect {
            OwnerEffect::Write(batch) => {
                assert!(self.writing.is_none(), "two writes at once");
                if !std::mem::take(&mut self.refused) {
                    self.check_silence(&batch);
                }
                self.writing = Some(batch);
            }
            OwnerEffect::LoadGrants => return Some(OwnerInput::Grants(self.stored.grants.clone())),
            OwnerEffect::LoadOutbound => return Some(OwnerInput::Outbound(self.stored.lines())),
            OwnerEffect::Send(command) => {
                self.check_command(&command);
                self.in_flight.push_back(command);
            }
            OwnerEffect::Reply(id, result) => {
                self.invariants.command_replied(id);
                if let Some(at) = self.prompted.iter().position(|(it, _)| *it == id)
                    && let (_, prompt) = self.prompted.swap_remove(at)
                    && let Ok(CommandOutput::Prompt(_)) = result
                {
                    let stored = self.stored.prompts.contains_key(&prompt);
                    assert!(stored, "{prompt} was confirmed and is not stored");
                }
            }
            OwnerEffect::Start { run, conversation } => {
                assert_eq!(self.stored.record.spool.run, run, "a run that is not stored");
                assert!(self.starting.is_none(), "two starts at once");
                let model = self.core.machine().options().model.clone();
                self.starting = Some((run, conversation, model));
            }
            OwnerEffect::Attach { run, from } => self.attaching = Some((run, from)),
            OwnerEffect::ReadLeftovers { run, from } => self.open_leftovers(run, from),
            OwnerEffect::Disconnect => self.disconnect(),
            OwnerEffect::RemoveRun(run) => {
                self.shim = self.shim.take().filter(|shim| shim.run != run);
            }
            OwnerEffect::Compact(upto) => assert!(upto <= self.stored.record.last),
            OwnerEffect::Leave(outcome) => {
                assert!(outcome == LeaveOutcome::Stored || self.faulty, "not stored");
                if let Some((run, conversation, model)) = self.starting.take() {
                    self.spawn(run, &conversation, model);
                }
                self.deliver_commands(usize::MAX);
                self.die();
            }
        }
        None
    }

    /// Nothing reaches the shim before it is in the journal.
    fn check_command(&self, command: &ShimCommand) {
        let stored = &self.stored;
        match command {
            ShimCommand::Write { number, bytes } => {
                let line = stored.outbound.get(number);
                assert!(
                    line.is_some_and(|line| line == bytes),
                    "line {number} is not in the journal"
                );
                assert!(*number <= stored.record.writes, "line {number} is not counted");
            }
            ShimCommand::Acknowledge(offset) => {
                assert_eq!(*offset, stored.record.spool.offset, "output that is not stored");
            }
            _ => {}
        }
    }

    /// Finishes a write, or fails to. Returns whether there was one.
    pub(super) fn finish_write(&mut self) -> bool {
        let Some(batch) = self.writing.take() else { return false };
        if self.chance(25) {
            let failure =
                if self.random.one_in(2) { WriteFailure::Full } else { WriteFailure::Busy };
            self.refused = true;
            self.take(OwnerInput::Written(Err(failure)));
            return true;
        }
        let last = self.store(&batch);
        if self.chance(self.crashes) {
            self.record(|| "towpath dies after it has stored that".to_owned());
            self.die();
        } else {
            self.take(OwnerInput::Written(Ok(last)));
        }
        true
    }

    fn store(&mut self, batch: &Batch) -> journal::Seq {
        let last = self.stored.write(batch);
        let notes: Vec<Note> = notes(batch).collect();
        let remembered = notes.iter().filter(|note| {
            let outcome = Outcome::AllowedAndRemembered;
            matches!(note, Note::RequestResolved { outcome: it, .. } if *it == outcome)
        });
        assert_eq!(remembered.count(), batch.grants.len(), "grants come with their answers");
        for note in &notes {
            self.check_end_of_prompt(note, batch.at);
            self.invariants.note(note);
        }
        self.invariants.check_status(self.stored.record.status);
        last
    }

    /// A turn is not reported as stalled too early.
    fn check_silence(&mut self, batch: &Batch) {
        for note in notes(batch) {
            match note {
                Note::RequestResolved { .. } => self.last_output = self.now,
                Note::Stalled { .. } if !self.paused => {
                    let silence = self.now - self.last_output;
                    assert!(silence >= self.limits.stall, "stalled after {silence} ms");
                }
                _ => {}
            }
        }
    }

    /// A prompt is not done before the agent has started with it, and an agent that has a prompt is
    /// not parked.
    fn check_end_of_prompt(&self, note: &Note, at: u64) {
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
                let mut ends = self.stored.prompts.values().filter(|it| it.changed == at);
                let lost = ends.find(|it| it.state == PromptState::Indeterminate);
                assert!(lost.is_none() || self.timed_out, "parked with {lost:?}");
            }
            _ => {}
        }
    }

    /// A user sends a command.
    pub(super) fn command(&mut self, command: SessionCommand) {
        self.commands += 1;
        let id = CommandId(self.commands);
        self.invariants.command_sent(id);
        if let SessionCommand::Prompt(prompt) = &command {
            self.prompted.push((id, prompt.id));
        }
        self.take(OwnerInput::Command { id, command: Box::new(command) });
    }

    pub(super) fn tick(&mut self) {
        self.take(OwnerInput::Tick);
    }

    pub(super) fn release(&mut self) {
        self.record(|| "towpath is asked to leave".to_owned());
        self.take(OwnerInput::Leave);
    }

    // The shim.

    /// Lets commands arrive at the shim. Returns whether there were any.
    pub(super) fn deliver_commands(&mut self, most: usize) -> bool {
        let mut delivered = false;
        for _ in 0..most {
            let has_room = !self.chance(60);
            let Some(shim) = self.shim.as_mut().filter(|it| self.connected && !it.stopped) else {
                break;
            };
            let Some(command) = self.in_flight.pop_front() else { break };
            delivered = true;
            if !shim.lives {
                continue;
            }
            match shim.receive(command, self.now, has_room) {
                Received::Line(line) => self.invariants.line_written(&line),
                Received::Kill => self.kill_agent(),
                Received::Nothing => {}
            }
        }
        delivered
    }

    fn disconnect(&mut self) {
        self.deliver_commands(usize::MAX);
        self.in_flight.clear();
        self.connected = false;
    }

    /// The connection ends, and some commands with it.
    pub(super) fn lose_connection(&mut self) {
        if !self.connected || !self.core.is_ready() {
            return;
        }
        self.record(|| "the connection is lost".to_owned());
        let some = usize::try_from(self.random.below(4)).expect("a small number");
        self.deliver_commands(some);
        self.connected = false;
        self.in_flight.clear();
        self.take(OwnerInput::Disconnected);
    }

    /// The shim is stopped, or continued.
    pub(super) fn stop_shim(&mut self, stopped: bool) {
        if let Some(shim) = self.shim.as_mut().filter(|shim| shim.lives) {
            shim.stopped = stopped;
        }
    }

    fn live_shim(&self) -> Option<&SimulatedShim> {
        self.shim.as_ref().filter(|shim| self.connected && !shim.stopped && self.core.is_ready())
    }

    /// Takes in some of the agent's output or a report. Returns whether there was any.
    pub(super) fn read_output(&mut self, most: u64) -> bool {
        let sent = self.sent;
        let Some(shim) = self.live_shim() else { return false };
        let end = shim.spool.len().min(sent + usize::try_from(most).unwrap_or(usize::MAX));
        if sent < end {
            let bytes = shim.spool[sent..end].to_vec();
            self.sent = end;
            self.last_output = self.now;
            self.take(OwnerInput::Shim(ShimEvent::Output { offset: sent as u64, bytes }));
            return true;
        }
        let Some(shim) = self.shim.as_mut().filter(|it| it.lives && !it.reports.is_empty()) else {
            return false;
        };
        let report = shim.reports.remove(0);
        self.take(OwnerInput::Shim(report));
        true
    }

    /// Takes in the agent's exit after all its output. Returns whether it has exited.
    pub(super) fn read_exit(&mut self) -> bool {
        let sent = self.sent;
        let Some(shim) = self.live_shim() else { return false };
        if !shim.lives {
            self.connected = false;
            self.in_flight.clear();
            self.take(OwnerInput::Disconnected);
            return true;
        }
        let Some(status) = shim.exit_status().filter(|_| shim.spool.len() <= sent) else {
            return false;
        };
        let end = shim.spool.len() as u64;
        // Some may have been written when it was dead already.
        self.orphan_prompts();
        self.take(OwnerInput::Shim(ShimEvent::Exited { status, end }));
        true
    }

    /// Finishes an attempt to attach. Returns whether there was one that could be finished.
    pub(super) fn finish_attach(&mut self) -> bool {
        let Some((run, from)) = self.attaching.filter(|_| self.core.is_ready()) else {
            return false;
        };
        let outcome = match &mut self.shim {
            Some(shim) if shim.lives && shim.stopped => return false,
            Some(shim) if shim.lives && shim.run == run => {
                // What was reported to the last owner is lost, but the last write is reported again.
                shim.reports = vec![ShimEvent::Written(shim.last_write)];
                self.connected = true;
                self.sent = usize::try_from(from).expect("a small number");
                AttachOutcome::Attached { last_write: shim.last_write }
            }
            Some(shim) if shim.lives => {
                self.shim = None;
                AttachOutcome::Gone
            }
            _ => AttachOutcome::Gone,
        };
        self.attaching = None;
        self.take(OwnerInput::Attached(outcome));
        true
    }

    fn open_leftovers(&mut self, run: u64, from: u64) {
        if let Some(shim) = self.shim.as_mut().filter(|shim| shim.run == run) {
            // The agent of a dead shim is reaped.
            shim.kill();
        }
        self.collect_output();
        self.orphan_prompts();
        self.leftovers = Some(usize::try_from(from).expect("a small number"));
    }

    /// Reads some output of a dead agent. Returns whether there is one.
    pub(super) fn read_leftovers(&mut self, most: u64) -> bool {
        let Some(from) = self.leftovers.filter(|_| self.core.is_ready()) else { return false };
        let run = self.stored.record.spool.run;
        let shim = self.shim.as_ref().filter(|shim| shim.run == run);
        let spool = shim.map_or(&[][..], |shim| &shim.spool);
        let end = spool.len().min(from + usize::try_from(most).unwrap_or(usize::MAX));
        if from < end {
            let bytes = spool[from..end].to_vec();
            self.leftovers = Some(end);
            self.last_output = self.now;
            self.take(OwnerInput::Leftover { offset: from as u64, bytes });
        } else {
            let exit = shim.and_then(|shim| shim.exit().cloned()).unwrap_or(AgentExit::Unknown);
            self.leftovers = None;
            self.take(OwnerInput::LeftoversEnd(exit));
        }
        true
    }

    /// Finishes the start of a process. Returns whether one was being started.
    pub(super) fn finish_start(&mut self) -> bool {
        if !self.core.is_ready() {
            return false;
        }
        let Some((run, conversation, model)) = self.starting.take() else { return false };
        let outcome = if self.chance(8) {
            self.shim = None;
            StartOutcome::Failed("no such file".to_owned())
        } else {
            self.spawn(run, &conversation, model);
            if self.chance(10) {
                self.kill_agent();
                self.shim.as_mut().expect("it was spawned").lives = false;
                StartOutcome::Exited
            } else {
                self.connected = true;
                self.sent = 0;
                self.in_flight.clear();
                StartOutcome::Running
            }
        };
        self.take(OwnerInput::Started(outcome));
        true
    }

    fn spawn(&mut self, run: u64, conversation: &CliConversation, model: Option<String>) {
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
        match conversation {
            CliConversation::New(_) => AgentModel::start_conversation(&mut self.storage),
            _ if !self.storage.saved => agent.fail_to_resume(),
            _ => {}
        }
        self.record(|| format!("a process starts: {conversation:?}, {faults:?}"));
        self.shim = Some(SimulatedShim::new(run, agent));
        self.collect_output();
    }

    // Deaths.

    pub(super) fn kill_agent(&mut self) {
        self.record(|| "the agent dies".to_owned());
        if let Some(shim) = &mut self.shim {
            shim.kill();
            shim.lives &= !self.faulty || self.random.one_in(2);
            shim.stopped &= shim.lives;
        }
        self.collect_output();
    }

    /// Lets the agent take one step. Returns whether it did anything.
    pub(super) fn step_agent(&mut self) -> bool {
        let Some(shim) = self.shim.as_mut().filter(|shim| !shim.stopped) else { return false };
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
        shim.collect_output(&mut self.random);
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
        self.invariants.clear_commands();
        self.prompted.clear();
        if let Some(batch) = self.writing.take()
            && self.random.one_in(2)
        {
            self.store(&batch);
        }
        let some = usize::try_from(self.random.below(4)).expect("a small number");
        self.deliver_commands(some);
        self.in_flight.clear();
        self.connected = false;
        self.attaching = None;
        self.leftovers = None;
        self.settings_unknown = true;
        if let Some((run, conversation, model)) = self.starting.take()
            && self.random.one_in(2)
        {
            self.spawn(run, &conversation, model);
        }
    }

    /// Starts Towpath again, which takes the session over.
    pub(super) fn take_over(&mut self) {
        self.record(|| "towpath takes over".to_owned());
        self.down = false;
        self.refused = false;
        self.taking_over = true;
        let run = self.stored.record.spool.run;
        let has_process = self.shim.as_ref().is_some_and(|shim| shim.lives || shim.run == run);
        let seed = self.random.below(u64::MAX);
        self.core = new_core(&self.stored, self.clock(), self.limits, seed, has_process);
        self.last_output = self.now;
        self.take(OwnerInput::TakeOver);
    }

    /// Whether Towpath takes commands.
    pub(super) fn takes_commands(&self) -> bool {
        !self.down && !self.taking_over
    }

    pub(super) fn status(&self) -> SessionStatus {
        self.core.machine().status()
    }
}

fn notes(batch: &Batch) -> impl Iterator<Item = Note> {
    let notes = batch.entries.iter().filter(|entry| entry.origin == Origin::Towpath);
    notes.map(|entry| Note::read(&entry.bytes).expect("a note"))
}

fn new_core(
    stored: &StoredSession,
    now: ClockReading,
    limits: SessionLimits,
    seed: u64,
    has_process: bool,
) -> OwnerCore {
    OwnerCore::new(OwnerSnapshot {
        now,
        seed: u128::from(seed) << 13,
        limits,
        record: stored.record.clone(),
        prompts: stored.prompts.values().cloned().collect(),
        requests: stored.requests.values().filter(|it| it.resolution.is_none()).cloned().collect(),
        has_process,
    })
}
