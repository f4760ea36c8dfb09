//! Tests of a connection: a client in memory, a journal on disk.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use journal::Journal;
use serde_json::{Value, json};
use session::{
    AgentProgram, Roots, SessionLimits, Sessions, SessionsConfig, UnattendedLimits, WatchPolicy,
};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::AgentConnection;
use crate::config::{AcpConfig, AcpRole, LocalOpener, PlainDefaults};

/// How long anything may take on a loaded machine.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A connection to sessions that can start no agent.
struct TestConnection {
    incoming: mpsc::Sender<Bytes>,
    outgoing: mpsc::Receiver<Bytes>,
    next_id: u64,
}

impl TestConnection {
    async fn new(directory: &Path, role: AcpRole) -> Self {
        let config = SessionsConfig {
            data: directory.to_owned(),
            runtime: directory.to_owned(),
            towpath: "no-such-program".into(),
            agent: AgentProgram { program: "no-such-agent".into(), arguments: Vec::new() },
            agents: session::AgentCatalog::default(),
            environment: Vec::new(),
            limits: SessionLimits { restarts: 1, ..SessionLimits::default() },
            unattended: UnattendedLimits::SHORT,
            takeover_delay: Duration::ZERO,
            prompt_gate: session::PromptGate::default(),
            allow_bypass: false,
            config_file: None,
            watch: WatchPolicy::default(),
        };
        let journal = Journal::open(&directory.join("journal.db")).unwrap().journal;
        let sessions = Sessions::new(config, journal);
        let config = AcpConfig {
            sessions: sessions.clone(),
            opener: Arc::new(LocalOpener(sessions)),
            roots: Roots::new(&[directory.to_owned()]).unwrap(),
            defaults: Arc::new(PlainDefaults),
            user: "ann".to_owned(),
            role,
            own_turns_only: false,
            version: "0.0.0",
        };
        let (incoming, lines) = mpsc::channel(8);
        let (sender, outgoing) = mpsc::channel(8);
        tokio::spawn(AgentConnection::new(config, sender).run(lines));
        let mut this = Self { incoming, outgoing, next_id: 0 };
        let initialized = this.call("initialize", json!({ "protocolVersion": 1 })).await;
        assert_eq!(initialized["result"]["protocolVersion"], 1);
        this
    }

    /// Sends a request and returns the response.
    async fn call(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.incoming.send(line.to_string().into()).await.unwrap();
        loop {
            let line = timeout(TIMEOUT, self.outgoing.recv()).await.expect(method).expect(method);
            let message: Value = serde_json::from_slice(&line).unwrap();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }
}

fn place(directory: &TempDir) -> Value {
    json!({ "cwd": directory.path(), "mcpServers": [] })
}

#[tokio::test]
async fn a_prompt_is_answered_even_if_no_agent_can_be_started() {
    let directory = tempfile::tempdir().unwrap();
    let mut connection = TestConnection::new(directory.path(), AcpRole::Admin).await;
    let new = connection.call("session/new", place(&directory)).await;
    let session = &new["result"]["sessionId"];
    let prompt = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "hi" }] });
    for _ in 0..2 {
        let response = connection.call("session/prompt", prompt.clone()).await;
        assert_eq!(response["error"]["code"], -32603, "{response}");
        assert!(!response["error"]["message"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_client_that_may_only_look_can_list_and_load_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let session = {
        let mut connection = TestConnection::new(directory.path(), AcpRole::Drive).await;
        let server = json!([{ "name": "s", "command": "/bin/true", "args": [], "env": [] }]);
        let params = json!({ "cwd": directory.path(), "mcpServers": server });
        let refused = connection.call("session/new", params).await;
        assert_eq!(refused["error"]["code"], -32602, "a server runs a program: {refused}");
        let new = connection.call("session/new", place(&directory)).await;
        new["result"]["sessionId"].clone()
    };
    let mut connection = TestConnection::new(directory.path(), AcpRole::Watch).await;
    let list = connection.call("session/list", json!({})).await;
    assert_eq!(list["result"]["sessions"][0]["sessionId"], session);
    let mut params = place(&directory);
    params["sessionId"] = session.clone();
    let loaded = connection.call("session/load", params).await;
    assert!(loaded["result"]["modes"].is_object(), "{loaded}");
    let text = json!([{ "type": "text", "text": "hi" }]);
    for (method, params) in [
        ("session/new", place(&directory)),
        ("session/prompt", json!({ "sessionId": session, "prompt": text })),
        ("session/set_mode", json!({ "sessionId": session, "modeId": "plan" })),
        ("session/delete", json!({ "sessionId": session })),
        ("session/set_title", json!({ "sessionId": session, "title": "x" })),
        ("session/fork", json!({ "sessionId": session, "cwd": directory.path() })),
    ] {
        let response = connection.call(method, params).await;
        assert!(response["error"]["code"].is_i64(), "{method}: {response}");
    }
}
