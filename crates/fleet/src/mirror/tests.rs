//! Workers that ship and a gateway that mirrors, over servers in memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use journal::{Batch, Entry, Journal, NewEntry, NewSession, Origin, Seq, SessionId};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::Mirror;
use crate::bus::memory::{MemoryBus, MemoryServers};
use crate::bus::{Bus as _, LogPosition};
use crate::pack::{NewPack, Pack, PackKind, WorkerId};
use crate::ship::{ShipStop, Shipper, UNWATCHED_INTERVAL};

/// Generous, for busy machines.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// A task that ends with the test.
pub(crate) struct TestTask(JoinHandle<()>);

impl Drop for TestTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> TestTask {
    TestTask(tokio::spawn(work))
}

pub(crate) fn worker_id(number: u128) -> WorkerId {
    WorkerId { name: format!("w{number}"), data: Uuid::from_u128(number) }
}

/// A machine with a journal and a connection.
pub(crate) struct TestMachine {
    _directory: TempDir,
    pub(crate) journal: Journal,
    pub(crate) bus: Arc<MemoryBus>,
}

impl TestMachine {
    pub(crate) fn new(servers: &MemoryServers) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(&directory.path().join("journal.db")).unwrap().journal;
        Self { _directory: directory, journal, bus: Arc::new(servers.connect()) }
    }

    pub(crate) async fn worker(servers: &MemoryServers) -> Self {
        let this = Self::new(servers);
        this.journal.keep_outbox().await.unwrap();
        this
    }

    pub(crate) fn ship(&self, number: u128) -> (Shipper, TestTask) {
        self.ship_unwatched_every(number, UNWATCHED_INTERVAL)
    }

    pub(crate) fn ship_unwatched_every(&self, number: u128, time: Duration) -> (Shipper, TestTask) {
        let (bus, journal) = (Arc::clone(&self.bus), self.journal.clone());
        let (shipper, _stopped) = Shipper::new(bus as _, journal, worker_id(number), time);
        (shipper.clone(), spawn(shipper.run()))
    }

    pub(crate) async fn mirror(&self) -> (Mirror, TestTask) {
        let mirror = Mirror::open(Arc::clone(&self.bus) as _, self.journal.clone()).await.unwrap();
        (mirror.clone(), spawn(mirror.run()))
    }
}

/// Waits until changes of the present copy of a session are in its log.
pub(crate) async fn shipped(
    shipper: &Shipper,
    session: SessionId,
    number: u64,
) -> Result<(), ShipStop> {
    let tenure = shipper.tenure(session);
    let wait = shipper.shipped(session, tenure, number);
    tokio::time::timeout(TIMEOUT, wait).await.expect("it is shipped in time")
}

pub(crate) fn id(number: u128) -> SessionId {
    SessionId(Uuid::from_u128(number))
}

pub(crate) fn new_session(number: u128) -> NewSession {
    let (title, options) = (Some(format!("session {number}")), "{}".to_owned());
    NewSession { id: id(number), directory: "/home/dev".into(), title, options, at: 1000 }
}

pub(crate) fn line(bytes: impl Into<Bytes>) -> Batch {
    let entry = NewEntry { origin: Origin::Agent, bytes: bytes.into(), transient: false };
    Batch { at: 2000, entries: vec![entry], ..Batch::default() }
}

/// Bytes that do not compress, so that they do not fit into a message.
fn noise(size: usize) -> Vec<u8> {
    let mut seed = 1_u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33).to_le_bytes()[0]
    };
    (0..size).map(|_| next()).collect()
}

/// Streamed text.
pub(crate) fn delta(bytes: impl Into<Bytes>) -> Batch {
    let mut batch = line(bytes);
    batch.entries[0].transient = true;
    batch
}

pub(crate) async fn entries(journal: &Journal, session: SessionId) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let after = all.last().map_or(Seq(0), |entry| entry.seq);
        let next = journal.read(session, after, usize::MAX).await.unwrap_or_default();
        if next.is_empty() {
            return all;
        }
        all.extend(next);
    }
}

/// Waits until a mirror has as many changes of a session as its owner.
pub(crate) async fn caught_up(owner: &Journal, mirror: &Mirror, session: SessionId) {
    let mut progress = mirror.progress();
    let wait = async {
        loop {
            progress.borrow_and_update();
            let number = owner.change_number(session).await.unwrap();
            if mirror.cursor(session).is_some_and(|cursor| cursor.last() >= number) {
                return;
            }
            progress.changed().await.unwrap();
        }
    };
    tokio::time::timeout(TIMEOUT, wait).await.expect("the mirror must catch up");
}

async fn assert_mirrored(owner: &Journal, mirror: &Journal, session: SessionId) {
    assert_eq!(entries(owner, session).await, entries(mirror, session).await);
    assert_eq!(owner.session(session).await.unwrap(), mirror.session(session).await.unwrap());
    assert_eq!(owner.prompts(session).await.unwrap(), mirror.prompts(session).await.unwrap());
}

#[tokio::test]
async fn a_gateway_has_what_a_worker_wrote_before_and_after_it_started_and_also_large_lines() {
    let servers = MemoryServers::default();
    let worker = TestMachine::new(&servers);
    worker.journal.create(new_session(1)).await.unwrap();
    worker.journal.write(id(1), line("before the outbox")).await.unwrap();
    worker.journal.keep_outbox().await.unwrap();
    worker.journal.fill_outbox().await.unwrap();
    let (shipper, _shipping) = worker.ship(1);
    worker.journal.create(new_session(2)).await.unwrap();
    shipped(&shipper, id(2), 1).await.unwrap();
    let gateway = TestMachine::new(&servers);
    let (mirror, _mirroring) = gateway.mirror().await;
    for number in 0..30u64 {
        worker.journal.write(id(1), line(format!("{number}"))).await.unwrap();
    }
    worker.journal.write(id(1), line(noise(3 << 20))).await.unwrap();
    worker.journal.write(id(2), line("x")).await.unwrap();
    for session in [id(1), id(2)] {
        caught_up(&worker.journal, &mirror, session).await;
        assert_mirrored(&worker.journal, &gateway.journal, session).await;
    }
    worker.journal.delete(id(2)).await.unwrap();
    caught_up(&worker.journal, &mirror, id(2)).await;
    let mut progress = mirror.progress();
    while gateway.journal.session(id(2)).await.unwrap().is_some() {
        tokio::time::timeout(TIMEOUT, progress.changed()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_mirror_that_is_stopped_at_any_time_goes_on_where_it_was() {
    let servers = MemoryServers::default();
    let worker = TestMachine::worker(&servers).await;
    let (shipper, _shipping) = worker.ship(1);
    let gateway = TestMachine::new(&servers);
    worker.journal.create(new_session(1)).await.unwrap();
    for round in 0..5 {
        let (mirror, mirroring) = gateway.mirror().await;
        for number in 0..10 {
            worker.journal.write(id(1), line(format!("{round} {number}"))).await.unwrap();
        }
        if round % 2 == 0 {
            caught_up(&worker.journal, &mirror, id(1)).await;
        }
        drop(mirroring);
    }
    let last = worker.journal.change_number(id(1)).await.unwrap();
    shipped(&shipper, id(1), last).await.unwrap();
    let (mirror, _mirroring) = gateway.mirror().await;
    caught_up(&worker.journal, &mirror, id(1)).await;
    assert_mirrored(&worker.journal, &gateway.journal, id(1)).await;
}

#[tokio::test]
async fn what_was_written_while_the_servers_were_away_comes_in_order_afterwards() {
    let servers = MemoryServers::default();
    let worker = TestMachine::worker(&servers).await;
    let (_shipper, _shipping) = worker.ship(1);
    let gateway = TestMachine::new(&servers);
    let (mirror, _mirroring) = gateway.mirror().await;
    worker.journal.create(new_session(1)).await.unwrap();
    caught_up(&worker.journal, &mirror, id(1)).await;
    for round in 0..4 {
        worker.bus.set_cut(round % 2 == 0);
        worker.bus.set_losing_answers(round == 1);
        for number in 0..20 {
            // The journal does not wait for the servers.
            worker.journal.write(id(1), line(format!("{round} {number}"))).await.unwrap();
        }
    }
    worker.bus.set_cut(false);
    worker.bus.set_losing_answers(false);
    caught_up(&worker.journal, &mirror, id(1)).await;
    assert_mirrored(&worker.journal, &gateway.journal, id(1)).await;
}

#[tokio::test]
async fn a_mirror_whose_session_was_changed_by_something_else_is_read_again() {
    let servers = MemoryServers::default();
    let worker = TestMachine::worker(&servers).await;
    let (_shipper, _shipping) = worker.ship(1);
    let gateway = TestMachine::new(&servers);
    let (mirror, _mirroring) = gateway.mirror().await;
    worker.journal.create(new_session(1)).await.unwrap();
    worker.journal.write(id(1), line("a")).await.unwrap();
    caught_up(&worker.journal, &mirror, id(1)).await;
    gateway.journal.write(id(1), line("not of the owner")).await.unwrap();
    worker.journal.write(id(1), line("b")).await.unwrap();
    caught_up(&worker.journal, &mirror, id(1)).await;
    assert_mirrored(&worker.journal, &gateway.journal, id(1)).await;
}

#[tokio::test]
async fn a_damaged_object_is_a_problem_of_its_session_alone_and_is_read_again_when_it_is_repaired()
{
    let servers = MemoryServers::default();
    let worker = TestMachine::worker(&servers).await;
    let (shipper, _shipping) = worker.ship(1);
    for number in [1, 2] {
        worker.journal.create(new_session(number)).await.unwrap();
    }
    worker.journal.write(id(1), line(noise(3 << 20))).await.unwrap();
    let last = worker.journal.change_number(id(1)).await.unwrap();
    shipper.shipped(id(1), shipper.tenure(id(1)), last).await.unwrap();
    let messages = worker.bus.read(id(1), LogPosition(0)).await.unwrap();
    let object = messages
        .iter()
        .find_map(|it| Pack::decode(it.payload.clone()).unwrap().object().cloned())
        .expect("an object");
    servers.set_damaged(&object.name, true);

    let gateway = TestMachine::new(&servers);
    let (mirror, _mirroring) = gateway.mirror().await;
    tokio::time::timeout(TIMEOUT, mirror.complete()).await.unwrap();
    assert!(mirror.problem(id(1)).is_some_and(|problem| problem.contains("damaged")));
    assert_eq!(mirror.problems(), 1);
    assert!(mirror.behind().borrow().is_none(), "the others are followed");
    for session in [id(1), id(2)] {
        worker.journal.write(session, line("more")).await.unwrap();
    }
    caught_up(&worker.journal, &mirror, id(2)).await;
    assert_mirrored(&worker.journal, &gateway.journal, id(2)).await;

    servers.set_damaged(&object.name, false);
    // A lost connection is known, and its end, when all logs are compared.
    let mut behind = mirror.behind();
    gateway.bus.set_cut(true);
    tokio::time::timeout(TIMEOUT, behind.wait_for(Option::is_some)).await.unwrap().unwrap();
    gateway.bus.set_cut(false);
    tokio::time::timeout(TIMEOUT, behind.wait_for(Option::is_none)).await.unwrap().unwrap();
    caught_up(&worker.journal, &mirror, id(1)).await;
    let mut progress = mirror.progress();
    while mirror.problems() > 0 {
        tokio::time::timeout(TIMEOUT, progress.changed()).await.unwrap().unwrap();
    }
    assert_mirrored(&worker.journal, &gateway.journal, id(1)).await;
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_a_problem_of_its_session_alone() {
    let servers = MemoryServers::default();
    let bus = servers.connect();
    bus.append(id(1), LogPosition(0), Bytes::from("what is this")).await.unwrap();
    let own = NewPack::without_changes(PackKind::Own, 1, worker_id(3), 0);
    bus.append(id(2), LogPosition(0), own.payload).await.unwrap();
    let gateway = TestMachine::new(&servers);
    let (mirror, _mirroring) = gateway.mirror().await;
    tokio::time::timeout(TIMEOUT, mirror.complete()).await.unwrap();
    assert!(mirror.problem(id(1)).is_some_and(|problem| problem.contains("not a message")));
    assert_eq!(mirror.problem(id(2)), None);
    let cursor = mirror.cursor(id(2)).unwrap();
    assert_eq!(cursor.owner(), Some((&worker_id(3), 1)));
}
