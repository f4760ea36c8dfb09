//! Setting up servers, and what the check refuses.

use std::time::SystemTime;

use async_nats::jetstream;
use test_support::nats_servers::{NatsServerOptions, NatsServers, NatsSync};
use towpath_fleet::bus::nats::NatsBus;
use towpath_fleet::bus::{Bus as _, BusError, Expected, KeyTable, LogPosition};
use towpath_fleet::setup::{CheckOptions, FindingSeverity, FleetSize, InitAction, SetupFinding};

use crate::contract::new_session;
use crate::fixture::{admin, config, connect, start};

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
    assert_eq!(refused(&missing).len(), 6, "{missing:#?}");
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
    assert_eq!(streams.count(), 6, "{findings:#?}");
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
    let status = admin(&servers).await.status().await.unwrap();
    assert_eq!((&*status.server, &*status.version, status.sessions), ("n1", "2.15.1", 3));
    assert_eq!(status.workers.len(), 1);
    assert_eq!(status.workers[0].record["slots"], 4);
    let log = &status.streams[0];
    assert_eq!((&*log.name, log.messages, log.replicas), ("TP_E", 3, 1));
    assert!(log.bytes > 0);
}
