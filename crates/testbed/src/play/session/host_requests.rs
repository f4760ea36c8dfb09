//! Requests to the host that await an answer: permissions, hooks and messages to its MCP servers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::play::event::ToolOutcome;
use crate::play::permission::PlayerPermissionAnswer;
use crate::play::session::{PlayerSession, PlayerState, VERSION};
use crate::play::texts;

/// Requests without an answer, by id.
#[derive(Debug, Default)]
pub(crate) struct HostRequests {
    open: BTreeMap<String, HostRequest>,
}

/// What a request is about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum HostRequest {
    /// The permission for a call.
    Permission {
        call: String,
        /// The request, for a host that connects later.
        request: Value,
    },
    Hook {
        subject: HookSubject,
        /// The host's id of the hook.
        callback: String,
    },
    /// A message to an MCP server in the host.
    Mcp { server: String, message: McpMessage },
}

/// The event that a hook runs for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HookSubject {
    SessionStart,
    Prompt,
    /// A call that has not run yet.
    PreToolUse(String),
    /// A call that has run.
    PostToolUse(String),
    Stop,
}

/// A message to an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum McpMessage {
    Initialize,
    Initialized,
    ListTools,
    Call(String),
}

impl HostRequests {
    pub(crate) fn take(&mut self, id: &str) -> Option<HostRequest> {
        self.open.remove(id)
    }

    /// The open permission requests, each with its call.
    pub(crate) fn permissions(&self) -> Vec<(String, String)> {
        let open = self.open.iter().filter_map(|(id, request)| match request {
            HostRequest::Permission { call, .. } => Some((id.clone(), call.clone())),
            _ => None,
        });
        open.collect()
    }

    /// The open permission requests as they were sent.
    pub(crate) fn pending(&self) -> Vec<Value> {
        let open = self.open.iter().filter_map(|(id, request)| match request {
            HostRequest::Permission { request, .. } => {
                Some(json!({ "type": "control_request", "request_id": id, "request": request }))
            }
            _ => None,
        });
        open.collect()
    }

    /// Whether a hook for a subject has not answered.
    pub(crate) fn waits_for(&self, subject: &HookSubject) -> bool {
        self.open.values().any(
            |request| matches!(request, HostRequest::Hook { subject: it, .. } if it == subject),
        )
    }

    /// Whether an MCP server has not listed its tools. Turns wait for that.
    pub(crate) fn connecting_servers(&self) -> bool {
        self.open.values().any(|request| {
            matches!(
                request,
                HostRequest::Mcp { message: McpMessage::Initialize | McpMessage::ListTools, .. }
            )
        })
    }

    /// Ids of requests to hooks.
    pub(crate) fn hooks(&self) -> Vec<String> {
        let hooks =
            self.open.iter().filter(|(_, request)| matches!(request, HostRequest::Hook { .. }));
        hooks.map(|(id, _)| id.clone()).collect()
    }
}

/// The MCP servers of the session. Only servers in the host really connect.
#[derive(Debug, Default)]
pub(crate) struct McpServers {
    servers: BTreeMap<String, McpServer>,
}

#[derive(Debug, Default)]
struct McpServer {
    /// Whether the server runs in the host.
    in_host: bool,
    info: Option<Value>,
    tools: Vec<Value>,
    /// The JSON-RPC id of the next request.
    next_id: u64,
    failed: bool,
}

impl McpServers {
    /// Parses the values of `--mcp-config`, each of which is JSON or a file.
    pub(crate) fn parse(configs: &[String]) -> Self {
        let mut servers = BTreeMap::new();
        for config in configs {
            let read = || std::fs::read_to_string(config).ok();
            let parsed: Option<Value> =
                serde_json::from_str(config).ok().or_else(|| serde_json::from_str(&read()?).ok());
            let named = parsed.as_ref().and_then(|it| it["mcpServers"].as_object());
            for (name, server) in named.into_iter().flatten() {
                let in_host = server["type"] == "sdk";
                let server = McpServer { in_host, failed: !in_host, ..McpServer::default() };
                servers.insert(name.clone(), server);
            }
        }
        Self { servers }
    }

    /// The tools of all connected servers.
    pub(crate) fn tools(&self) -> Vec<String> {
        let of = |(name, server): (&String, &McpServer)| {
            let tools = server.tools.iter().filter_map(|tool| tool["name"].as_str());
            tools.map(|tool| format!("mcp__{name}__{tool}")).collect::<Vec<_>>()
        };
        self.servers.iter().flat_map(of).collect()
    }

    pub(crate) fn listing(&self) -> Value {
        let one = |(name, server): (&String, &McpServer)| {
            let source = if server.in_host { "sdk" } else { "dynamic" };
            json!({ "name": name, "status": server.status(), "source": source })
        };
        self.servers.iter().map(one).collect()
    }

    pub(crate) fn status(&self) -> Value {
        let one = |(name, server): (&String, &McpServer)| {
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
    fn status(&self) -> &'static str {
        match (&self.info, self.failed) {
            (Some(_), _) => "connected",
            (None, true) => "failed",
            (None, false) => "pending",
        }
    }
}

impl PlayerSession {
    /// Sends a request to the host and returns its id.
    pub(crate) fn send_host_request(&mut self, kind: HostRequest, request: &Value) -> String {
        let id = self.ids.uuid();
        self.print(json!({ "type": "control_request", "request_id": id, "request": request }));
        self.host_requests.open.insert(id.clone(), kind);
        id
    }

    pub(crate) fn send_permission_request(&mut self, call: &str, request: &Value) {
        let kind = HostRequest::Permission { call: call.to_owned(), request: request.clone() };
        self.send_host_request(kind, request);
    }

    /// Handles an answer of the host. Answers without a request are ignored.
    pub(crate) fn on_control_response(&mut self, line: &Value) {
        if self.args.replay {
            self.print(line.clone());
        }
        let response = &line["response"];
        let Some(id) = response["request_id"].as_str() else { return };
        match self.host_requests.take(id) {
            Some(HostRequest::Permission { call, .. }) => {
                if self.host_requests.permissions().is_empty() {
                    self.set_state(PlayerState::Running);
                }
                self.on_permission_answer(&call, PlayerPermissionAnswer::parse(response));
            }
            Some(HostRequest::Hook { subject, callback }) => {
                self.on_host_hook_answer(&subject, &callback, response);
            }
            Some(HostRequest::Mcp { server, message }) => {
                self.on_mcp_response(&server, &message, response);
            }
            None => {}
        }
    }

    /// Closes all requests after the end of stdin, since no answer can come.
    pub(crate) fn close_host_requests(&mut self) {
        for (id, call) in self.host_requests.permissions() {
            self.host_requests.take(&id);
            if self.host_requests.permissions().is_empty() {
                self.set_state(PlayerState::Running);
            }
            let (message, by_user, interrupt) = (texts::STDIN_CLOSED.to_owned(), false, false);
            self.on_permission_answer(
                &call,
                PlayerPermissionAnswer::Deny { message, by_user, interrupt },
            );
        }
        for id in self.host_requests.hooks() {
            if let Some(HostRequest::Hook { subject, callback }) = self.host_requests.take(&id) {
                self.on_host_hook_answer(&subject, &callback, &json!({ "subtype": "success" }));
            }
        }
        let servers: Vec<String> = self.host_requests.open.keys().cloned().collect();
        for id in servers {
            if let Some(HostRequest::Mcp { server, message }) = self.host_requests.take(&id) {
                self.on_mcp_response(
                    &server,
                    &message,
                    &json!({ "subtype": "error", "error": "closed" }),
                );
            }
        }
    }

    /// Cancels the permission requests and returns their calls.
    pub(crate) fn cancel_permission_requests(&mut self) -> Vec<String> {
        let open = self.host_requests.permissions();
        for (id, _) in &open {
            self.host_requests.take(id);
            self.print(json!({ "type": "control_cancel_request", "request_id": id }));
        }
        open.into_iter().map(|(_, call)| call).collect()
    }

    /// Connects to the servers in the host.
    pub(crate) fn connect_mcp_servers(&mut self, names: &Value) {
        let given = names.as_array().into_iter().flatten().filter_map(Value::as_str);
        let known = self.servers.servers.iter().filter(|(_, server)| server.in_host);
        let all: BTreeSet<String> =
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
            self.send_mcp_request(name, McpMessage::Initialize, "initialize", Some(params));
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
        if kind != McpMessage::Initialized
            && let Some(known) = self.servers.servers.get_mut(server)
        {
            message["id"] = known.next_id.into();
            known.next_id += 1;
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
