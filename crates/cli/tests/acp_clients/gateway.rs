//! `/acp` of `towpath serve`: the protocol over a WebSocket, and what strangers can do with it.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::client::text_of;
use crate::conversations::replies;
use crate::environment::{ServerProcess, TIMEOUT};
use crate::fixture::Fixture;
use crate::programs;

/// The largest message and the number of clients that the server allows.
const MAX_MESSAGE_BYTES: usize = 4 << 20;
const MAX_CLIENTS: usize = 16;

/// A server, and its main token.
pub(crate) struct Server {
    pub(crate) process: ServerProcess,
    address: String,
    pub(crate) token: String,
}

impl Server {
    async fn start(fixture: &Fixture) -> Self {
        let (agent, project) = (fixture.path("agent").display().to_string(), fixture.project());
        Self::start_with(fixture, &["--claude", &agent, "--root", &project]).await
    }

    pub(crate) async fn start_with(fixture: &Fixture, arguments: &[&str]) -> Self {
        let mut command = fixture.program(&[&["serve"], arguments].concat());
        command.args(["--listen", "127.0.0.1:0", "--json"]);
        let process = fixture.spawn(command).await;
        let text = |key: &str| process.ready[key].as_str().expect("a string").to_owned();
        let address = text("url").strip_prefix("http://").expect("http").to_owned();
        Self { address, token: text("token"), process }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}/acp", self.address)
    }

    /// A token with a role.
    pub(crate) async fn token(&self, name: &str, role: &str) -> String {
        let url = format!("http://{}/api/v1/tokens", self.address);
        let request = test_support::http_client().post(url).bearer_auth(&self.token);
        let made = request.json(&json!({ "name": name, "role": role })).send().await;
        let made: Value = made.expect("an answer").json().await.expect("JSON");
        made["token"].as_str().expect("a token").to_owned()
    }

    /// Opens a WebSocket with these headers; the status if it is refused.
    async fn open(&self, headers: &[(&'static str, &str)]) -> Result<AcpSocket, u16> {
        let mut request = self.url().into_client_request().expect("a URL");
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().expect("a header"));
        }
        match tokio_tungstenite::connect_async(request).await {
            Ok((socket, response)) => {
                let id = response.headers().get("acp-connection-id").expect("a connection's id");
                assert!(!id.is_empty());
                Ok(AcpSocket { frames: socket, next_id: 1, seen: Vec::new() })
            }
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn connect(&self, token: &str) -> AcpSocket {
        let bearer = format!("Bearer {token}");
        let mut socket = self.open(&[("authorization", &bearer)]).await.expect("a WebSocket");
        let said = socket.call("initialize", json!({ "protocolVersion": 1 })).await;
        assert_eq!(said["result"]["protocolVersion"], 1, "{said}");
        socket
    }
}

/// A client on a WebSocket.
pub(crate) struct AcpSocket {
    pub(crate) frames: WebSocketStream<MaybeTlsStream<TcpStream>>,
    next_id: u64,
    pub(crate) seen: Vec<Value>,
}

impl AcpSocket {
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.frames.send(Message::text(message.to_string())).await.expect("the server reads");
        id
    }

    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            let message = timeout(TIMEOUT, self.frames.next()).await.expect("a frame in time");
            match message?.ok()? {
                Message::Text(text) => {
                    let message: Value = serde_json::from_str(&text).expect("JSON");
                    self.seen.push(message.clone());
                    return Some(message);
                }
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }

    pub(crate) async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next().await.expect("no end");
            if wanted(&message) {
                return message;
            }
        }
    }

    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        self.until(|it| it["id"] == id && it["method"].is_null()).await
    }

    /// Reads until the server closes the connection.
    pub(crate) async fn closed(&mut self) {
        while self.next().await.is_some() {}
    }
}

#[tokio::test]
async fn the_typescript_sdk_drives_sessions_over_a_websocket() {
    let Some(node) = programs::node() else { return };
    let fixture = Fixture::new(&replies()).await;
    let server = Server::start(&fixture).await;
    for (script, cases) in [
        ("sdk-v1.mjs", &["text", "allow", "deny", "load", "queue"][..]),
        ("sdk-v2.mjs", &["text", "allow", "cancel", "resume"][..]),
    ] {
        let mut client = node.script(script);
        client.args(cases).env("ACP_URL", server.url()).env("ACP_TOKEN", &server.token);
        fixture.run_client(client).await.succeeded();
    }
}

#[tokio::test]
async fn a_session_goes_on_after_the_server_was_killed() {
    let fixture = Fixture::new("api text \"one two three four\" hold gate after 2").await;
    let mut server = Server::start(&fixture).await;
    let cwd = fixture.project();
    let mut client = server.connect(&server.token).await;
    let made = client.call("session/new", json!({ "cwd": cwd, "mcpServers": [] })).await;
    let session = made["result"]["sessionId"].as_str().expect("an id").to_owned();
    let prompt = json!([{ "type": "text", "text": "count" }]);
    client.request("session/prompt", json!({ "sessionId": session, "prompt": prompt })).await;
    client
        .until(|it| text_of(it, "agent_message_chunk").is_some_and(|it| it.contains("two")))
        .await;
    server.process.child.kill().await.expect("it runs");
    client.closed().await;
    fixture.api.open("gate");
    let server = Server::start(&fixture).await;
    let mut client = server.connect(&server.token).await;
    let load = json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
    client.call("session/load", load).await;
    let text = |client: &AcpSocket| -> String {
        client.seen.iter().filter_map(|it| text_of(it, "agent_message_chunk")).collect()
    };
    while text(&client) != "one two three four" {
        client.next().await.expect("more text");
    }
    assert_eq!(fixture.model_requests().len(), 1);
}

#[tokio::test]
async fn strangers_and_pages_of_other_origins_cannot_connect() {
    let fixture = Fixture::new("api text \"Hello\"").await;
    let server = Server::start(&fixture).await;
    assert_eq!(server.open(&[]).await.err(), Some(401));
    assert_eq!(server.open(&[("authorization", "Bearer nonsense")]).await.err(), Some(401));
    let bearer = format!("Bearer {}", server.token);
    let foreign = [("authorization", bearer.as_str()), ("origin", "http://evil.example")];
    assert_eq!(server.open(&foreign).await.err(), Some(403));
    let rebound = [("authorization", bearer.as_str()), ("host", "evil.example")];
    assert_eq!(server.open(&rebound).await.err(), Some(421));
    // A browser that is signed in sends its cookie to every page; our own page names its origin.
    let http = test_support::http_client();
    let url = format!("http://{}", server.address);
    let sign_in = http.post(format!("{url}/api/v1/sign-in")).header("origin", &url);
    let signed_in =
        sign_in.json(&json!({ "token": server.token })).send().await.expect("an answer");
    let cookie = signed_in.headers()["set-cookie"].to_str().expect("text");
    let cookie = cookie.split(';').next().expect("a cookie");
    assert_eq!(server.open(&[("cookie", cookie)]).await.err(), Some(403));
    let foreign = [("cookie", cookie), ("origin", "http://evil.example")];
    assert_eq!(server.open(&foreign).await.err(), Some(403));
    assert!(server.open(&[("cookie", cookie), ("origin", &url)]).await.is_ok());
    // Without an upgrade there is nothing to get.
    let plain = http.get(format!("{url}/acp")).bearer_auth(&server.token).send().await;
    assert!(plain.expect("an answer").status().is_client_error());
}

#[tokio::test]
async fn a_client_that_may_only_watch_sees_everything_and_changes_nothing() {
    let fixture = Fixture::new(&replies()).await;
    let server = Server::start(&fixture).await;
    let token = server.token("wall", "watch").await;
    let cwd = fixture.project();
    let mut driver = server.connect(&server.token).await;
    let made = driver.call("session/new", json!({ "cwd": cwd, "mcpServers": [] })).await;
    let session = made["result"]["sessionId"].as_str().expect("an id").to_owned();
    let mut watcher = server.connect(&token).await;
    let load = json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
    let loaded = watcher.call("session/load", load).await;
    assert!(loaded["error"].is_null(), "{loaded}");

    let text = |text: &str| json!([{ "type": "text", "text": text }]);
    let prompt = json!({ "sessionId": session, "prompt": text("make no file") });
    let server_options = json!([{ "name": "x", "command": "/bin/true", "args": [], "env": [] }]);
    for (method, params) in [
        ("session/prompt", prompt.clone()),
        ("session/new", json!({ "cwd": cwd, "mcpServers": [] })),
        ("session/new", json!({ "cwd": cwd, "mcpServers": server_options })),
        ("session/set_mode", json!({ "sessionId": session, "modeId": "plan" })),
        (
            "session/set_config_option",
            json!({ "sessionId": session, "configId": "mode", "value": "plan" }),
        ),
        ("session/close", json!({ "sessionId": session })),
        ("session/delete", json!({ "sessionId": session })),
        ("_session/steering", json!({ "sessionId": session, "prompt": text("hurry") })),
    ] {
        // Closing only ends what this client has of the session.
        let refused = watcher.call(method, params).await;
        assert!(method == "session/close" || !refused["error"].is_null(), "{method}: {refused}");
    }
    let load = json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
    watcher.call("session/load", load).await;

    let asked_of_driver = driver.request("session/prompt", prompt).await;
    let question = driver.until(|it| it["method"] == "session/request_permission").await;
    // It may not answer, under any id, and a cancellation is not obeyed.
    let allow = json!({ "outcome": { "outcome": "selected", "optionId": question["params"]["options"][0]["optionId"] } });
    for id in [json!(0), json!(1), json!(2), question["id"].clone()] {
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": allow });
        watcher.frames.send(Message::text(answer.to_string())).await.expect("the server reads");
    }
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } });
    watcher.frames.send(Message::text(cancel.to_string())).await.expect("the server reads");
    let listed = watcher.call("session/list", json!({})).await;
    assert!(listed["error"].is_null(), "{listed}");
    assert!(!fixture.path("project/no.made").exists());

    let options = question["params"]["options"].as_array().expect("options");
    let reject = options.iter().find(|it| it["kind"] == "reject_once").expect("an option");
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": reject["optionId"] } });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome });
    driver.frames.send(Message::text(answer.to_string())).await.expect("the server reads");
    let ended = driver.until(|it| it["id"] == asked_of_driver && it["method"].is_null()).await;
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    watcher.until(|it| it["params"]["update"]["status"] == "failed").await;
    assert!(!fixture.path("project/no.made").exists());
    let asked = |it: &Value| it["method"] == "session/request_permission";
    assert!(!watcher.seen.iter().any(asked), "who may not answer is not asked");
}

#[tokio::test]
async fn a_client_without_the_right_to_run_programs_cannot_bring_its_own_mcp_servers() {
    let fixture = Fixture::new("api text \"Hello\"").await;
    let server = Server::start(&fixture).await;
    let token = server.token("phone", "drive").await;
    let mut client = server.connect(&token).await;
    let programs = json!([{ "name": "x", "command": "/bin/true", "args": [], "env": [] }]);
    let params = json!({ "cwd": fixture.project(), "mcpServers": programs });
    let refused = client.call("session/new", params).await;
    assert!(!refused["error"].is_null(), "{refused}");
    let outside = client.call("session/new", json!({ "cwd": "/", "mcpServers": [] })).await;
    assert!(!outside["error"].is_null(), "outside of the roots: {outside}");
    let made =
        client.call("session/new", json!({ "cwd": fixture.project(), "mcpServers": [] })).await;
    assert!(made["error"].is_null(), "{made}");
}

#[tokio::test]
async fn connections_and_messages_are_bounded_and_end_with_their_token() {
    let fixture = Fixture::new("api text \"Hello\"").await;
    let server = Server::start(&fixture).await;
    let token = server.token("laptop", "drive").await;
    let bearer = format!("Bearer {token}");
    let mut sockets = Vec::new();
    for _ in 0..MAX_CLIENTS {
        sockets.push(server.connect(&token).await);
    }
    let headers = [("authorization", bearer.as_str())];
    assert_eq!(server.open(&headers).await.err(), Some(503));
    // A message that is too long ends its connection, and makes room for another one.
    let mut long = sockets.pop().expect("a socket");
    let message = "x".repeat(MAX_MESSAGE_BYTES + 1);
    let _ = long.frames.send(Message::text(message)).await;
    timeout(Duration::from_secs(20), long.closed()).await.expect("it ends");
    let mut again = loop {
        match server.open(&headers).await {
            Ok(socket) => break socket,
            Err(status) => assert_eq!(status, 503),
        }
    };
    assert_eq!(
        again.call("initialize", json!({ "protocolVersion": 1 })).await["result"]["protocolVersion"],
        1
    );
    sockets.push(again);
    let url = format!("http://{}/api/v1/tokens/laptop", server.address);
    let revoked = test_support::http_client().delete(url).bearer_auth(&server.token).send().await;
    assert_eq!(revoked.expect("an answer").status(), 204);
    for mut socket in sockets {
        timeout(Duration::from_secs(20), socket.closed()).await.expect("it ends");
    }
}
