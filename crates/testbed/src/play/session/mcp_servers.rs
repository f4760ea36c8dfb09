//! MCP servers: in the host, or with connections of their own, and the messages to them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::play::event::{PlayerEffect, ToolOutcome};
use crate::play::mcp_connections::McpEndpoint;
use crate::play::session::host_requests::HostRequest;
use crate::play::session::{PlayerSession, VERSION};
use crate::play::subcommand::mcp_config::McpScope;

/// A message to an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum McpMessage {
    Initialize,
    Initialized,
    ListTools,
    Call(String),
}

/// The MCP servers of the session.
#[derive(Debug, Default)]
pub(crate) struct McpServers {
    servers: BTreeMap<String, McpServer>,
}

#[derive(Debug, Default)]
struct McpServer {
    transport: PlayerMcpTransport,
    /// Which configuration file it is from, if it is from one.
    scope: Option<McpScope>,
    info: Option<Value>,
    tools: Vec<Value>,
    /// The JSON-RPC id of the next request.
    next_id: u64,
    failed: bool,
    /// Whether the host has switched it off.
    disabled: bool,
    /// Requests over a connection of its own that it has not answered, by their JSON-RPC ids.
    open: BTreeMap<u64, McpMessage>,
}

/// How a server is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum PlayerMcpTransport {
    /// Through the host, with control requests.
    #[default]
    Host,
    /// Through a connection of its own.
    Own(McpEndpoint),
    /// In a way that the player does not know.
    Unknown,
}

impl PlayerMcpTransport {
    /// Parses the entry of a server in a configuration.
    fn parse(server: &Value) -> Self {
        if server["type"] == "sdk" {
            return Self::Host;
        }
        McpEndpoint::parse(server).map_or(Self::Unknown, Self::Own)
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Host => "sdk",
            Self::Own(McpEndpoint::Http(_)) => "http",
            Self::Own(McpEndpoint::Sse(_)) => "sse",
            Self::Own(McpEndpoint::Process(_)) | Self::Unknown => "stdio",
        }
    }

    /// The configuration in `mcp_status`, which leaves out variables and headers.
    fn config(&self) -> Option<Value> {
        match self {
            Self::Own(McpEndpoint::Process(command)) => Some(
                json!({ "type": "stdio", "command": command.program, "args": command.arguments }),
            ),
            Self::Own(McpEndpoint::Http(address)) => {
                Some(json!({ "type": "http", "url": address.url }))
            }
            Self::Own(McpEndpoint::Sse(address)) => {
                Some(json!({ "type": "sse", "url": address.url }))
            }
            Self::Host | Self::Unknown => None,
        }
    }
}

impl McpServers {
    /// Parses the servers of the configuration files, and the values of `--mcp-config`, each of which is
    /// JSON or a file and wins over the files.
    pub(crate) fn parse(configs: &[String], files: &[(McpScope, String, Value)]) -> Self {
        let mut servers = BTreeMap::new();
        for (scope, name, server) in files {
            let transport = PlayerMcpTransport::parse(server);
            let failed = transport == PlayerMcpTransport::Unknown;
            let scope = Some(*scope);
            servers.insert(
                name.clone(),
                McpServer { transport, scope, failed, ..McpServer::default() },
            );
        }
        for config in configs {
            let read = || std::fs::read_to_string(config).ok();
            let parsed: Option<Value> =
                serde_json::from_str(config).ok().or_else(|| serde_json::from_str(&read()?).ok());
            let named = parsed.as_ref().and_then(|it| it["mcpServers"].as_object());
            for (name, server) in named.into_iter().flatten() {
                let transport = PlayerMcpTransport::parse(server);
                let failed = transport == PlayerMcpTransport::Unknown;
                let server = McpServer { transport, failed, ..McpServer::default() };
                servers.insert(name.clone(), server);
            }
        }
        Self { servers }
    }

    /// The tools of all connected servers.
    pub(crate) fn tools(&self) -> Vec<String> {
        let of = |(name, server): (&String, &McpServer)| {
            if server.disabled {
                return Vec::new();
            }
            let tools = server.tools.iter().filter_map(|tool| tool["name"].as_str());
            tools.map(|tool| format!("mcp__{name}__{tool}")).collect::<Vec<_>>()
        };
        self.servers.iter().flat_map(of).collect()
    }

    /// Whether a server outside the host has not listed its tools. Turns wait for that.
    pub(crate) fn are_connecting(&self) -> bool {
        let connecting =
            |it: &McpMessage| matches!(it, McpMessage::Initialize | McpMessage::ListTools);
        self.servers.values().any(|server| server.open.values().any(connecting))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.servers.contains_key(name)
    }

    pub(crate) fn set_disabled(&mut self, name: &str, disabled: bool) {
        if let Some(server) = self.servers.get_mut(name) {
            server.disabled = disabled;
        }
    }

    pub(crate) fn listing(&self) -> Value {
        let one = |(name, server): (&String, &McpServer)| json!({ "name": name, "status": server.status(), "source": server.source() });
        self.servers.iter().map(one).collect()
    }

    pub(crate) fn status(&self) -> Value {
        let one = |(name, server): (&String, &McpServer)| {
            let tools = server.tools.iter();
            let tools: Vec<Value> =
                tools.map(|tool| json!({ "name": tool["name"], "annotations": {} })).collect();
            let transport = server.transport.name();
            let mut status = json!({
                "name": name, "status": server.status(), "serverInfo": server.info,
                "transport": transport, "scope": server.scope.map_or("dynamic", McpScope::name),
                "source": server.source(), "tools": tools,
            });
            if let Some(config) = server.transport.config() {
                status["config"] = config;
            }
            if let (true, Some(status)) = (server.disabled, status.as_object_mut()) {
                status.retain(|key, _| key != "serverInfo" && key != "tools");
            }
            status
        };
        self.servers.iter().map(one).collect()
    }

    /// The `tool_use_meta` of a call to a server.
    pub(crate) fn meta(block: &Value) -> Option<Value> {
        let (server, tool) = split_tool_name(block["name"].as_str()?)?;
        let mut chars = tool.chars();
        let first = chars.next()?.to_uppercase();
        let display: String = first.chain(chars).collect();
        Some(json!({
            "id": block["id"], "display_name": display, "server_display_name": server,
            "tool_name": tool,
        }))
    }
}

impl McpServer {
    /// Where the server comes from.
    fn source(&self) -> &'static str {
        match (&self.transport, self.scope) {
            (_, Some(scope)) => scope.name(),
            (PlayerMcpTransport::Host, None) => "sdk",
            (_, None) => "dynamic",
        }
    }

    fn status(&self) -> &'static str {
        if self.disabled {
            return "disabled";
        }
        match (&self.info, self.failed) {
            (Some(_), _) => "connected",
            (None, true) => "failed",
            (None, false) => "pending",
        }
    }
}

impl PlayerSession {
    /// Connects to the servers in the host.
    pub(crate) fn connect_mcp_servers(&mut self, names: &Value) {
        let given = names.as_array().into_iter().flatten().filter_map(Value::as_str);
        let is_host = |server: &McpServer| server.transport == PlayerMcpTransport::Host;
        let known = self.servers.servers.iter().filter(|(_, server)| is_host(server));
        let all: BTreeSet<String> =
            given.map(str::to_owned).chain(known.map(|(name, _)| name.clone())).collect();
        for name in &all {
            let server = self.servers.servers.entry(name.clone()).or_default();
            if server.info.is_some() {
                continue;
            }
            server.transport = PlayerMcpTransport::Host;
            server.failed = false;
            self.initialize_server(name);
        }
    }

    /// Connects to the servers outside the host.
    pub(crate) fn start_mcp_servers(&mut self) -> Vec<PlayerEffect> {
        let servers = self.servers.servers.iter();
        let endpoints: Vec<(String, McpEndpoint)> = servers
            .filter_map(|(name, server)| match &server.transport {
                PlayerMcpTransport::Own(endpoint) => Some((name.clone(), endpoint.clone())),
                PlayerMcpTransport::Host | PlayerMcpTransport::Unknown => None,
            })
            .collect();
        for (name, endpoint) in endpoints {
            self.effects.push(PlayerEffect::StartMcpServer { server: name.clone(), endpoint });
            self.initialize_server(&name);
        }
        std::mem::take(&mut self.effects)
    }

    fn initialize_server(&mut self, name: &str) {
        let params = Some(initialize_params());
        self.send_mcp_request(name, McpMessage::Initialize, "initialize", params);
    }

    /// Handles a message of a server outside the host. Notifications and requests are ignored.
    pub(crate) fn on_mcp_line(&mut self, server: &str, message: &Value) {
        let known = self.servers.servers.get_mut(server);
        let id = message["id"].as_u64().filter(|_| message.get("method").is_none());
        let Some(kind) = known.zip(id).and_then(|(known, id)| known.open.remove(&id)) else {
            return;
        };
        let response = json!({ "subtype": "success", "response": { "mcp_response": message } });
        self.on_mcp_response(server, &kind, &response);
    }

    /// Fails everything that a server has not answered, because its connection has ended.
    pub(crate) fn on_mcp_exit(&mut self, server: &str) {
        let Some(known) = self.servers.servers.get_mut(server) else { return };
        let open = std::mem::take(&mut known.open);
        for kind in open.values() {
            let response =
                json!({ "subtype": "error", "error": "MCP error -32000: Connection closed" });
            self.on_mcp_response(server, kind, &response);
        }
    }

    fn send_mcp_request(
        &mut self,
        server: &str,
        kind: McpMessage,
        method: &str,
        params: Option<Value>,
    ) {
        let mut message = json!({ "jsonrpc": "2.0", "method": method });
        if let Some(params) = params {
            message["params"] = params;
        }
        let Some(known) = self.servers.servers.get_mut(server) else { return };
        let is_own = matches!(known.transport, PlayerMcpTransport::Own(_));
        if kind != McpMessage::Initialized {
            message["id"] = known.next_id.into();
            if is_own {
                known.open.insert(known.next_id, kind.clone());
            }
            known.next_id += 1;
        }
        if is_own {
            let server = server.to_owned();
            self.effects.push(PlayerEffect::WriteMcpServer { server, message });
            return;
        }
        let request =
            json!({ "subtype": "mcp_message", "server_name": server, "message": message });
        self.send_host_request(
            HostRequest::Mcp { server: server.to_owned(), message: kind },
            &request,
        );
    }

    pub(crate) fn on_mcp_response(&mut self, server: &str, message: &McpMessage, response: &Value) {
        let answer = &response["response"]["mcp_response"];
        let result = &answer["result"];
        let failed = response["subtype"] == "error" || !answer["error"].is_null();
        match message {
            McpMessage::Initialize if failed => {
                if let Some(known) = self.servers.servers.get_mut(server) {
                    known.failed = true;
                }
            }
            McpMessage::Initialize => {
                let info = result["serverInfo"].clone();
                if let Some(known) = self.servers.servers.get_mut(server) {
                    known.info = Some(info);
                }
                let method = "notifications/initialized";
                self.send_mcp_request(server, McpMessage::Initialized, method, None);
                self.send_mcp_request(server, McpMessage::ListTools, "tools/list", None);
            }
            McpMessage::Initialized => {}
            McpMessage::ListTools => {
                let tools = result["tools"].as_array().cloned().unwrap_or_default();
                if let Some(known) = self.servers.servers.get_mut(server) {
                    known.tools = tools;
                }
            }
            McpMessage::Call(call) => {
                let outcome = outcome(answer, response, failed);
                self.finish_call(call, outcome);
            }
        }
    }

    /// Sends a call to an MCP server.
    pub(crate) fn call_mcp_tool(&mut self, call: &str, tool: &str, input: &Value) {
        let Some((server, name)) = split_tool_name(tool) else { return };
        let next = self.servers.servers.get(server).map_or(0, |server| server.next_id);
        let params = json!({
            "name": name, "arguments": input,
            "_meta": { "claudecode/toolUseId": call, "progressToken": next },
        });
        self.send_mcp_request(
            server,
            McpMessage::Call(call.to_owned()),
            "tools/call",
            Some(params),
        );
    }
}

/// What the CLI says of itself to a server.
pub(crate) fn initialize_params() -> Value {
    json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {
            "name": "claude-code", "title": "Claude Code",
            "description": "Anthropic's agentic coding tool",
            "websiteUrl": "https://claude.com/claude-code", "version": VERSION,
        },
    })
}

/// The server and the tool in a name such as `mcp__calc__add`.
fn split_tool_name(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("mcp__")?.split_once("__")
}

fn outcome(answer: &Value, response: &Value, failed: bool) -> ToolOutcome {
    let content = answer["result"]["content"].clone();
    if failed {
        let text = answer["error"]["message"].as_str().or(response["error"].as_str());
        return ToolOutcome::failure(text.unwrap_or("the server failed"));
    }
    if answer["result"]["isError"] == true {
        let texts = content.as_array().into_iter().flatten().filter_map(|it| it["text"].as_str());
        return ToolOutcome::failure(&texts.collect::<Vec<_>>().join("\n"));
    }
    ToolOutcome::plain(content.clone(), content)
}
