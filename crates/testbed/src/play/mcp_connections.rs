//! The connections to MCP servers outside the host: pipes of a process, or HTTP.
//!
//! A message is written with [`McpConnections::write`]. Messages of the server, and the end of a
//! connection, are inputs of the session, whatever the transport is.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::play::event::PlayerInput;
use crate::play::mcp_http::{McpHttp, connect_events};

/// The process of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct McpCommand {
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
}

/// Where a server is on the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct McpAddress {
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
}

/// How a server outside the host is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum McpEndpoint {
    Process(McpCommand),
    /// Each message is a request, and the response has the answer.
    Http(McpAddress),
    /// Answers come as events of one long response.
    Sse(McpAddress),
}

impl McpEndpoint {
    /// Parses the entry of a server in a configuration.
    pub(crate) fn parse(server: &Value) -> Option<Self> {
        let pairs = |value: &Value| -> Vec<(String, String)> {
            let pairs = value.as_object().into_iter().flatten();
            pairs.filter_map(|(name, it)| Some((name.clone(), it.as_str()?.to_owned()))).collect()
        };
        let address = || {
            let url = server["url"].as_str()?.to_owned();
            Some(McpAddress { url, headers: pairs(&server["headers"]) })
        };
        match server["type"].as_str() {
            Some("http" | "streamable-http") => Some(Self::Http(address()?)),
            Some("sse") => Some(Self::Sse(address()?)),
            None | Some("stdio") => {
                let arguments = server["args"].as_array().into_iter().flatten();
                let arguments = arguments.filter_map(Value::as_str).map(str::to_owned);
                Some(Self::Process(McpCommand {
                    program: server["command"].as_str()?.to_owned(),
                    arguments: arguments.collect(),
                    environment: pairs(&server["env"]),
                }))
            }
            _ => None,
        }
    }
}

/// All connections, by the names of their servers.
#[derive(Debug, Default)]
pub(crate) struct McpConnections {
    processes: BTreeMap<String, Child>,
    requests: BTreeMap<String, (mpsc::Sender<Value>, JoinHandle<()>)>,
}

/// Messages that wait for a server on the network. Writers wait while there are more.
const WAITING_MESSAGES: usize = 64;

impl McpConnections {
    /// Connects to a server. Its messages and its end are sent as inputs.
    pub(crate) fn start(
        &mut self,
        server: String,
        endpoint: &McpEndpoint,
        cwd: &Path,
        inputs: mpsc::Sender<PlayerInput>,
    ) {
        let (address, is_events) = match endpoint {
            McpEndpoint::Process(command) => {
                self.start_process(server, command, cwd, inputs);
                return;
            }
            McpEndpoint::Http(address) => (address.clone(), false),
            McpEndpoint::Sse(address) => (address.clone(), true),
        };
        let (sender, messages) = mpsc::channel(WAITING_MESSAGES);
        let name = server.clone();
        let task = tokio::spawn(async move {
            let ended = if is_events {
                connect_events(&address, &name, messages, &inputs).await
            } else {
                McpHttp::new(&address).run(&name, messages, &inputs).await
            };
            if let Err(error) = ended {
                drop(inputs.send(PlayerInput::McpExited { server: name, error }).await);
            }
        });
        self.requests.insert(server, (sender, task));
    }

    fn start_process(
        &mut self,
        server: String,
        command: &McpCommand,
        cwd: &Path,
        inputs: mpsc::Sender<PlayerInput>,
    ) {
        let mut process = Command::new(&command.program);
        process.args(&command.arguments).envs(command.environment.iter().cloned());
        process.current_dir(cwd).kill_on_drop(true);
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let (output, error) = if let Ok(mut child) = process.spawn() {
            let output = child.stdout.take();
            self.processes.insert(server.clone(), child);
            (output, "CONNECTION_CLOSED: Connection closed".to_owned())
        } else {
            let program = &command.program;
            (None, format!("ENOENT: Executable not found in $PATH: \"{program}\""))
        };
        tokio::spawn(async move {
            if let Some(output) = output {
                let mut lines = BufReader::new(output).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    // What is not JSON is no message.
                    let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
                    let input = PlayerInput::McpLine { server: server.clone(), message };
                    if inputs.send(input).await.is_err() {
                        return;
                    }
                }
            }
            drop(inputs.send(PlayerInput::McpExited { server, error }).await);
        });
    }

    /// Writes a message. If the server has ended, its `McpExited` says so.
    pub(crate) async fn write(&mut self, server: &str, message: &Value) {
        if let Some((sender, _)) = self.requests.get(server) {
            drop(sender.send(message.clone()).await);
            return;
        }
        let process = self.processes.get_mut(server);
        if let Some(pipe) = process.and_then(|it| it.stdin.as_mut()) {
            drop(pipe.write_all(format!("{message}\n").as_bytes()).await);
        }
    }

    /// Kills all processes and closes all connections.
    pub(crate) fn close_all(&mut self) {
        for process in self.processes.values_mut() {
            // A process that has ended needs no signal.
            drop(process.start_kill());
        }
        for (_, task) in self.requests.values() {
            task.abort();
        }
    }
}
