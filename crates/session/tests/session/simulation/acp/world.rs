//! Everything around the core: the journal, the shim with its agent, users, and what dies.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use journal::{Batch, Origin};
use towpath_session::machine::{AgentExit, ClockReading, CommandId};
use towpath_session::owner::{
    AttachOutcome, OwnerCore, OwnerEffect, OwnerInput, OwnerSnapshot, StartOutcome, WriteFailure,
};
use towpath_session::shim::{ExitStatus, ShimCommand, ShimEvent};
use towpath_session::{AgentProtocol, SessionCommand, SessionLimits, SessionOptions, WatchPolicy};
use uuid::Uuid;
use wire::note::{Note, PromptState};

use super::agent::{AcpAgentModel, AcpFaults};
use crate::simulation::invariants::Invariants;
use crate::simulation::storage::StoredSession;
use crate::simulation::users::{Random, Users};

#[expect(clippy::struct_excessive_bools, reason = "the state of a run has many independent parts")]
pub(super) struct AcpWorld {
    pub(super) random: Random,
    /// The monotonic time.
    pub(super) now: u64,
    /// How far the wall clock is ahead of it.
    pub(super) wall: u64,
    pub(super) core: OwnerCore,
    pub(super) down: bool,
    pub(super) faulty: bool,
    stored: StoredSession,
    pub(super) shim: Option<AcpShim>,
    connected: bool,
    sent: usize,
    in_flight: VecDeque<ShimCommand>,
    starting: Option<u64>,
    attaching: Option<(u64, u64)>,
    leftovers: Option<usize>,
    writing: Option<Box<Batch>>,
    pub(super) disk_is_full: bool,
    pub(super) invariants: Invariants,
    pub(super) users: Users,
    commands: u64,
    /// The sessions that the agent has on disk.
    sessions: BTreeSet<String>,
    /// How often each prompt was run.
    pub(super) runs: BTreeMap<Uuid, u32>,
    /// Prompts that were with an agent when it died.
    orphaned: BTreeSet<Uuid>,
    /// Whether a limit passed because something was slow.
    pub(super) slow: bool,
    pub(super) trace: Option<Vec<String>>,
}

pub(super) struct AcpShim {
    run: u64,
    lives: bool,
    /// Whether the shim and its agent were stopped and do nothing.
    pub(super) stopped: bool,
    spool: Vec<u8>,
    last_write: u64,
    reports: Vec<ShimEvent>,
    pub(super) kill_at: Option<u64>,
    pub(super) agent: AcpAgentModel,
}

impl AcpWorld {
    pub(super) fn new(seed: u64, traced: bool) -> Self {
        let mut random = Random::seeded(seed);
        let agent = Some("some-agent".to_owned());
        let options = SessionOptions {
            agent,
            continue_after_cut: random.one_in(3),
            ..SessionOptions::default()
        };
        let stored = StoredSession::new(&options);
        let now = 1_000_000;
        let clock = ClockReading { wall: now, monotonic: now };
        let mut world = Self {
            core: new_core(&stored, clock, 1, false),
            random,
            now,
            wall: 1_700_000_000_000,
            down: false,
            faulty: true,
            stored,
            shim: None,
            connected: false,
            sent: 0,
            in_flight: VecDeque::new(),
            starting: None,
            attaching: None,
            leftovers: None,
            writing: None,
            disk_is_full: false,
            invariants: Invariants::default(),
            users: Users::default(),
            commands: 0,
            sessions: BTreeSet::new(),
            runs: BTreeMap::new(),
            orphaned: BTreeSet::new(),
            slow: false,
            trace: traced.then(Vec::new),
        };
        world.take(OwnerInput::TakeOver);
        world
    }

    fn record(&mut self, what: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{now} {}", what()));
        }
    }

    fn chance(&mut self, times: u64) -> bool {
        self.faulty && self.random.one_in(times)
    }

    fn clock(&self) -> ClockReading {
        ClockReading { wall: self.wall + self.now, monotonic: self.now }
    }

    pub(super) fn pause(&self) -> Option<u64> {
        self.core.pause(self.clock())
    }

    /// Lets time pass, with a tick at every deadline.
    pub(super) fn pass(&mut self, pause: u64) {
        let until = self.now + pause;
        for _ in 0..200 {
            let Some(pause) = self.pause().filter(|pause| self.now + pause <= until) else { break };
            self.now += pause;
            self.take(OwnerInput::Tick);
            if self.down {
                return;
            }
        }
        self.now = self.now.max(until);
        let now = self.now;
        let shim = self.shim.as_ref().filter(|shim| !shim.stopped);
        if shim.is_some_and(|shim| shim.kill_at.is_some_and(|at| at <= now)) {
            self.kill_agent();
        }
    }

    /// The shim is stopped, or continued. What takes its time then is no fault of the owner.
    pub(super) fn stop_shim(&mut self, stopped: bool) {
        self.record(|| format!("the shim is stopped: {stopped}"));
        if let Some(shim) = self.shim.as_mut().filter(|shim| shim.lives) {
            shim.stopped = stopped;
            self.slow |= stopped;
        }
    }

    /// Sets the wall clock, or suspends the machine, whose monotonic clock does not go on then.
    pub(super) fn step_clock(&mut self) {
        let length = 1 + self.random.below(3 * 60 * 60 * 1000);
        self.record(|| format!("the clock is set by {length} ms"));
        if self.random.one_in(2) {
            self.wall -= length;
        } else {
            self.wall += length;
        }
    }

    /// Lets the journal refuse everything for a while, in which the agent goes on.
    pub(super) fn fill_disk(&mut self) {
        let until = self.now + self.random.below(3 * 60 * 1000);
        self.record(|| format!("the disk is full until {until}"));
        self.disk_is_full = true;
        self.slow = true;
        self.random_command();
        while !self.down && !self.core.is_ready() && self.now < until {
            if !self.finish_write() {
                let Some(pause) = self.pause() else { break };
                self.now += pause;
                self.take(OwnerInput::Tick);
            }
            if self.random.one_in(8) {
                self.step_agent();
            }
        }
        self.disk_is_full = false;
    }

    pub(super) fn take_over(&mut self) {
        self.record(|| "towpath takes over".to_owned());
        self.down = false;
        let run = self.stored.record.spool.run;
        let has_process = self.shim.as_ref().is_some_and(|shim| shim.lives || shim.run == run);
        let seed = self.random.below(u64::MAX);
        self.core = new_core(&self.stored, self.clock(), seed, has_process);
        self.take(OwnerInput::TakeOver);
    }

    pub(super) fn die(&mut self) {
        self.record(|| "towpath dies".to_owned());
        self.down = true;
        self.invariants.clear_commands();
        if let Some(batch) = self.writing.take()
            && self.random.one_in(2)
        {
            self.store(&batch);
        }
        let some = usize::try_from(self.random.below(3)).expect("a small number");
        self.deliver(some);
        self.in_flight.clear();
        self.connected = false;
        self.attaching = None;
        self.leftovers = None;
        if let Some(run) = self.starting.take()
            && self.random.one_in(2)
        {
            self.spawn(run);
        }
    }

    pub(super) fn command(&mut self, command: SessionCommand) {
        self.commands += 1;
        let id = CommandId(self.commands);
        self.invariants.command_sent(id);
        self.take(OwnerInput::Command { id, command: Box::new(command) });
    }

    pub(super) fn random_command(&mut self) {
        if !self.core.is_settled() {
            return;
        }
        let requests: Vec<String> = self.invariants.requests.keys().cloned().collect();
        let recent = requests.len().saturating_sub(4);
        if let Some(command) = self.users.next(&mut self.random, &requests[recent..]) {
            self.command(command);
        }
    }

    fn take(&mut self, input: OwnerInput) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            self.record(|| format!("> {input:?}"));
            for effect in self.core.on(self.clock(), input) {
                self.record(|| format!("    {effect:?}"));
                if self.chance(150) {
                    return self.die();
                }
                inputs.extend(self.perform(effect));
                if self.down {
                    return;
                }
            }
        }
        if self.writing.is_some() && !self.chance(12) {
            self.finish_write();
        }
    }

    fn perform(&mut self, effect: OwnerEffect) -> Option<OwnerInput> {
        match effect {
            OwnerEffect::Write(batch) => {
                assert!(self.writing.is_none(), "two writes at once");
                self.writing = Some(batch);
            }
            OwnerEffect::LoadGrants { .. } => {
                let (grants, linked) = (self.stored.grants.clone(), Vec::new());
                return Some(OwnerInput::Grants { grants, linked });
            }
            OwnerEffect::LoadDayCost { .. } | OwnerEffect::LoadOutbound if self.chance(60) => {
                self.record(|| "that cannot be read, and the owner ends".to_owned());
                self.die();
            }
            OwnerEffect::LoadDayCost { day } => {
                // Other sessions go on too.
                let others = if self.random.one_in(3) { 0.4 } else { 0.0 };
                let cost = self.stored.costs.entry(day).or_default();
                *cost += others;
                return Some(OwnerInput::DayCost(*cost));
            }
            OwnerEffect::LoadOutbound => return Some(OwnerInput::Outbound(self.stored.lines())),
            OwnerEffect::Send(command) => {
                if let ShimCommand::Write { number, bytes } = &command {
                    let line = self.stored.outbound.get(number);
                    assert!(line.is_some_and(|line| line == bytes), "a line that is not stored");
                }
                self.in_flight.push_back(command);
            }
            OwnerEffect::Reply(id, _) => self.invariants.command_replied(id),
            OwnerEffect::Start { run, .. } => {
                assert_eq!(self.stored.record.spool.run, run, "a run that is not stored");
                self.starting = Some(run);
            }
            OwnerEffect::Attach { run, from } => self.attaching = Some((run, from)),
            OwnerEffect::ReadLeftovers { run, from } => {
                if let Some(shim) = self.shim.as_mut().filter(|shim| shim.run == run) {
                    shim.agent.exit.get_or_insert(AgentExit::Killed(9));
                }
                self.orphan();
                self.leftovers = Some(usize::try_from(from).expect("a small number"));
            }
            OwnerEffect::Disconnect => {
                self.deliver(usize::MAX);
                self.in_flight.clear();
                self.connected = false;
            }
            OwnerEffect::RemoveRun(run) => {
                self.shim = self.shim.take().filter(|shim| shim.run != run);
            }
            OwnerEffect::Compact(_) | OwnerEffect::RunHook(_) => {}
            OwnerEffect::Leave(_) => self.die(),
        }
        None
    }

    pub(super) fn finish_write(&mut self) -> bool {
        let Some(batch) = self.writing.take() else { return false };
        if self.disk_is_full || self.chance(30) {
            let full = self.disk_is_full || self.random.one_in(2);
            let failure = if full { WriteFailure::Full } else { WriteFailure::Busy };
            self.take(OwnerInput::Written(Err(failure)));
            return true;
        }
        let last = self.store(&batch);
        if self.chance(150) {
            self.die();
        } else {
            self.take(OwnerInput::Written(Ok(last)));
        }
        true
    }

    fn store(&mut self, batch: &Batch) -> journal::Seq {
        let sent = batch.entries.iter().filter(|entry| entry.origin == Origin::Sent);
        let lines = batch.outbound.iter().map(|line| line.bytes.trim_ascii_end());
        assert!(
            sent.map(|entry| &entry.bytes[..]).eq(lines),
            "what is sent and what is recorded differ"
        );
        let last = self.stored.write(batch);
        let notes = batch.entries.iter().filter(|entry| entry.origin == Origin::Towpath);
        for note in notes.map(|entry| Note::read(&entry.bytes).expect("a note")) {
            self.invariants.note(&note);
        }
        self.invariants.check_status(self.stored.record.status);
        last
    }

    /// Lets commands arrive at the shim. Returns whether there were any.
    pub(super) fn deliver(&mut self, most: usize) -> bool {
        let mut delivered = false;
        for _ in 0..most {
            let Some(shim) = self.shim.as_mut().filter(|it| self.connected && !it.stopped) else {
                break;
            };
            let Some(command) = self.in_flight.pop_front() else { break };
            delivered = true;
            if !shim.lives {
                continue;
            }
            match command {
                ShimCommand::Write { number, bytes } => {
                    let open = !shim.agent.closed && shim.agent.exit.is_none();
                    if number == shim.last_write + 1 && open {
                        shim.last_write = number;
                        shim.reports.push(ShimEvent::Written(number));
                        let line = String::from_utf8(bytes).expect("UTF-8");
                        shim.agent.stdin.push_back(line);
                    } else if number > shim.last_write {
                        let last = shim.last_write;
                        shim.reports.push(ShimEvent::WriteRefused { number, last });
                    }
                }
                ShimCommand::Stop { timeout } => {
                    shim.agent.closed = true;
                    let timeout = u64::try_from(timeout.as_millis()).expect("a short time");
                    shim.kill_at = Some(self.now + 3 * timeout);
                }
                ShimCommand::Signal(_) => self.kill_agent(),
                ShimCommand::Ping(number) => shim.reports.push(ShimEvent::Pong(number)),
                ShimCommand::CloseStdin => shim.agent.closed = true,
                ShimCommand::Acknowledge(_) | ShimCommand::Detach => {}
            }
        }
        delivered
    }

    pub(super) fn kill_agent(&mut self) {
        self.record(|| "the agent dies".to_owned());
        let shim_too = self.chance(2);
        if let Some(shim) = &mut self.shim {
            shim.agent.exit.get_or_insert(AgentExit::Killed(9));
            shim.lives &= !shim_too;
            shim.stopped &= shim.lives;
        }
        self.orphan();
    }

    fn orphan(&mut self) {
        let open = self.stored.prompts.values();
        let with_it = open.filter(|it| !it.state.is_final() && it.state != PromptState::Queued);
        self.orphaned.extend(with_it.map(|it| it.id));
    }

    pub(super) fn step_agent(&mut self) -> bool {
        let Some(shim) = self.shim.as_mut().filter(|shim| !shim.stopped) else { return false };
        let did = shim.agent.step(&mut self.random, &mut self.sessions, &mut self.runs);
        shim.spool.append(&mut shim.agent.output);
        let exited = shim.agent.exit.is_some();
        if exited {
            self.orphan();
        }
        did
    }

    fn live_shim(&mut self) -> Option<&mut AcpShim> {
        self.shim.as_mut().filter(|it| self.connected && !it.stopped && self.core.is_ready())
    }

    pub(super) fn read_output(&mut self, most: u64) -> bool {
        let sent = self.sent;
        let Some(shim) = self.live_shim() else { return false };
        let end = shim.spool.len().min(sent + usize::try_from(most).unwrap_or(usize::MAX));
        let event = if sent < end {
            let bytes = shim.spool[sent..end].to_vec();
            self.sent = end;
            ShimEvent::Output { offset: sent as u64, bytes }
        } else if shim.lives && !shim.reports.is_empty() {
            shim.reports.remove(0)
        } else {
            return false;
        };
        self.take(OwnerInput::Shim(event));
        true
    }

    pub(super) fn read_exit(&mut self) -> bool {
        let sent = self.sent;
        let Some(shim) = self.live_shim() else { return false };
        if !shim.lives {
            self.connected = false;
            self.in_flight.clear();
            self.take(OwnerInput::Disconnected);
            return true;
        }
        let end = shim.spool.len();
        let status = match &shim.agent.exit {
            Some(AgentExit::Exited { code, .. }) => ExitStatus::Code(*code),
            Some(AgentExit::Killed(signal)) => ExitStatus::Signal(*signal),
            _ => return false,
        };
        if end > sent {
            return false;
        }
        self.orphan();
        self.take(OwnerInput::Shim(ShimEvent::Exited { status, end: end as u64 }));
        true
    }

    pub(super) fn lose_connection(&mut self) {
        if !self.connected || !self.core.is_ready() {
            return;
        }
        self.record(|| "the connection is lost".to_owned());
        let some = usize::try_from(self.random.below(3)).expect("a small number");
        self.deliver(some);
        self.connected = false;
        self.in_flight.clear();
        self.take(OwnerInput::Disconnected);
    }

    pub(super) fn finish_attach(&mut self) -> bool {
        let stopped = self.shim.as_ref().is_some_and(|shim| shim.stopped);
        let Some((run, from)) = self.attaching.filter(|_| self.core.is_ready() && !stopped) else {
            return false;
        };
        self.attaching = None;
        let outcome = match &mut self.shim {
            Some(shim) if shim.lives && shim.run == run => {
                shim.reports = vec![ShimEvent::Written(shim.last_write)];
                self.connected = true;
                self.sent = usize::try_from(from).expect("a small number");
                AttachOutcome::Attached { last_write: shim.last_write, pings: true }
            }
            Some(shim) if shim.lives => {
                self.shim = None;
                AttachOutcome::Gone
            }
            _ => AttachOutcome::Gone,
        };
        self.take(OwnerInput::Attached(outcome));
        true
    }

    pub(super) fn read_leftovers(&mut self, most: u64) -> bool {
        let Some(from) = self.leftovers.filter(|_| self.core.is_ready()) else { return false };
        let run = self.stored.record.spool.run;
        let shim = self.shim.as_ref().filter(|shim| shim.run == run);
        let spool = shim.map_or(&[][..], |shim| &shim.spool);
        let end = spool.len().min(from + usize::try_from(most).unwrap_or(usize::MAX));
        if from < end {
            let bytes = spool[from..end].to_vec();
            self.leftovers = Some(end);
            self.take(OwnerInput::Leftover { offset: from as u64, bytes });
        } else {
            let exit = shim.and_then(|shim| shim.agent.exit.clone());
            self.leftovers = None;
            self.take(OwnerInput::LeftoversEnd(exit.unwrap_or(AgentExit::Unknown)));
        }
        true
    }

    pub(super) fn finish_start(&mut self) -> bool {
        if !self.core.is_ready() {
            return false;
        }
        let Some(run) = self.starting.take() else { return false };
        let outcome = if self.chance(10) {
            self.shim = None;
            StartOutcome::Failed("no such file".to_owned())
        } else {
            self.spawn(run);
            self.connected = true;
            self.sent = 0;
            self.in_flight.clear();
            StartOutcome::Running { pings: true }
        };
        self.take(OwnerInput::Started(outcome));
        true
    }

    fn spawn(&mut self, run: u64) {
        let mut faults = AcpFaults::random(&mut self.random);
        if !self.faulty {
            faults.behave();
            faults = AcpFaults::default();
        }
        self.record(|| format!("a process starts: {faults:?}"));
        self.shim = Some(AcpShim {
            run,
            lives: true,
            stopped: false,
            spool: Vec::new(),
            last_write: 0,
            reports: Vec::new(),
            kill_at: None,
            agent: AcpAgentModel::new(faults),
        });
    }

    pub(super) fn check_finished(&self) {
        self.invariants.check_finished();
        for (prompt, (state, _)) in &self.invariants.prompts {
            let runs = self.runs.get(prompt).copied().unwrap_or(0);
            assert!(runs <= 1, "{prompt} was run {runs} times");
            let lost = self.orphaned.contains(prompt) || self.slow;
            match state {
                PromptState::Done => assert!(runs == 1 || lost, "{prompt} is done and was not run"),
                PromptState::Cancelled => assert_eq!(runs, 0, "{prompt} was cancelled and run"),
                PromptState::Indeterminate => assert!(lost, "{prompt} was given up"),
                _ => {}
            }
        }
    }
}

fn new_core(stored: &StoredSession, now: ClockReading, seed: u64, has_process: bool) -> OwnerCore {
    OwnerCore::new(OwnerSnapshot {
        now,
        seed: u128::from(seed) << 13,
        limits: SessionLimits {
            request: Some(60_000),
            budget_per_day: seed.is_multiple_of(3).then_some(2.0),
            ..SessionLimits::default()
        },
        record: stored.record.clone(),
        prompts: stored.prompts.values().cloned().collect(),
        requests: stored.requests.values().filter(|it| it.resolution.is_none()).cloned().collect(),
        has_process,
        watch: WatchPolicy::default(),
        protocol: AgentProtocol::Acp,
        agent: None,
        unfinished_line: stored.unfinished.clone().filter(|_| has_process),
    })
}
