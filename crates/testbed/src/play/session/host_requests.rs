//! Requests to the host that await an answer: permissions, hooks and messages to its MCP servers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::play::permission::PlayerPermissionAnswer;
use crate::play::session::mcp_servers::McpMessage;
use crate::play::session::{PlayerSession, PlayerState};
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
    Compaction(PlayerCompactionStep),
    SubagentStart,
    /// The id of the sub-agent that is done.
    SubagentStop(String),
}

/// A step of a compaction that has hooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlayerCompactionStep {
    /// Before the summary, with the instructions for it.
    Before(String),
    /// The session starts again with the summary.
    Started(String),
    /// After that.
    After(String),
}

impl PlayerCompactionStep {
    pub(crate) fn event(&self) -> &'static str {
        match self {
            Self::Before(_) => "PreCompact",
            Self::Started(_) => "SessionStart",
            Self::After(_) => "PostCompact",
        }
    }

    /// What the matchers of hooks are compared with.
    pub(crate) fn matched(&self) -> &'static str {
        match self {
            Self::Started(_) => "compact",
            Self::Before(_) | Self::After(_) => "manual",
        }
    }
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
                self.on_permission_answer(
                    &call,
                    PlayerPermissionAnswer::parse(response, self.args.release),
                );
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
}
