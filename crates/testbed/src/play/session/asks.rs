//! Requests of ours that a host has yet to answer.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Session, State};
use crate::play::permission::Answer;
use crate::play::wording;

/// What was asked, by the id of the request.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    open: BTreeMap<String, Ask>,
}

/// What an answer is about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ask {
    /// Whether a call may run.
    Permission {
        /// The call.
        call: String,
        /// The request, for hosts that come later.
        request: Value,
    },
    /// A hook of the host.
    Hook {
        /// What it looks at.
        about: HookAbout,
        /// The host's name for it.
        callback: String,
    },
    /// A message to a server of the host.
    Mcp {
        /// The server.
        server: String,
        /// What was asked of it.
        about: McpAbout,
    },
}

/// What a hook looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HookAbout {
    /// The start of the session.
    Start,
    /// The prompt of the turn.
    Prompt,
    /// A call before it runs.
    Before(String),
    /// A call that ran.
    After(String),
    /// The end of the turn.
    Stop,
}

/// What a server was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum McpAbout {
    Initialize,
    Initialized,
    Tools,
    Call(String),
}

impl Asks {
    /// Takes an ask out.
    pub(super) fn take(&mut self, id: &str) -> Option<Ask> {
        self.open.remove(id)
    }

    /// The calls that somebody is asked about, with the ids of the requests.
    pub(super) fn permissions(&self) -> Vec<(String, String)> {
        let open = self.open.iter().filter_map(|(id, ask)| match ask {
            Ask::Permission { call, .. } => Some((id.clone(), call.clone())),
            _ => None,
        });
        open.collect()
    }

    /// Those requests, as they were sent.
    pub(super) fn pending(&self) -> Vec<Value> {
        let open = self.open.iter().filter_map(|(id, ask)| match ask {
            Ask::Permission { request, .. } => {
                Some(json!({ "type": "control_request", "request_id": id, "request": request }))
            }
            _ => None,
        });
        open.collect()
    }

    /// Whether hooks about something have yet to answer.
    pub(super) fn waits_for(&self, about: &HookAbout) -> bool {
        self.open.values().any(|ask| matches!(ask, Ask::Hook { about: it, .. } if it == about))
    }

    /// Whether servers have yet to say what they can do; turns wait for them.
    pub(super) fn greets_servers(&self) -> bool {
        self.open.values().any(|ask| {
            matches!(ask, Ask::Mcp { about: McpAbout::Initialize | McpAbout::Tools, .. })
        })
    }

    /// Ids of hooks that have yet to answer.
    pub(super) fn hooks(&self) -> Vec<String> {
        let hooks = self.open.iter().filter(|(_, ask)| matches!(ask, Ask::Hook { .. }));
        hooks.map(|(id, _)| id.clone()).collect()
    }
}

impl Session {
    /// Sends a request to the host; its id.
    pub(super) fn ask_host(&mut self, ask: Ask, request: &Value) -> String {
        let id = self.ids.uuid();
        self.print(json!({ "type": "control_request", "request_id": id, "request": request }));
        self.asks.open.insert(id.clone(), ask);
        id
    }

    /// Asks whether a call may run.
    pub(super) fn ask_permission(&mut self, call: &str, request: &Value) {
        let ask = Ask::Permission { call: call.to_owned(), request: request.clone() };
        self.ask_host(ask, request);
    }

    /// The host answered something; answers to nothing are ignored.
    pub(super) fn answered(&mut self, line: &Value) {
        if self.arguments.replay {
            self.print(line.clone());
        }
        let response = &line["response"];
        let Some(id) = response["request_id"].as_str() else { return };
        match self.asks.take(id) {
            Some(Ask::Permission { call, .. }) => {
                if self.asks.permissions().is_empty() {
                    self.enter(State::Running);
                }
                self.permitted(&call, Answer::read(response));
            }
            Some(Ask::Hook { about, callback }) => {
                self.hook_answered(&about, &callback, response);
            }
            Some(Ask::Mcp { server, about }) => self.server_answered(&server, &about, response),
            None => {}
        }
    }

    /// stdin ended: whoever was asked will not answer.
    pub(super) fn close_asks(&mut self) {
        for (id, call) in self.asks.permissions() {
            self.asks.take(&id);
            if self.asks.permissions().is_empty() {
                self.enter(State::Running);
            }
            let (message, meant, interrupt) = (wording::CLOSED.to_owned(), false, false);
            self.permitted(&call, Answer::Deny { message, meant, interrupt });
        }
        for id in self.asks.hooks() {
            if let Some(Ask::Hook { about, callback }) = self.asks.take(&id) {
                self.hook_answered(&about, &callback, &json!({ "subtype": "success" }));
            }
        }
        let servers: Vec<String> = self.asks.open.keys().cloned().collect();
        for id in servers {
            if let Some(Ask::Mcp { server, about }) = self.asks.take(&id) {
                self.server_answered(
                    &server,
                    &about,
                    &json!({ "subtype": "error", "error": "closed" }),
                );
            }
        }
    }

    /// Takes requests about calls back.
    pub(super) fn cancel_asks(&mut self) -> Vec<String> {
        let open = self.asks.permissions();
        for (id, _) in &open {
            self.asks.take(id);
            self.print(json!({ "type": "control_cancel_request", "request_id": id }));
        }
        open.into_iter().map(|(_, call)| call).collect()
    }
}
