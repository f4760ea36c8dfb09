//! A fleet in one thread, with every failure that can be made up, from a seed.
//!
//! The decisions ([`ShipCore`], [`MirrorCursor`], [`Claim`]), the packs and the meaning of the bus are those
//! that ship. Journals are lists, and a session is as simple as it can be: prompts are queued, a turn starts with
//! a prompt, the agent gets the prompt once that is shipped, and the turn is over. Workers are killed between any
//! two steps, connections are cut, answers are lost, messages arrive late, clients repeat prompts that were not
//! confirmed, and sessions are moved and taken over all the time. Old owners come back and go on as if nothing
//! had happened, until the log tells them.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use futures_util::FutureExt as _;
use journal::{OutboxPage, OutboxRow, SessionId};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::bus::memory::{MemoryBus, MemoryServers};
use crate::bus::{Bus, BusError, BusFuture, LogMessage, LogPosition};
use crate::claim::{Claim, ClaimOutcome};
use crate::mirror::{MessageSource, MirrorCursor, MirrorStep};
use crate::pack::{Pack, PackKind, WorkerId};
use crate::ship::{ShipCore, ShipEffect, ShipInput, ShipStop};

const SEEDS: u64 = 10_000;
const STEPS: u64 = 150;
const WORKERS: usize = 3;
const SESSIONS: usize = 2;

/// Random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % limit as u64).unwrap()
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// What the disk of a machine has of a session.
#[derive(Clone, Debug, Default)]
struct Replica {
    changes: Vec<Bytes>,
    /// How many of them are no longer in the outbox.
    removed: usize,
    cursor: MirrorCursor,
}

struct Worker {
    id: WorkerId,
    bus: MemoryBus,
    disk: BTreeMap<SessionId, Replica>,
    /// What a kill loses.
    cores: HashMap<SessionId, (ShipCore, ShipEffect)>,
    claims: HashMap<SessionId, Claim>,
    agents: HashMap<SessionId, Agent>,
}

/// An agent with the prompt of its turn.
struct Agent {
    prompt: u64,
    /// The number of the change that starts the turn. The agent gets the prompt when it is shipped.
    started: u64,
    has_prompt: bool,
}

/// What the changes of a session say.
#[derive(Default)]
struct SessionState {
    known: HashSet<u64>,
    queue: Vec<u64>,
    /// The prompt of the open turn.
    turn: Option<u64>,
}

impl SessionState {
    fn of(changes: &[Bytes]) -> Self {
        let mut state = Self::default();
        for change in changes {
            let (what, prompt) = read_change(change);
            match what {
                "queue" => {
                    state.known.insert(prompt);
                    state.queue.push(prompt);
                }
                "start" => {
                    assert_eq!(state.turn, None, "one turn at a time");
                    assert!(state.queue.contains(&prompt), "{prompt} started again");
                    state.queue.retain(|it| *it != prompt);
                    state.turn = Some(prompt);
                }
                _ => {
                    assert_eq!(state.turn, Some(prompt), "a turn is over once, after it started");
                    state.turn = None;
                }
            }
        }
        state
    }
}

fn change(what: &str, prompt: u64) -> Bytes {
    Bytes::from(format!("{what} {prompt}"))
}

fn read_change(change: &Bytes) -> (&str, u64) {
    let (what, prompt) = std::str::from_utf8(change).unwrap().split_once(' ').unwrap();
    (what, prompt.parse().unwrap())
}

struct World {
    random: Random,
    workers: Vec<Worker>,
    bus: MemoryBus,
    mirror: BTreeMap<SessionId, Replica>,
    reported: mpsc::Receiver<LogMessage>,
    /// Appends whose senders have given up, and which the servers may still receive.
    late: Vec<(SessionId, LogPosition, Bytes)>,
    /// Changes that were confirmed to their senders.
    confirmed: HashMap<SessionId, HashSet<Bytes>>,
    /// Changes that are not confirmed yet: which worker, and the number.
    waiting: Vec<(usize, SessionId, u64, Bytes)>,
    last_prompt: u64,
    /// Prompts whose senders do not know whether they arrived, and will send them again.
    unconfirmed: Vec<(SessionId, u64)>,
    /// How often an agent was given each prompt.
    runs: HashMap<u64, u32>,
    takeovers: u64,
    releases: u64,
}

/// The result of an operation in memory, which never waits.
fn now<T>(future: BusFuture<'_, T>) -> Result<T, BusError> {
    future.now_or_never().expect("the double never waits")
}

fn session(number: usize) -> SessionId {
    SessionId(Uuid::from_u128(number as u128 + 1))
}

impl Replica {
    /// Replays a message. False if the log must be read first.
    fn replay(&mut self, message: &LogMessage, source: MessageSource) -> bool {
        let pack = Pack::decode(message.payload.clone()).unwrap();
        match self.cursor.on(message.position, &pack.header, source) {
            MirrorStep::Apply(next) => {
                self.changes.extend(pack.changes(None).unwrap());
                assert_eq!(self.changes.len() as u64, next.last(), "the numbers have no gaps");
                self.removed = self.changes.len();
                self.cursor = next;
                true
            }
            MirrorStep::Skip => true,
            MirrorStep::ReadLog => false,
            MirrorStep::Ignore => panic!("the servers stored a message that no owner wrote"),
        }
    }

    /// Reads the log to its end, if the servers can be reached.
    fn catch_up(&mut self, bus: &MemoryBus, session: SessionId) -> Result<(), BusError> {
        loop {
            let messages = now(bus.read(session, self.cursor.position()))?;
            if messages.is_empty() {
                return Ok(());
            }
            for message in &messages {
                self.replay(message, MessageSource::Read);
            }
        }
    }

    fn outbox(&self) -> OutboxPage {
        let rows = (1..).zip(&self.changes).skip(self.removed).take(3);
        let row = |(number, bytes): (u64, &Bytes)| OutboxRow { number, bytes: bytes.clone() };
        OutboxPage { rows: rows.map(row).collect(), last: self.changes.len() as u64 }
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let servers = MemoryServers::default();
        let worker = |number: usize| Worker {
            id: WorkerId { name: format!("w{number}"), data: Uuid::from_u128(number as u128) },
            bus: servers.connect(),
            disk: BTreeMap::new(),
            cores: HashMap::new(),
            claims: HashMap::new(),
            agents: HashMap::new(),
        };
        let bus = servers.connect();
        let reported = now(bus.follow()).unwrap();
        Self {
            random: Random(seed),
            workers: (0..WORKERS).map(worker).collect(),
            bus,
            mirror: BTreeMap::new(),
            reported,
            late: Vec::new(),
            confirmed: HashMap::new(),
            waiting: Vec::new(),
            last_prompt: 0,
            unconfirmed: Vec::new(),
            runs: HashMap::new(),
            takeovers: 0,
            releases: 0,
        }
    }

    fn step(&mut self) {
        let worker = self.random.below(WORKERS);
        let session = session(self.random.below(SESSIONS));
        match self.random.below(26) {
            0..=2 => self.send_prompt(worker, session),
            3..=6 => self.drive(worker, session),
            24 | 25 => self.release(worker, session),
            7..=15 => self.ship(worker, session),
            16 => self.kill(worker),
            17 => {
                let cut = self.random.one_in(2);
                self.workers[worker].bus.set_cut(cut);
            }
            18 => {
                let losing = self.random.one_in(3);
                self.workers[worker].bus.set_losing_answers(losing);
            }
            19 | 20 => self.take_over(worker, session),
            21 => self.deliver_late(),
            _ => self.mirror(session),
        }
        self.confirm();
    }

    /// What a worker that takes itself for the owner of a session has of it.
    fn driven(&mut self, worker: usize, session: SessionId) -> Option<&mut Replica> {
        let is_new = self.workers.iter().all(|it| !it.disk.contains_key(&session))
            && now(self.bus.last(session)).unwrap().is_none();
        let this = &mut self.workers[worker];
        let gives_up = |(core, effect): &(ShipCore, ShipEffect)| {
            core.is_releasing() || matches!(effect, ShipEffect::Stop(_))
        };
        if this.claims.contains_key(&session)
            || this.cores.get(&session).is_some_and(gives_up)
            || !is_new && !this.disk.contains_key(&session)
        {
            return None;
        }
        Some(this.disk.entry(session).or_default())
    }

    /// A client sends a prompt, or one again that was not confirmed.
    fn send_prompt(&mut self, worker: usize, session: SessionId) {
        let again = self.unconfirmed.iter().position(|(of, _)| *of == session);
        let again = again.filter(|_| self.random.one_in(2));
        if self.driven(worker, session).is_none() {
            return;
        }
        let prompt = if let Some(which) = again {
            self.unconfirmed.swap_remove(which).1
        } else {
            self.last_prompt += 1;
            self.last_prompt
        };
        let Some(replica) = self.driven(worker, session) else { return };
        if !SessionState::of(&replica.changes).known.contains(&prompt) {
            replica.changes.push(change("queue", prompt));
        }
        let number = replica.changes.len() as u64;
        self.waiting.push((worker, session, number, change("queue", prompt)));
    }

    /// A worker that takes itself for the owner of a session goes on with it.
    fn drive(&mut self, worker: usize, session: SessionId) {
        let Some(replica) = self.driven(worker, session) else { return };
        let state = SessionState::of(&replica.changes);
        let length = replica.changes.len() as u64;
        let this = &mut self.workers[worker];
        let shipped = this.cores.get(&session).and_then(|(core, _)| core.shipped());
        let changes = &mut this.disk.get_mut(&session).unwrap().changes;
        match (state.turn, this.agents.get_mut(&session)) {
            (Some(prompt), Some(agent)) if agent.prompt == prompt && !agent.has_prompt => {
                if shipped.is_some_and(|shipped| shipped >= agent.started) {
                    agent.has_prompt = true;
                    *self.runs.entry(prompt).or_default() += 1;
                }
            }
            // The turn is over, because the agent says so or because it is dead.
            (Some(prompt), _) => {
                changes.push(change("over", prompt));
                this.agents.remove(&session);
            }
            (None, _) => {
                if let Some(&prompt) = state.queue.first() {
                    changes.push(change("start", prompt));
                    let agent = Agent { prompt, started: length + 1, has_prompt: false };
                    this.agents.insert(session, agent);
                }
            }
        }
    }

    /// Goes on with a session if a turn is open.
    fn end_turn(&mut self, worker: usize, session: SessionId) {
        let turn = self.driven(worker, session).map(|it| SessionState::of(&it.changes).turn);
        if turn.flatten().is_some() {
            self.drive(worker, session);
        }
    }

    /// A worker gives a session away in which nothing is going on.
    fn release(&mut self, worker: usize, session: SessionId) {
        let Some(replica) = self.driven(worker, session) else { return };
        let length = replica.changes.len() as u64;
        let is_quiet = SessionState::of(&replica.changes).turn.is_none();
        if let Some((core, effect)) = self.workers[worker].cores.get_mut(&session)
            && is_quiet
            && core.shipped() == Some(length)
        {
            *effect = core.release();
        }
    }

    /// One step of a shipper: an effect and what its core makes of it.
    fn ship(&mut self, worker: usize, session: SessionId) {
        let this = &mut self.workers[worker];
        if this.claims.contains_key(&session) {
            return;
        }
        let Some(replica) = this.disk.get_mut(&session) else { return };
        let (core, effect) = this.cores.entry(session).or_insert_with(|| {
            let core = ShipCore::new(session, this.id.clone());
            let effect = core.resume();
            (core, effect)
        });
        let input = match effect {
            ShipEffect::ReadLogEnd => match now(this.bus.last(session)) {
                Ok(last) => ShipInput::LogEnd(
                    last.map(|last| (last.position, Pack::decode(last.payload).unwrap().header)),
                ),
                Err(_) => return,
            },
            ShipEffect::ReadOutbox { shipped } => {
                replica.removed = replica.removed.max(usize::try_from(*shipped).unwrap());
                ShipInput::Outbox(replica.outbox())
            }
            ShipEffect::Append { expected, pack } => {
                let payload = pack.payload.clone();
                if self.random.one_in(12) {
                    self.late.push((session, *expected, payload));
                    ShipInput::NotAppended
                } else {
                    match now(this.bus.append(session, *expected, payload)) {
                        Ok(position) => ShipInput::Appended(position),
                        Err(_) => ShipInput::NotAppended,
                    }
                }
            }
            ShipEffect::PutSnapshot => panic!("the outbox has no gaps"),
            ShipEffect::Idle => {
                *effect = core.resume();
                return;
            }
            ShipEffect::Stop(ShipStop::Fenced { .. }) => {
                // What was not shipped is a tail. The copy is given up.
                this.disk.remove(&session);
                this.agents.remove(&session);
                this.cores.remove(&session);
                self.give_up(worker, session);
                return;
            }
            ShipEffect::Stop(ShipStop::Released) => {
                self.releases += 1;
                this.disk.remove(&session);
                this.cores.remove(&session);
                self.give_up(worker, session);
                return;
            }
            ShipEffect::Stop(stop) => panic!("no data is lost: {stop:?}"),
        };
        // The worker may be killed before it learns what has happened.
        if self.random.one_in(20) {
            self.kill(worker);
            return;
        }
        *effect = core.on(input);
    }

    fn kill(&mut self, worker: usize) {
        let this = &mut self.workers[worker];
        this.cores.clear();
        this.claims.clear();
        this.agents.clear();
        for number in 0..SESSIONS {
            self.give_up(worker, session(number));
        }
    }

    /// Clients that wait for a confirmation of a worker get no answer, and send again.
    fn give_up(&mut self, worker: usize, session: SessionId) {
        let Self { waiting, unconfirmed, .. } = self;
        waiting.retain(|(of, which, _, change)| {
            let is_lost = (*of, *which) == (worker, session);
            if is_lost {
                unconfirmed.push((session, read_change(change).1));
            }
            !is_lost
        });
    }

    /// One step of a take-over: replaying the log, or claiming the session.
    fn take_over(&mut self, worker: usize, session: SessionId) {
        let this = &mut self.workers[worker];
        let Some(claim) = this.claims.get(&session).cloned() else {
            let Ok(Some(last)) = now(this.bus.last(session)) else { return };
            let header = Pack::decode(last.payload).unwrap().header;
            if header.worker == this.id && header.kind != PackKind::Released {
                return;
            }
            // What this worker had beyond the log stays behind.
            let mut replica = Replica::default();
            if replica.catch_up(&this.bus, session).is_ok() {
                this.claims.insert(session, Claim::new(&replica.cursor, this.id.clone()));
                this.disk.insert(session, replica);
                this.cores.remove(&session);
                this.agents.remove(&session);
                self.give_up(worker, session);
            }
            return;
        };
        let payload = claim.pack.payload.clone();
        let outcome = match now(this.bus.append(session, claim.expected, payload)) {
            Ok(_) => ClaimOutcome::Won,
            Err(_) => match now(this.bus.last(session)) {
                Ok(last) => {
                    let end = last
                        .map(|last| (last.position, Pack::decode(last.payload).unwrap().header));
                    claim.outcome(end.as_ref())
                }
                Err(_) => ClaimOutcome::Missing,
            },
        };
        match outcome {
            ClaimOutcome::Won => {
                self.takeovers += 1;
                this.claims.remove(&session);
            }
            ClaimOutcome::Lost => {
                this.claims.remove(&session);
                this.disk.remove(&session);
            }
            ClaimOutcome::Missing => {}
        }
    }

    /// The servers receive an append whose sender has given up.
    fn deliver_late(&mut self) {
        if self.late.is_empty() {
            return;
        }
        let which = self.random.below(self.late.len());
        let (session, expected, payload) = self.late.swap_remove(which);
        let _ = now(self.bus.append(session, expected, payload));
    }

    /// The mirror takes what is reported, with losses, or reads a log.
    fn mirror(&mut self, session: SessionId) {
        if self.random.one_in(4) {
            let _ = self.mirror.entry(session).or_default().catch_up(&self.bus, session);
            return;
        }
        for _ in 0..self.random.below(6) {
            let Ok(message) = self.reported.try_recv() else { return };
            if self.random.one_in(6) {
                continue;
            }
            let replica = self.mirror.entry(message.session).or_default();
            if !replica.replay(&message, MessageSource::Follow) {
                replica.catch_up(&self.bus, message.session).unwrap();
            }
        }
    }

    /// Confirms the changes that are surely in a log.
    fn confirm(&mut self) {
        let Self { workers, waiting, confirmed, .. } = self;
        waiting.retain(|(worker, session, number, change)| {
            let core = workers[*worker].cores.get(session);
            let shipped = core.and_then(|(core, _)| core.shipped());
            let is_shipped = shipped.is_some_and(|shipped| shipped >= *number);
            if is_shipped {
                confirmed.entry(*session).or_default().insert(change.clone());
            }
            !is_shipped
        });
    }

    /// Repairs everything and lets the fleet come to rest.
    fn settle(&mut self) {
        while !self.late.is_empty() {
            self.deliver_late();
        }
        for worker in 0..WORKERS {
            self.workers[worker].bus.set_cut(false);
            self.workers[worker].bus.set_losing_answers(false);
            self.workers[worker].claims.clear();
        }
        // Late appends and kills may still happen in these steps, so there are more than enough.
        for round in 0..400 {
            for worker in 0..WORKERS {
                for number in 0..SESSIONS {
                    // Often enough that every turn ends, and long enough before the end to be shipped.
                    if round % 8 == 0 && round < 240 {
                        self.end_turn(worker, session(number));
                    }
                    self.ship(worker, session(number));
                    self.confirm();
                }
            }
            self.late.clear();
        }
        for number in 0..SESSIONS {
            let session = session(number);
            self.mirror.entry(session).or_default().catch_up(&self.bus, session).unwrap();
        }
    }

    fn check(&self) {
        for number in 0..SESSIONS {
            let session = session(number);
            let mut log = Vec::new();
            let mut owners: BTreeMap<u64, WorkerId> = BTreeMap::new();
            let mut after = LogPosition(0);
            let mut begun = 0;
            loop {
                let messages = now(self.bus.read(session, after)).unwrap();
                let Some(last) = messages.last() else { break };
                after = last.position;
                for message in messages {
                    let pack = Pack::decode(message.payload).unwrap();
                    let header = &pack.header;
                    if header.kind == PackKind::Own {
                        assert_eq!(header.epoch, begun + 1, "each epoch begins once");
                        begun = header.epoch;
                        owners.insert(header.epoch, header.worker.clone());
                    }
                    assert_eq!(header.epoch, begun, "nothing comes after the next epoch has begun");
                    assert_eq!(owners.get(&header.epoch), Some(&header.worker), "one owner");
                    log.extend(pack.changes(None).unwrap());
                }
            }
            let unique: HashSet<&Bytes> = log.iter().collect();
            assert_eq!(unique.len(), log.len(), "no change is in the log twice");
            for change in self.confirmed.get(&session).into_iter().flatten() {
                assert!(unique.contains(change), "{change:?} was confirmed and is lost");
            }
            assert_eq!(self.mirror[&session].changes, log, "the mirror is the log");
            let state = SessionState::of(&log);
            for (prompt, runs) in &self.runs {
                assert_eq!(*runs, 1, "prompt {prompt} was run more than once");
            }
            if let Some(owner) = owners.get(&begun) {
                let owner = self.workers.iter().find(|it| it.id == *owner).unwrap();
                // A claim that was settled without its worker noticing leaves the replayed log.
                if let Some(replica) = owner.disk.get(&session) {
                    assert_eq!(state.turn, None, "every turn is over");
                    assert_eq!(replica.changes, log, "the mirror is what the owner has");
                }
            }
        }
    }
}

#[test]
fn no_failure_makes_two_owners_loses_what_was_confirmed_or_runs_a_prompt_twice() {
    let (mut confirmed, mut takeovers, mut releases, mut runs) = (0, 0, 0, 0);
    for seed in 0..SEEDS {
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..STEPS {
                world.step();
            }
            world.settle();
            world.check();
            let confirmed = world.confirmed.values().map(HashSet::len).sum::<usize>();
            (confirmed, world.takeovers, world.releases, world.runs.len())
        });
        match run {
            Ok(counts) => {
                confirmed += counts.0;
                takeovers += counts.1;
                releases += counts.2;
                runs += counts.3;
            }
            Err(panic) => {
                eprintln!("seed {seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    // Otherwise it would not test much.
    assert!(
        confirmed > 10_000 && takeovers > 5_000 && releases > 1_000 && runs > 5_000,
        "{confirmed} confirmed, {takeovers} take-overs, {releases} releases, {runs} prompts run"
    );
}
