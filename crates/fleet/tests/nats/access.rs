//! What credentials allow: accounts, permissions, passwords, certificates.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde_json::json;
use tempfile::TempDir;
use test_support::nats_servers::{NatsServerOptions, NatsServers};
use tokio::sync::mpsc;
use towpath_fleet::bus::nats::{ClientCertificate, NatsBus, NatsConfig};
use towpath_fleet::bus::{Bus as _, BusError, Expected, KeyTable, LogPosition};
use towpath_fleet::setup::{FleetSetup, FleetSize};

use crate::contract::{PATIENCE, guarded_writes, new_session, next, read_all};
use crate::fixture::start;

/// The page whose permissions are tested.
const PAGE: &str = include_str!("../../../../docs/fleet.md");

/// The account of another team.
const OTHER_TEAM: &str = "accounts {
  OTHER { jetstream: enabled, users: [ { nkey: PUBLIC_KEY_OF_OTHER } ] }";

/// Servers with two teams, and the keys of their users.
struct Teams {
    servers: NatsServers,
    keys: TempDir,
}

impl Teams {
    /// Starts a server with the accounts of the page.
    async fn start() -> Option<Self> {
        let accounts = PAGE.split("```").find(|block| block.trim_start().starts_with("accounts {"));
        let accounts = accounts.expect("the page has accounts");
        let mut configuration = accounts.replacen("accounts {", OTHER_TEAM, 1);
        let keys = tempfile::tempdir().unwrap();
        for user in ["ADMIN", "W1", "G1", "OTHER"] {
            let key = nkeys::KeyPair::new_user();
            let placeholder = format!("PUBLIC_KEY_OF_{user}");
            assert!(configuration.contains(&placeholder), "{placeholder}");
            configuration = configuration.replace(&placeholder, &key.public_key());
            let file = keys.path().join(user.to_lowercase());
            std::fs::write(file, format!("# {user}\n{}\n", key.seed().unwrap())).unwrap();
        }
        let options = NatsServerOptions { configuration, ..NatsServerOptions::single() };
        let teams = Self { servers: start(&options)?, keys };
        for user in ["admin", "other"] {
            teams.setup(user).await.init(FleetSize::Single).await.unwrap();
        }
        Some(teams)
    }

    fn key_file(&self, user: &str) -> PathBuf {
        self.keys.path().join(user)
    }

    fn config(&self, user: &str) -> NatsConfig {
        NatsConfig {
            servers: self.servers.addresses(),
            credentials: Some(self.key_file(user)),
            authorities: None,
            certificate: None,
            name: user.to_owned(),
        }
    }

    async fn connect(&self, user: &str) -> NatsBus {
        NatsBus::connect(&self.config(user)).await.unwrap()
    }

    async fn setup(&self, user: &str) -> FleetSetup {
        FleetSetup::connect(&self.config(user)).await.unwrap()
    }
}

#[tokio::test]
async fn the_documented_permissions_are_enough_for_workers_and_gateways() {
    let Some(teams) = Teams::start().await else { return };
    let worker = teams.connect("w1").await;
    let gateway = teams.connect("g1").await;
    let session = new_session();
    let mut messages = gateway.follow().await.unwrap();
    let mut workers = gateway.watch(KeyTable::Workers).await.unwrap();
    assert_eq!(next(&mut workers).await, None);
    let first = worker.append(session, LogPosition(0), "x".into()).await.unwrap();
    assert_eq!(next(&mut messages).await.position, first);
    assert_eq!(worker.last(session).await.unwrap().unwrap().position, first);
    assert_eq!(read_all(&worker, session).await.len(), 1);
    assert_eq!(read_all(&gateway, session).await.len(), 1);
    assert_eq!(gateway.logs().await.unwrap(), [(session, first)]);
    let lifetime = Some(Duration::from_secs(15));
    let put = worker.put(KeyTable::Workers, "w1", "{}".into(), Expected::Missing, lifetime);
    put.await.unwrap();
    assert_eq!(next(&mut workers).await.unwrap().key, "w1");
    let token = gateway.put(KeyTable::Access, "t", "{}".into(), Expected::Anything, None);
    token.await.unwrap();
    gateway.remove(KeyTable::Access, "t", Expected::Anything).await.unwrap();
    gateway
        .put(KeyTable::Roles, "telegram", "g1".into(), Expected::Missing, lifetime)
        .await
        .unwrap();
    guarded_writes(&gateway).await;
    let mut questions = worker.questions("w1").await.unwrap();
    let asking = gateway.clone();
    let asked = tokio::spawn(async move { asking.ask("w1", "x".into(), PATIENCE).await });
    next(&mut questions).await.reply.send("answer".into()).unwrap();
    assert_eq!(asked.await.unwrap(), Ok("answer".into()));
    for content in ["one", "two"] {
        worker.put_object("files/o", content.into()).await.unwrap();
        assert_eq!(worker.get_object("files/o").await.unwrap(), Some(content.into()));
    }
    worker.put_object(&format!("{session}/1-1-x"), "changes".into()).await.unwrap();
    let changes = gateway.get_object(&format!("{session}/1-1-x")).await.unwrap();
    assert_eq!(changes, Some("changes".into()));
    gateway.put_object("question/1", "a long one".into()).await.unwrap();
    assert_eq!(worker.get_object("question/1").await.unwrap(), Some("a long one".into()));
    assert_eq!(worker.status().borrow().last_denial, None);
    assert_eq!(gateway.status().borrow().last_denial, None);
}

#[tokio::test]
async fn a_worker_can_neither_purge_nor_read_another_team_and_denials_say_so_at_once() {
    let Some(teams) = Teams::start().await else { return };
    let worker = teams.connect("w1").await;
    let other = teams.connect("other").await;
    let session = new_session();
    let first = worker.append(session, LogPosition(0), "ours".into()).await.unwrap();
    // The other team has its own logs, also of a session with the same id.
    assert_eq!(other.last(session).await.unwrap(), None);
    assert_eq!(other.logs().await.unwrap(), []);
    other.append(session, LogPosition(0), "other".into()).await.unwrap();
    let last = worker.last(session).await.unwrap().unwrap();
    assert_eq!((last.position, &last.payload[..]), (first, &b"ours"[..]));

    // Without the servers' reports, each of these would be an answer that does not come.
    let denied = |subject: &str| BusError::Denied(subject.to_owned());
    let foreign = worker.put(KeyTable::Workers, "w2", "{}".into(), Expected::Anything, None).await;
    assert_eq!(foreign, Err(denied("$KV.tp_workers.w2")));
    assert_eq!(worker.follow().await.unwrap_err(), denied("tp.live.e.>"));
    let bridge = worker.put(KeyTable::Bridges, "telegram.1", "x".into(), Expected::Anything, None);
    assert_eq!(bridge.await, Err(denied("$KV.tp_bridges.telegram.1")));
    assert_eq!(worker.questions("w2").await.unwrap_err(), denied("tp.ask.w2"));
    // Workers give sessions to each other, so they may ask.
    assert_eq!(worker.ask("w2", "x".into(), PATIENCE).await, Err(BusError::NoListener));
    let Err(BusError::Denied(subject)) = worker.logs().await else { panic!("not denied") };
    assert!(subject.starts_with("$JS.API.CONSUMER.CREATE.TP_E"), "{subject}");
    assert_eq!(worker.status().borrow().last_denial, Some(subject));

    // What the worker's commands do not do, a program with its credentials cannot do either.
    let admin = teams.setup("w1").await;
    assert!(matches!(admin.init(FleetSize::Single).await, Err(BusError::Denied(_))));
    let key = std::fs::read_to_string(teams.key_file("w1")).unwrap();
    let key = key.lines().last().unwrap().to_owned();
    let (reports, mut reported) = mpsc::unbounded_channel();
    let options = async_nats::ConnectOptions::with_nkey(key)
        .custom_inbox_prefix("_INBOX.w1")
        .event_callback(move |event| {
            let _ = reports.send(event.to_string());
            std::future::ready(())
        });
    let client = options.connect(teams.servers.addresses()).await.unwrap();
    let pack = format!("{session}/1-1-abc");
    worker.put_object(&pack, "changes".into()).await.unwrap();
    let streams = ["TP_E", "OBJ_tp_packs", "OBJ_tp_files", "OBJ_tp_questions", "KV_tp_workers"];
    for stream in streams {
        for request in ["STREAM.PURGE", "STREAM.DELETE", "STREAM.UPDATE", "STREAM.MSG.DELETE"] {
            let subject = format!("$JS.API.{request}.{stream}");
            client.publish(subject.clone(), "{}".into()).await.unwrap();
            let denied = async { while !reported.recv().await.unwrap().contains(&subject) {} };
            tokio::time::timeout(PATIENCE, denied).await.expect("the server denies it");
        }
    }
    // What gateways accept clients with is not for workers.
    for request in ["STREAM.MSG.GET.KV_tp_access", "DIRECT.GET.KV_tp_access"] {
        let subject = format!("$JS.API.{request}");
        let body = json!({ "last_by_subj": "$KV.tp_access.x" }).to_string();
        client.publish(subject.clone(), body.into()).await.unwrap();
        let denied = async { while !reported.recv().await.unwrap().contains(&subject) {} };
        tokio::time::timeout(PATIENCE, denied).await.expect("the server denies it");
    }
    // A message that asks the servers to remove all before it is refused, also where objects are.
    let description = URL_SAFE.encode(&pack);
    for subject in [
        format!("tp.e.0.{}", new_session()),
        format!("$O.tp_packs.M.{description}"),
        "$O.tp_packs.C.x.0".to_owned(),
        "$O.tp_files.M.x".to_owned(),
        "$O.tp_files.C.x.0".to_owned(),
    ] {
        let mut rollup = async_nats::HeaderMap::new();
        rollup.insert("Nats-Rollup", "all");
        let answer = client.request_with_headers(subject, rollup, "x".into()).await.unwrap();
        assert!(String::from_utf8_lossy(&answer.payload).contains("error"), "{answer:?}");
    }
    // Nor can an object that is part of a log be replaced.
    let subject = format!("$O.tp_packs.M.{description}");
    let answer = client.request(subject, "{}".into()).await.unwrap();
    assert!(String::from_utf8_lossy(&answer.payload).contains("error"), "{answer:?}");
    assert_eq!(worker.get_object(&pack).await.unwrap(), Some("changes".into()));
    assert_eq!(read_all(&worker, session).await.len(), 1);
}

#[tokio::test]
async fn who_has_no_credentials_is_told_to_give_them() {
    let Some(teams) = Teams::start().await else { return };
    let config = NatsConfig { credentials: None, ..teams.config("w1") };
    let error = NatsBus::connect(&config).await.unwrap_err();
    assert!(matches!(&error, BusError::Denied(why) if why.contains("--creds")), "{error:?}");
    let stranger = nkeys::KeyPair::new_user().seed().unwrap();
    std::fs::write(teams.key_file("stranger"), stranger).unwrap();
    let error = NatsBus::connect(&teams.config("stranger")).await.unwrap_err();
    assert!(matches!(error, BusError::Denied(_)), "{error:?}");
    std::fs::write(teams.key_file("empty"), "nothing\n").unwrap();
    for file in ["empty", "missing"] {
        let error = NatsBus::connect(&teams.config(file)).await.unwrap_err();
        assert!(matches!(&error, BusError::Setup(why) if why.contains(file)), "{error:?}");
    }
}

#[tokio::test]
async fn an_encrypted_connection_needs_the_authority_of_the_server_and_a_certificate_if_it_asks() {
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name);
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let certificate = authority.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let server = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let server = server.signed_by(&key, &issuer).unwrap();
    std::fs::write(path("authority.pem"), certificate.pem()).unwrap();
    std::fs::write(path("server.pem"), server.pem()).unwrap();
    std::fs::write(path("server.key"), key.serialize_pem()).unwrap();
    let client_key = rcgen::KeyPair::generate().unwrap();
    let client = rcgen::CertificateParams::new(vec!["w".to_owned()]).unwrap();
    let client = client.signed_by(&client_key, &issuer).unwrap();
    std::fs::write(path("client.pem"), client.pem()).unwrap();
    std::fs::write(path("client.key"), client_key.serialize_pem()).unwrap();
    let files = ["server.pem", "server.key", "authority.pem"];
    let [certificate, key, authority] = files.map(|name| path(name).display().to_string());
    let configuration = format!(
        "tls {{ cert_file: {certificate:?}, key_file: {key:?}, ca_file: {authority:?}, verify: true }}"
    );
    let options = NatsServerOptions { configuration, ..NatsServerOptions::single() };
    let Some(servers) = start(&options) else { return };
    let encrypted = |address: String| address.replace("nats://", "tls://");
    let mut config = NatsConfig {
        servers: servers.addresses().into_iter().map(encrypted).collect(),
        credentials: None,
        authorities: None,
        certificate: None,
        name: "w".to_owned(),
    };
    let error = FleetSetup::connect(&config).await.unwrap_err();
    assert!(matches!(error, BusError::Setup(_) | BusError::Unavailable(_)), "{error:?}");
    config.authorities = Some(path("authority.pem"));
    // It also asks who connects.
    FleetSetup::connect(&config).await.unwrap_err();
    config.certificate =
        Some(ClientCertificate { chain: path("client.pem"), key: path("client.key") });
    let setup = FleetSetup::connect(&config).await.unwrap();
    setup.init(FleetSize::Single).await.unwrap();
    let bus = NatsBus::connect(&config).await.unwrap();
    bus.append(new_session(), LogPosition(0), "x".into()).await.unwrap();
}
