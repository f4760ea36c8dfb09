//! Push messages, received and decrypted by a double of a push service.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use test_support::push_service::{PushDevice, PushService};

use crate::fixture::{Fixture, TestServer};

/// Push services on this machine are allowed.
const HERE: &str = "--allow-private-push";

impl TestServer {
    async fn push_key(&self) -> String {
        self.get("/me").await["push"]["key"].as_str().expect("a key").to_owned()
    }

    /// Subscribes a browser of the client with this token; the status.
    async fn subscribe(&self, token: &str, device: &PushDevice) -> u16 {
        self.push(Method::PUT, "subscriptions", token, &subscription(device)).await
    }

    async fn push(&self, method: Method, path: &str, token: &str, body: &Value) -> u16 {
        let url = format!("{}/api/v1/push/{path}", self.url);
        let request = self.http.request(method, url).bearer_auth(token).json(body);
        status(request).await
    }

    async fn new_token(&self, name: &str, role: &str) -> String {
        let (status, made) = self.post("/tokens", json!({ "name": name, "role": role })).await;
        assert_eq!(status, 201, "{made}");
        assert_eq!(made["qr"], Value::Null, "a program gets no picture");
        made["token"].as_str().expect("a token").to_owned()
    }
}

fn subscription(device: &PushDevice) -> Value {
    let keys = json!({ "p256dh": device.p256dh, "auth": device.auth });
    json!({ "endpoint": device.endpoint, "keys": keys, "expirationTime": null })
}

async fn status(request: RequestBuilder) -> u16 {
    let answer = request.send().await.expect("an answer");
    let status = answer.status();
    if status.is_client_error() {
        assert_eq!(answer.headers()["content-type"], "application/problem+json");
    }
    status.as_u16()
}

fn run(command: &str) -> String {
    format!("api tool Bash {}\n", json!({ "command": command }))
}

#[tokio::test]
async fn a_request_is_pushed_with_its_buttons_and_closed_when_it_is_answered_elsewhere() {
    let long = format!("touch {}", "x".repeat(500));
    let replies = format!("{}api text \"Done.\"\n{}api text \"Done.\"", run("touch a"), run(&long));
    let fixture = Fixture::new(&replies).await;
    let service = PushService::start().await;
    let server = fixture.serve_with(&[HERE]).await;
    let key = server.push_key().await;
    let watcher = server.new_token("wall", "watch").await;
    let (mine, theirs) = (service.subscribe(&key), service.subscribe(&key));
    assert_eq!(server.subscribe(&server.token, &mine).await, 204);
    assert_eq!(server.subscribe(&watcher, &theirs).await, 204);
    let session = server.session(&fixture).await;
    server.prompt(&session, "go").await;
    let message = service.next(&mine).await;
    assert_eq!(
        (message.urgency.as_str(), message.topic.as_deref().map(str::len)),
        ("high", Some(32))
    );
    let request = message.json();
    assert_eq!((&request["kind"], &request["body"]), (&json!("request"), &json!("Run: touch a")));
    assert_eq!((&request["title"], &request["waiting"]), (&json!("go needs you"), &json!(1)));
    assert_eq!(request["actions"], json!(["allow", "deny"]));
    assert_eq!(request["session"], session);
    let shown = service.next(&theirs).await.json();
    assert_eq!(shown["actions"], Value::Null, "who only watches has nothing to answer");
    // The answer is what the service worker sends.
    let id = request["request"].as_str().expect("an id");
    let path = format!("/sessions/{session}/requests/{id}");
    assert_eq!(server.post(&path, json!({ "decision": "allow" })).await.0, 200);
    for device in [&mine, &theirs] {
        let resolved = service.next(device).await.json();
        assert_eq!((&resolved["kind"], &resolved["waiting"]), (&json!("resolved"), &json!(0)));
        assert_eq!(resolved["session"], session);
    }
    // The next one does not fit into a notification.
    server.prompt(&session, "again").await;
    let request = service.next(&mine).await.json();
    assert_eq!(request["actions"], json!(["deny"]), "{request}");
    assert!(request["body"].as_str().expect("text").ends_with("x…"), "{request}");
    assert_eq!(service.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn no_message_is_sent_while_a_page_of_the_user_is_visible() {
    let replies = [run("touch a"), run("touch b"), run("touch c")].concat();
    let fixture = Fixture::new(&replies).await;
    let service = PushService::start().await;
    let server = fixture.serve_with(&[HERE]).await;
    let key = server.push_key().await;
    let other = server.new_token("bob", "drive").await;
    let (mine, bobs) = (service.subscribe(&key), service.subscribe(&key));
    assert_eq!(server.subscribe(&server.token, &mine).await, 204);
    assert_eq!(server.subscribe(&other, &bobs).await, 204);
    let mut page = server.follow("/follow").await;
    page.next().await;
    page.send(json!({ "frame": "visibility", "visible": true })).await;
    let asked = async |session: &str| {
        let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
        client.until(|page| page.snapshots > 0 && !page.requests().is_empty()).await;
    };
    let first = server.session(&fixture).await;
    server.prompt(&first, "first").await;
    asked(&first).await;
    assert_eq!(service.next(&bobs).await.json()["session"], first, "Bob does not look");
    page.send(json!({ "frame": "visibility", "visible": false })).await;
    page.send(json!({ "frame": "nonsense" })).await;
    // The server reads what a page sends before it has news for it.
    let second = server.session(&fixture).await;
    loop {
        if page.next().await["session"]["id"] == second.as_str() {
            break;
        }
    }
    server.prompt(&second, "second").await;
    let message = service.next(&mine).await.json();
    assert_eq!(message["session"], second, "the first was seen: {message}");
    // A page that is gone counts as not visible.
    page.send(json!({ "frame": "visibility", "visible": true })).await;
    drop(page);
    let third = server.session(&fixture).await;
    server.prompt(&third, "third").await;
    assert_eq!(service.next(&mine).await.json()["session"], third);
}

#[tokio::test]
async fn the_end_of_a_long_turn_and_every_failure_are_pushed() {
    let replies = "api text \"Done.\"\napi error 400 invalid_request_error \"too long\"";
    let fixture = Fixture::new(replies).await;
    let service = PushService::start().await;
    let mut server = fixture.serve_with(&[HERE, "--notify-after", "0"]).await;
    let mine = service.subscribe(&server.push_key().await);
    // Each start makes a new link, which ends what was subscribed with the old one.
    let token = server.new_token("phone", "watch").await;
    assert_eq!(server.subscribe(&token, &mine).await, 204);
    let session = server.session(&fixture).await;
    server.prompt(&session, "go").await;
    let done = service.next(&mine).await.json();
    assert_eq!((&done["kind"], &done["title"]), (&json!("turn"), &json!("go is done")));
    assert!(!done.to_string().contains("Done."), "what the agent said stays here: {done}");
    server.child.kill().await.expect("it can be killed");
    // The default is half a minute. Failures are pushed however soon they come: a turn that failed,
    // and an agent that could not be started.
    let server = fixture.serve_with(&[HERE]).await;
    server.prompt(&session, "go on").await;
    let failed = service.next(&mine).await.json();
    assert_eq!((&failed["kind"], &failed["title"]), (&json!("turn"), &json!("go failed")));
    fixture.set_agent("#!/bin/sh\nexit 3\n");
    let broken = server.session(&fixture).await;
    server.prompt(&broken, "start").await;
    let failed = service.next(&mine).await.json();
    assert_eq!((&failed["kind"], &failed["title"]), (&json!("turn"), &json!("start failed")));
    assert_eq!(failed["session"], broken);
}

#[tokio::test]
async fn a_spent_budget_is_pushed_and_closed_when_someone_goes_on() {
    let fixture = Fixture::new("api text \"Done.\"\napi text \"Done.\"").await;
    let service = PushService::start().await;
    let server = fixture.serve_with(&[HERE]).await;
    let mine = service.subscribe(&server.push_key().await);
    assert_eq!(server.subscribe(&server.token, &mine).await, 204);
    let new = json!({ "cwd": fixture.project(), "title": "Cart", "budget_usd": 0.000_001 });
    let (_, made) = server.post("/sessions", new).await;
    let session = made["id"].as_str().expect("an id");
    server.prompt(session, "go").await;
    server.prompt(session, "go on").await;
    let asks = service.next(&mine).await.json();
    assert_eq!((&asks["kind"], &asks["title"]), (&json!("budget"), &json!("Cart waits")));
    let body = asks["body"].as_str().expect("a text");
    assert!(body.starts_with('$') && body.ends_with("spent. Go on?"), "{body}");
    assert_eq!((&asks["session"], &asks["actions"]), (&json!(session), &Value::Null));
    assert_eq!(server.post(&format!("/sessions/{session}/queue/resume"), json!({})).await.0, 204);
    assert_eq!(service.next(&mine).await.json()["kind"], "resolved");
}

#[tokio::test]
async fn subscriptions_survive_a_restart_and_end_with_their_token() {
    let fixture = Fixture::new(&[run("touch a"), run("touch b"), run("touch c")].concat()).await;
    let service = PushService::start().await;
    let mut server = fixture.serve_with(&[HERE]).await;
    let key = server.push_key().await;
    let token = server.new_token("phone", "drive").await;
    let (kept, gone) = (service.subscribe(&key), service.subscribe(&key));
    assert_eq!(server.subscribe(&token, &kept).await, 204);
    assert_eq!(server.subscribe(&token, &gone).await, 204);
    server.child.kill().await.expect("it can be killed");
    server = fixture.serve_with(&[HERE]).await;
    assert_eq!(server.push_key().await, key, "browsers are bound to the key");
    let file = fixture.path("data/push.json");
    let read = || std::fs::read_to_string(&file).expect("a file");
    // The push service says that one of them is gone.
    service.unsubscribe(&gone);
    let session = server.session(&fixture).await;
    server.prompt(&session, "go").await;
    assert_eq!(service.next(&kept).await.json()["session"], session);
    wait_until(|| !read().contains(&gone.endpoint)).await;
    assert!(read().contains(&kept.endpoint));
    // Trying it out works with visible pages too, for its own client only.
    let endpoint = json!({ "endpoint": kept.endpoint });
    assert_eq!(server.push(Method::POST, "test", &token, &endpoint).await, 202);
    assert_eq!(service.next(&kept).await.json()["kind"], "test");
    assert_eq!(server.push(Method::POST, "test", &server.token, &endpoint).await, 409);
    let revoked = fixture.command(&["tokens", "revoke", "phone"]).output().expect("it runs");
    assert_eq!(revoked.status.code(), Some(0));
    wait_until(|| !read().contains(&kept.endpoint)).await;
    let mine = service.subscribe(&key);
    assert_eq!(server.subscribe(&server.token, &mine).await, 204);
    let session = server.session(&fixture).await;
    server.prompt(&session, "go").await;
    assert_eq!(service.next(&mine).await.json()["session"], session);
    assert!(service.try_next(&kept).is_none(), "its token was revoked");
    let mode = std::os::unix::fs::PermissionsExt::mode;
    for name in ["data/push.json", "data/push.key"] {
        let permissions = std::fs::metadata(fixture.path(name)).expect("a file").permissions();
        assert_eq!(mode(&permissions) & 0o777, 0o600, "{name}");
    }
    assert!(!fixture.log().contains(&mine.endpoint), "an endpoint is a secret");
}

async fn wait_until(holds: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + crate::fixture::TIMEOUT;
    while !holds() {
        assert!(tokio::time::Instant::now() < deadline, "it did not happen");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn nobody_makes_the_server_send_requests_into_its_network_or_takes_over_a_subscription() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve().await;
    let service = PushService::start().await;
    let device = service.subscribe(&server.push_key().await);
    let with = |endpoint: &str| {
        let mut body = subscription(&device);
        body["endpoint"] = json!(endpoint);
        body
    };
    let put = async |token: &str, body: &Value| {
        server.push(Method::PUT, "subscriptions", token, body).await
    };
    for endpoint in [
        device.endpoint.as_str(),
        "http://127.0.0.1:80/x",
        "https://127.0.0.1/x",
        "https://localhost/x",
        "https://[::1]/x",
        "https://169.254.169.254/latest/meta-data",
        "https://10.0.0.1/x",
        "https://router/x",
        "http://push.example.com/x",
        "file:///etc/passwd",
        "https://user:secret@push.example.com/x",
        "nonsense",
        "",
    ] {
        assert_eq!(put(&server.token, &with(endpoint)).await, 400, "{endpoint}");
    }
    let public = "https://push.example.com/mine";
    let watcher = server.new_token("wall", "watch").await;
    assert_eq!(put("nonsense", &with(public)).await, 401);
    assert_eq!(put(&watcher, &with(public)).await, 204, "who watches may be notified");
    // Another client neither replaces it, nor removes it, nor sends to it.
    let mut other_keys = with(public);
    other_keys["keys"]["auth"] = json!("AAAAAAAAAAAAAAAAAAAAAA");
    assert_eq!(put(&server.token, &other_keys).await, 409);
    let endpoint = json!({ "endpoint": public });
    let remove =
        async |token: &str| server.push(Method::DELETE, "subscriptions", token, &endpoint).await;
    assert_eq!(remove(&server.token).await, 409);
    assert_eq!(server.push(Method::POST, "test", &server.token, &endpoint).await, 409);
    assert_eq!(remove(&watcher).await, 204);
    assert_eq!(remove(&watcher).await, 409);
    let mut keys = with(public);
    for broken in ["", "!", "AAAA", device.auth.as_str()] {
        keys["keys"]["p256dh"] = json!(broken);
        assert_eq!(put(&server.token, &keys).await, 400, "{broken}");
    }
    let huge = with(&format!("https://push.example.com/{}", "x".repeat(1 << 20)));
    assert_eq!(put(&server.token, &huge).await, 413);
    let url = format!("{}/api/v1/push/subscriptions", server.url);
    let foreign = server.http.put(&url).bearer_auth(&server.token).json(&with(public));
    assert_eq!(status(foreign.header("origin", "https://evil.example")).await, 403);
    assert_eq!(service.request_count(), 0);
}

#[tokio::test]
async fn a_page_gets_a_picture_of_the_link_unless_only_this_machine_could_open_it() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve_with(&["--host", "box.example.com"]).await;
    let create = async |name: &str, host: &str, origin: &str| {
        let request = server.http.post(format!("{}/api/v1/tokens", server.url));
        let request = request.bearer_auth(&server.token).header("host", host);
        let request = request.header("origin", origin);
        let made = request.json(&json!({ "name": name, "role": "drive" })).send().await;
        let made = made.expect("an answer");
        assert_eq!(made.status(), 201);
        made.json::<Value>().await.expect("JSON")
    };
    let made = create("phone", "box.example.com", "https://box.example.com").await;
    let picture = made["qr"].as_str().expect("a picture");
    assert!(picture.starts_with("<svg") && !picture.contains(made["token"].as_str().expect("one")));
    let here = server.address().to_owned();
    let made = create("here", &here, &server.url).await;
    assert_eq!(made["qr"], Value::Null, "a phone cannot open {here}");
}
