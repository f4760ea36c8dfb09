//! A server with its environment, and clients.

use std::collections::BTreeMap;
use std::process::Command;

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use uuid::Uuid;

use crate::environment::ServerProcess;
pub(crate) use crate::environment::{TIMEOUT, TestEnvironment as Fixture};

/// A running server.
pub(crate) struct TestServer {
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) child: Child,
    _stdout: BufReader<ChildStdout>,
    pub(crate) http: Client,
    /// What it printed when it was ready.
    pub(crate) ready: Value,
}

impl Fixture {
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.program(&[&["serve"], arguments].concat())
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
        let ServerProcess { child, ready, _stdout: stdout } = self.spawn(command).await;
        let text = |key: &str| ready[key].as_str().expect("a string").to_owned();
        let (url, token) = (text("url"), text("token"));
        let http = test_support::http_client();
        TestServer { url, token, child, _stdout: stdout, http, ready }
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
