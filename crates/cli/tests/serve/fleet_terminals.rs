//! Terminals of the sessions of workers through a gateway.

use std::path::Path;
use std::time::{Duration, Instant};

use fleet::bus::Bus as _;
use fleet::bus::nats::{NatsBus, NatsConfig};
use futures_util::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};
use test_support::nats_servers::NatsServers;
use tokio::time::timeout;

use crate::fixture::{Fixture, TIMEOUT, TestServer};
use crate::fleet_moves::{TestWorker, gateway, init, servers};

/// How many keys are measured.
const KEYS: usize = 40;

/// A worker whose clients may have a plain shell.
async fn worker<'a>(
    fixture: &'a Fixture,
    nats: &str,
    name: &'static str,
    root: &Path,
) -> TestWorker<'a> {
    let surroundings = Box::new(|mut command: std::process::Command| {
        command.env("SHELL", "/bin/sh").env("TOWPATH_TELEGRAM_TOKEN", "4711:secret");
        command
    });
    TestWorker::start_in(fixture, nats, name, root, &["--terminal"], surroundings).await
}

/// The server of a fleet, which is set up.
fn fleet(fixture: &Fixture) -> Option<(NatsServers, String)> {
    let servers = servers()?;
    let nats = servers.addresses()[0].clone();
    init(fixture, &nats);
    Some((servers, nats))
}

async fn token(server: &TestServer, name: &str, role: &str, shell: bool) -> String {
    let body = json!({ "name": name, "role": role, "shell": shell });
    let (status, made) = server.post("/tokens", body).await;
    assert_eq!(status, 201, "{made}");
    made["token"].as_str().expect("a token").to_owned()
}

async fn problem(server: &TestServer, method: Method, path: &str) -> (u16, Value) {
    let response = server.ask(method, path, None).await;
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_of_a_workers_session_is_used_through_any_gateway() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let Some((_servers, nats)) = fleet(&fixture) else { return };
    let _worker = worker(&fixture, &nats, "w1", &fixture.path("project")).await;
    let server = gateway(&fixture, &nats).await;
    let other_data = fixture.path("g2").display().to_string();
    let other = ["--nats", &nats, "--gateway-name", "g2", "--data", &other_data];
    let other = fixture.start(fixture.command(&other)).await;
    let session = server.session(&fixture).await;
    assert_eq!(server.get("/me").await["shell"], true);
    let path = format!("/sessions/{session}/terminals");
    assert_eq!(server.get(&path).await, json!({ "terminals": [] }));
    let follow = server.terminal(&session).await;
    let mut one = server.follow(&follow).await;
    let mut two = other.follow(&follow).await;
    let whole = one.until_frame("screen").await;
    assert_eq!((&whole["screen"]["columns"], &whole["screen"]["rows"]), (&json!(100), &json!(30)));

    // Both see what one types, in the session's directory and without secrets.
    one.type_in("echo \"here=$(pwd)\" \"[$TOWPATH_TELEGRAM_TOKEN]\" $TERM\r").await;
    let project = std::fs::canonicalize(fixture.project()).expect("a path");
    let words = format!("here={} [] xterm-256color", project.display());
    for client in [&mut one, &mut two] {
        let lines = client.until_shown("[] xterm-256color").await;
        let text: String = lines.lines.values().cloned().collect();
        assert!(text.contains(&words), "{text}");
    }
    for nonsense in ["{", "\n", "{\"frame\":\"x\"}", "{\"frame\":\"resize\",\"columns\":-4}"] {
        let message = tokio_tungstenite::tungstenite::Message::text(nonsense);
        futures_util::SinkExt::send(&mut one.socket, message).await.expect("it listens");
    }
    one.send(json!({ "frame": "resize", "columns": 91, "rows": 21 })).await;
    one.type_in("stty size\r").await;
    two.until_shown("21 91").await;

    // More than a piece of an exchange holds. What the shell does not read yet waits.
    one.type_in("i=0; while [ $i -lt 900 ]; do i=$((i+1)); echo \"line $i\"; done\r").await;
    let shown = one.until_shown("line 900").await;
    let oldest = shown.screen["oldest"].as_u64().expect("a number");
    one.send(json!({ "frame": "scrollback", "from": oldest, "count": 9999 })).await;
    let page = one.until_frame("scrollback").await;
    assert_eq!(page["lines"].as_array().map(Vec::len), Some(500), "{page}");
    let words = "0123456789".repeat(40);
    one.type_in("stty -echo; n=0; while read -r x && [ \"$x\" != end ]; do n=$((n+${#x})); done; printf \"\\n%s\\n\" \"n=$n\"; stty echo\r").await;
    for _ in 0..1000 {
        one.type_in(&format!("{words}\r")).await;
    }
    one.type_in("end\r").await;
    one.until_shown("n=400000").await;

    // A client that leaves is no viewer any more, so the terminal has the size of another one.
    let begun = Instant::now();
    let mut three = server.follow(&follow).await;
    three.send(json!({ "frame": "resize", "columns": 85, "rows": 19 })).await;
    three.type_in("stty size\r").await;
    three.until_shown("19 85").await;
    drop(three);
    let is_smaller = async {
        loop {
            two.send(json!({ "frame": "resize", "columns": 77, "rows": 17 })).await;
            let frame = timeout(Duration::from_millis(300), two.next()).await;
            if frame.is_ok_and(|it| it["screen"]["columns"] == 77) {
                break;
            }
        }
    };
    timeout(TIMEOUT / 2, is_smaller).await.expect("the viewer has left");
    println!("a viewer has left after {:?}", begun.elapsed());

    // It ends, is listed, starts again, and is closed.
    two.type_in("exit 5\r").await;
    assert_eq!(one.until_frame("closed").await["exit"], json!({ "code": 5 }));
    assert_eq!(other.get(&path).await["terminals"][0]["ended"]["code"], 5);
    assert_eq!(other.post(&path, json!({ "again": 1 })).await.0, 201);
    one.until_frame("screen").await;
    one.type_in("echo aga''in\r").await;
    one.until_shown("again").await;
    assert_eq!(server.post(&path, json!({ "again": 1 })).await.0, 409, "it still runs");
    assert_eq!(server.post(&path, json!({ "again": 0 })).await.0, 400);
    assert_eq!(server.ask(Method::DELETE, &format!("{path}/1"), None).await.status(), 204);
    for client in [&mut one, &mut two] {
        while client.until_frame("closed").await["exit"] != Value::Null {}
        let ended = async { while let Some(Ok(_)) = client.socket.next().await {} };
        timeout(TIMEOUT, ended).await.expect("the stream ends");
    }
    assert_eq!(server.ask(Method::DELETE, &format!("{path}/1"), None).await.status(), 404);
    let bearer = format!("Bearer {}", server.token);
    let authorization = [("authorization", bearer.as_str())];
    assert_eq!(server.open_stream(&follow, &authorization).await, 404);
    assert_eq!(problem(&server, Method::GET, &follow).await.0, 400, "it is no WebSocket");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_shown_at_once() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let Some((_servers, nats)) = fleet(&fixture) else { return };
    let _worker = worker(&fixture, &nats, "w1", &fixture.path("project")).await;
    let server = gateway(&fixture, &nats).await;
    let session = server.session(&fixture).await;
    let follow = server.terminal(&session).await;
    let mut client = server.follow(&follow).await;
    client.type_in("PS1='> '; echo rea''dy\r").await;
    client.until_shown("ready").await;
    let mut times = Vec::new();
    for number in 0..KEYS {
        // A person is slower than the 30 ms that a viewer waits between two frames.
        tokio::time::sleep(Duration::from_millis(60)).await;
        let key = char::from(b'a' + u8::try_from(number % 26).expect("small"));
        let typed = Instant::now();
        client.type_in(&key.to_string()).await;
        client.until_frame("rows").await;
        times.push(typed.elapsed());
    }
    times.sort();
    let (median, last) = (times[KEYS / 2], times[KEYS - 1]);
    println!("a key is shown after {median:?} (median), {last:?} (longest of {KEYS})");
    // The steps of an exchange wait for up to 5 seconds; a key never waits for one.
    assert!(median < Duration::from_millis(500), "{times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_of_a_worker_takes_that_right_and_a_worker_that_has_shells() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let Some((_servers, nats)) = fleet(&fixture) else { return };
    let project = fixture.path("project");
    let without = TestWorker::start(&fixture, &nats, "w1", &project).await;
    let server = gateway(&fixture, &nats).await;
    let session = server.session(&fixture).await;
    let path = format!("/sessions/{session}/terminals");
    for method in [Method::GET, Method::POST] {
        let (status, said) = problem(&server, method, &path).await;
        assert_eq!((status, &said["type"]), (403, &json!("about:towpath#no-terminals")), "{said}");
        let detail = said["detail"].as_str().expect("words");
        assert!(detail.contains("towpath worker --terminal"), "{said}");
    }
    let bearer = format!("Bearer {}", server.token);
    let stream = format!("{path}/1/follow");
    assert_eq!(server.open_stream(&stream, &[("authorization", &bearer)]).await, 403);
    drop(without);

    let _worker = worker(&fixture, &nats, "w2", &project).await;
    let (status, made) =
        server.post("/sessions", json!({ "cwd": fixture.project(), "worker": "w2" })).await;
    assert_eq!(status, 201, "{made}");
    let session = made["id"].as_str().expect("an id");
    let path = format!("/sessions/{session}/terminals");
    let stream = server.terminal(session).await;
    let watch = token(&server, "wall", "watch", false).await;
    let drive = token(&server, "desk", "drive", false).await;
    for token in [&watch, &drive] {
        for (method, path) in [
            (Method::GET, path.clone()),
            (Method::POST, path.clone()),
            (Method::DELETE, format!("{path}/1")),
            (Method::GET, stream.clone()),
        ] {
            let (status, _) = server.status_with(token, method.clone(), &path).await;
            assert_eq!(status, 403, "{method} {path}");
        }
        let bearer = format!("Bearer {token}");
        assert_eq!(server.open_stream(&stream, &[("authorization", &bearer)]).await, 403);
    }
    let shell = token(&server, "laptop", "drive", true).await;
    assert_eq!(server.status_with(&shell, Method::GET, &path).await.0, 200);
    let mut client = server.follow_with(&stream, &shell).await;
    client.type_in("echo fi''rst\r").await;
    client.until_shown("first").await;
    // A token that is revoked ends what it was used for.
    let revoked = server.ask(Method::DELETE, "/tokens/laptop", None).await;
    assert!(revoked.status().is_success(), "{}", revoked.status());
    let ended = async { while let Some(Ok(_)) = client.socket.next().await {} };
    timeout(TIMEOUT, ended).await.expect("the stream ends");

    // A gateway without terminals refuses by itself.
    let data = fixture.path("g2").display().to_string();
    let other = ["--nats", &nats, "--gateway-name", "g2", "--data", &data, "--no-terminal"];
    let other = fixture.start(fixture.command(&other)).await;
    assert_eq!(other.get("/me").await["shell"], false);
    let (status, said) = other.post(&path, json!({})).await;
    assert_eq!((status, &said["type"]), (403, &json!("about:towpath#no-terminals")), "{said}");
    let detail = said["detail"].as_str().expect("words");
    assert!(detail.contains("towpath serve --terminal"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_others_can_reach_has_terminals_if_it_is_told_to() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let Some((_servers, nats)) = fleet(&fixture) else { return };
    let _worker = worker(&fixture, &nats, "w1", &fixture.path("project")).await;
    let start = async |data: &str, more: &[&str]| {
        let data = fixture.path(data).display().to_string();
        let arguments = [&["--nats", &nats, "--data", &data, "--host", "box.lan"][..], more];
        fixture.start(fixture.command(&arguments.concat())).await
    };
    let without = start("without", &[]).await;
    let session = without.session(&fixture).await;
    let path = format!("/sessions/{session}/terminals");
    let (status, said) = problem(&without, Method::GET, &path).await;
    assert_eq!(status, 403, "{said}");
    let with = start("with", &["--terminal"]).await;
    let follow = with.terminal(&session).await;
    let mut client = with.follow(&follow).await;
    client.type_in("echo it is $((40 + 2))\r").await;
    client.until_shown("it is 42").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_a_gateway_nor_other_roots_get_a_shell_where_it_is_not_allowed() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let Some((_servers, nats)) = fleet(&fixture) else { return };
    let project = fixture.path("project");
    let first = worker(&fixture, &nats, "w1", &project).await;
    let server = gateway(&fixture, &nats).await;
    let session = server.session(&fixture).await;
    let _second = worker(&fixture, &nats, "w2", &project).await;

    let config = NatsConfig {
        servers: vec![nats.clone()],
        credentials: None,
        authorities: None,
        certificate: None,
        name: "attacker".to_owned(),
    };
    let bus = NatsBus::connect(&config).await.expect("the servers");
    let ask = async |worker: &str, method: &str, path: &str, role: &str, shell: bool| -> Value {
        let client = json!({ "name": "eve", "role": role, "shell": shell });
        let headers = json!([["content-type", "application/json"]]);
        let request =
            json!({ "method": method, "path": path, "client": client, "headers": headers });
        let piece = json!({ "bytes": "e30=", "is_last": true });
        let begin = json!({ "session": session, "request": request, "piece": piece });
        let step = json!({ "exchange": uuid::Uuid::new_v4(), "action": { "begin": begin } });
        let question = json!({ "version": 1, "question": { "project": step } });
        let asked = bus.ask(worker, question.to_string().into(), TIMEOUT).await;
        serde_json::from_slice(&asked.expect("an answer")).expect("JSON")
    };
    let status = |said: &Value| said["Ok"]["answer"]["response"]["status"].as_u64();
    for (worker, method, path, role, shell, expected) in [
        ("w1", "POST", "terminals", "watch", true, 403),
        ("w1", "POST", "terminals", "admin", false, 403),
        ("w1", "GET", "terminals/1/follow", "drive", false, 403),
        ("w1", "POST", "%74erminals", "admin", false, 404),
        ("w1", "POST", "terminals/../terminals", "admin", true, 400),
        // The session is another worker's.
        ("w2", "POST", "terminals", "admin", true, 404),
        ("w1", "POST", "terminals", "drive", true, 201),
    ] {
        let said = ask(worker, method, path, role, shell).await;
        assert_eq!(status(&said), Some(expected), "{worker} {method} {path} {role}: {said}");
    }

    // The worker is started again with a root that does not contain the session's directory.
    drop(first);
    let elsewhere = fixture.path("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a directory");
    let _first = worker(&fixture, &nats, "w1", &elsewhere).await;
    let path = format!("/sessions/{session}/terminals");
    assert_eq!(server.get(&path).await, json!({ "terminals": [] }));
    let (status, said) = server.post(&path, json!({})).await;
    assert_eq!((status, &said["type"]), (403, &json!("about:towpath#outside-roots")), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_through_a_fleet_neither_grows_it_nor_holds_up_keys() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let Some((_servers, nats)) = fleet(&fixture) else { return };
    let _worker = worker(&fixture, &nats, "w1", &fixture.path("project")).await;
    let server = gateway(&fixture, &nats).await;
    let session = server.session(&fixture).await;
    let follow = server.terminal(&session).await;
    let memory = || {
        let pid = server.child.id().expect("it runs");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"))?.trim().to_owned();
        line.split(' ').next()?.parse::<u64>().ok()
    };
    let mut client = server.follow(&follow).await;
    // One that never reads.
    let stalled = server.follow(&follow).await;
    client.type_in("yes \"$(printf '%090d' 7)\"\r").await;
    let top = |frame: &Value| frame["screen"]["top"].as_u64().unwrap_or(0);
    let mut until = async |count: u64| {
        let wait = async { while top(&client.next().await) < count {} };
        timeout(TIMEOUT, wait).await.unwrap_or_else(|_| panic!("{count} lines"));
    };
    until(10_000).await;
    let before = memory();
    until(40_000).await;
    if let (Some(before), Some(after)) = (before, memory()) {
        assert!(after < before + 16_000, "{before} kB before, {after} kB after");
    }
    let files = server.get(&format!("/sessions/{session}/files/list")).await;
    assert!(files["entries"].is_array(), "{files}");
    let typed = Instant::now();
    client.type_in("\u{3}").await;
    client.type_in("echo o''ver\r").await;
    client.until_shown("over").await;
    println!("a flood was ended after {:?}", typed.elapsed());
    assert!(typed.elapsed() < Duration::from_secs(10), "{:?}", typed.elapsed());
    drop(stalled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_ends_with_its_worker_or_when_its_session_leaves_that() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let Some((_servers, nats)) = fleet(&fixture) else { return };
    let project = fixture.path("project");
    let mut first = worker(&fixture, &nats, "w1", &project).await;
    let server = gateway(&fixture, &nats).await;
    let session = server.session(&fixture).await;
    let second = worker(&fixture, &nats, "w2", &project).await;
    let path = format!("/sessions/{session}/terminals");

    // The session moves: its shells end, and there are others where it goes on.
    let follow = server.terminal(&session).await;
    let mut client = server.follow(&follow).await;
    client.type_in("echo process=$$=\r").await;
    let shown = client.until_shown("process=").await;
    let (status, said) =
        server.post(&format!("/sessions/{session}/move"), json!({ "to": "w2" })).await;
    assert_eq!(status, 204, "{said}; {shown:?}", shown = shown.lines);
    while client.until_frame("closed").await["exit"] != Value::Null {}
    assert_eq!(server.get(&path).await, json!({ "terminals": [] }));
    let follow = server.terminal(&session).await;
    let mut client = server.follow(&follow).await;
    client.type_in("echo on \"w\"2\r").await;
    client.until_shown("on w2").await;
    let (status, said) =
        server.post(&format!("/sessions/{session}/move"), json!({ "to": "w1" })).await;
    assert_eq!(status, 204, "{said}");
    drop(second);

    // The worker is killed: the stream ends, and the answer names the worker.
    let follow = server.terminal(&session).await;
    let mut client = server.follow(&follow).await;
    client.type_in("echo rea''dy\r").await;
    client.until_shown("ready").await;
    let mut shells = server.follow(&follow).await;
    shells.until_frame("screen").await;
    first.kill().await;
    let killed = Instant::now();
    client.type_in("x").await;
    for client in [&mut client, &mut shells] {
        let ended = async { while let Some(Ok(_)) = client.socket.next().await {} };
        timeout(TIMEOUT, ended).await.expect("the stream ends");
        println!("the stream ended {:?} after the worker was killed", killed.elapsed());
    }
    // Longer than that, a gateway does not wait for a worker that says nothing.
    assert!(killed.elapsed() < Duration::from_secs(30), "{:?}", killed.elapsed());
    let (status, said) = problem(&server, Method::GET, &path).await;
    assert_eq!(status, 409, "{said}");
    assert!(said["detail"].as_str().is_some_and(|it| it.contains("w1")), "{said}");
    let bearer = format!("Bearer {}", server.token);
    assert_eq!(server.open_stream(&follow, &[("authorization", &bearer)]).await, 409);
    first.restart().await;
    assert_eq!(server.get(&path).await, json!({ "terminals": [] }));
}
