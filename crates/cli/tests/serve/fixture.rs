//! A server with its environment, and clients.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::api::{ApiOptions, ApiScript, ApiServer};
use testbed::scenario::Scenario;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use uuid::Uuid;

/// Longer than anything takes on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// The environment of a server: directories, and a scripted API.
pub(crate) struct Fixture {
    root: TempDir,
    pub(crate) api: ApiServer,
}

/// A running server.
pub(crate) struct TestServer {
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) child: Child,
    _stdout: BufReader<ChildStdout>,
    pub(crate) http: Client,
}

impl Fixture {
    /// An environment whose model answers with the `replies` of a scenario.
    pub(crate) async fn new(replies: &str) -> Self {
        let root = tempfile::tempdir().expect("a directory");
        for name in ["data", "project", "home", "tmp"] {
            std::fs::create_dir(root.path().join(name)).expect("a directory");
        }
        let project = root.path().join("project").display().to_string();
        let replies = replies.replace("$cwd", &project);
        let text = format!("# A server\n\n{replies}\n> user \"a scenario needs a step\"\n");
        let scenario = Scenario::parse("serve", &text).unwrap_or_else(|error| panic!("{error}"));
        let script = ApiScript::from_scenario(&scenario).expect("no recording among the replies");
        let api = ApiServer::start(script, ApiOptions::default()).await.expect("a port");
        let agent = root.path().join("agent");
        let line = format!("#!/bin/sh\nexec '{}' play \"$@\"\n", env!("CARGO_BIN_EXE_towpath"));
        std::fs::write(&agent, line).expect("a script");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&agent, executable).expect("a script that can be run");
        Self { root, api }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn project(&self) -> String {
        self.path("project").display().to_string()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
        command.arg("serve").args(arguments);
        command.env("TOWPATH_DATA", self.path("data")).env("HOME", self.path("home"));
        command.env("XDG_RUNTIME_DIR", self.path("tmp")).env("TMPDIR", self.path("tmp"));
        command.env("ANTHROPIC_BASE_URL", &self.api.url).env("ANTHROPIC_API_KEY", "sk-dummy");
        command.current_dir(self.path("project"));
        command
    }

    pub(crate) async fn serve(&self) -> TestServer {
        self.serve_with(&[]).await
    }

    pub(crate) async fn serve_with(&self, more: &[&str]) -> TestServer {
        let (agent, project) = (self.path("agent").display().to_string(), self.project());
        let mut arguments = vec!["--claude", &agent, "--root", &project];
        arguments.extend(more);
        self.start(self.command(&arguments)).await
    }

    /// Starts a server with a command whose output is not decided yet.
    pub(crate) async fn start(&self, mut command: Command) -> TestServer {
        command.args(["--listen", "127.0.0.1:0", "--json"]);
        let log = std::fs::File::options().create(true).append(true).open(self.path("log"));
        command.stdout(Stdio::piped()).stderr(log.expect("a log")).stdin(Stdio::null());
        let mut command = tokio::process::Command::from(command);
        let mut child = command.kill_on_drop(true).spawn().expect("the binary starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        let read = timeout(TIMEOUT, stdout.read_line(&mut line)).await;
        assert!(matches!(read, Ok(Ok(1..))), "no ready line: {}", self.log());
        let ready: Value = serde_json::from_str(&line).expect("a line of JSON");
        let text = |key: &str| ready[key].as_str().expect("a string").to_owned();
        let (url, token) = (text("url"), text("token"));
        let http = test_support::http_client();
        TestServer { url, token, child, _stdout: stdout, http }
    }

    pub(crate) fn log(&self) -> String {
        let mut text = String::new();
        if let Ok(mut file) = std::fs::File::open(self.path("log")) {
            file.read_to_string(&mut text).expect("a log");
        }
        text
    }
}

/// Agents outlive their server, but not the fixture. The first command may only find a server that is
/// being killed; the second finds the agents it left.
impl Drop for Fixture {
    fn drop(&mut self) {
        for _ in 0..2 {
            let _ = self.command(&["--stop"]).output();
        }
    }
}

impl TestServer {
    /// The address without `http://`.
    pub(crate) fn address(&self) -> &str {
        self.url.strip_prefix("http://").expect("http")
    }

    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Response {
        let url = format!("{}/api/v1{path}", self.url);
        let mut request = self.http.request(method, url).bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        timeout(TIMEOUT, request.send()).await.expect("in time").expect("an answer")
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let response = self.ask(Method::GET, path, None).await;
        assert_eq!(response.status(), 200, "{path}");
        response.json().await.expect("JSON")
    }

    /// Posts, and returns the status and the body.
    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let response = self.ask(Method::POST, path, Some(body)).await;
        (response.status().as_u16(), response.json().await.unwrap_or_default())
    }

    /// A session in the project.
    pub(crate) async fn session(&self, fixture: &Fixture) -> String {
        let (status, made) = self.post("/sessions", json!({ "cwd": fixture.project() })).await;
        assert_eq!(status, 201, "{made}");
        made["id"].as_str().expect("an id").to_owned()
    }

    pub(crate) async fn prompt(&self, session: &str, text: &str) {
        let prompt = json!({ "id": Uuid::new_v4(), "text": text });
        let (status, taken) = self.post(&format!("/sessions/{session}/prompts"), prompt).await;
        assert_eq!(status, 202, "{taken}");
    }

    pub(crate) async fn follow(&self, path: &str) -> TestClient {
        self.follow_with(path, &self.token).await
    }

    pub(crate) async fn follow_with(&self, path: &str, token: &str) -> TestClient {
        let mut request =
            format!("ws://{}/api/v1{path}", self.address()).into_client_request().expect("a URL");
        let bearer = format!("Bearer {token}").parse().expect("a header");
        request.headers_mut().insert("authorization", bearer);
        let (socket, _) = tokio_tungstenite::connect_async(request).await.expect("a WebSocket");
        TestClient { socket, page: Page::default() }
    }
}

/// A client that applies frames as the page does.
pub(crate) struct TestClient {
    pub(crate) socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    pub(crate) page: Page,
}

/// The state of a page.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Page {
    pub(crate) revision: u64,
    pub(crate) snapshots: usize,
    pub(crate) frames: usize,
    pub(crate) items: BTreeMap<String, Value>,
    pub(crate) parts: BTreeMap<String, Value>,
}

impl TestClient {
    /// Applies and returns the next frame that is not a heartbeat.
    pub(crate) async fn next(&mut self) -> Value {
        loop {
            let message = timeout(TIMEOUT, self.socket.next()).await;
            let message = message.expect("a frame in time").expect("no end").expect("a frame");
            let Message::Text(text) = message else { continue };
            let frame: Value = serde_json::from_str(&text).expect("JSON");
            if frame["frame"] != "heartbeat" {
                self.page.apply(&frame);
                return frame;
            }
        }
    }

    /// Follows until the page satisfies a condition.
    pub(crate) async fn until(&mut self, wanted: impl Fn(&Page) -> bool) {
        while !wanted(&self.page) {
            let came = timeout(TIMEOUT, self.next()).await;
            assert!(came.is_ok(), "it did not happen: {:#?}", self.page);
        }
    }

    pub(crate) async fn send(&mut self, frame: Value) {
        self.socket.send(Message::text(frame.to_string())).await.expect("the server listens");
    }
}

impl Page {
    fn apply(&mut self, frame: &Value) {
        self.frames += 1;
        match frame["frame"].as_str() {
            Some("snapshot") => {
                self.snapshots += 1;
                self.revision = frame["revision"].as_u64().expect("a revision");
                self.items.clear();
                for item in frame["items"].as_array().expect("items") {
                    self.put(item);
                }
                for part in ["head", "status", "queue", "requests", "todos", "usage"] {
                    self.parts.insert(part.to_owned(), frame[part].clone());
                }
            }
            Some("update") => {
                let (from, to) =
                    (frame["from"].as_u64(), frame["to"].as_u64().expect("a revision"));
                assert!(from <= Some(self.revision), "a gap: {frame}");
                for patch in frame["patches"].as_array().expect("patches") {
                    self.patch(patch);
                }
                self.revision = to;
            }
            _ => {}
        }
    }

    fn patch(&mut self, patch: &Value) {
        let name = patch["patch"].as_str().expect("a name");
        match name {
            "item" => self.put(&patch["item"]),
            "append" => {
                let item =
                    self.items.get_mut(patch["id"].as_str().expect("an id")).expect("a known item");
                let length = item["stable_length"].as_u64().expect("a length");
                assert_eq!(Some(length), patch["offset"].as_u64(), "{patch}");
                let more = patch["html"].as_str().expect("HTML");
                let html = item["html"].as_str().expect("HTML");
                let (head, old) =
                    html.split_once("</div><div class=\"tail\">").expect("both parts");
                let tail = if old.contains("</details>") {
                    "</div></div></details></div>"
                } else {
                    "</div></div>"
                };
                let rest = patch["tail"].as_str().expect("HTML");
                let html = format!("{head}{more}</div><div class=\"tail\">{rest}{tail}");
                item["html"] = json!(html);
                item["stable_length"] = json!(length + more.encode_utf16().count() as u64);
                item["rev"] = patch["rev"].clone();
            }
            "removed" => drop(self.items.remove(patch["id"].as_str().expect("an id"))),
            "turn" => {}
            part => drop(self.parts.insert(part.to_owned(), patch[part].clone())),
        }
    }

    fn put(&mut self, item: &Value) {
        let id = item["id"].as_str().expect("an id").to_owned();
        let known =
            self.items.get(&id).is_some_and(|it| it["rev"].as_u64() >= item["rev"].as_u64());
        if !known {
            self.items.insert(id, item.clone());
        }
    }

    /// The HTML of all items in order.
    pub(crate) fn html(&self) -> String {
        let mut items: Vec<&Value> = self.items.values().collect();
        items.sort_by_key(|it| (it["position"][0].as_u64(), it["position"][1].as_u64()));
        items.iter().map(|it| it["html"].as_str().expect("HTML")).collect()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.parts["status"]["phase"]["kind"] == "idle"
    }

    pub(crate) fn contains(&self, words: &str) -> bool {
        self.html().contains(words)
    }

    pub(crate) fn requests(&self) -> &[Value] {
        self.parts["requests"].as_array().expect("requests")
    }
}
