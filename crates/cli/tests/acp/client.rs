//! A client that is strict about JSON-RPC and remembers everything it was told.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc;

use serde_json::{Value, json};

use crate::home::{TIMEOUT, TestHome};

/// A running `towpath acp` and what it said.
pub(crate) struct AcpClient {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    next_id: u64,
    waiting: HashSet<u64>,
    responses: HashMap<u64, Value>,
    /// Requests of the agent that were not answered.
    requests: VecDeque<Value>,
    /// All updates, with their sessions.
    pub(crate) updates: Vec<Value>,
    /// The ids of requests that the agent took back.
    pub(crate) cancelled: Vec<Value>,
    /// Errors without an id.
    pub(crate) errors: Vec<Value>,
    calls: HashSet<(String, String)>,
    version: u64,
}

impl AcpClient {
    /// Starts the command without saying anything.
    pub(crate) fn start(home: &TestHome, arguments: &[&str]) -> Self {
        let mut command = home.command(&[&["acp", "--demo"], arguments].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary starts");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("a pipe");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            stdin,
            lines,
            next_id: 100,
            waiting: HashSet::new(),
            responses: HashMap::new(),
            requests: VecDeque::new(),
            updates: Vec::new(),
            cancelled: Vec::new(),
            errors: Vec::new(),
            calls: HashSet::new(),
            version: 1,
        }
    }

    /// Starts the command and initializes version 1 without any capability.
    pub(crate) fn v1(home: &TestHome, arguments: &[&str]) -> Self {
        Self::with_capabilities(home, arguments, &json!({}))
    }

    pub(crate) fn with_capabilities(
        home: &TestHome,
        arguments: &[&str],
        capabilities: &Value,
    ) -> Self {
        let mut client = Self::start(home, arguments);
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": capabilities,
            "clientInfo": { "name": "tester", "version": "1" },
        });
        let result = client.call("initialize", &params);
        assert_eq!(result["protocolVersion"], 1);
        client
    }

    pub(crate) fn v2(home: &TestHome) -> Self {
        let mut client = Self::start(home, &[]);
        client.version = 2;
        let params = json!({ "protocolVersion": 2, "info": { "name": "tester", "version": "1" } });
        assert_eq!(client.call("initialize", &params)["protocolVersion"], 2);
        client
    }

    /// A new session in the working directory of the home.
    pub(crate) fn new_session(&mut self, home: &TestHome) -> String {
        let params = json!({ "cwd": home.work(), "mcpServers": [] });
        let result = self.call("session/new", &params);
        result["sessionId"].as_str().expect("an id").to_owned()
    }

    pub(crate) fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(format!("{line}\n").as_bytes()).expect("the agent reads");
        stdin.flush().expect("the agent reads");
    }

    pub(crate) fn notify(&mut self, method: &str, params: &Value) {
        let line = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.send_line(&line.to_string());
    }

    /// Sends a request and does not wait for the response.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.waiting.insert(id);
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send_line(&line.to_string());
        id
    }

    /// Sends a request that must succeed, and returns its result.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.request(method, params);
        let response = self.response(id);
        assert!(response["error"].is_null(), "{method}: {response}");
        response["result"].clone()
    }

    /// Sends a request that must fail, and returns the code of the error.
    pub(crate) fn error_of(&mut self, method: &str, params: &Value) -> i64 {
        let id = self.request(method, params);
        let response = self.response(id);
        response["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method}: {response}"))
    }

    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.request("session/prompt", &json!({ "sessionId": session, "prompt": prompt }))
    }

    /// Waits for the response to a request.
    pub(crate) fn response(&mut self, id: u64) -> Value {
        while !self.responses.contains_key(&id) {
            self.read();
        }
        self.responses.remove(&id).expect("it was read")
    }

    /// The stop reason of a prompt.
    pub(crate) fn stop_reason(&mut self, prompt: u64) -> String {
        let response = self.response(prompt);
        let reason = response["result"]["stopReason"].as_str();
        reason.unwrap_or_else(|| panic!("{response}")).to_owned()
    }

    /// Waits for a request of the agent.
    pub(crate) fn agent_request(&mut self) -> Value {
        while self.requests.is_empty() {
            self.read();
        }
        self.requests.pop_front().expect("there is one")
    }

    /// The next request of the agent; none if a request of ours is answered before.
    pub(crate) fn next_before(&mut self, id: u64) -> Option<Value> {
        while self.requests.is_empty() && !self.responses.contains_key(&id) {
            self.read();
        }
        self.requests.pop_front()
    }

    pub(crate) fn reply(&mut self, request: &Value, result: &Value) {
        let line = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
        self.send_line(&line.to_string());
    }

    /// Chooses the first option of a kind.
    pub(crate) fn choose(&mut self, request: &Value, kind: &str) {
        let options = request["params"]["options"].as_array().expect("options");
        let option = options.iter().find(|it| it["kind"] == kind);
        let option = option.unwrap_or_else(|| panic!("no {kind}: {request}"))["optionId"].clone();
        self.reply(request, &json!({ "outcome": { "outcome": "selected", "optionId": option } }));
    }

    /// Waits until something holds about what was said.
    pub(crate) fn wait_until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        while !holds(self) {
            self.read_for(what);
        }
    }

    /// The text of the agent's messages so far.
    pub(crate) fn text(&self) -> String {
        self.texts_of("agent_message_chunk").concat()
    }

    pub(crate) fn texts_of(&self, kind: &str) -> Vec<String> {
        let updates = self.updates_of(kind);
        let text = |it: &Value| it["content"]["text"].as_str().unwrap_or_default().to_owned();
        updates.into_iter().map(text).collect()
    }

    pub(crate) fn updates_of(&self, kind: &str) -> Vec<&Value> {
        self.updates
            .iter()
            .map(|it| &it["update"])
            .filter(|it| it["sessionUpdate"] == kind)
            .collect()
    }

    fn read(&mut self) {
        self.read_for("a line");
    }

    /// Reads a line, which must be a message that is expected.
    fn read_for(&mut self, what: &str) {
        let line = self.lines.recv_timeout(TIMEOUT);
        let line =
            line.unwrap_or_else(|error| panic!("{what}: {error}; so far: {:#?}", self.updates));
        let message: Value = serde_json::from_str(&line).expect("stdout carries the protocol only");
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        match (message.get("method").and_then(Value::as_str), message.get("id")) {
            (None, Some(Value::Null)) => self.errors.push(message),
            (None, Some(id)) => {
                let id = id.as_u64().expect("one of our ids");
                assert!(self.waiting.remove(&id), "an answer to no request: {line}");
                self.responses.insert(id, message);
            }
            (Some("session/update"), None) => {
                self.check_call(&message["params"]);
                self.updates.push(message["params"].clone());
            }
            (Some("$/cancel_request"), None) => {
                let id = message["params"]["requestId"].clone();
                self.requests.retain(|it| it["id"] != id);
                self.cancelled.push(id);
            }
            (Some(_), Some(_)) => self.requests.push_back(message),
            _ => panic!("unexpected: {line}"),
        }
    }

    /// A call is announced before it is updated.
    fn check_call(&mut self, params: &Value) {
        let update = &params["update"];
        let Some(call) = update["toolCallId"].as_str() else { return };
        let key = (params["sessionId"].to_string(), call.to_owned());
        if update["sessionUpdate"] == "tool_call" {
            assert!(self.calls.insert(key), "announced twice: {update}");
        } else if self.version == 1 {
            assert!(self.calls.contains(&key), "not announced: {update}");
        }
    }

    /// Closes stdin and waits for the end of the process.
    pub(crate) fn close(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().expect("an exit status").success());
    }

    /// Kills the process, as an editor does that crashes.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("an exit status");
    }
}

impl Drop for AcpClient {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
