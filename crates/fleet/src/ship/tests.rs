//! The decisions of a shipper, and shipping over servers in memory.

use std::time::Duration;

use futures_util::FutureExt as _;
use journal::{OutboxPage, OutboxRow};

use super::{
    ShipCore, ShipEffect, ShipInput, ShipStop, Shipper, StoppedShipping, UNWATCHED_INTERVAL,
};
use crate::bus::memory::MemoryServers;
use crate::bus::{Bus as _, LogPosition};
use crate::mirror::tests::{
    TIMEOUT, TestMachine, delta, id, line, new_session, shipped, spawn, worker_id,
};
use crate::pack::{NewPack, Pack, PackHeader, PackKind};

fn row(number: u64) -> OutboxRow {
    OutboxRow { number, bytes: vec![1].into() }
}

fn page(numbers: impl IntoIterator<Item = u64>) -> OutboxPage {
    let rows: Vec<_> = numbers.into_iter().map(row).collect();
    OutboxPage { last: rows.last().map_or(9, |row| row.number), rows }
}

fn end(position: u64, header: PackHeader) -> ShipInput {
    ShipInput::LogEnd(Some((LogPosition(position), header)))
}

fn header(worker: u128, kind: PackKind, epoch: u64, last: u64) -> PackHeader {
    NewPack::without_changes(kind, epoch, worker_id(worker), last).header
}

fn appended(effect: &ShipEffect) -> (u64, &PackHeader) {
    match effect {
        ShipEffect::Append { expected, pack } => (expected.0, &pack.header),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_is_owned_before_its_first_change_is_shipped() {
    let mut core = ShipCore::new(id(1), worker_id(1));
    assert_eq!(core.resume(), ShipEffect::ReadLogEnd);
    let own = core.on(ShipInput::LogEnd(None));
    assert_eq!(appended(&own), (0, &header(1, PackKind::Own, 1, 0)));
    assert_eq!(core.on(ShipInput::Appended(LogPosition(4))), ShipEffect::ReadOutbox { shipped: 0 });
    let changes = core.on(ShipInput::Outbox(page(1..=3)));
    let (expected, sent) = appended(&changes);
    assert_eq!((expected, sent.first, sent.last), (4, 1, 3));
    assert_eq!(core.on(ShipInput::Appended(LogPosition(9))), ShipEffect::ReadOutbox { shipped: 3 });
    let nothing = OutboxPage { rows: Vec::new(), last: 3 };
    assert_eq!(core.on(ShipInput::Outbox(nothing)), ShipEffect::Idle);
    assert_eq!((core.shipped(), core.epoch()), (Some(3), Some(1)));
}

#[test]
fn after_an_append_that_is_not_sure_the_log_says_how_to_go_on() {
    let mut core = ShipCore::new(id(1), worker_id(1));
    core.on(end(5, header(1, PackKind::Changes, 2, 7)));
    core.on(ShipInput::Outbox(page(8..=9)));
    assert_eq!(core.on(ShipInput::NotAppended), ShipEffect::ReadLogEnd);
    // It was not stored: the same changes are sent again.
    let again = core.clone().on(end(5, header(1, PackKind::Changes, 2, 7)));
    assert_eq!(again, ShipEffect::ReadOutbox { shipped: 7 });
    // It was stored.
    let stored = core.clone().on(end(6, header(1, PackKind::Changes, 2, 9)));
    assert_eq!(stored, ShipEffect::ReadOutbox { shipped: 9 });
    // Another worker was faster. Nothing that is learned later changes that.
    let stop = ShipStop::Fenced { by: worker_id(2), epoch: 3 };
    let fenced = core.on(end(6, header(2, PackKind::Own, 3, 7)));
    assert_eq!(fenced, ShipEffect::Stop(stop.clone()));
    for input in [end(5, header(1, PackKind::Changes, 2, 7)), ShipInput::NotAppended] {
        assert_eq!(core.on(input), ShipEffect::Stop(stop.clone()));
    }
}

#[test]
fn a_machine_with_the_same_name_and_other_data_is_another_worker() {
    let mut core = ShipCore::new(id(1), worker_id(1));
    let mut other = header(1, PackKind::Own, 1, 0);
    other.worker.data = worker_id(2).data;
    assert!(matches!(core.on(end(1, other)), ShipEffect::Stop(ShipStop::Fenced { .. })));
}

#[test]
fn missing_and_lost_changes_are_noticed() {
    let mut core = ShipCore::new(id(1), worker_id(1));
    core.on(end(5, header(1, PackKind::Changes, 2, 7)));
    assert_eq!(core.clone().on(ShipInput::Outbox(page(9..=9))), ShipEffect::PutSnapshot);
    let left_over = core.clone().on(ShipInput::Outbox(page(7..=9)));
    assert_eq!(left_over, ShipEffect::ReadOutbox { shipped: 7 });
    let outdated = core.on(ShipInput::Outbox(page(6..=6)));
    assert_eq!(outdated, ShipEffect::Stop(ShipStop::Outdated { journal: 6, log: 7 }));
}

#[tokio::test]
async fn a_worker_whose_session_was_taken_over_stops_shipping_it_and_keeps_the_rest() {
    let servers = MemoryServers::default();
    let worker = TestMachine::worker(&servers).await;
    let bus = std::sync::Arc::clone(&worker.bus);
    let (shipper, mut stopped) =
        Shipper::new(bus as _, worker.journal.clone(), worker_id(1), UNWATCHED_INTERVAL);
    let _shipping = spawn(shipper.clone().run());
    worker.journal.create(new_session(1)).await.unwrap();
    shipped(&shipper, id(1), 1).await.unwrap();
    let last = worker.bus.last(id(1)).await.unwrap().unwrap();
    let own = NewPack::without_changes(PackKind::Own, 2, worker_id(2), 1);
    servers.connect().append(id(1), last.position, own.payload).await.unwrap();
    worker.journal.write(id(1), line("too late")).await.unwrap();
    let reason = ShipStop::Fenced { by: worker_id(2), epoch: 2 };
    let stopped = tokio::time::timeout(TIMEOUT, stopped.recv()).await.unwrap();
    assert_eq!(stopped, Some(StoppedShipping { session: id(1), reason: reason.clone() }));
    assert_eq!(shipped(&shipper, id(1), 2).await, Err(reason));
    assert_eq!(worker.journal.read_outbox(id(1), 9999).await.unwrap().rows.len(), 1);
    // Other sessions go on.
    worker.journal.create(new_session(2)).await.unwrap();
    shipped(&shipper, id(2), 1).await.unwrap();
}

#[tokio::test]
async fn after_a_restart_the_log_says_what_is_shipped_and_not_the_empty_outbox() {
    let servers = MemoryServers::default();
    let worker = TestMachine::worker(&servers).await;
    worker.journal.create(new_session(1)).await.unwrap();
    let (shipper, shipping) = worker.ship(1);
    shipped(&shipper, id(1), 1).await.unwrap();
    drop(shipping);
    let (shipper, shipping) = worker.ship(1);
    shipped(&shipper, id(1), 1).await.unwrap();
    drop(shipping);
    let last = worker.bus.last(id(1)).await.unwrap().unwrap();
    let own = NewPack::without_changes(PackKind::Own, 2, worker_id(2), 1);
    servers.connect().append(id(1), last.position, own.payload).await.unwrap();
    let (shipper, _shipping) = worker.ship(1);
    let fenced = ShipStop::Fenced { by: worker_id(2), epoch: 2 };
    assert_eq!(shipped(&shipper, id(1), 1).await, Err(fenced));
}

#[tokio::test]
async fn a_session_whose_log_the_servers_have_lost_is_shipped_as_a_whole() {
    let worker = TestMachine::worker(&MemoryServers::default()).await;
    worker.journal.create(new_session(1)).await.unwrap();
    worker.journal.write(id(1), line("kept here")).await.unwrap();
    let (shipper, shipping) = worker.ship(1);
    shipped(&shipper, id(1), 2).await.unwrap();
    drop(shipping);
    let bus = std::sync::Arc::new(MemoryServers::default().connect());
    let (shipper, _stopped) = Shipper::new(
        std::sync::Arc::clone(&bus) as _,
        worker.journal.clone(),
        worker_id(1),
        UNWATCHED_INTERVAL,
    );
    let _shipping = spawn(shipper.clone().run());
    shipped(&shipper, id(1), 2).await.unwrap();
    let messages = bus.read(id(1), LogPosition(0)).await.unwrap();
    let packs = messages.into_iter().map(|it| Pack::decode(it.payload).unwrap());
    let changes: Vec<_> = packs.flat_map(|it| it.changes(None).unwrap()).collect();
    assert!(changes.iter().any(|it| it.windows(9).any(|part| part == b"kept here")));
}

#[tokio::test]
async fn a_copy_that_is_given_up_confirms_nothing_although_its_outbox_is_empty() {
    let servers = MemoryServers::default();
    let worker = TestMachine::worker(&servers).await;
    let (shipper, _shipping) = worker.ship(1);
    worker.journal.create(new_session(1)).await.unwrap();
    shipped(&shipper, id(1), 1).await.unwrap();
    worker.bus.set_cut(true);
    worker.journal.write(id(1), line("never shipped")).await.unwrap();
    let tenure = shipper.tenure(id(1));
    let mut waiting = Box::pin(shipper.shipped(id(1), tenure, 2));
    assert!(waiting.as_mut().now_or_never().is_none());
    let fenced = ShipStop::Fenced { by: worker_id(2), epoch: 2 };
    shipper.stop(id(1), fenced.clone());
    worker.journal.discard_replayed(id(1), "test", Vec::new()).await.unwrap();
    assert_eq!(tokio::time::timeout(TIMEOUT, waiting).await.unwrap(), Err(fenced));
    // Also if it comes back, and has this number.
    shipper.forget(id(1));
    worker.bus.set_cut(false);
    assert_eq!(shipper.shipped(id(1), tenure, 1).await, Err(ShipStop::Replaced));
}

#[tokio::test]
async fn a_shipper_that_starts_again_ships_nothing_twice() {
    let servers = MemoryServers::default();
    let worker = TestMachine::worker(&servers).await;
    worker.journal.create(new_session(1)).await.unwrap();
    for round in 0..6u64 {
        worker.journal.write(id(1), line(format!("{round}"))).await.unwrap();
        let (shipper, shipping) = worker.ship(1);
        if round % 2 == 0 {
            shipped(&shipper, id(1), round + 2).await.unwrap();
        }
        drop(shipping);
    }
    let (shipper, _shipping) = worker.ship(1);
    shipped(&shipper, id(1), 7).await.unwrap();
    let mut next = 1;
    for message in worker.bus.read(id(1), LogPosition(0)).await.unwrap() {
        let header = Pack::decode(message.payload).unwrap().header;
        assert_eq!(header.first, next, "{header:?}");
        next = header.last + 1;
    }
    assert_eq!(next, 8);
}

/// How many changes each message of a log has.
async fn pack_sizes(machine: &TestMachine) -> Vec<u64> {
    let messages = machine.bus.read(id(1), LogPosition(0)).await.unwrap();
    let size = |header: PackHeader| header.last + 1 - header.first;
    messages.into_iter().map(|it| size(Pack::decode(it.payload).unwrap().header)).collect()
}

/// Longer than any test.
const HOUR: Duration = Duration::from_hours(1);

#[tokio::test]
async fn text_that_nobody_looks_at_waits_for_the_next_line_or_for_what_needs_it() {
    let servers = MemoryServers::default();
    let worker = TestMachine::worker(&servers).await;
    let (shipper, _shipping) = worker.ship_unwatched_every(1, HOUR);
    let wait_for = async |number| {
        shipped(&shipper, id(1), number).await.unwrap();
    };
    let mut reported = worker.bus.follow().await.unwrap();
    worker.journal.create(new_session(1)).await.unwrap();
    for _ in 0..2 {
        tokio::time::timeout(TIMEOUT, reported.recv()).await.unwrap().unwrap();
    }
    for _ in 0..20 {
        worker.journal.write(id(1), delta("a word")).await.unwrap();
    }
    // Nothing asks for the line, and it comes with everything before it.
    worker.journal.write(id(1), line("all words")).await.unwrap();
    tokio::time::timeout(TIMEOUT, reported.recv()).await.unwrap().unwrap();
    assert_eq!(pack_sizes(&worker).await, [0, 1, 21]);
    for _ in 0..3 {
        worker.journal.write(id(1), delta("a word")).await.unwrap();
    }
    wait_for(25).await;
    assert_eq!(pack_sizes(&worker).await, [0, 1, 21, 3]);
}

#[tokio::test]
async fn text_that_someone_looks_at_is_shipped_at_once() {
    let servers = MemoryServers::default();
    let worker = TestMachine::worker(&servers).await;
    let (shipper, _shipping) = worker.ship_unwatched_every(1, HOUR);
    worker.journal.create(new_session(1)).await.unwrap();
    shipped(&shipper, id(1), 1).await.unwrap();
    let mut reported = worker.bus.follow().await.unwrap();
    worker.journal.write(id(1), delta("before someone looks")).await.unwrap();
    shipper.watch(id(1), HOUR);
    for number in 0..5 {
        // The messages come although nothing waits for them and no line follows.
        tokio::time::timeout(TIMEOUT, reported.recv()).await.unwrap().unwrap();
        worker.journal.write(id(1), delta(format!("{number}"))).await.unwrap();
    }
}

#[tokio::test]
async fn text_that_nobody_looks_at_comes_after_a_while() {
    let servers = MemoryServers::default();
    let worker = TestMachine::worker(&servers).await;
    let (_shipper, _shipping) = worker.ship(1);
    let mut reported = worker.bus.follow().await.unwrap();
    worker.journal.create(new_session(1)).await.unwrap();
    for _ in 0..2 {
        tokio::time::timeout(TIMEOUT, reported.recv()).await.unwrap().unwrap();
    }
    worker.journal.write(id(1), delta("a word")).await.unwrap();
    tokio::time::timeout(TIMEOUT, reported.recv()).await.unwrap().unwrap();
}
