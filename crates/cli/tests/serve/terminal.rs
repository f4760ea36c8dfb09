//! Terminals: who may have a shell, what viewers see, and what a flood costs.

use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::fixture::{Fixture, TIMEOUT, TestClient, TestServer};

impl Fixture {
    /// A server whose users have a plain shell.
    async fn serve_shells(&self, more: &[&str]) -> TestServer {
        let (agent, project) = (self.path("agent").display().to_string(), self.project());
        let mut arguments = vec!["--claude", &agent, "--root", &project];
        arguments.extend(more);
        let mut command = self.command(&arguments);
        command.env("SHELL", "/bin/sh").env("TOWPATH_TELEGRAM_TOKEN", "4711:secret");
        self.start(command).await
    }

    fn token(&self, arguments: &[&str]) -> String {
        let output = self.command(&[&["tokens", "add"], arguments].concat()).output();
        String::from_utf8(output.expect("it runs").stdout).expect("text").trim().to_owned()
    }
}

impl TestServer {
    pub(crate) async fn terminal(&self, session: &str) -> String {
        let path = format!("/sessions/{session}/terminals");
        let (status, made) = self.post(&path, json!({ "columns": 100, "rows": 30 })).await;
        assert_eq!(status, 201, "{made}");
        format!("{path}/{}/follow", made["number"])
    }

    pub(crate) async fn status_with(
        &self,
        token: &str,
        method: Method,
        path: &str,
    ) -> (u16, String) {
        let request = self.http.request(method, format!("{}/api/v1{path}", self.url));
        let answer = request.bearer_auth(token).json(&json!({})).send().await.expect("an answer");
        let status = answer.status().as_u16();
        (status, answer.text().await.expect("a body"))
    }

    /// Opens a WebSocket with headers; its status.
    pub(crate) async fn open_stream(&self, path: &str, headers: &[(&'static str, &str)]) -> u16 {
        let url = format!("ws://{}/api/v1{path}", self.address());
        let mut request = url.into_client_request().expect("a URL");
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().expect("a header"));
        }
        match tokio_tungstenite::connect_async(request).await {
            Ok(_) => 101,
            Err(Error::Http(response)) => response.status().as_u16(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// The lines of a terminal as a client keeps them.
#[derive(Default)]
pub(crate) struct Lines {
    pub(crate) lines: std::collections::BTreeMap<u64, String>,
    pub(crate) screen: Value,
}

impl Lines {
    pub(crate) fn apply(&mut self, frame: &Value) {
        if frame["frame"] == "screen" {
            self.lines.clear();
        }
        if frame["screen"].is_object() {
            self.screen = frame["screen"].clone();
        }
        for line in frame["lines"].as_array().into_iter().flatten() {
            let runs = line["runs"].as_array().expect("runs");
            let text = runs.iter().filter_map(|it| it["text"].as_str()).collect::<String>();
            self.lines.insert(line["number"].as_u64().expect("a number"), text);
        }
    }

    fn has(&self, words: &str) -> bool {
        self.lines.values().any(|it| it.contains(words))
    }
}

impl TestClient {
    pub(crate) async fn type_in(&mut self, text: &str) {
        self.send(json!({ "frame": "input", "text": text })).await;
    }

    /// Follows until a line has these words.
    pub(crate) async fn until_shown(&mut self, words: &str) -> Lines {
        let mut lines = Lines::default();
        let wait = async {
            while !lines.has(words) {
                lines.apply(&self.next().await);
            }
        };
        let shown = timeout(TIMEOUT, wait).await;
        assert!(shown.is_ok(), "`{words}` is not shown: {:#?}", lines.lines);
        lines
    }

    pub(crate) async fn until_frame(&mut self, name: &str) -> Value {
        let wait = async {
            loop {
                let frame = self.next().await;
                if frame["frame"] == name {
                    return frame;
                }
            }
        };
        timeout(TIMEOUT, wait).await.unwrap_or_else(|_| panic!("no frame `{name}`"))
    }
}

#[tokio::test]
async fn a_shell_takes_admin_or_a_token_with_that_right() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve_shells(&[]).await;
    let session = server.session(&fixture).await;
    let follow = server.terminal(&session).await;
    let path = format!("/sessions/{session}/terminals");
    let (watch, drive) = (fixture.token(&["w", "--role", "watch"]), fixture.token(&["d"]));
    for token in [&watch, &drive] {
        for (method, path) in [
            (Method::GET, path.clone()),
            (Method::POST, path.clone()),
            (Method::DELETE, format!("{path}/1")),
            (Method::GET, follow.clone()),
        ] {
            let (status, body) = server.status_with(token, method.clone(), &path).await;
            assert_eq!(status, 403, "{method} {path}");
            let why = ["may have a shell", "your role does not allow this"];
            assert!(why.iter().any(|it| body.contains(it)), "{body}");
        }
        let bearer = format!("Bearer {token}");
        assert_eq!(server.open_stream(&follow, &[("authorization", &bearer)]).await, 403);
        let me = server.status_with(token, Method::GET, "/me").await.1;
        assert!(me.contains("\"shell\":false"), "{me}");
    }
    let refused = fixture.command(&["tokens", "add", "x", "--role", "watch", "--shell"]).output();
    assert_eq!(refused.expect("it runs").status.code(), Some(2));
    let (status, made) =
        server.post("/tokens", json!({ "name": "x", "role": "watch", "shell": true })).await;
    assert_eq!(status, 400, "{made}");
    let shell = fixture.token(&["s", "--shell"]);
    assert_eq!(server.status_with(&shell, Method::GET, &path).await.0, 200);
    assert!(server.status_with(&shell, Method::GET, "/me").await.1.contains("\"shell\":true"));
    assert_eq!(server.status_with(&shell, Method::GET, "/tokens").await.0, 403, "not an admin");
    let listed = fixture.command(&["tokens", "list"]).output().expect("it runs");
    let listed = String::from_utf8(listed.stdout).expect("text");
    assert!(listed.contains("s\tdrive\tshell\n") && listed.contains("d\tdrive\n"), "{listed}");
}

#[tokio::test]
async fn a_page_of_another_origin_cannot_type() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve_shells(&[]).await;
    let session = server.session(&fixture).await;
    let follow = server.terminal(&session).await;
    let sign_in = server.http.post(format!("{}/api/v1/sign-in", server.url));
    let sign_in = sign_in.header("origin", &server.url).json(&json!({ "token": server.token }));
    let answer = sign_in.send().await.expect("an answer");
    let cookie = answer.headers()["set-cookie"].to_str().expect("text").to_owned();
    let cookie = cookie.split(';').next().expect("a pair");
    let own = [("origin", server.url.as_str()), ("cookie", cookie)];
    assert_eq!(server.open_stream(&follow, &own).await, 101);
    assert_eq!(server.open_stream(&follow, &[("cookie", cookie)]).await, 403);
    let foreign = [("origin", "https://evil.example"), ("cookie", cookie)];
    assert_eq!(server.open_stream(&follow, &foreign).await, 403);
    assert_eq!(server.open_stream(&follow, &[("origin", &server.url)]).await, 401);
    let post = server.http.post(format!("{}/api/v1/sessions/{session}/terminals", server.url));
    let post = post.header("cookie", cookie).header("origin", "https://evil.example");
    assert_eq!(post.json(&json!({})).send().await.expect("an answer").status(), 403);
    let bearer = format!("Bearer {}", server.token);
    for (path, status) in [
        (format!("/sessions/{session}/terminals/9/follow"), 404),
        (format!("/sessions/{session}/terminals/-1/follow"), 400),
        (format!("/sessions/{}/terminals/1/follow", uuid::Uuid::new_v4()), 404),
        (format!("/sessions/{session}/terminals/..%2f1/follow"), 400),
    ] {
        assert_eq!(
            server.open_stream(&path, &[("authorization", &bearer)]).await,
            status,
            "{path}"
        );
    }
    for body in [json!({ "again": 0 }), json!({ "columns": -1 }), json!({ "shell": "/bin/x" })] {
        let (status, problem) = server.post(&format!("/sessions/{session}/terminals"), body).await;
        assert_eq!(status, 400, "{problem}");
    }
}

#[tokio::test]
async fn a_revoked_token_ends_its_terminals_streams_at_once() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve_shells(&[]).await;
    let session = server.session(&fixture).await;
    let follow = server.terminal(&session).await;
    let shell = fixture.token(&["laptop", "--shell"]);
    let mut client = server.follow_with(&follow, &shell).await;
    client.type_in("echo fi''rst\r").await;
    client.until_shown("first").await;
    let mut own = server.follow(&follow).await;
    own.until_shown("first").await;
    let revoked = fixture.command(&["tokens", "revoke", "laptop"]).output().expect("it runs");
    assert_eq!(revoked.status.code(), Some(0));
    let ended = async { while let Some(Ok(_)) = client.socket.next().await {} };
    timeout(TIMEOUT, ended).await.expect("the stream ends");
    own.type_in("echo sec''ond\r").await;
    own.until_shown("second").await;
}

#[tokio::test]
async fn terminals_are_off_by_flag_and_for_other_machines_unless_asked_for() {
    let off: &[&[&str]] =
        &[&["--no-terminal"], &["--host", "box.lan"], &["--trusted-proxy", "127.0.0.1"]];
    for flags in off {
        let fixture = Fixture::new("api text \"hi\"").await;
        let server = fixture.serve_shells(flags).await;
        let session = server.session(&fixture).await;
        let path = format!("/sessions/{session}/terminals");
        let (status, problem) = server.post(&path, json!({})).await;
        assert_eq!(status, 403, "{flags:?}: {problem}");
        assert_eq!(problem["type"], "about:towpath#no-terminals");
        assert_eq!(server.ask(Method::GET, &path, None).await.status(), 403);
        assert_eq!(server.get("/me").await["shell"], false);
    }
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve_shells(&["--host", "box.lan", "--terminal"]).await;
    assert_eq!(server.get("/me").await["shell"], true);
    let both = fixture.command(&["--terminal", "--no-terminal"]).output().expect("it runs");
    assert_eq!(both.status.code(), Some(2));
}

#[tokio::test]
async fn viewers_share_a_shell_which_survives_them_and_is_started_again() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve_shells(&[]).await;
    let session = server.session(&fixture).await;
    let follow = server.terminal(&session).await;
    let mut one = server.follow(&follow).await;
    let mut other = server.follow(&follow).await;
    one.send(json!({ "frame": "resize", "columns": 90, "rows": 20 })).await;
    one.type_in("echo \"here=$(pwd)\" \"[$TOWPATH_TELEGRAM_TOKEN]\" $TERM\r").await;
    let project = std::fs::canonicalize(fixture.project()).expect("a path");
    let words = format!("here={} [] xterm-256color", project.display());
    for client in [&mut one, &mut other] {
        let lines = client.until_shown("[] xterm-256color").await;
        let text: String = lines.lines.values().cloned().collect();
        assert!(text.contains(&words), "{text}");
    }
    // Frames that are none are ignored.
    for nonsense in ["{", "{\"frame\":\"x\"}", "{\"frame\":\"resize\",\"columns\":-4}"] {
        let message = Message::text(nonsense);
        futures_util::SinkExt::send(&mut one.socket, message).await.expect("it listens");
    }
    one.type_in("i=0; while [ $i -lt 500 ]; do i=$((i+1)); echo \"line $i\"; done\r").await;
    let shown = one.until_shown("line 500").await;
    let oldest = shown.screen["oldest"].as_u64().expect("a number");
    one.send(json!({ "frame": "scrollback", "from": oldest, "count": 9999 })).await;
    let page = one.until_frame("scrollback").await;
    let mut lines = Lines::default();
    lines.apply(&page);
    assert!(lines.has("line 1") && lines.lines.len() <= 500, "{}", lines.lines.len());
    drop(one);
    drop(other);
    let mut late = server.follow(&follow).await;
    late.until_shown("line 500").await;
    let path = format!("/sessions/{session}/terminals");
    for time in 0..3 {
        late.type_in("exit 5\r").await;
        assert_eq!(late.until_frame("closed").await["exit"], json!({ "code": 5 }));
        let listed = server.get(&path).await;
        assert_eq!(listed["terminals"][0]["ended"]["code"], 5, "{listed}");
        assert_eq!(server.post(&path, json!({ "again": 1 })).await.0, 201);
        // At once, before the new shell is shown.
        late.type_in(&format!("echo aga''in{time}\r")).await;
        late.until_shown(&format!("again{time}")).await;
    }
    assert_eq!(server.post(&path, json!({ "again": 1 })).await.0, 409, "it still runs");
    assert_eq!(server.ask(Method::DELETE, &format!("{path}/1"), None).await.status(), 204);
    // The shell ends, and then the terminal is gone.
    while late.until_frame("closed").await["exit"] != Value::Null {}
    assert_eq!(server.ask(Method::DELETE, &format!("{path}/1"), None).await.status(), 404);
}

#[tokio::test]
async fn shells_end_with_their_session_and_with_the_server() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let mut server = fixture.serve_shells(&[]).await;
    let is_alive = |process: &str| std::path::Path::new("/proc").join(process).exists();
    let start = async |server: &TestServer| {
        let session = server.session(&fixture).await;
        let follow = server.terminal(&session).await;
        let mut client = server.follow(&follow).await;
        client.type_in("sh -c 'trap \"\" HUP; echo process=$$=; sleep 1000'\r").await;
        let pattern = |text: &String| {
            let number = text.split("process=").nth(1)?.split('=').next()?.to_owned();
            number.parse::<u32>().is_ok().then_some(number)
        };
        let mut lines = Lines::default();
        let wait = async {
            loop {
                lines.apply(&client.next().await);
                if let Some(number) = lines.lines.values().find_map(pattern) {
                    return number;
                }
            }
        };
        (session, timeout(TIMEOUT, wait).await.expect("a process"))
    };
    let gone = async |process: &str| {
        let wait = async {
            while is_alive(process) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(TIMEOUT, wait).await.unwrap_or_else(|_| panic!("{process} still runs"));
    };
    let (session, first) = start(&server).await;
    let (_, second) = start(&server).await;
    assert!(is_alive(&first) && is_alive(&second));
    let deleted = server.ask(Method::DELETE, &format!("/sessions/{session}"), None).await;
    assert_eq!(deleted.status(), 204);
    gone(&first).await;
    assert!(is_alive(&second));
    let stopped = fixture.command(&["--stop"]).output().expect("it runs");
    assert_eq!(stopped.status.code(), Some(0));
    timeout(TIMEOUT, server.child.wait()).await.expect("in time").expect("it ended");
    gone(&second).await;
}

#[tokio::test]
async fn a_flood_neither_grows_the_server_nor_holds_up_others() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve_shells(&[]).await;
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
    let began = std::time::Instant::now();
    server.get("/sessions").await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    if let (Some(before), Some(after)) = (before, memory()) {
        assert!(after < before + 16_000, "{before} kB before, {after} kB after");
    }
    drop(stalled);
    client.type_in("\u{3}").await;
    client.type_in("echo o''ver\r").await;
    client.until_shown("over").await;
}
