//! Whether a configured MCP server answers, for `mcp list` and `mcp get`.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::play::event::PlayerInput;
use crate::play::mcp_connections::{McpConnections, McpEndpoint};
use crate::play::session::initialize_params;

/// The state of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum McpHealth {
    Connected,
    /// It answered `initialize`, but did not list its tools.
    NoTools(String),
    Failed(String),
}

/// How long a server may take for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

impl McpHealth {
    /// Connects to a server and asks for its tools.
    pub(super) async fn check(server: &Value, cwd: &Path) -> Self {
        let Some(endpoint) = McpEndpoint::parse(server) else {
            return Self::Failed("Invalid configuration".to_owned());
        };
        let (sender, mut inputs) = mpsc::channel(8);
        let mut connections = McpConnections::default();
        connections.start(String::new(), &endpoint, cwd, sender);
        let request = |id: u32, method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        connections.write("", &request(0, "initialize", initialize_params())).await;
        let health = match answer(&mut inputs, 0).await {
            Err(error) => Self::Failed(error),
            Ok(answer) if answer["error"].is_object() => {
                Self::Failed(answer["error"]["message"].as_str().unwrap_or_default().to_owned())
            }
            Ok(_) => {
                let initialized =
                    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
                connections.write("", &initialized).await;
                connections.write("", &request(1, "tools/list", json!({}))).await;
                match answer(&mut inputs, 1).await {
                    Ok(_) => Self::Connected,
                    Err(error) => Self::NoTools(error),
                }
            }
        };
        connections.close_all();
        health
    }

    /// The state in one phrase.
    pub(super) fn status(&self) -> &'static str {
        match self {
            Self::Connected => "✔ Connected",
            Self::NoTools(_) => "! Connected · tools fetch failed",
            Self::Failed(_) => "✘ Failed to connect",
        }
    }

    /// What is wrong with the server.
    pub(super) fn issue(&self) -> Option<&str> {
        match self {
            Self::Connected => None,
            Self::NoTools(issue) | Self::Failed(issue) => Some(issue),
        }
    }
}

/// Waits for the answer to a request.
async fn answer(inputs: &mut mpsc::Receiver<PlayerInput>, id: u32) -> Result<Value, String> {
    let wait = async {
        loop {
            match inputs.recv().await {
                Some(PlayerInput::McpLine { message, .. }) if message["id"] == id => {
                    return Ok(message);
                }
                Some(PlayerInput::McpExited { error, .. }) => return Err(error),
                Some(_) => {}
                None => return Err("CONNECTION_CLOSED: Connection closed".to_owned()),
            }
        }
    };
    timeout(ANSWER_TIMEOUT, wait).await.unwrap_or_else(|_| Err("Request timed out".to_owned()))
}
