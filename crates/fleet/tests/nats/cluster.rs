//! Three servers of which one fails.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use test_support::nats_servers::{NatsServerOptions, NatsServers};
use tokio::time::Instant;
use towpath_fleet::bus::nats::NatsBus;
use towpath_fleet::bus::{Bus, BusError, LogMessage, LogPosition};
use towpath_fleet::setup::FleetSize;

use crate::contract::{PATIENCE, guarded_writes, lease_expires, new_session, next, read_all};
use crate::fixture::{admin, connect, start};

/// How many messages are appended before the next failure, and after the last.
const MESSAGES: usize = 150;

async fn cluster() -> Option<NatsServers> {
    let servers = start(&NatsServerOptions::cluster())?;
    admin(&servers).await.init(FleetSize::Cluster).await.unwrap();
    Some(servers)
}

/// The number of the server that accepts messages of the logs.
async fn leader(servers: &NatsServers) -> usize {
    let admin = admin(servers).await;
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Ok(status) = admin.status().await
            && let Some(leader) = &status.streams[0].leader
        {
            return servers.index(leader);
        }
        assert!(Instant::now() < deadline, "no leader is elected");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What an owner of a log has seen.
#[derive(Default)]
struct OwnerRecord {
    acknowledged: Vec<(LogPosition, Bytes)>,
    unsure: usize,
    unavailable: usize,
}

/// Appends numbered messages, each expecting the one before it, until there are `count`. After an answer
/// that does not come, the last message says whether it was stored, as the shipper does it.
async fn own(bus: NatsBus, count: usize, progress: Arc<AtomicUsize>) -> OwnerRecord {
    let session = new_session();
    let mut record = OwnerRecord::default();
    let mut last = LogPosition(0);
    while record.acknowledged.len() < count {
        let payload = Bytes::from(format!("{session} {}", record.acknowledged.len()));
        match bus.append(session, last, payload.clone()).await {
            Ok(position) => {
                last = position;
                record.acknowledged.push((position, payload));
                progress.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            Err(BusError::Unsure(_)) => record.unsure += 1,
            Err(BusError::Unavailable(_)) => record.unavailable += 1,
            Err(BusError::Conflict) => {}
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        if let Ok(Some(stored)) = bus.last(session).await
            && stored.position > last
        {
            assert_eq!(stored.payload, payload, "a message of another owner");
            last = stored.position;
            record.acknowledged.push((last, payload));
            progress.fetch_add(1, Ordering::SeqCst);
        }
    }
    record
}

/// Whether a log has each acknowledged message once, in order, and nothing else.
async fn check_log(bus: &NatsBus, record: &OwnerRecord) {
    let payload = String::from_utf8(record.acknowledged[0].1.to_vec()).unwrap();
    let session = payload.split(' ').next().unwrap().parse().unwrap();
    let expected: Vec<LogMessage> = record
        .acknowledged
        .iter()
        .map(|(position, payload)| LogMessage {
            session,
            position: *position,
            payload: payload.clone(),
        })
        .collect();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = read_all(bus, session).await;
        assert!(expected.starts_with(&found), "the log of {session} has holes or doubles");
        if found.len() == expected.len() {
            return;
        }
        // The server that answers does not have them yet.
        assert!(Instant::now() < deadline, "{} of {}", found.len(), expected.len());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_leaders_are_killed_and_paused() {
    let Some(mut servers) = cluster().await else { return };
    let progress = Arc::new(AtomicUsize::new(0));
    let mut owners = Vec::new();
    for number in 0..4 {
        let bus = connect(&servers, &format!("w{number}")).await;
        owners.push(tokio::spawn(own(bus, MESSAGES, Arc::clone(&progress))));
    }
    let reach = |count: usize| {
        let progress = Arc::clone(&progress);
        async move {
            let wait = async {
                while progress.load(Ordering::SeqCst) < count {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(PATIENCE * 2, wait).await.expect("messages are accepted again");
        }
    };
    reach(MESSAGES).await;
    let killed = leader(&servers).await;
    servers.kill(killed);
    reach(2 * MESSAGES).await;
    servers.restart(killed);
    let paused = leader(&servers).await;
    servers.pause(paused);
    reach(3 * MESSAGES).await;
    servers.resume(paused);
    let mut records = Vec::new();
    for owner in owners {
        records.push(tokio::time::timeout(PATIENCE * 2, owner).await.unwrap().unwrap());
    }
    let bus = connect(&servers, "reader").await;
    for record in &records {
        check_log(&bus, record).await;
    }
    let sum = |field: fn(&OwnerRecord) -> usize| records.iter().map(field).sum::<usize>();
    println!(
        "{} acknowledged and stored once, {} answers lost, {} refused for want of a server",
        sum(|it| it.acknowledged.len()),
        sum(|it| it.unsure),
        sum(|it| it.unavailable)
    );
    assert!(sum(|it| it.unsure + it.unavailable) > 0, "no failure was noticed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_keep_the_contract() {
    let Some(servers) = cluster().await else { return };
    let buses: Vec<NatsBus> =
        join_all(["a", "b", "c", "d"].map(|name| connect(&servers, name))).await;
    // Twenty take over one session, ten times.
    let session = new_session();
    let mut last = buses[0].append(session, LogPosition(0), "x".into()).await.unwrap();
    for _ in 0..10 {
        let take_over = |number: usize| buses[number % 4].append(session, last, "x".into());
        let results = join_all((0..20).map(take_over)).await;
        let won: Vec<_> = results.iter().filter_map(|it| it.as_ref().ok()).collect();
        assert_eq!(won.len(), 1, "{results:?}");
        last = *won[0];
    }
    // A chain that waits for each answer is never a conflict, and its follower sees each message once.
    let mut messages = buses[3].follow().await.unwrap();
    let chain = new_session();
    let (mut last, mut positions) = (LogPosition(0), Vec::new());
    let mut times = Vec::new();
    // Until the servers have told each other of the follower, messages may be missing.
    let deadline = Instant::now() + PATIENCE;
    let probe = new_session();
    let mut last_of_probe = LogPosition(0);
    loop {
        last_of_probe = buses[0].append(probe, last_of_probe, "x".into()).await.unwrap();
        match tokio::time::timeout(Duration::from_secs(1), messages.recv()).await {
            Ok(Some(message)) if message.position == last_of_probe => break,
            _ => assert!(Instant::now() < deadline, "the follower sees nothing"),
        }
    }
    for _ in 0..300 {
        let started = Instant::now();
        last = buses[0].append(chain, last, "x".into()).await.unwrap();
        times.push(started.elapsed());
        positions.push(last);
    }
    let mut seen = Vec::new();
    while seen.len() < positions.len() {
        let message = next(&mut messages).await;
        if message.session == chain {
            seen.push(message.position);
        }
    }
    assert_eq!(seen, positions);
    assert_eq!(seen.iter().collect::<HashSet<_>>().len(), seen.len());
    times.sort();
    println!("append to 3 servers: p50 {:?}, p99 {:?}", times[150], times[297]);
    lease_expires(&buses[0], &buses[1]).await;
    guarded_writes(&buses[2]).await;
    let object: Bytes = (0..=248_u8).cycle().take(3_000_000).collect();
    for _ in 0..3 {
        buses[0].put_object("o", object.clone()).await.unwrap();
        let read = buses[1].get_object("o").await.unwrap();
        assert!(read.as_ref() == Some(&object), "another object");
    }
    let logs = buses[2].logs().await.unwrap();
    assert!(logs.contains(&(chain, last)), "{logs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_is_told_that_its_connection_was_lost_and_can_follow_again() {
    let Some(mut servers) = start(&NatsServerOptions::single()) else { return };
    admin(&servers).await.init(FleetSize::Single).await.unwrap();
    let bus = connect(&servers, "a").await;
    let mut status = bus.status();
    let session = new_session();
    let first = bus.append(session, LogPosition(0), "x".into()).await.unwrap();
    let mut messages = bus.follow().await.unwrap();
    let mut questions = bus.questions("w").await.unwrap();
    servers.kill(0);
    let ended = tokio::time::timeout(PATIENCE, messages.recv()).await;
    assert_eq!(ended.expect("the channel ends"), None);
    let lost = tokio::time::timeout(PATIENCE, status.wait_for(|it| !it.connected)).await;
    drop(lost.expect("the loss is visible").unwrap());
    let refused = bus.append(session, first, "y".into()).await;
    assert!(matches!(refused, Err(BusError::Unavailable(_))), "{refused:?}");
    let follow = bus.follow().await;
    assert!(matches!(follow, Err(BusError::Unavailable(_))), "{follow:?}");
    servers.restart(0);
    let restored = tokio::time::timeout(PATIENCE, status.wait_for(|it| it.connected)).await;
    drop(restored.expect("the connection is restored").unwrap());
    // What was acknowledged before the server was killed is there.
    let deadline = Instant::now() + PATIENCE;
    let mut messages = loop {
        match bus.follow().await {
            Ok(messages) => break messages,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let second = bus.append(session, first, "y".into()).await.unwrap();
    assert_eq!(next(&mut messages).await.position, second);
    // The worker still listens.
    let asked = tokio::spawn(async move { bus.ask("w", "x".into(), PATIENCE).await });
    next(&mut questions).await.reply.send("answer".into()).unwrap();
    assert_eq!(asked.await.unwrap(), Ok("answer".into()));
}
