//! A minimal client of the Agent Client Protocol, which looks at each line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longer than the slowest agent takes to start on a loaded machine.
const TIMEOUT: Duration = Duration::from_mins(3);

/// What the client does when the agent asks for a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permissions {
    /// Chooses the first option of this kind.
    Choose(&'static str),
    /// Does not answer.
    Wait,
}

/// A connection to an agent.
pub(crate) struct AgentClient {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    next_id: u64,
    pub(crate) permissions: Permissions,
    /// Everything the agent sent. A line that is not JSON is a string.
    pub(crate) seen: Vec<Value>,
    pub(crate) sent: Vec<u8>,
    pub(crate) received: Vec<u8>,
}

impl AgentClient {
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the agent starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines() {
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
            next_id: 1,
            permissions: Permissions::Choose("allow_once"),
            seen: Vec::new(),
            sent: Vec::new(),
            received: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.sent.extend_from_slice(line.as_bytes());
        let stdin = self.stdin.as_mut().expect("an open stdin");
        // An agent that has died is noticed when its answer is read.
        let _ = stdin.write_all(line.as_bytes());
    }

    /// Sends a request and returns its id.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    pub(crate) fn cancel(&mut self, session: &str) {
        let params = json!({ "sessionId": session });
        self.send(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params }));
    }

    pub(crate) fn reply(&mut self, request: &Value, result: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
    }

    /// The next message, after its request is answered. `None` if the agent has ended.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let line = match self.lines.recv_timeout(TIMEOUT) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {
                let last: Vec<String> =
                    self.seen.iter().rev().take(5).map(ToString::to_string).collect();
                panic!("the agent is silent; last:\n{}", last.join("\n"))
            }
        };
        self.received.extend_from_slice(line.as_bytes());
        self.received.push(b'\n');
        let message = serde_json::from_str(&line).unwrap_or(Value::String(line));
        self.seen.push(message.clone());
        self.answer(&message);
        Some(message)
    }

    /// Answers a request of the agent.
    fn answer(&mut self, message: &Value) {
        let (Some(method), Some(_)) = (message["method"].as_str(), message.get("id")) else {
            return;
        };
        match (method, self.permissions) {
            ("session/request_permission", Permissions::Wait) => {}
            ("session/request_permission", Permissions::Choose(kind)) => {
                self.choose(message, kind);
            }
            ("elicitation/create", _) => {
                let content = json!({ "color": "blue" });
                self.reply(message, &json!({ "action": "accept", "content": content }));
            }
            _ => {
                let error = json!({ "code": -32601, "message": "Method not found" });
                self.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }));
            }
        }
    }

    /// Chooses the first option of a kind.
    pub(crate) fn choose(&mut self, request: &Value, kind: &str) {
        let options = request["params"]["options"].as_array().expect("options");
        let option = options.iter().find(|it| it["kind"] == kind);
        let option = &option.unwrap_or_else(|| panic!("no {kind}: {request}"))["optionId"];
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
        self.reply(request, &outcome);
    }

    /// Reads until a message matches.
    pub(crate) fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next().unwrap_or_else(|| panic!("it ended: {:#?}", self.seen));
            if wanted(&message) {
                return message;
            }
        }
    }

    /// Waits for the response to a request.
    pub(crate) fn response(&mut self, id: u64) -> Value {
        let is_response = |it: &Value| it["id"] == id && it["method"].is_null();
        if let Some(known) = self.seen.iter().find(|it| is_response(it)) {
            return known.clone();
        }
        self.until(is_response)
    }

    /// Sends a request and waits for its result.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        let response = self.call_any(method, params);
        assert!(response["error"].is_null(), "{method}: {response}");
        response["result"].clone()
    }

    /// Sends a request and waits for its error.
    pub(crate) fn call_error(&mut self, method: &str, params: &Value) -> Value {
        let response = self.call_any(method, params);
        assert!(response["error"].is_object(), "{method}: {response}");
        response["error"].clone()
    }

    pub(crate) fn call_any(&mut self, method: &str, params: &Value) -> Value {
        let id = self.request(method, params);
        self.response(id)
    }

    /// Agrees on a version with these capabilities of the client.
    pub(crate) fn initialize(&mut self, capabilities: &Value) -> Value {
        let info = json!({ "name": "towpath-test", "version": "1" });
        let params = json!({
            "protocolVersion": 1, "clientInfo": info, "clientCapabilities": capabilities,
        });
        self.call("initialize", &params)
    }

    pub(crate) fn new_session(&mut self, cwd: &str) -> String {
        let made = self.call("session/new", &json!({ "cwd": cwd, "mcpServers": [] }));
        made["sessionId"].as_str().expect("an id").to_owned()
    }

    /// Sends a prompt and returns the id of the request.
    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.request("session/prompt", &json!({ "sessionId": session, "prompt": prompt }))
    }

    /// Sends a prompt and waits for the end of its turn. Returns the response.
    pub(crate) fn say(&mut self, session: &str, text: &str) -> Value {
        let id = self.prompt(session, text);
        self.response(id)
    }

    /// The updates of a kind, in their order.
    pub(crate) fn updates(&self, kind: &str) -> Vec<&Value> {
        let updates = self.seen.iter().map(|it| &it["params"]["update"]);
        updates.filter(|it| it["sessionUpdate"] == kind).collect()
    }

    /// The text of all updates of a kind.
    pub(crate) fn text(&self, kind: &str) -> String {
        let texts = self.updates(kind).into_iter();
        texts.map(|it| it["content"]["text"].as_str().unwrap_or_default()).collect()
    }

    /// What the agent has asked the client.
    pub(crate) fn requests(&self, method: &str) -> Vec<&Value> {
        self.seen.iter().filter(|it| it["method"] == method).collect()
    }

    /// Closes stdin and waits until the agent ends. Returns its exit code and how long that took.
    pub(crate) fn hang_up(&mut self) -> (Option<i32>, Duration) {
        let start = Instant::now();
        drop(self.stdin.take());
        while self.next().is_some() {}
        let status = self.child.wait().expect("a status");
        (status.code(), start.elapsed())
    }
}

impl Drop for AgentClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
