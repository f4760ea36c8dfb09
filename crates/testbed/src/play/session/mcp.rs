//! MCP servers that live in the host, spoken to over its control channel.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::asks::{Ask, McpAbout};
use super::{Session, VERSION};
use crate::play::input::Outcome;

/// Servers of the host, and those that only have a name.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    servers: BTreeMap<String, Server>,
}

#[derive(Debug, Default)]
struct Server {
    /// Whether it lives in the host.
    in_host: bool,
    info: Option<Value>,
    tools: Vec<Value>,
    next: u64,
    /// Calls that wait until its tools are known.
    failed: bool,
}

impl Servers {
    /// Reads what `--mcp-config` names: JSON or a file.
    pub(crate) fn read(configs: &[String]) -> Self {
        let mut servers = BTreeMap::new();
        for config in configs {
            let read = || std::fs::read_to_string(config).ok();
            let parsed: Option<Value> =
                serde_json::from_str(config).ok().or_else(|| serde_json::from_str(&read()?).ok());
            let named = parsed.as_ref().and_then(|it| it["mcpServers"].as_object());
            for (name, server) in named.into_iter().flatten() {
                let in_host = server["type"] == "sdk";
                let server = Server { in_host, failed: !in_host, ..Server::default() };
                servers.insert(name.clone(), server);
            }
        }
        Self { servers }
    }

    /// The tools of servers that answered.
    pub(super) fn tools(&self) -> Vec<String> {
        let of = |(name, server): (&String, &Server)| {
            let tools = server.tools.iter().filter_map(|tool| tool["name"].as_str());
            tools.map(|tool| format!("mcp__{name}__{tool}")).collect::<Vec<_>>()
        };
        self.servers.iter().flat_map(of).collect()
    }

    /// The `mcp_servers` of an `init` line.
    pub(super) fn listing(&self) -> Value {
        let one = |(name, server): (&String, &Server)| {
            let source = if server.in_host { "sdk" } else { "dynamic" };
            json!({ "name": name, "status": server.status(), "source": source })
        };
        self.servers.iter().map(one).collect()
    }

    /// The answer to `mcp_status`.
    pub(super) fn status(&self) -> Value {
        let one = |(name, server): (&String, &Server)| {
            let tools = server.tools.iter();
            let tools: Vec<Value> =
                tools.map(|tool| json!({ "name": tool["name"], "annotations": {} })).collect();
            let transport = if server.in_host { "sdk" } else { "stdio" };
            json!({
                "name": name, "status": server.status(), "serverInfo": server.info,
                "transport": transport, "scope": "dynamic", "source": "sdk", "tools": tools,
            })
        };
        self.servers.iter().map(one).collect()
    }

    /// What a line with a call to a server says about it.
    pub(super) fn meta(block: &Value) -> Option<Value> {
        let (server, tool) = split(block["name"].as_str()?)?;
        let mut letters = tool.chars();
        let first = letters.next()?.to_uppercase();
        let display: String = first.chain(letters).collect();
        Some(json!({
            "id": block["id"], "display_name": display, "server_display_name": server,
            "tool_name": tool,
        }))
    }
}

impl Server {
    fn status(&self) -> &'static str {
        match (&self.info, self.failed) {
            (Some(_), _) => "connected",
            (None, true) => "failed",
            (None, false) => "pending",
        }
    }
}

/// The server and the tool of a name such as `mcp__calc__add`.
fn split(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("mcp__")?.split_once("__")
}

impl Session {
    /// Greets the servers that a host names.
    pub(super) fn connect_servers(&mut self, names: &Value) {
        let given = names.as_array().into_iter().flatten().filter_map(Value::as_str);
        let known = self.servers.servers.iter().filter(|(_, server)| server.in_host);
        let all: std::collections::BTreeSet<String> =
            given.map(str::to_owned).chain(known.map(|(name, _)| name.clone())).collect();
        for name in &all {
            let server = self.servers.servers.entry(name.clone()).or_default();
            if server.info.is_some() {
                continue;
            }
            server.in_host = true;
            server.failed = false;
            let params = json!({
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {
                    "name": "claude-code", "title": "Claude Code",
                    "description": "Anthropic's agentic coding tool",
                    "websiteUrl": "https://claude.com/claude-code", "version": VERSION,
                },
            });
            self.ask_server(name, McpAbout::Initialize, "initialize", Some(params));
        }
    }

    fn ask_server(&mut self, server: &str, about: McpAbout, method: &str, params: Option<Value>) {
        let mut message = json!({ "jsonrpc": "2.0", "method": method });
        if let Some(params) = params {
            message["params"] = params;
        }
        if about != McpAbout::Initialized
            && let Some(known) = self.servers.servers.get_mut(server)
        {
            message["id"] = known.next.into();
            known.next += 1;
        }
        let request =
            json!({ "subtype": "mcp_message", "server_name": server, "message": message });
        self.ask_host(Ask::Mcp { server: server.to_owned(), about }, &request);
    }

    /// A server of the host answered.
    pub(super) fn server_answered(&mut self, server: &str, about: &McpAbout, response: &Value) {
        let answer = &response["response"]["mcp_response"];
        let result = &answer["result"];
        let failed = response["subtype"] == "error" || !answer["error"].is_null();
        match about {
            McpAbout::Initialize if failed => {
                if let Some(known) = self.servers.servers.get_mut(server) {
                    known.failed = true;
                }
            }
            McpAbout::Initialize => {
                let info = result["serverInfo"].clone();
                if let Some(known) = self.servers.servers.get_mut(server) {
                    known.info = Some(info);
                }
                let greeting = "notifications/initialized";
                self.ask_server(server, McpAbout::Initialized, greeting, None);
                self.ask_server(server, McpAbout::Tools, "tools/list", None);
            }
            McpAbout::Initialized => {}
            McpAbout::Tools => {
                let tools = result["tools"].as_array().cloned().unwrap_or_default();
                if let Some(known) = self.servers.servers.get_mut(server) {
                    known.tools = tools;
                }
            }
            McpAbout::Call(call) => {
                let outcome = outcome(answer, response, failed);
                self.done(call, outcome);
            }
        }
    }

    /// Carries a call to a server out.
    pub(super) fn call_server(&mut self, call: &str, tool: &str, input: &Value) {
        let Some((server, name)) = split(tool) else { return };
        let next = self.servers.servers.get(server).map_or(0, |server| server.next);
        let params = json!({
            "name": name, "arguments": input,
            "_meta": { "claudecode/toolUseId": call, "progressToken": next },
        });
        self.ask_server(server, McpAbout::Call(call.to_owned()), "tools/call", Some(params));
    }
}

fn outcome(answer: &Value, response: &Value, failed: bool) -> Outcome {
    let content = answer["result"]["content"].clone();
    if failed {
        let text = answer["error"]["message"].as_str().or(response["error"].as_str());
        return Outcome::failure(text.unwrap_or("the server failed"));
    }
    if answer["result"]["isError"] == true {
        let texts = content.as_array().into_iter().flatten().filter_map(|it| it["text"].as_str());
        return Outcome::failure(&texts.collect::<Vec<_>>().join("\n"));
    }
    Outcome::plain(content.clone(), content)
}
