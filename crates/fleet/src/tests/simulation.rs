//! A fleet in one thread, with every failure that can be made up, from a seed.
//!
//! The decisions ([`ShipCore`](crate::ship::ShipCore), [`ShipTable`], [`MirrorCursor`], [`Claim`], [`LocalCopyState`]), the
//! packs and the meaning of the bus are those that ship. Journals are lists, and a session is as simple as it can be:
//! prompts are queued, a turn starts with a prompt, the agent gets the prompt once that is shipped, says something
//! and asks for something, which a client answers, and the turn is over. Workers are killed between any two
//! steps and restored from backups, connections are cut, answers are lost, messages arrive late, clients repeat what
//! was not confirmed, and sessions are moved and taken over all the time. Old owners come back and go on as if nothing
//! had happened, until the log tells them; their tasks go on with what they knew, also after the copy is gone.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use futures_util::FutureExt as _;
use journal::{OutboxPage, OutboxRow, SessionId};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::bus::memory::{MemoryBus, MemoryServers};
use crate::bus::{Bus, BusError, BusFuture, LogMessage, LogPosition};
use crate::claim::{Claim, ClaimOutcome, LocalCopy, LocalCopyState};
use crate::mirror::{MessageSource, MirrorCursor, MirrorStep};
use crate::pack::{NewPack, Pack, PackHeader, PackKind, WorkerId};
use crate::ship::{
    Confirmation, ShipEffect, ShipInput, ShipStop, ShipTable, ShippedSession, Tenure,
};

const SEEDS: u64 = 10_000;
const STEPS: u64 = 600;
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
    state: SessionState,
    /// The epoch in which the worker got it, or claims it.
    epoch: Option<u64>,
    /// Whether it is being taken over: the log may have the claim.
    is_pending: bool,
}

struct Worker {
    id: WorkerId,
    bus: MemoryBus,
    disk: BTreeMap<SessionId, Replica>,
    backup: Option<BTreeMap<SessionId, Replica>>,
    memory: WorkerMemory,
}

/// What a kill loses.
struct WorkerMemory {
    table: ShipTable,
    /// Whose copies were compared with their logs since the start.
    settled: HashSet<SessionId>,
    tasks: HashMap<SessionId, ShipTask>,
    /// Sessions that are given away when all their changes up to a number are stored.
    leaving: HashMap<SessionId, (Tenure, u64)>,
    releases: HashMap<SessionId, ShipTask>,
    unknown: HashSet<SessionId>,
    claims: HashMap<SessionId, Claim>,
    agents: HashMap<SessionId, Agent>,
}

/// A task that ships a session or gives it away, between two effects.
struct ShipTask {
    shipped: ShippedSession,
    effect: ShipEffect,
}

/// An agent with the prompt of its turn.
struct Agent {
    prompt: u64,
    tenure: Tenure,
    /// The number of the change that starts the turn. The agent gets the prompt when it is shipped.
    started: u64,
    has_prompt: bool,
}

/// What the changes of a session say.
#[derive(Clone, Debug, Default)]
struct SessionState {
    known: HashSet<u64>,
    queue: Vec<u64>,
    /// The prompt of the open turn.
    turn: Option<u64>,
    /// Whether a request of the turn is open.
    is_asking: bool,
    /// The prompts whose agents asked, and those of which the request was answered, or is void.
    asked: HashSet<u64>,
    answered: HashSet<u64>,
    void: HashSet<u64>,
}

impl SessionState {
    fn apply(&mut self, change: &Bytes) {
        let (what, prompt) = read_change(change);
        match what {
            "queue" => {
                assert!(self.known.insert(prompt), "{prompt} is queued twice");
                self.queue.push(prompt);
            }
            "start" => {
                assert_eq!(self.turn, None, "one turn at a time");
                assert!(self.queue.contains(&prompt), "{prompt} started again");
                self.queue.retain(|it| *it != prompt);
                self.turn = Some(prompt);
            }
            "line" => assert_eq!(self.turn, Some(prompt), "a line is in its turn"),
            "ask" => {
                assert!(self.asked.insert(prompt) && self.turn == Some(prompt));
                self.is_asking = true;
            }
            "answer" | "void" => {
                assert!(self.is_asking && self.turn == Some(prompt), "resolved once");
                self.is_asking = false;
                let resolved = if what == "void" { &mut self.void } else { &mut self.answered };
                resolved.insert(prompt);
            }
            _ => {
                assert_eq!(self.turn, Some(prompt), "a turn is over once, after it started");
                assert!(!self.is_asking, "no request is left open");
                self.turn = None;
            }
        }
    }
}

fn read_change(change: &Bytes) -> (&str, u64) {
    let mut words = std::str::from_utf8(change).unwrap().split(' ');
    (words.next().unwrap(), words.next().unwrap().parse().unwrap())
}

/// What a client wants to be confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wish {
    Prompt(u64),
    Answer(u64),
}

/// What a client waits for.
struct Waiting {
    worker: usize,
    session: SessionId,
    tenure: Tenure,
    number: u64,
    wish: Wish,
}

struct World {
    random: Random,
    workers: Vec<Worker>,
    bus: MemoryBus,
    mirror: BTreeMap<SessionId, Replica>,
    reported: mpsc::Receiver<LogMessage>,
    /// Appends whose senders have given up, and which the servers may still receive.
    late: Vec<(usize, SessionId, LogPosition, Bytes)>,
    /// No more failures happen.
    is_calm: bool,
    confirmed: HashMap<SessionId, HashSet<Wish>>,
    waiting: Vec<Waiting>,
    last_prompt: u64,
    /// Prompts whose senders do not know whether they arrived, and will send them again.
    unconfirmed: Vec<(SessionId, u64)>,
    /// How often an agent was given each prompt.
    runs: HashMap<u64, u32>,
    /// All changes that were ever committed, those that are kept as tails, and those whose disks were lost.
    committed: Vec<(SessionId, Bytes)>,
    tails: HashSet<Bytes>,
    lost: HashSet<Bytes>,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    confirmed: usize,
    answers: usize,
    takeovers: usize,
    releases: usize,
    runs: usize,
    tails: usize,
    restored: usize,
    /// Turns that agents ended while their workers were cut off.
    cut_off: usize,
    /// What was waited for when the copy was given up.
    refused: usize,
}

/// The result of an operation in memory, which never waits.
fn now<T>(future: BusFuture<'_, T>) -> Result<T, BusError> {
    future.now_or_never().expect("the double never waits")
}

fn session(number: usize) -> SessionId {
    SessionId(Uuid::from_u128(number as u128 + 1))
}

/// The end of a log as a connection sees it.
fn log_end(
    bus: &MemoryBus,
    session: SessionId,
) -> Result<Option<(LogPosition, PackHeader)>, BusError> {
    let last = now(bus.last(session))?;
    Ok(last.map(|last| (last.position, Pack::decode(last.payload).unwrap().header)))
}

/// All messages of a log.
fn read_all(bus: &MemoryBus, session: SessionId) -> Result<Vec<Pack>, BusError> {
    let mut all = Vec::new();
    let mut after = LogPosition(0);
    loop {
        let messages = now(bus.read(session, after))?;
        let Some(last) = messages.last() else { return Ok(all) };
        after = last.position;
        all.extend(messages.into_iter().map(|it| Pack::decode(it.payload).unwrap()));
    }
}

impl Replica {
    fn push(&mut self, change: Bytes) {
        self.state.apply(&change);
        self.changes.push(change);
    }

    fn last(&self) -> u64 {
        self.changes.len() as u64
    }

    /// Replays a message. False if the log must be read first.
    fn replay(&mut self, message: &LogMessage, source: MessageSource) -> bool {
        let pack = Pack::decode(message.payload.clone()).unwrap();
        match self.cursor.on(message.position, &pack.header, source) {
            MirrorStep::Apply(next) => {
                for change in pack.changes(None).unwrap() {
                    self.push(change);
                }
                assert_eq!(self.last(), next.last(), "the numbers have no gaps");
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
        OutboxPage { rows: rows.map(row).collect(), last: self.last() }
    }
}

impl WorkerMemory {
    fn new(worker: WorkerId) -> Self {
        Self {
            table: ShipTable::new(worker),
            settled: HashSet::new(),
            tasks: HashMap::new(),
            leaving: HashMap::new(),
            releases: HashMap::new(),
            unknown: HashSet::new(),
            claims: HashMap::new(),
            agents: HashMap::new(),
        }
    }

    /// Whether something else decides where a session belongs.
    fn is_locked(&self, session: SessionId) -> bool {
        self.claims.contains_key(&session)
            || self.leaving.contains_key(&session)
            || self.releases.contains_key(&session)
    }
}

impl Worker {
    /// What a worker that takes itself for the owner of a session has of it.
    fn driven(&mut self, session: SessionId) -> Option<&mut Replica> {
        let memory = &self.memory;
        let is_driven = memory.settled.contains(&session)
            && !memory.is_locked(session)
            && memory.table.stop_reason(session).is_none();
        self.disk.get_mut(&session).filter(|it| is_driven && !it.is_pending)
    }

    /// The changes of a log that this worker has sent.
    fn shipped_changes(&self, session: SessionId) -> Result<HashSet<Bytes>, BusError> {
        let packs = read_all(&self.bus, session)?.into_iter();
        let own = packs.filter(|it| it.header.worker == self.id);
        Ok(own.flat_map(|it| it.changes(None).unwrap()).collect())
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let servers = MemoryServers::default();
        let worker = |number: usize| {
            let id = WorkerId { name: format!("w{number}"), data: Uuid::from_u128(number as u128) };
            let memory = WorkerMemory::new(id.clone());
            Worker { id, bus: servers.connect(), disk: BTreeMap::new(), backup: None, memory }
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
            is_calm: false,
            confirmed: HashMap::new(),
            waiting: Vec::new(),
            last_prompt: 0,
            unconfirmed: Vec::new(),
            runs: HashMap::new(),
            committed: Vec::new(),
            tails: HashSet::new(),
            lost: HashSet::new(),
            counts: Counts::default(),
        }
    }

    fn step(&mut self) {
        let worker = self.random.below(WORKERS);
        let session = session(self.random.below(SESSIONS));
        match self.random.below(36) {
            0 | 1 => self.create(worker, session),
            2..=4 => self.send_prompt(worker, session),
            5 | 6 => self.answer(worker, session),
            7..=12 => self.repeat(|it| it.drive(worker, session)),
            13..=21 => self.repeat(|it| it.ship(worker, session)),
            22 => self.kill(worker),
            23 => {
                let cut = self.random.one_in(2);
                self.workers[worker].bus.set_cut(cut);
            }
            24 => {
                let losing = self.random.one_in(3);
                self.workers[worker].bus.set_losing_answers(losing);
            }
            25 | 26 => self.take_over(worker, session),
            27 => self.deliver_late(),
            28 | 29 => self.release(worker, session),
            30 | 31 => self.settle_copy(worker, session),
            32 => {
                let this = &mut self.workers[worker];
                this.backup = Some(this.disk.clone());
            }
            _ => self.mirror(session),
        }
        // What waits may look so late that the session was elsewhere meanwhile.
        if self.random.one_in(20) {
            self.confirm();
        }
    }

    /// Does something several times, since one step of it is small.
    fn repeat(&mut self, step: impl Fn(&mut Self)) {
        for _ in 0..=self.random.below(5) {
            step(self);
        }
    }

    /// Commits a change in a worker's copy of a session.
    fn commit(&mut self, worker: usize, session: SessionId, what: &str, prompt: u64) {
        let change = Bytes::from(format!("{what} {prompt} {}", self.committed.len()));
        self.committed.push((session, change.clone()));
        let replica = self.workers[worker].disk.get_mut(&session).unwrap();
        replica.push(change);
    }

    /// A worker is asked to create a session: it claims the id, and stores the session.
    fn create(&mut self, worker: usize, session: SessionId) {
        let this = &mut self.workers[worker];
        if this.disk.contains_key(&session) || this.memory.is_locked(session) {
            return;
        }
        let is_own = match log_end(&this.bus, session) {
            Ok(Some((_, end))) => {
                end.worker == this.id
                    && end.epoch == 1
                    && end.last == 0
                    && end.kind == PackKind::Own
            }
            Ok(None) => {
                let own = NewPack::without_changes(PackKind::Own, 1, this.id.clone(), 0);
                now(this.bus.append(session, LogPosition(0), own.payload)).is_ok()
            }
            Err(_) => false,
        };
        if is_own && this.memory.table.stop_reason(session).is_none() {
            this.disk.insert(session, Replica { epoch: Some(1), ..Replica::default() });
            this.memory.settled.insert(session);
        }
    }

    /// A client waits for what a worker has just carried out.
    fn wait(&mut self, worker: usize, session: SessionId, wish: Wish) {
        let this = &mut self.workers[worker];
        let number = this.disk[&session].last();
        let tenure = this.memory.table.tenure(session);
        self.waiting.push(Waiting { worker, session, tenure, number, wish });
    }

    /// A client sends a prompt, or one again that was not confirmed.
    fn send_prompt(&mut self, worker: usize, session: SessionId) {
        let again = self.unconfirmed.iter().position(|(of, _)| *of == session);
        let again = again.filter(|_| self.random.one_in(2));
        let Some(replica) = self.workers[worker].driven(session) else { return };
        let prompt = if let Some(which) = again {
            self.unconfirmed.swap_remove(which).1
        } else {
            self.last_prompt += 1;
            self.last_prompt
        };
        if !replica.state.known.contains(&prompt) {
            self.commit(worker, session, "queue", prompt);
        }
        self.wait(worker, session, Wish::Prompt(prompt));
    }

    /// A client answers the request of an agent.
    fn answer(&mut self, worker: usize, session: SessionId) {
        let Some(replica) = self.workers[worker].driven(session) else { return };
        if let (Some(prompt), true) = (replica.state.turn, replica.state.is_asking) {
            self.commit(worker, session, "answer", prompt);
            self.wait(worker, session, Wish::Answer(prompt));
        }
    }

    /// A worker that takes itself for the owner of a session goes on with it. An agent that has its prompt needs
    /// nothing but its own disk.
    fn drive(&mut self, worker: usize, session: SessionId) {
        let is_cut = now(self.workers[worker].bus.last(session)).is_err();
        let Some(replica) = self.workers[worker].driven(session) else { return };
        let (turn, is_asking) = (replica.state.turn, replica.state.is_asking);
        let (next, length) = (replica.state.queue.first().copied(), replica.last());
        let has_asked = turn.is_some_and(|it| replica.state.asked.contains(&it));
        let memory = &mut self.workers[worker].memory;
        match (turn, memory.agents.get_mut(&session)) {
            (Some(prompt), Some(agent)) if agent.prompt == prompt && !agent.has_prompt => {
                match memory.table.confirmation(session, agent.tenure, agent.started) {
                    Confirmation::Stored => {
                        agent.has_prompt = true;
                        *self.runs.entry(prompt).or_default() += 1;
                    }
                    Confirmation::Unknown => drop(memory.unknown.insert(session)),
                    Confirmation::Waiting => {}
                    Confirmation::Stopped(stop) => panic!("it is driven nevertheless: {stop:?}"),
                }
            }
            (Some(prompt), Some(agent)) if agent.prompt == prompt => {
                match self.random.below(if self.is_calm { 2 } else { 4 }) {
                    // It waits for the answer of a person.
                    _ if is_asking => {}
                    0 => {
                        memory.agents.remove(&session);
                        self.counts.cut_off += usize::from(is_cut);
                        self.commit(worker, session, "over", prompt);
                    }
                    1 if !has_asked => self.commit(worker, session, "ask", prompt),
                    _ => self.commit(worker, session, "line", prompt),
                }
            }
            // The agent is dead.
            (Some(prompt), _) => {
                memory.agents.remove(&session);
                if is_asking {
                    self.commit(worker, session, "void", prompt);
                }
                self.commit(worker, session, "over", prompt);
            }
            (None, _) => {
                let Some(prompt) = next else { return };
                let tenure = memory.table.tenure(session);
                let started = length + 1;
                let agent = Agent { prompt, tenure, started, has_prompt: false };
                memory.agents.insert(session, agent);
                self.commit(worker, session, "start", prompt);
            }
        }
    }

    /// Performs an effect. Nothing if that failed, and is to be tried again.
    fn perform(
        &mut self,
        worker: usize,
        session: SessionId,
        effect: &ShipEffect,
    ) -> Option<ShipInput> {
        let this = &mut self.workers[worker];
        match effect {
            ShipEffect::ReadLogEnd => log_end(&this.bus, session).ok().map(ShipInput::LogEnd),
            ShipEffect::ReadOutbox { shipped } => {
                // The copy may be gone, or be another one than the task knows.
                let Some(replica) = this.disk.get_mut(&session) else {
                    return Some(ShipInput::Outbox(OutboxPage::default()));
                };
                let shipped = usize::try_from(*shipped).unwrap();
                if shipped <= replica.changes.len() {
                    replica.removed = replica.removed.max(shipped);
                }
                Some(ShipInput::Outbox(replica.outbox()))
            }
            ShipEffect::Append { expected, pack } => {
                let payload = pack.payload.clone();
                if !self.is_calm && self.random.one_in(12) {
                    self.late.push((worker, session, *expected, payload));
                    return Some(ShipInput::NotAppended);
                }
                let this = &mut self.workers[worker];
                Some(match now(this.bus.append(session, *expected, payload)) {
                    Ok(position) => ShipInput::Appended(position),
                    Err(_) => ShipInput::NotAppended,
                })
            }
            ShipEffect::PutSnapshot => panic!("the outbox has no gaps, and no log is lost"),
            ShipEffect::Idle | ShipEffect::Stop(_) => unreachable!("the task has ended"),
        }
    }

    /// One step of the task that ships a session: an effect and what its core makes of it.
    fn ship(&mut self, worker: usize, session: SessionId) {
        let memory = &self.workers[worker].memory;
        let is_leaving =
            memory.leaving.contains_key(&session) || memory.releases.contains_key(&session);
        if is_leaving && self.random.one_in(2) {
            self.release(worker, session);
            return;
        }
        let this = &mut self.workers[worker];
        let memory = &mut this.memory;
        let mut task = if let Some(task) = memory.tasks.remove(&session) {
            task
        } else {
            // Shipping begins after the copies are settled.
            let has_rows = memory.settled.contains(&session)
                && this.disk.get(&session).is_some_and(|it| it.removed < it.changes.len());
            if !memory.unknown.remove(&session) && !has_rows {
                return;
            }
            let Some(shipped) = memory.table.shipping(session) else { return };
            let effect = shipped.core.resume();
            ShipTask { shipped, effect }
        };
        if let Some(input) = self.perform(worker, session, &task.effect) {
            // The worker may be killed before it learns what has happened.
            if !self.is_calm && self.random.one_in(40) {
                self.kill(worker);
                return;
            }
            task.effect = task.shipped.core.on(input);
            if !self.workers[worker].memory.table.learn(session, &task.shipped) {
                return;
            }
        }
        match &task.effect {
            ShipEffect::Idle | ShipEffect::Stop(_) => {}
            _ => drop(self.workers[worker].memory.tasks.insert(session, task)),
        }
    }

    /// Begins to give a session away, for which its agent is ended, or goes on with that.
    fn release(&mut self, worker: usize, session: SessionId) {
        let this = &mut self.workers[worker];
        if let Some((tenure, number)) = this.memory.leaving.remove(&session) {
            let memory = &mut this.memory;
            match memory.table.confirmation(session, tenure, number) {
                Confirmation::Stored => {
                    let (shipped, effect) = memory.table.begin_release(session);
                    memory.releases.insert(session, ShipTask { shipped, effect });
                }
                Confirmation::Stopped(_) => {}
                // It does not wait for ever.
                _ if self.is_calm || self.random.one_in(8) => {}
                _ => drop(memory.leaving.insert(session, (tenure, number))),
            }
            return;
        }
        let Some(mut task) = this.memory.releases.remove(&session) else {
            let Some(replica) = this.driven(session) else { return };
            let (turn, is_asking) = (replica.state.turn, replica.state.is_asking);
            this.memory.agents.remove(&session);
            if let Some(prompt) = turn {
                if is_asking {
                    self.commit(worker, session, "void", prompt);
                }
                self.commit(worker, session, "over", prompt);
            }
            let this = &mut self.workers[worker];
            let tenure = this.memory.table.tenure(session);
            let number = this.disk[&session].last();
            this.memory.leaving.insert(session, (tenure, number));
            return;
        };
        if let Some(input) = self.perform(worker, session, &task.effect) {
            task.effect = task.shipped.core.on(input);
        }
        let this = &mut self.workers[worker];
        match &task.effect {
            ShipEffect::Stop(stop) => {
                this.memory.table.finish_release(session, &task.shipped);
                if *stop == ShipStop::Released {
                    self.counts.releases += 1;
                    this.disk.remove(&session);
                } else {
                    // It was taken over meanwhile.
                    self.give_up_copy(worker, session);
                }
            }
            ShipEffect::Idle => panic!("giving away is not over"),
            _ => drop(this.memory.releases.insert(session, task)),
        }
    }

    /// A worker compares its copy with the log: at its start, after it was away, or when shipping was stopped.
    fn settle_copy(&mut self, worker: usize, session: SessionId) {
        let this = &mut self.workers[worker];
        if this.memory.is_locked(session) {
            return;
        }
        let Some(replica) = this.disk.get(&session) else { return };
        let Ok(end) = log_end(&this.bus, session) else { return };
        let end = end.map(|(_, header)| header);
        let copy = LocalCopy { last: replica.last(), epoch: replica.epoch };
        if replica.is_pending {
            // A take-over that was cut off.
            match (LocalCopyState::of_pending(copy, &this.id, end.as_ref()), end) {
                (LocalCopyState::Present, Some(own)) => {
                    self.finish_takeover(worker, session, own.epoch);
                }
                (LocalCopyState::Outdated, _) => self.begin_claim(worker, session),
                _ => drop(this.disk.remove(&session)),
            }
            return;
        }
        match LocalCopyState::of(copy, &this.id, end.as_ref()) {
            LocalCopyState::Present => drop(this.memory.settled.insert(session)),
            LocalCopyState::Fenced => drop(self.give_up_copy(worker, session)),
            LocalCopyState::Outdated => self.begin_claim(worker, session),
        }
    }

    /// Gives the copy of a session up. What was not shipped is kept. False if the log cannot be read.
    fn give_up_copy(&mut self, worker: usize, session: SessionId) -> bool {
        let this = &mut self.workers[worker];
        let Ok(Some((_, end))) = log_end(&this.bus, session) else { return false };
        let by = ShipStop::Fenced { by: end.worker, epoch: end.epoch };
        this.memory.table.stop(session, by);
        this.memory.agents.remove(&session);
        let Ok(shipped) = this.shipped_changes(session) else { return false };
        if let Some(replica) = this.disk.remove(&session) {
            let rows = replica.changes.into_iter().skip(replica.removed);
            let kept = rows.filter(|change| !shipped.contains(change));
            let before = self.tails.len();
            self.tails.extend(kept);
            self.counts.tails += usize::from(self.tails.len() > before);
        }
        true
    }

    fn kill(&mut self, worker: usize) {
        let this = &mut self.workers[worker];
        this.memory = WorkerMemory::new(this.id.clone());
        if let Some(backup) = this.backup.clone()
            && self.random.one_in(5)
        {
            // The disk is lost with what was not shipped, and replaced by an older state, which takes longer than any
            // message is on its way.
            for replica in this.disk.values() {
                self.lost.extend(replica.changes[replica.removed..].iter().cloned());
            }
            this.disk = backup;
            self.late.retain(|(of, ..)| *of != worker);
            self.counts.restored += 1;
        }
        let Self { waiting, unconfirmed, .. } = self;
        waiting.retain(|it| {
            if let (true, Wish::Prompt(prompt)) = (it.worker == worker, it.wish) {
                unconfirmed.push((it.session, prompt));
            }
            it.worker != worker
        });
    }

    /// Replays a log in place of the copy of a session, to claim it.
    fn begin_claim(&mut self, worker: usize, session: SessionId) {
        if !self.give_up_copy(worker, session) {
            return;
        }
        let this = &mut self.workers[worker];
        let mut replica = Replica { is_pending: true, ..Replica::default() };
        if replica.catch_up(&this.bus, session).is_ok() {
            let claim = Claim::new(&replica.cursor, this.id.clone());
            replica.epoch = Some(claim.pack.header.epoch);
            this.memory.claims.insert(session, claim);
            this.disk.insert(session, replica);
        }
    }

    /// One step of a take-over: replaying the log, or claiming the session.
    fn take_over(&mut self, worker: usize, session: SessionId) {
        let this = &mut self.workers[worker];
        let Some(claim) = this.memory.claims.get(&session).cloned() else {
            let Ok(Some((_, end))) = log_end(&this.bus, session) else { return };
            let is_own = end.worker == this.id && end.kind != PackKind::Released;
            let is_pending = this.disk.get(&session).is_some_and(|it| it.is_pending);
            if !is_own && !is_pending && !this.memory.is_locked(session) {
                self.begin_claim(worker, session);
            }
            return;
        };
        let payload = claim.pack.payload.clone();
        let outcome = match now(this.bus.append(session, claim.expected, payload)) {
            Ok(_) => ClaimOutcome::Won,
            Err(_) => match log_end(&this.bus, session) {
                Ok(end) => claim.outcome(end.as_ref()),
                Err(_) => ClaimOutcome::Missing,
            },
        };
        match outcome {
            ClaimOutcome::Won => self.finish_takeover(worker, session, claim.pack.header.epoch),
            ClaimOutcome::Lost => {
                this.memory.claims.remove(&session);
                this.disk.remove(&session);
            }
            ClaimOutcome::Missing => {}
        }
    }

    fn finish_takeover(&mut self, worker: usize, session: SessionId, epoch: u64) {
        let this = &mut self.workers[worker];
        this.memory.claims.remove(&session);
        this.memory.table.begin(session);
        this.memory.settled.insert(session);
        let replica = this.disk.get_mut(&session).unwrap();
        (replica.epoch, replica.is_pending) = (Some(epoch), false);
        self.counts.takeovers += 1;
    }

    /// The servers receive an append whose sender has given up.
    fn deliver_late(&mut self) {
        if self.late.is_empty() {
            return;
        }
        let which = self.random.below(self.late.len());
        let (_, session, expected, payload) = self.late.swap_remove(which);
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

    /// Tells clients what is stored, and what never will be.
    fn confirm(&mut self) {
        let Self { workers, waiting, confirmed, unconfirmed, counts, .. } = self;
        waiting.retain(|it| {
            let memory = &mut workers[it.worker].memory;
            match memory.table.confirmation(it.session, it.tenure, it.number) {
                Confirmation::Stored => {
                    confirmed.entry(it.session).or_default().insert(it.wish);
                    false
                }
                Confirmation::Waiting => true,
                Confirmation::Unknown => {
                    memory.unknown.insert(it.session);
                    true
                }
                Confirmation::Stopped(_) => {
                    counts.refused += 1;
                    if let Wish::Prompt(prompt) = it.wish {
                        unconfirmed.push((it.session, prompt));
                    }
                    false
                }
            }
        });
    }

    /// Whether nothing is left to do.
    fn is_quiet(&self) -> bool {
        self.waiting.is_empty()
            && self.workers.iter().all(|it| {
                it.memory.tasks.is_empty()
                    && it.memory.claims.is_empty()
                    && it.memory.leaving.is_empty()
                    && it.memory.releases.is_empty()
                    && it.disk.iter().all(|(session, replica)| {
                        it.memory.settled.contains(session)
                            && it.memory.table.stop_reason(*session).is_none()
                            && replica.state.turn.is_none()
                            && replica.state.queue.is_empty()
                            && replica.removed == replica.changes.len()
                    })
            })
    }

    /// Repairs everything and lets the fleet come to rest by itself.
    fn settle(&mut self) {
        while !self.late.is_empty() {
            self.deliver_late();
        }
        self.is_calm = true;
        for worker in &mut self.workers {
            worker.bus.set_cut(false);
            worker.bus.set_losing_answers(false);
            worker.memory.claims.clear();
            worker.memory.settled.clear();
        }
        for _ in 0..600 {
            for worker in 0..WORKERS {
                for number in 0..SESSIONS {
                    let session = session(number);
                    self.take_over_begun(worker, session);
                    self.settle_copy(worker, session);
                    self.drive(worker, session);
                    self.answer(worker, session);
                    self.ship(worker, session);
                    self.confirm();
                }
            }
            if self.is_quiet() {
                break;
            }
        }
        for number in 0..SESSIONS {
            let session = session(number);
            self.mirror.entry(session).or_default().catch_up(&self.bus, session).unwrap();
        }
    }

    /// Goes on with a take-over that has begun.
    fn take_over_begun(&mut self, worker: usize, session: SessionId) {
        if self.workers[worker].memory.claims.contains_key(&session) {
            self.take_over(worker, session);
        }
    }

    fn check(&self) {
        assert!(self.is_quiet(), "every turn is over, and everything is shipped and confirmed");
        let mut logged: HashSet<Bytes> = HashSet::new();
        for number in 0..SESSIONS {
            let session = session(number);
            let mut log = Vec::new();
            let mut owners: BTreeMap<u64, WorkerId> = BTreeMap::new();
            let mut begun = 0;
            for pack in read_all(&self.bus, session).unwrap() {
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
            let mirror = &self.mirror[&session];
            assert_eq!(mirror.changes, log, "the mirror is the log");
            let before = logged.len();
            logged.extend(log.iter().cloned());
            assert_eq!(logged.len(), before + log.len(), "no change is in the log twice");
            for wish in self.confirmed.get(&session).into_iter().flatten() {
                let has_it = match wish {
                    Wish::Prompt(prompt) => mirror.state.known.contains(prompt),
                    Wish::Answer(prompt) => mirror.state.answered.contains(prompt),
                };
                assert!(has_it, "{wish:?} was confirmed and is lost");
            }
            if let Some(owner) = owners.get(&begun) {
                let owner = self.workers.iter().find(|it| it.id == *owner).unwrap();
                if let Some(replica) = owner.disk.get(&session) {
                    assert_eq!(replica.changes, log, "the log is what the owner has");
                }
            }
        }
        for (prompt, runs) in &self.runs {
            assert_eq!(*runs, 1, "prompt {prompt} was run more than once");
        }
        for (_, change) in &self.committed {
            let (in_log, in_tail) = (logged.contains(change), self.tails.contains(change));
            assert!(!(in_log && in_tail), "{change:?} is in the conversation and in a tail");
            assert!(
                in_log || in_tail || self.lost.contains(change),
                "{change:?} is in no log and in no tail"
            );
        }
    }

    fn counts(&self) -> Counts {
        let all = self.confirmed.values().flatten();
        let answers = all.clone().filter(|it| matches!(it, Wish::Answer(_))).count();
        Counts { confirmed: all.count(), answers, runs: self.runs.len(), ..self.counts }
    }
}

impl Counts {
    fn add(&mut self, other: Self) {
        let Self {
            confirmed,
            answers,
            takeovers,
            releases,
            runs,
            tails,
            restored,
            cut_off,
            refused,
        } = other;
        self.confirmed += confirmed;
        self.answers += answers;
        self.takeovers += takeovers;
        self.releases += releases;
        self.runs += runs;
        self.tails += tails;
        self.restored += restored;
        self.cut_off += cut_off;
        self.refused += refused;
    }
}

#[test]
fn no_failure_makes_two_owners_loses_what_was_confirmed_or_runs_a_prompt_twice() {
    let mut counts = Counts::default();
    for seed in 0..SEEDS {
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..STEPS {
                world.step();
            }
            world.settle();
            world.check();
            world.counts()
        });
        match run {
            Ok(more) => counts.add(more),
            Err(panic) => {
                eprintln!("seed {seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{counts:?}");
    // Otherwise it would not test much.
    assert!(counts.confirmed > 20_000 && counts.answers > 5_000 && counts.runs > 12_000);
    assert!(counts.takeovers > 10_000 && counts.releases > 2_000 && counts.restored > 10_000);
    assert!(counts.tails > 4_000 && counts.cut_off > 100 && counts.refused > 2_000);
}
