//! Everything around the core of an owner: the journal, the agent process, users and the clocks.
//!
//! The world performs the core's effects like the owner's task, and everything fails. Towpath may
//! die before and after every effect, the journal may be full or locked at every write, the shim
//! may be stopped, refuse lines or lose its connection with some of the lines.

mod process;
mod task;

use std::collections::VecDeque;
use std::sync::Arc;

use journal::{Batch, SessionStatus};
use towpath_session::machine::{ClockReading, CommandId};
use towpath_session::owner::{OwnerCore, OwnerInput, OwnerSnapshot};
use towpath_session::shim::ShimCommand;
use towpath_session::{
    AgentProtocol, CliConversation, HookRequest, SessionLimits, SessionOptions, WatchPolicy,
};
use uuid::Uuid;
use wire::note::{HookConfig, PromptState, WatchConfig};

use super::agent_model::{AgentStorage, Generation};
use super::invariants::Invariants;
use super::storage::{SimulatedShim, StoredSession};
use super::users::{Random, Users};

/// The longest line that a shim takes. Every run has some that are longer.
pub(super) const LONGEST_WRITE: usize = 4 << 10;

/// The longest line of the agent that is read whole.
pub(super) const LONGEST_LINE: usize = 8 << 10;

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
    watch: WatchPolicy,
    /// Hooks that run.
    hooks: Vec<HookRequest>,
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
    /// Whether shims answer pings; those of earlier versions do not.
    pings: bool,
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
    /// A process that is being started: its number, its conversation and its options.
    starting: Option<(u64, CliConversation, SessionOptions)>,
    attaching: Option<(u64, u64)>,
    /// How much of the output of a dead agent was read.
    leftovers: Option<usize>,
    writing: Option<Box<Batch>>,
    pub(super) disk_is_full: bool,
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
    /// A day, and what it had cost when that was loaded last.
    loaded: Option<(u64, f64)>,
    /// The cost that the agent reported last.
    reported: Option<f64>,
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
            budget_per_day: random.one_in(3).then_some(1.5),
            longest_write: LONGEST_WRITE,
            longest_line: LONGEST_LINE,
            ..SessionLimits::default()
        };
        let options = SessionOptions {
            continue_after_cut: random.one_in(3),
            budget_usd: random.one_in(3).then_some(0.8),
            ..SessionOptions::default()
        };
        let stored = StoredSession::new(&options);
        let watch = if random.one_in(3) { WatchPolicy::default() } else { policy_with_hooks() };
        let now = 1_000_000;
        let clock = ClockReading { wall: now, monotonic: now };
        let mut world = Self {
            core: new_core(&stored, clock, limits, 0, false, &watch),
            watch,
            hooks: Vec::new(),
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
            pings: !seed.is_multiple_of(5),
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
            disk_is_full: false,
            refused: false,
            deaths: 0,
            orphaned: Vec::new(),
            agent_died: false,
            loaded: None,
            reported: None,
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
        self.hooks.clear();
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
        if let Some((run, conversation, options)) = self.starting.take()
            && self.random.one_in(2)
        {
            self.spawn(run, &conversation, options);
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
        self.core =
            new_core(&self.stored, self.clock(), self.limits, seed, has_process, &self.watch);
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

fn new_core(
    stored: &StoredSession,
    now: ClockReading,
    limits: SessionLimits,
    seed: u64,
    has_process: bool,
    watch: &WatchPolicy,
) -> OwnerCore {
    OwnerCore::new(OwnerSnapshot {
        now,
        seed: u128::from(seed) << 13,
        limits,
        record: stored.record.clone(),
        prompts: stored.prompts.values().cloned().collect(),
        requests: stored.requests.values().filter(|it| it.resolution.is_none()).cloned().collect(),
        has_process,
        watch: watch.clone(),
        protocol: AgentProtocol::StreamJson,
        agent: None,
        unfinished_line: stored.unfinished.clone().filter(|_| has_process),
    })
}

/// Every session has a hook that runs before changes.
fn policy_with_hooks() -> WatchPolicy {
    let hooks = HookConfig { pre: Some("check".to_owned()), ..HookConfig::default() };
    let default = Arc::new(WatchConfig { hooks, ..WatchConfig::default() });
    let (sender, _) = tokio::sync::mpsc::unbounded_channel();
    WatchPolicy { default: Some(default), hooks: Some(sender) }
}
