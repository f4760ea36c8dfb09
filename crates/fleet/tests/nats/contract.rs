//! What every bus promises, tested with the double in memory and with a real server.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use journal::SessionId;
use tokio::sync::mpsc;
use towpath_fleet::bus::{
    Bus, BusError, Expected, KeyChange, KeyGuard, KeyTable, LogMessage, LogPosition, MAX_MESSAGE,
};
use uuid::Uuid;

use crate::fixture::TestServers;

/// How long a test waits for something that comes.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Tests each function with both.
macro_rules! contract {
    ($($name:ident,)*) => {
        mod memory {
            $(#[tokio::test]
            async fn $name() {
                super::$name(&super::TestServers::memory()).await;
            })*
        }

        mod nats {
            $(#[tokio::test]
            async fn $name() {
                let Some(servers) = super::TestServers::nats().await else { return };
                super::$name(&servers).await;
            })*
        }
    };
}

contract! {
    an_append_that_expects_another_message_is_refused,
    a_log_is_read_in_order_and_without_gaps,
    of_twenty_that_take_over_one_wins,
    a_follower_sees_what_is_stored_and_nothing_else,
    a_message_that_is_too_large_is_refused,
    a_key_changes_only_if_it_is_what_the_writer_expects,
    a_key_is_written_while_another_one_guards_it,
    a_watcher_gets_all_keys_and_then_changes,
    a_lease_expires_and_its_watcher_is_told,
    a_question_reaches_the_worker_that_listens,
    an_answer_that_is_too_large_is_refused_and_not_waited_for,
    a_worker_with_too_many_questions_refuses_more_at_once,
    a_question_to_nobody_fails_at_once,
    an_object_is_replaced_and_read_whole,
    an_object_that_is_part_of_a_log_is_never_replaced,
    names_that_mean_something_to_the_servers_are_refused_or_kept,
}

pub(crate) fn new_session() -> SessionId {
    SessionId(Uuid::new_v4())
}

pub(crate) async fn next<T>(receiver: &mut mpsc::Receiver<T>) -> T {
    let next = tokio::time::timeout(PATIENCE, receiver.recv()).await;
    next.expect("something in time").expect("an open channel")
}

/// The whole log of a session.
pub(crate) async fn read_all(bus: &dyn Bus, session: SessionId) -> Vec<LogMessage> {
    let mut all: Vec<LogMessage> = Vec::new();
    loop {
        let after = all.last().map_or(LogPosition(0), |it| it.position);
        let part = bus.read(session, after).await.unwrap();
        if part.is_empty() {
            return all;
        }
        all.extend(part);
    }
}

async fn an_append_that_expects_another_message_is_refused(servers: &TestServers) {
    let (bus, other) = (servers.connect("a").await, servers.connect("b").await);
    let session = new_session();
    assert_eq!(bus.last(session).await.unwrap(), None);
    assert_eq!(bus.append(session, LogPosition(7), "x".into()).await, Err(BusError::Conflict));
    let first = bus.append(session, LogPosition(0), "one".into()).await.unwrap();
    // A message of another log does not matter.
    other.append(new_session(), LogPosition(0), "x".into()).await.unwrap();
    let second = other.append(session, first, "two".into()).await.unwrap();
    assert!(second > first);
    for stale in [LogPosition(0), first, LogPosition(second.0 + 1)] {
        assert_eq!(bus.append(session, stale, "x".into()).await, Err(BusError::Conflict));
    }
    let last = bus.last(session).await.unwrap().unwrap();
    assert_eq!((last.session, last.position, &last.payload[..]), (session, second, &b"two"[..]));
    let third = bus.append(session, second, Bytes::new()).await.unwrap();
    let read = read_all(&*other, session).await;
    let positions: Vec<_> = read.iter().map(|it| it.position).collect();
    assert_eq!(positions, [first, second, third]);
    assert_eq!(read[2].payload, Bytes::new());
}

async fn a_log_is_read_in_order_and_without_gaps(servers: &TestServers) {
    let bus = servers.connect("a").await;
    let (session, other) = (new_session(), new_session());
    let (mut last, mut last_of_other) = (LogPosition(0), LogPosition(0));
    for number in 0..150 {
        last = bus.append(session, last, number.to_string().into()).await.unwrap();
        if number % 3 == 0 {
            last_of_other = bus.append(other, last_of_other, "x".into()).await.unwrap();
        }
    }
    let read = read_all(&*bus, session).await;
    let numbers: Vec<String> =
        read.iter().map(|it| String::from_utf8(it.payload.to_vec()).unwrap()).collect();
    let expected: Vec<String> = (0..150).map(|it| it.to_string()).collect();
    assert_eq!(numbers, expected);
    let rest = bus.read(session, read[147].position).await.unwrap();
    assert_eq!(rest, read[148..]);
    assert_eq!(bus.read(session, last).await.unwrap(), []);
    assert_eq!(bus.read(new_session(), LogPosition(0)).await.unwrap(), []);
    let mut logs = bus.logs().await.unwrap();
    logs.sort();
    let mut expected = [(session, last), (other, last_of_other)];
    expected.sort();
    assert_eq!(logs, expected);
}

async fn of_twenty_that_take_over_one_wins(servers: &TestServers) {
    let session = new_session();
    let buses = [servers.connect("a").await, servers.connect("b").await];
    let last = buses[0].append(session, LogPosition(0), "x".into()).await.unwrap();
    let take_over =
        |number: usize| buses[number % 2].append(session, last, number.to_string().into());
    let results = join_all((0..20).map(take_over)).await;
    let won = results.iter().filter(|it| it.is_ok()).count();
    assert_eq!(won, 1, "{results:?}");
    assert_eq!(results.iter().filter(|it| **it == Err(BusError::Conflict)).count(), 19);
    assert_eq!(read_all(&*buses[0], session).await.len(), 2);
}

async fn a_follower_sees_what_is_stored_and_nothing_else(servers: &TestServers) {
    let (bus, follower) = (servers.connect("a").await, servers.connect("b").await);
    let session = new_session();
    let first = bus.append(session, LogPosition(0), "before".into()).await.unwrap();
    let mut messages = follower.follow().await.unwrap();
    let mut expected = Vec::new();
    let mut last = first;
    for number in 0..20 {
        let refused = bus.append(session, LogPosition(9999), "refused".into()).await;
        assert_eq!(refused, Err(BusError::Conflict));
        let payload = Bytes::from(number.to_string());
        last = bus.append(session, last, payload.clone()).await.unwrap();
        expected.push(LogMessage { session, position: last, payload });
    }
    for message in expected {
        assert_eq!(next(&mut messages).await, message);
    }
}

async fn a_message_that_is_too_large_is_refused(servers: &TestServers) {
    let bus = servers.connect("a").await;
    let session = new_session();
    let large = Bytes::from(vec![b'x'; MAX_MESSAGE + 1]);
    let error = BusError::TooLarge { size: MAX_MESSAGE + 1, limit: MAX_MESSAGE };
    assert_eq!(bus.append(session, LogPosition(0), large.clone()).await, Err(error));
    let largest = large.slice(1..);
    bus.append(session, LogPosition(0), largest.clone()).await.unwrap();
    assert_eq!(bus.last(session).await.unwrap().unwrap().payload, largest);
}

async fn a_key_changes_only_if_it_is_what_the_writer_expects(servers: &TestServers) {
    let bus = servers.connect("a").await;
    let table = KeyTable::Access;
    let put = |value: &'static str, expected| bus.put(table, "k", value.into(), expected, None);
    assert_eq!(bus.get(table, "k").await.unwrap(), None);
    let first = put("1", Expected::Missing).await.unwrap();
    assert_eq!(put("x", Expected::Missing).await, Err(BusError::Conflict));
    let second = put("2", Expected::Revision(first)).await.unwrap();
    assert_eq!(put("x", Expected::Revision(first)).await, Err(BusError::Conflict));
    assert_eq!(bus.get(table, "k").await.unwrap(), Some((second, "2".into())));
    let third = put("3", Expected::Anything).await.unwrap();
    // The same key of another table is another key.
    assert_eq!(bus.get(KeyTable::Roles, "k").await.unwrap(), None);
    let remove = |expected| bus.remove(table, "k", expected);
    assert_eq!(remove(Expected::Revision(second)).await, Err(BusError::Conflict));
    assert_eq!(remove(Expected::Missing).await, Err(BusError::Conflict));
    remove(Expected::Revision(third)).await.unwrap();
    assert_eq!(bus.get(table, "k").await.unwrap(), None);
    assert_eq!(remove(Expected::Revision(third)).await, Err(BusError::Conflict));
    remove(Expected::Missing).await.unwrap();
    remove(Expected::Anything).await.unwrap();
    assert_eq!(put("x", Expected::Revision(third)).await, Err(BusError::Conflict));
    // What was removed can be created again.
    let fourth = put("4", Expected::Missing).await.unwrap();
    assert_eq!(bus.get(table, "k").await.unwrap(), Some((fourth, "4".into())));
    remove(Expected::Anything).await.unwrap();
    assert_eq!(bus.get(table, "k").await.unwrap(), None);
}

async fn a_key_is_written_while_another_one_guards_it(servers: &TestServers) {
    guarded_writes(&*servers.connect("a").await).await;
}

pub(crate) async fn guarded_writes(bus: &dyn Bus) {
    let table = KeyTable::Bridges;
    let guard = async |value: &'static str| {
        let revision = bus.put(table, "state", value.into(), Expected::Anything, None).await;
        KeyGuard { key: "state".to_owned(), revision: revision.unwrap() }
    };
    let first = guard("first").await;
    for number in 0..50 {
        let value = Some(Bytes::from(number.to_string()));
        bus.put_guarded(table, "state.k", value, &first).await.unwrap();
    }
    bus.put_guarded(table, "state.gone", Some("x".into()), &first).await.unwrap();
    bus.put_guarded(table, "state.gone", None, &first).await.unwrap();
    bus.put_guarded(table, "state.never", None, &first).await.unwrap();
    assert_eq!(bus.get(table, "state.gone").await.unwrap(), None);
    let second = guard("second").await;
    for (key, value) in [("state.k", Some("stale".into())), ("state.new", Some("stale".into()))] {
        let stale = bus.put_guarded(table, key, value, &first).await;
        assert_eq!(stale, Err(BusError::Conflict), "{key}");
    }
    let stale = bus.put_guarded(table, "state.k", None, &first).await;
    assert_eq!(stale, Err(BusError::Conflict));
    assert_eq!(bus.get(table, "state.k").await.unwrap().unwrap().1, "49");
    assert_eq!(bus.get(table, "state.new").await.unwrap(), None);
    bus.put_guarded(table, "state.k", Some("new".into()), &second).await.unwrap();
    assert_eq!(bus.get(table, "state.k").await.unwrap().unwrap().1, "new");
}

async fn a_watcher_gets_all_keys_and_then_changes(servers: &TestServers) {
    let (bus, watching) = (servers.connect("a").await, servers.connect("b").await);
    let table = KeyTable::Access;
    let mut empty = watching.watch(table).await.unwrap();
    assert_eq!(next(&mut empty).await, None);
    let mut expected = Vec::new();
    for key in ["a", "b.example", "c"] {
        let value = Bytes::from(key);
        let revision = bus.put(table, key, value.clone(), Expected::Missing, None).await.unwrap();
        let change = KeyChange { key: key.to_owned(), revision, value: Some(value) };
        assert_eq!(next(&mut empty).await, Some(change.clone()));
        expected.push(change);
    }
    bus.put(table, "gone", "x".into(), Expected::Anything, None).await.unwrap();
    bus.remove(table, "gone", Expected::Anything).await.unwrap();
    bus.put(KeyTable::Roles, "r", "x".into(), Expected::Anything, None).await.unwrap();
    let mut changes = watching.watch(table).await.unwrap();
    let mut listed = Vec::new();
    while let Some(change) = next(&mut changes).await {
        listed.push(change);
    }
    listed.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!(listed, expected);
    bus.remove(table, "b.example", Expected::Anything).await.unwrap();
    let removed = next(&mut changes).await.unwrap();
    assert_eq!((&*removed.key, removed.value), ("b.example", None));
}

pub(crate) async fn a_lease_expires_and_its_watcher_is_told(servers: &TestServers) {
    let (bus, watching) = (servers.connect("a").await, servers.connect("b").await);
    lease_expires(&*bus, &*watching).await;
}

/// Renews a lease for longer than it lives, lets it expire, and lets twenty claim it.
pub(crate) async fn lease_expires(bus: &dyn Bus, watching: &dyn Bus) {
    let table = KeyTable::Workers;
    let lifetime = Some(Duration::from_secs(2));
    let mut changes = watching.watch(table).await.unwrap();
    assert_eq!(next(&mut changes).await, None);
    let put = |expected| bus.put(table, "w", "{}".into(), expected, lifetime);
    let mut revision = put(Expected::Missing).await.unwrap();
    // It is renewed until a whole lifetime has passed, whatever the machine does meanwhile.
    let mut renewals = 0;
    while renewals < 3 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        match put(Expected::Revision(revision)).await {
            Ok(renewed) => {
                revision = renewed;
                renewals += 1;
            }
            // A machine that was busy for two seconds.
            Err(BusError::Conflict) => {
                revision = put(Expected::Missing).await.unwrap();
                renewals = 0;
            }
            Err(error) => panic!("{error}"),
        }
    }
    let expired = async {
        while bus.get(table, "w").await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, expired).await.expect("the lease expires");
    loop {
        let change = next(&mut changes).await.expect("a change");
        if change.value.is_none() && change.revision > revision {
            break;
        }
    }
    assert_eq!(put(Expected::Revision(revision)).await, Err(BusError::Conflict));
    let claims = (0..20).map(|_| bus.put(table, "w", "{}".into(), Expected::Missing, None));
    let results = join_all(claims).await;
    assert_eq!(results.iter().filter(|it| it.is_ok()).count(), 1, "{results:?}");
}

async fn a_question_reaches_the_worker_that_listens(servers: &TestServers) {
    let (asking, worker) = (servers.connect("a").await, servers.connect("b").await);
    let mut questions = worker.questions("host.example").await.unwrap();
    let answering = tokio::spawn(async move {
        for _ in 0..3 {
            let question = next(&mut questions).await;
            let answer = [&b"re: "[..], &question.payload].concat();
            question.reply.send(answer.into()).unwrap();
        }
        // Dropped without an answer.
        drop(next(&mut questions).await);
        questions
    });
    for number in 0..3 {
        let answer = asking.ask("host.example", number.to_string().into(), PATIENCE).await.unwrap();
        assert_eq!(answer, Bytes::from(format!("re: {number}")));
    }
    let dropped = asking.ask("host.example", "x".into(), PATIENCE).await;
    assert!(matches!(dropped, Err(BusError::NotAnswered(_))), "{dropped:?}");
    drop(answering.await.unwrap());
}

async fn an_answer_that_is_too_large_is_refused_and_not_waited_for(servers: &TestServers) {
    let (asking, worker) = (servers.connect("a").await, servers.connect("b").await);
    let mut questions = worker.questions("w").await.unwrap();
    let answering = tokio::spawn(async move {
        for size in [1_000_000, 1_100_000] {
            next(&mut questions).await.reply.send(vec![b'x'; size].into()).unwrap();
        }
    });
    assert_eq!(asking.ask("w", "x".into(), PATIENCE).await.unwrap().len(), 1_000_000);
    let refused = asking.ask("w", "x".into(), PATIENCE).await;
    assert!(
        matches!(&refused, Err(BusError::NotAnswered(why)) if why.contains("1100000")),
        "{refused:?}"
    );
    answering.await.unwrap();
}

async fn a_worker_with_too_many_questions_refuses_more_at_once(servers: &TestServers) {
    let (asking, worker) = (servers.connect("a").await, servers.connect("b").await);
    // None of them is taken.
    let _questions = worker.questions("w").await.unwrap();
    let asks = (0..1100).map(|_| asking.ask("w", "x".into(), Duration::from_secs(5)));
    let answers = join_all(asks).await;
    let refused = answers.iter().filter(|it| matches!(it, Err(BusError::NotAnswered(_)))).count();
    assert!((1..=100).contains(&refused), "{refused}");
}

async fn a_question_to_nobody_fails_at_once(servers: &TestServers) {
    let (asking, worker) = (servers.connect("a").await, servers.connect("b").await);
    let nobody = asking.ask("w", "x".into(), PATIENCE * 10).await;
    assert_eq!(nobody, Err(BusError::NoListener));
    drop(worker.questions("w").await.unwrap());
    let gone = async {
        while asking.ask("w", "x".into(), Duration::from_secs(1)).await != Err(BusError::NoListener)
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the worker does not listen any more");
}

async fn an_object_is_replaced_and_read_whole(servers: &TestServers) {
    let (bus, other) = (servers.connect("a").await, servers.connect("b").await);
    assert_eq!(bus.get_object("session/1").await.unwrap(), None);
    bus.put_object("session/1", Bytes::new()).await.unwrap();
    assert_eq!(other.get_object("session/1").await.unwrap(), Some(Bytes::new()));
    let large: Bytes = (0..=250_u8).cycle().take(3_000_000).collect();
    bus.put_object("session/1", large.clone()).await.unwrap();
    assert!(other.get_object("session/1").await.unwrap() == Some(large), "another object");
    other.put_object("session/1", "small".into()).await.unwrap();
    assert_eq!(bus.get_object("session/1").await.unwrap(), Some("small".into()));
    assert_eq!(bus.get_object("session/2").await.unwrap(), None);
}

async fn an_object_that_is_part_of_a_log_is_never_replaced(servers: &TestServers) {
    let bus = servers.connect("a").await;
    let name = format!("{}/1-1-abc", new_session());
    for _ in 0..2 {
        bus.put_object(&name, "the changes".into()).await.unwrap();
    }
    let replaced = bus.put_object(&name, "others".into()).await;
    assert_eq!(replaced, Err(BusError::Damaged(name.clone())));
    assert_eq!(bus.get_object(&name).await.unwrap(), Some("the changes".into()));
}

async fn names_that_mean_something_to_the_servers_are_refused_or_kept(servers: &TestServers) {
    let bus = servers.connect("a").await;
    let name = "tree of ünit * > 1";
    bus.put_object(name, "x".into()).await.unwrap();
    assert_eq!(bus.get_object(name).await.unwrap(), Some("x".into()));
    if matches!(servers, TestServers::Nats(_)) {
        let put = bus.put(KeyTable::Workers, "*", "x".into(), Expected::Anything, None).await;
        assert!(matches!(put, Err(BusError::Setup(_))), "{put:?}");
        let asked = bus.ask(">", "x".into(), PATIENCE).await;
        assert!(matches!(asked, Err(BusError::Setup(_))), "{asked:?}");
    }
}
