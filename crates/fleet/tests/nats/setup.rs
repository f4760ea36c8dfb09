//! Setting up servers, and what the check refuses.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_nats::jetstream;
use journal::{Batch, Journal, NewEntry, NewSession, Origin, SessionId};
use test_support::nats_servers::{NatsServerOptions, NatsServers, NatsSync};
use towpath_fleet::bus::nats::NatsBus;
use towpath_fleet::bus::{Bus as _, BusError, Expected, KeyTable, LogPosition};
use towpath_fleet::mirror::Mirror;
use towpath_fleet::pack::{NewPack, PackKind, WorkerId};
use towpath_fleet::setup::{
    CheckOptions, FindingSeverity, FleetSetup, FleetSize, InitAction, PruneOptions, SetupFinding,
    is_supported,
};
use towpath_fleet::ship::{Shipper, UNWATCHED_INTERVAL};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::contract::{PATIENCE, new_session, read_all};
use crate::fixture::{admin, config, connect, start};

fn worker_id(name: &str) -> WorkerId {
    WorkerId { name: name.to_owned(), data: Uuid::from_u128(7) }
}

async fn check(servers: &NatsServers, size: FleetSize, monitors: Vec<String>) -> Vec<SetupFinding> {
    let options = CheckOptions { size, monitors, now: SystemTime::now() };
    admin(servers).await.check(&options).await.unwrap()
}

fn refused(findings: &[SetupFinding]) -> Vec<&SetupFinding> {
    findings.iter().filter(|it| it.severity == FindingSeverity::Refused).collect()
}

#[tokio::test]
async fn setting_up_again_changes_nothing_and_three_servers_pass_the_check() {
    let Some(servers) = start(&NatsServerOptions::cluster()) else { return };
    let missing = check(&servers, FleetSize::Cluster, servers.monitors()).await;
    assert_eq!(refused(&missing).len(), 8, "{missing:#?}");
    let steps = admin(&servers).await.init(FleetSize::Cluster).await.unwrap();
    assert!(steps.iter().all(|it| it.action == InitAction::Created), "{steps:?}");
    let again = admin(&servers).await.init(FleetSize::Cluster).await.unwrap();
    assert!(again.iter().all(|it| it.action == InitAction::Unchanged), "{again:?}");
    // One server would do, but three are not made fewer.
    let single = admin(&servers).await.init(FleetSize::Single).await.unwrap();
    assert!(single.iter().all(|it| it.action == InitAction::Unchanged), "{single:?}");
    let findings = check(&servers, FleetSize::Cluster, servers.monitors()).await;
    assert!(findings.iter().all(|it| it.severity == FindingSeverity::Good), "{findings:#?}");
    assert_eq!(findings.iter().filter(|it| it.name.starts_with("sync of ")).count(), 3);
    // Without the addresses of the monitoring it is not known, and not called good.
    let unknown = check(&servers, FleetSize::Cluster, Vec::new()).await;
    let is_unknown = |it: &&SetupFinding| it.severity == FindingSeverity::Unknown;
    assert_eq!(unknown.iter().filter(is_unknown).count(), 3, "{unknown:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn setting_up_waits_for_a_server_that_is_still_starting() {
    let Some(mut servers) = start(&NatsServerOptions::cluster()) else { return };
    servers.kill(2);
    let setup = admin(&servers).await;
    let init = tokio::spawn(async move { setup.init(FleetSize::Cluster).await });
    servers.restart(2);
    init.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_check_refuses_one_server_and_messages_that_are_not_synced() {
    let options = NatsServerOptions { sync: NatsSync::Default, ..NatsServerOptions::single() };
    let Some(servers) = start(&options) else { return };
    let error = admin(&servers).await.init(FleetSize::Cluster).await.unwrap_err();
    assert!(matches!(&error, BusError::Setup(why) if why.contains("--single")), "{error}");
    admin(&servers).await.init(FleetSize::Single).await.unwrap();
    let findings = check(&servers, FleetSize::Cluster, servers.monitors()).await;
    let streams =
        refused(&findings).into_iter().filter(|it| it.text.contains("`num_replicas` is 1"));
    assert_eq!(streams.count(), 8, "{findings:#?}");
    let single = check(&servers, FleetSize::Single, servers.monitors()).await;
    let [sync] = refused(&single)[..] else { panic!("{single:#?}") };
    assert_eq!(sync.name, "sync of n1");
    assert!(sync.hint.as_ref().unwrap().contains("sync_interval: always"), "{sync:?}");
}

#[tokio::test]
async fn a_stream_that_would_lose_messages_is_refused_and_corrected() {
    let Some(servers) = start(&NatsServerOptions::single()) else { return };
    let client = async_nats::connect(servers.addresses()).await.unwrap();
    let weak = jetstream::stream::Config {
        name: "TP_E".to_owned(),
        subjects: vec!["tp.e.>".to_owned()],
        max_age: std::time::Duration::from_hours(1),
        allow_rollup: true,
        description: Some("ours".to_owned()),
        ..Default::default()
    };
    let context = jetstream::new(client);
    context.create_stream(weak).await.unwrap();
    let findings = check(&servers, FleetSize::Single, Vec::new()).await;
    let log = findings.iter().find(|it| it.name == "stream TP_E").unwrap();
    for setting in ["max_age", "allow_rollup_hdrs", "republish", "discard", "deny_delete"] {
        assert!(log.text.contains(setting), "{}", log.text);
    }
    let steps = admin(&servers).await.init(FleetSize::Single).await.unwrap();
    assert!(matches!(steps[0].action, InitAction::Changed { .. }), "{steps:?}");
    let corrected = context.get_stream("TP_E").await.unwrap();
    let corrected = &corrected.cached_info().config;
    assert!(corrected.max_age.is_zero() && !corrected.allow_rollup && corrected.deny_delete);
    assert_eq!(corrected.description.as_deref(), Some("ours"));
    let findings = check(&servers, FleetSize::Single, servers.monitors()).await;
    assert!(refused(&findings).is_empty(), "{findings:#?}");
}

#[tokio::test]
async fn servers_that_are_not_set_up_say_what_to_run() {
    let Some(servers) = start(&NatsServerOptions::single()) else { return };
    let error = NatsBus::connect(&config(&servers, "w")).await.unwrap_err();
    assert!(
        matches!(&error, BusError::Setup(why) if why.contains("towpath fleet init")),
        "{error}"
    );
    let error = admin(&servers).await.status().await.unwrap_err();
    assert!(
        matches!(&error, BusError::Setup(why) if why.contains("towpath fleet init")),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_server_that_is_started_again_has_all_streams() {
    let Some(mut servers) = start(&NatsServerOptions::single()) else { return };
    admin(&servers).await.init(FleetSize::Single).await.unwrap();
    servers.kill(0);
    servers.restart(0);
    let findings = check(&servers, FleetSize::Single, servers.monitors()).await;
    assert!(refused(&findings).is_empty(), "{findings:#?}");
}

#[tokio::test]
async fn a_server_without_jetstream_is_refused_with_the_line_to_add() {
    // The last block of that name counts.
    let options = NatsServerOptions {
        configuration: "jetstream: disabled".to_owned(),
        ..NatsServerOptions::single()
    };
    let Some(servers) = start(&options) else { return };
    let findings = check(&servers, FleetSize::Single, Vec::new()).await;
    let [jetstream] = refused(&findings)[..] else { panic!("{findings:#?}") };
    assert_eq!(jetstream.name, "jetstream");
    assert!(jetstream.hint.as_ref().unwrap().contains("store_dir"), "{jetstream:?}");
}

#[tokio::test]
async fn the_status_lists_workers_sessions_and_streams() {
    let Some(servers) = start(&NatsServerOptions::single()) else { return };
    admin(&servers).await.init(FleetSize::Single).await.unwrap();
    let bus = connect(&servers, "w").await;
    for _ in 0..3 {
        bus.append(new_session(), LogPosition(0), "x".into()).await.unwrap();
    }
    let record = r#"{"slots":4}"#;
    bus.put(KeyTable::Workers, "w", record.into(), Expected::Missing, None).await.unwrap();
    let away = NewPack::without_changes(PackKind::Own, 1, worker_id("gone"), 0);
    bus.append(new_session(), LogPosition(0), away.payload).await.unwrap();
    let status = admin(&servers).await.status().await.unwrap();
    assert_eq!((&*status.server, status.sessions), ("n1", 4));
    assert!(is_supported(&status.version), "{}", status.version);
    let workers: Vec<_> =
        status.workers.iter().map(|it| (&*it.name, it.connected, it.sessions)).collect();
    assert_eq!(workers, [("gone", false, 1), ("w", true, 0)]);
    assert_eq!(status.workers[1].record["slots"], 4);
    let log = &status.streams[0];
    assert_eq!((&*log.name, log.messages, log.replicas), ("TP_E", 4, 1));
    assert!(log.bytes > 0);
}

/// Answers one client as a server of another version does.
async fn pretend_to_be(version: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let info = format!(
                "INFO {{\"server_id\":\"x\",\"server_name\":\"n1\",\"version\":\"{version}\",\"go\":\"go\",\
                 \"host\":\"127.0.0.1\",\"port\":{},\"headers\":true,\"max_payload\":1048576,\"proto\":1}}\r\n",
                address.port()
            );
            client.write_all(info.as_bytes()).await.unwrap();
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while client.read(&mut buffer).await.is_ok_and(|size| size > 0) {
                    if client.write_all(b"PONG\r\n").await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    format!("nats://{address}")
}

#[tokio::test]
async fn a_worker_or_gateway_refuses_servers_that_are_too_old() {
    let address = pretend_to_be("2.10.27").await;
    let config = towpath_fleet::bus::nats::NatsConfig {
        servers: vec![address],
        credentials: None,
        authorities: None,
        certificate: None,
        name: "w".to_owned(),
    };
    let error = NatsBus::connect(&config).await.unwrap_err();
    assert!(
        matches!(&error, BusError::Setup(why) if why.contains("NATS 2.10.27, which is too old")),
        "{error}"
    );
    let error = FleetSetup::connect(&config).await.unwrap().init(FleetSize::Single).await;
    assert!(matches!(error, Err(BusError::Setup(_))), "{error:?}");
}

/// A line that does not fit into a message.
fn large_batch() -> Batch {
    let mut seed = 1_u64;
    let mut noise = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33).to_le_bytes()[0]
    };
    let noise: Vec<u8> = (0..2 << 20).map(|_| noise()).collect();
    let entry = NewEntry { origin: Origin::Agent, bytes: noise.into(), transient: false };
    Batch { at: 2000, entries: vec![entry], ..Batch::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_deleted_sessions_leave_is_removed_and_gateways_that_were_away_learn_of_it() {
    let Some(servers) = start(&NatsServerOptions::single()) else { return };
    admin(&servers).await.init(FleetSize::Single).await.unwrap();
    let bus = connect(&servers, "w").await;
    let directory = tempfile::tempdir().unwrap();
    let open = |name: &str| Journal::open(&directory.path().join(name)).unwrap().journal;
    let journal = open("worker.db");
    journal.keep_outbox().await.unwrap();
    let (shipper, _stopped) =
        Shipper::new(Arc::new(bus.clone()), journal.clone(), worker_id("w"), UNWATCHED_INTERVAL);
    let shipping = tokio::spawn(shipper.clone().run());
    let wait_until_shipped = async |session: SessionId| {
        let number = journal.change_number(session).await.unwrap();
        shipper.shipped(session, shipper.tenure(session), number).await.unwrap();
    };
    let (deleted, kept) = (new_session(), new_session());
    for id in [deleted, kept] {
        let options = "{}".to_owned();
        let new = NewSession { id, directory: "/home/dev".into(), title: None, options, at: 1000 };
        journal.create(new).await.unwrap();
        journal.write(id, large_batch()).await.unwrap();
        wait_until_shipped(id).await;
        bus.put_object(&format!("files/{id}/tree"), "a tree".into()).await.unwrap();
    }
    let behind = Mirror::open(Arc::new(bus.clone()), open("gateway.db")).await.unwrap();
    behind.catch_up(deleted).await.unwrap();
    assert!(behind.journal().session(deleted).await.unwrap().is_some());
    let alive = read_all(&bus, deleted).await.len();
    journal.delete(deleted).await.unwrap();
    let mut before = Vec::new();
    let deletion = async {
        while before.len() <= alive {
            before = read_all(&bus, deleted).await;
        }
    };
    tokio::time::timeout(PATIENCE, deletion).await.expect("the deletion is shipped");

    let setup = admin(&servers).await;
    let mut options = PruneOptions {
        now: SystemTime::now(),
        older_than: Duration::from_hours(1),
        dry_run: false,
    };
    assert_eq!(setup.prune(options).await.unwrap(), [], "it was deleted a moment ago");
    options = PruneOptions { older_than: Duration::ZERO, dry_run: true, ..options };
    options.now += Duration::from_mins(1);
    let planned = setup.prune(options).await.unwrap();
    assert_eq!(read_all(&bus, deleted).await.len(), before.len());
    options.dry_run = false;
    assert_eq!(setup.prune(options).await.unwrap(), planned);
    let [pruned] = &planned[..] else { panic!("{planned:?}") };
    assert_eq!((pruned.session, pruned.objects.len()), (deleted, 2), "{planned:?}");
    assert_eq!(setup.prune(options).await.unwrap(), []);

    let left = read_all(&bus, deleted).await;
    assert_eq!(left, before[before.len() - 1..]);
    for name in &pruned.objects {
        assert_eq!(bus.get_object(name).await.unwrap(), None, "{name}");
    }
    assert!(bus.get_object(&format!("files/{kept}/tree")).await.unwrap().is_some());
    // One that has a part of the log, and one that has nothing.
    behind.catch_up(deleted).await.unwrap();
    let new = Mirror::open(Arc::new(bus.clone()), open("new.db")).await.unwrap();
    for mirror in [&behind, &new] {
        for session in [deleted, kept] {
            mirror.catch_up(session).await.unwrap();
            let found = mirror.journal().session(session).await.unwrap();
            assert_eq!(found.is_some(), session == kept);
        }
    }
    shipping.abort();
}
