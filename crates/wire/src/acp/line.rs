//! The lines that an agent sends.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::rpc::{RpcError, RpcId};
use super::session_setup::{SessionListing, SessionSetup};
use super::update::{
    AcpUpdate, ConfigCategory, PermissionChoice, SessionActivity, StopReason, TokenUsage,
    ToolCallUpdate,
};
use super::version::AcpVersion;
use super::write::{self, UpdateBody};

/// A line for a client: one JSON object without a newline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentLine(Vec<u8>);

/// A request for permission.
#[derive(Clone, Debug, PartialEq)]
pub struct PermissionAsk {
    pub session: String,
    pub title: String,
    pub description: Option<String>,
    pub call: ToolCallUpdate,
    pub choices: Vec<PermissionChoice>,
}

/// A form with questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elicitation {
    pub session: String,
    pub call: String,
    pub message: String,
    pub fields: Vec<ElicitationField>,
}

/// A question with options, and room for an answer in one's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElicitationField {
    pub key: String,
    pub title: String,
    pub question: String,
    /// Labels and descriptions.
    pub options: Vec<(String, String)>,
    pub multiple: bool,
    /// The key of the answer in one's own words.
    pub custom_key: String,
}

impl AgentLine {
    fn of(value: &impl Serialize) -> Self {
        // Texts, numbers and valid JSON serialize.
        Self(serde_json::to_vec(value).unwrap_or_default())
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn result(id: &RpcId, result: Value) -> Self {
        Self::of(&write::ResponseLine { jsonrpc: "2.0", id, result })
    }

    fn notification(method: &'static str, params: Value) -> Self {
        Self::of(&write::CallLine { jsonrpc: "2.0", id: None, method, params })
    }

    fn request(id: u64, method: &'static str, params: impl Serialize) -> Self {
        let id = Some(RpcId::number(id));
        Self::of(&write::CallLine { jsonrpc: "2.0", id, method, params })
    }

    pub fn error(id: &RpcId, error: &RpcError) -> Self {
        let mut body = json!({ "code": error.code, "message": error.message });
        if let Some(data) = &error.data {
            body["data"] = data.clone();
        }
        Self::of(&write::ErrorLine { jsonrpc: "2.0", id, error: body })
    }

    /// An answer without content.
    pub fn done(id: &RpcId) -> Self {
        Self::result(id, json!({}))
    }

    /// The answer to `initialize`. `images` and so on are always offered.
    pub fn initialized(id: &RpcId, version: AcpVersion, product_version: &str) -> Self {
        let info = json!({ "name": "towpath", "title": "Towpath", "version": product_version });
        let meta = json!({ "steering": { "supported": true } });
        // Lists of agents want to know how a user signs in. Towpath itself needs no account.
        let (name, description) =
            ("Claude Code sign-in", "Run `claude` once in a terminal and sign in");
        Self::result(
            id,
            match version {
                AcpVersion::V1 => json!({
                    "protocolVersion": 1,
                    "agentCapabilities": {
                        "loadSession": true,
                        "promptCapabilities": { "image": true, "embeddedContext": true },
                        "mcpCapabilities": { "http": true, "sse": true },
                        "sessionCapabilities": {
                            "list": {}, "resume": {}, "close": {}, "delete": {},
                            "additionalDirectories": {}, "fork": {}, "status": {}, "title": {},
                        },
                        "_meta": { "claudeCode": { "promptQueueing": true } },
                    },
                    "agentInfo": info,
                    "authMethods": [
                        { "id": "claude-login", "name": name, "description": description },
                    ],
                    "_meta": meta,
                }),
                AcpVersion::V2 => json!({
                    "protocolVersion": 2,
                    "info": info,
                    "capabilities": {
                        "session": {
                            "prompt": { "image": {}, "embeddedContext": {} },
                            "mcp": { "stdio": {}, "http": {} },
                            "delete": {}, "additionalDirectories": {}, "fork": {},
                            "status": {}, "title": {},
                        },
                    },
                    "authMethods": [{
                        "type": "agent",
                        "methodId": "claude-login",
                        "name": name,
                        "description": description,
                    }],
                    "_meta": meta,
                }),
            },
        )
    }

    /// The answer to a request that opened a session; with its id if the client does not know it.
    pub fn session_opened(
        id: &RpcId,
        version: AcpVersion,
        session: Option<&str>,
        setup: &SessionSetup,
    ) -> Self {
        let mut result = Map::new();
        if let Some(session) = session {
            result.insert("sessionId".to_owned(), json!(session));
        }
        let options = write::config_options(version, &setup.options);
        result.insert("configOptions".to_owned(), options);
        match version {
            AcpVersion::V1 => {
                let mode = setup.options.iter().find(|it| it.category == ConfigCategory::Mode);
                if let Some(mode) = mode {
                    result.insert("modes".to_owned(), write::modes(mode));
                }
            }
            AcpVersion::V2 => {
                let commands = write::commands(version, &setup.commands);
                result.insert("availableCommands".to_owned(), commands);
            }
        }
        Self::result(id, Value::Object(result))
    }

    pub fn session_list(id: &RpcId, sessions: &[SessionListing], next: Option<&str>) -> Self {
        let sessions = sessions.iter().map(|it| {
            let mut session = json!({ "sessionId": it.id, "cwd": it.cwd });
            if let Some(title) = &it.title {
                session["title"] = json!(title);
            }
            if let Some(at) = &it.updated_at {
                session["updatedAt"] = json!(at);
            }
            session
        });
        let mut result = json!({ "sessions": sessions.collect::<Vec<_>>() });
        if let Some(next) = next {
            result["nextCursor"] = json!(next);
        }
        Self::result(id, result)
    }

    /// The answer to a prompt of version 1, whose turn is over. The reason is no error.
    pub fn prompt_ended(id: &RpcId, stop: &StopReason, usage: Option<TokenUsage>) -> Self {
        let mut result = json!({ "stopReason": stop.name() });
        if let Some(usage) = usage {
            result["usage"] = write::usage(usage);
        }
        Self::result(id, result)
    }

    /// The answer to a prompt of version 2, which was queued.
    pub fn prompt_taken(id: &RpcId, message: &str) -> Self {
        Self::result(id, json!({ "messageId": message }))
    }

    /// The answer to a steering prompt: it joined the running turn, or there is none.
    pub fn steered(id: &RpcId, injected: bool) -> Self {
        let result = if injected {
            json!({ "outcome": "injected" })
        } else {
            json!({ "outcome": "promptRequired", "reason": "noRunningTurn" })
        };
        Self::result(id, result)
    }

    /// The answer to a change of a configuration option.
    pub fn options_changed(id: &RpcId, version: AcpVersion, setup: &SessionSetup) -> Self {
        let options = write::config_options(version, &setup.options);
        Self::result(id, json!({ "configOptions": options }))
    }

    pub fn title_changed(id: &RpcId, title: &str) -> Self {
        Self::result(id, json!({ "title": title }))
    }

    pub fn status(id: &RpcId, is_open: bool) -> Self {
        Self::result(id, json!({ "status": if is_open { "open" } else { "saved" } }))
    }

    /// The lines that tell a client of a change; none if the version has no words for it.
    pub fn updates(version: AcpVersion, session: &str, update: &AcpUpdate) -> Vec<Self> {
        let line = |body: UpdateBody<'_>| {
            let params = write::UpdateParams { session_id: session, update: body };
            Self::of(&write::CallLine {
                jsonrpc: "2.0",
                id: None,
                method: "session/update",
                params,
            })
        };
        write::bodies(version, update).into_iter().map(line).collect()
    }

    /// Asks for permission.
    pub fn permission(id: u64, version: AcpVersion, ask: &PermissionAsk) -> Self {
        Self::request(id, "session/request_permission", write::permission(version, ask))
    }

    /// Asks questions.
    pub fn elicitation(id: u64, elicitation: &Elicitation) -> Self {
        Self::request(id, "elicitation/create", write::elicitation(elicitation))
    }

    /// Withdraws a request of the agent.
    pub fn cancel_request(id: u64) -> Self {
        Self::notification("$/cancel_request", json!({ "requestId": id }))
    }
}

impl SessionActivity {
    pub fn idle(stop: Option<StopReason>) -> Self {
        Self::Idle { stop, usage: None }
    }
}
