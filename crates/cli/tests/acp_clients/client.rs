//! A client for what the others cannot do: hang up at a chosen moment, be killed, look at each line.

use std::collections::VecDeque;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

use crate::environment::TIMEOUT;
use crate::fixture::Fixture;

/// A connection to an agent.
pub(crate) struct AcpClient<'a> {
    fixture: &'a Fixture,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    next_id: u64,
    sent: Vec<u8>,
    received: Vec<u8>,
    /// Messages that were read while something else was waited for.
    waiting: VecDeque<Value>,
    /// Everything the agent sent.
    pub(crate) seen: Vec<Value>,
}

/// The connection ended.
#[derive(Debug)]
pub(crate) struct Disconnected;

impl<'a> AcpClient<'a> {
    /// Starts `towpath acp` and agrees on a version.
    pub(crate) async fn start(fixture: &'a Fixture) -> Self {
        let mut client = Self::spawn(fixture, fixture.towpath(&["acp"]));
        let id = client.initialize().await.expect("the agent reads");
        client.response(id).await.expect("the agent answers");
        client
    }

    pub(crate) fn spawn(fixture: &'a Fixture, mut command: Command) -> Self {
        let log = std::fs::File::options().create(true).append(true).open(fixture.path("log"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.expect("a log"));
        let mut command = tokio::process::Command::from(command);
        let mut child = command.kill_on_drop(true).spawn().expect("the binary starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let stdin = child.stdin.take();
        Self {
            fixture,
            child,
            stdin,
            stdout,
            next_id: 1,
            sent: Vec::new(),
            received: Vec::new(),
            waiting: VecDeque::new(),
            seen: Vec::new(),
        }
    }

    pub(crate) async fn initialize(&mut self) -> Result<u64, Disconnected> {
        let info = json!({ "name": "test-editor", "version": "1" });
        let params = json!({ "protocolVersion": 1, "clientInfo": info, "clientCapabilities": {} });
        self.request("initialize", params).await
    }

    /// Sends a request and returns its id.
    pub(crate) async fn request(
        &mut self,
        method: &str,
        params: Value,
    ) -> Result<u64, Disconnected> {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await?;
        Ok(id)
    }

    /// Sends a request and waits for its result.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await.expect("the agent reads");
        let response = self.response(id).await.expect("the agent answers");
        assert!(response["error"].is_null(), "{method}: {response}\n{}", self.fixture.log());
        response["result"].clone()
    }

    pub(crate) async fn send(&mut self, message: &Value) -> Result<(), Disconnected> {
        let line = format!("{message}\n");
        self.sent.extend_from_slice(line.as_bytes());
        let stdin = self.stdin.as_mut().ok_or(Disconnected)?;
        stdin.write_all(line.as_bytes()).await.map_err(|_| Disconnected)
    }

    /// Sends something that is no message.
    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.sent.extend_from_slice(bytes);
        let stdin = self.stdin.as_mut().expect("a connection");
        stdin.write_all(bytes).await.expect("the agent reads");
    }

    /// Answers a request of the agent.
    pub(crate) async fn reply(
        &mut self,
        request: &Value,
        result: Value,
    ) -> Result<(), Disconnected> {
        self.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await
    }

    /// Chooses the first option of a kind.
    pub(crate) async fn choose(&mut self, request: &Value, kind: &str) -> Result<(), Disconnected> {
        let options = request["params"]["options"].as_array().expect("options");
        let option = options.iter().find(|it| it["kind"] == kind);
        let option = &option.unwrap_or_else(|| panic!("no {kind}: {request}"))["optionId"];
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
        self.reply(request, outcome).await
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Result<Value, Disconnected> {
        if let Some(message) = self.waiting.pop_front() {
            return Ok(message);
        }
        let read = timeout(TIMEOUT, self.stdout.next_line()).await;
        let read = read.unwrap_or_else(|_| {
            let last: Vec<_> = self.seen.iter().rev().take(5).map(ToString::to_string).collect();
            panic!("the agent is silent; last:\n{}\n{}", last.join("\n"), self.fixture.log())
        });
        let line = read.ok().flatten().ok_or(Disconnected)?;
        self.received.extend_from_slice(line.as_bytes());
        self.received.push(b'\n');
        let message: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("not a line of the protocol: {error}: {line}"));
        self.seen.push(message.clone());
        Ok(message)
    }

    /// Reads until a message matches.
    pub(crate) async fn until(
        &mut self,
        mut wanted: impl FnMut(&Value) -> bool,
    ) -> Result<Value, Disconnected> {
        let mut skipped = VecDeque::new();
        loop {
            let message = self.next().await?;
            if wanted(&message) {
                skipped.append(&mut self.waiting);
                self.waiting = skipped;
                return Ok(message);
            }
            skipped.push_back(message);
        }
    }

    /// Waits for the response to a request.
    pub(crate) async fn response(&mut self, id: u64) -> Result<Value, Disconnected> {
        self.until(|it| it["id"] == id && it["method"].is_null()).await
    }

    /// Waits until the agent asks.
    pub(crate) async fn permission(&mut self) -> Result<Value, Disconnected> {
        self.until(|it| it["method"] == "session/request_permission").await
    }

    /// Waits until the text that the agent has written contains some words.
    pub(crate) async fn text_with(&mut self, words: &str) {
        let mut text = self.text("agent_message_chunk");
        while !text.contains(words) {
            self.until(|it| text_of(it, "agent_message_chunk").is_some()).await.expect("more text");
            text = self.text("agent_message_chunk");
        }
    }

    /// The text of all updates of a kind so far.
    pub(crate) fn text(&self, kind: &str) -> String {
        self.seen.iter().filter_map(|it| text_of(it, kind)).collect()
    }

    pub(crate) async fn new_session(&mut self) -> String {
        let params = json!({ "cwd": self.fixture.project(), "mcpServers": [] });
        let made = self.call("session/new", params).await;
        made["sessionId"].as_str().expect("an id").to_owned()
    }

    /// Loads a session. What it contains is in `seen`.
    pub(crate) async fn load(&mut self, session: &str) {
        let cwd = self.fixture.project();
        let params = json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
        self.call("session/load", params).await;
    }

    /// Sends a prompt and returns the id of the request.
    pub(crate) async fn prompt(&mut self, session: &str, text: &str) -> Result<u64, Disconnected> {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.request("session/prompt", json!({ "sessionId": session, "prompt": prompt })).await
    }

    /// Sends a prompt and waits for the end of its turn.
    pub(crate) async fn say(&mut self, session: &str, text: &str) -> Value {
        let id = self.prompt(session, text).await.expect("the agent reads");
        self.response(id).await.expect("an answer")
    }

    /// Closes the connection, as a client does that ends. The agent must end too.
    pub(crate) async fn hang_up(mut self) -> i32 {
        drop(self.stdin.take());
        while let Ok(Ok(Some(line))) = timeout(TIMEOUT, self.stdout.next_line()).await {
            self.received.extend_from_slice(line.as_bytes());
            self.received.push(b'\n');
        }
        let status = timeout(TIMEOUT, self.child.wait()).await.expect("it ends").expect("a status");
        status.code().expect("no signal")
    }
}

impl Drop for AcpClient<'_> {
    fn drop(&mut self) {
        self.fixture.records.add(&self.sent, &self.received);
    }
}

/// The text of an update of a kind.
pub(crate) fn text_of<'a>(message: &'a Value, kind: &str) -> Option<&'a str> {
    let update = &message["params"]["update"];
    (update["sessionUpdate"] == kind).then(|| update["content"]["text"].as_str().unwrap_or(""))
}
