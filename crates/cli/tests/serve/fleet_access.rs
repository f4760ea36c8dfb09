//! A fleet whose users have the permissions of `docs/fleet.md`, and what gateways share to let clients in.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::{COOKIE, SET_COOKIE};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use test_support::nats_servers::{self, NatsServerOptions, NatsServers};
use test_support::packages;
use tokio::time::timeout;
use uuid::Uuid;

use crate::fixture::{Fixture, TIMEOUT, TestServer};
use crate::fleet_moves::{TestWorker, gateway, init, servers, until_within};

/// The page whose permissions are tested.
const PAGE: &str = include_str!("../../../../docs/fleet.md");

/// How soon all gateways know what one of them does with a token, on a busy machine.
const SHARED: Duration = Duration::from_secs(20);

/// A server with the accounts of the page, whose users have passwords instead of keys.
fn servers_with_accounts() -> Option<NatsServers> {
    let program = nats_servers::install(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let program = packages::or_skip(program)?;
    let accounts = PAGE.split("```").find(|block| block.trim_start().starts_with("accounts {"));
    let mut configuration = accounts.expect("the page has accounts").to_owned();
    for user in ["admin", "w1", "g1"] {
        let key = format!("nkey: PUBLIC_KEY_OF_{}", user.to_uppercase());
        assert!(configuration.contains(&key), "{key}");
        configuration = configuration.replace(&key, &format!("user: {user}, password: secret"));
    }
    let options = NatsServerOptions { configuration, ..NatsServerOptions::single() };
    Some(NatsServers::start(&program, &options))
}

fn address(servers: &NatsServers, user: &str) -> String {
    servers.addresses()[0].replace("nats://", &format!("nats://{user}:secret@"))
}

async fn named_gateway(fixture: &Fixture, nats: &str, name: &str, data: &str) -> TestServer {
    let data = fixture.path(data).display().to_string();
    let arguments = ["--nats", nats, "--gateway-name", name, "--data", &data];
    fixture.start(fixture.command(&arguments)).await
}

/// The status of a request with another server's secret.
async fn status(server: &TestServer, token: Option<&str>, cookie: Option<&str>) -> u16 {
    let mut request = server.http.get(format!("{}/api/v1/me", server.url));
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    if let Some(cookie) = cookie {
        request = request.header(COOKIE, cookie);
    }
    request.send().await.expect("an answer").status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_prompt_passes_with_the_documented_permissions() {
    let Some(servers) = servers_with_accounts() else { return };
    let fixture = Fixture::new("api text \"a fine picture\"").await;
    init(&fixture, &address(&servers, "admin"));
    let project = fixture.path("project");
    let _worker = TestWorker::start(&fixture, &address(&servers, "w1"), "w1", &project).await;
    let server = named_gateway(&fixture, &address(&servers, "g1"), "g1", "g1").await;
    let session = server.session(&fixture).await;
    let mut page = server.follow(&format!("/sessions/{session}/follow")).await;
    let mut seed = 1_u64;
    let mut noise = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33).to_le_bytes()[0]
    };
    let mut image = b"\x89PNG\r\n\x1a\n".to_vec();
    image.extend((0..1 << 20).map(|_| noise()));
    let data = BASE64_STANDARD.encode(&image);
    let images = json!([{ "media_type": "image/png", "data": data }]);
    let prompt = json!({ "id": Uuid::new_v4(), "text": "what is it", "images": images });
    let (status, said) = server.post(&format!("/sessions/{session}/prompts"), prompt).await;
    assert_eq!(status, 202, "{said}");
    page.until(|it| it.contains("a fine picture") && it.is_idle()).await;
    let asked = fixture.api.requests();
    assert!(asked.iter().any(|it| it.body.to_string().contains(&data)), "the agent has it");
    assert!(!fixture.log().contains("do not allow"), "{}", fixture.log());

    // The administrator sees the worker, and who gives no credentials is told to.
    let run = |arguments: &[&str]| fixture.program(arguments).output().expect("it starts");
    let shown = run(&["fleet", "status", "--nats", &address(&servers, "admin")]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let row = shown.lines().find(|line| line.trim_start().starts_with("w1 ")).expect("a row");
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[..6], ["w1", "connected", "0", "of", "2", "1"], "{shown}");
    let refused =
        run(&["sessions", "move", &session, "--to", "w1", "--nats", &servers.addresses()[0]]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("--creds"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_or_cookie_of_one_gateway_is_good_at_all_of_them_until_it_is_revoked() {
    let Some(servers) = servers_with_accounts() else { return };
    let fixture = Fixture::new("api text \"hi\"").await;
    init(&fixture, &address(&servers, "admin"));
    let nats = address(&servers, "g1");
    let first = named_gateway(&fixture, &nats, "g1", "first").await;
    let second = named_gateway(&fixture, &nats, "g1", "second").await;
    let (made, said) = first.post("/tokens", json!({ "name": "phone", "role": "drive" })).await;
    assert_eq!(made, 201, "{said}");
    let token = said["token"].as_str().expect("a token").to_owned();
    let signed_in = first
        .http
        .post(format!("{}/api/v1/sign-in", first.url))
        .header("origin", &first.url)
        .json(&json!({ "token": token }))
        .send()
        .await
        .expect("an answer");
    assert!(signed_in.status().is_success(), "{}", signed_in.status());
    let cookie = signed_in.headers()[SET_COOKIE].to_str().expect("text");
    // Its name has the port, which gateways behind one address have in common.
    let (_, secret) = cookie.split(';').next().and_then(|it| it.split_once('=')).expect("a cookie");
    let cookie_at = |server: &TestServer| {
        let port = server.url.rsplit(':').next().expect("a port");
        format!("towpath-{port}={secret}")
    };
    until_within(SHARED, "the second gateway knows the token and the cookie", async || {
        status(&second, Some(&token), None).await == 200
            && status(&second, None, Some(&cookie_at(&second))).await == 200
    })
    .await;
    // Neither start has revoked the other's link, also if the directory of one is removed.
    for server in [&first, &second] {
        assert_eq!(status(server, Some(&first.token), None).await, 200);
        until_within(SHARED, "the links", async || {
            status(server, Some(&second.token), None).await == 200
        })
        .await;
    }
    drop(second);
    std::fs::remove_dir_all(fixture.path("second")).expect("it is there");
    let second = named_gateway(&fixture, &nats, "g1", "second").await;
    until_within(SHARED, "it has the tokens again", async || {
        status(&second, Some(&token), None).await == 200
            && status(&second, None, Some(&cookie_at(&second))).await == 200
    })
    .await;
    assert_eq!(status(&first, Some(&token), None).await, 200);

    let revoked = second.ask(reqwest::Method::DELETE, "/tokens/phone", None).await;
    assert!(revoked.status().is_success(), "{}", revoked.status());
    until_within(SHARED, "the first gateway refuses both", async || {
        status(&first, Some(&token), None).await == 401
            && status(&first, None, Some(&cookie_at(&first))).await == 401
    })
    .await;
    assert_eq!(status(&first, Some(&first.token), None).await, 200);
}

/// Ends a server as a service manager does.
async fn terminate(server: &mut TestServer) {
    let pid = server.child.id().and_then(|it| Pid::from_raw(it.cast_signed())).expect("it runs");
    kill_process(pid, Signal::TERM).expect("it can be signalled");
    let ended = timeout(TIMEOUT, server.child.wait()).await.expect("it obeys").expect("a status");
    assert!(ended.success(), "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_shows_its_copy_while_the_servers_are_away_says_so_and_stops_when_told() {
    let Some(mut servers) = servers() else { return };
    let nats = servers.addresses()[0].clone();
    let fixture = Fixture::new("api text \"first answer\"\napi text \"second answer\"").await;
    init(&fixture, &nats);
    let project = fixture.path("project");
    let _worker = TestWorker::start(&fixture, &nats, "w1", &project).await;
    let mut server = gateway(&fixture, &nats).await;
    let session = server.session(&fixture).await;
    let follow = format!("/sessions/{session}/follow");
    let mut page = server.follow(&follow).await;
    server.prompt(&session, "hello").await;
    page.until(|it| it.contains("first answer") && it.is_idle()).await;
    assert!(server.get("/workers").await["connection_lost_since"].is_null());
    terminate(&mut server).await;

    servers.kill_all();
    let mut server = gateway(&fixture, &nats).await;
    let mut page = server.follow(&follow).await;
    page.until(|it| it.contains("first answer")).await;
    until_within(TIMEOUT, "it says that there is no connection", async || {
        let shown = server.get(&format!("/sessions/{session}")).await;
        shown["problem"].as_str().is_some_and(|it| it.contains("no connection"))
    })
    .await;
    assert!(server.get("/workers").await["connection_lost_since"].is_u64());
    let metrics = server.http.get(format!("{}/metrics", server.url)).bearer_auth(&server.token);
    let metrics = metrics.send().await.expect("an answer").text().await.expect("text");
    assert!(metrics.contains("towpath_fleet_connected 0"), "{metrics}");
    let prompt = json!({ "id": Uuid::new_v4(), "text": "no answer comes" });
    let (status, said) = server.post(&format!("/sessions/{session}/prompts"), prompt).await;
    assert!(status >= 400, "{said}");
    terminate(&mut server).await;

    let server = gateway(&fixture, &nats).await;
    servers.restart_all();
    until_within(TIMEOUT, "it is connected", async || {
        let shown = server.get(&format!("/sessions/{session}")).await;
        shown["problem"].is_null() && shown["worker_away"] == false
    })
    .await;
    let mut page = server.follow(&follow).await;
    // The worker may need longer than the gateway to connect again.
    let prompt = json!({ "id": Uuid::new_v4(), "text": "and now" });
    until_within(TIMEOUT, "a prompt is confirmed", async || {
        server.post(&format!("/sessions/{session}/prompts"), prompt.clone()).await.0 == 202
    })
    .await;
    page.until(|it| it.contains("second answer") && it.is_idle()).await;
}
