//! The processes of MCP servers: a line in is a message to the server, a line out is one of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use crate::play::event::PlayerInput;
use crate::play::session::McpCommand;

/// All servers, by their names.
#[derive(Debug, Default)]
pub(crate) struct McpProcesses {
    processes: BTreeMap<String, Child>,
}

impl McpProcesses {
    /// Starts a server. Its messages and its end are sent as inputs.
    pub(crate) fn start(
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
        let output = process.spawn().ok().and_then(|mut child| {
            let output = child.stdout.take();
            self.processes.insert(server.clone(), child);
            output
        });
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
            drop(inputs.send(PlayerInput::McpExited { server }).await);
        });
    }

    /// Writes a message. If the server has ended, its `McpExited` says so.
    pub(crate) async fn write(&mut self, server: &str, message: &Value) {
        let process = self.processes.get_mut(server);
        if let Some(pipe) = process.and_then(|it| it.stdin.as_mut()) {
            drop(pipe.write_all(format!("{message}\n").as_bytes()).await);
        }
    }

    /// Kills all servers.
    pub(crate) fn kill_all(&mut self) {
        for process in self.processes.values_mut() {
            // A process that has ended needs no signal.
            drop(process.start_kill());
        }
    }
}
