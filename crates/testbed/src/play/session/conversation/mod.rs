//! A conversation with the model, of the main agent or of a sub-agent, and the requests in it.

mod history;
mod message;
mod reply;
mod retry;

pub(crate) use history::{PlayerHistory, PlayerHistoryEntry};
pub(crate) use message::{MessageStep, PlayerMessage, PlayerTokens, PlayerUsage};
pub(crate) use retry::synthetic_message;

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use crate::play::event::{ModelRequestNumber, PlayerEffect};
use crate::play::permission::PlayerMode;
use crate::play::release::PlayerBehavior;
use crate::play::session::PlayerSession;
use crate::play::session::calls::PlayerCall;
use crate::play::session::turn::PlayerTurn;

/// Whose conversation it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlayerAgent {
    Main,
    /// A sub-agent and its id.
    SubAgent(String),
}

#[derive(Debug)]
pub(crate) struct PlayerConversation {
    pub(crate) agent: PlayerAgent,
    pub(crate) history: PlayerHistory,
    /// The request that has not been answered completely.
    pub(crate) pending: Option<PendingModelRequest>,
    /// The reply that is arriving, or the last one.
    pub(crate) message: Option<PlayerMessage>,
    /// The calls of that reply, in order.
    pub(crate) calls: Vec<PlayerCall>,
    /// Failures since the last success.
    pub(crate) failures: FailureCounts,
}

/// A request that has not been answered completely.
#[derive(Clone, Debug)]
pub(crate) struct PendingModelRequest {
    pub(crate) number: ModelRequestNumber,
    /// The API's id of the request.
    pub(crate) id: Option<String>,
    pub(crate) sent: SystemTime,
    pub(crate) streaming: bool,
    /// Whether a timer runs for the next attempt.
    pub(crate) paused: bool,
    pub(crate) body: Value,
    /// Whether it asks for the summary of a compaction.
    pub(crate) summary: bool,
}

/// How often requests have failed, by the kind of failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailureCounts {
    /// Failed attempts.
    pub(crate) retries: u32,
    /// Attempts that the API rejected as invalid, each with fewer features than the one before.
    pub(crate) reductions: u32,
    /// Streams that failed before the first block.
    pub(crate) broken_streams: u32,
    /// Replies that broke off, after which the model was asked to continue.
    pub(crate) continuations: u32,
    /// Replies that hit the limit of output tokens.
    pub(crate) truncations: u32,
    pub(crate) empty_replies: u32,
    /// Replies that a safety classifier stopped.
    pub(crate) refusals: u32,
}

impl PlayerConversation {
    pub(crate) fn new(agent: PlayerAgent, history: PlayerHistory) -> Self {
        let (calls, failures) = (Vec::new(), FailureCounts::default());
        Self { agent, history, pending: None, message: None, calls, failures }
    }

    pub(crate) fn all_calls_done(&self) -> bool {
        self.calls.iter().all(PlayerCall::is_done)
    }
}

impl PlayerSession {
    /// Sends the conversation of an agent to the model.
    pub(crate) fn request_model(&mut self, agent: &PlayerAgent) {
        let body = self.request_body(agent);
        self.send_request(agent, body, true);
    }

    pub(crate) fn send_request(&mut self, agent: &PlayerAgent, body: Value, streaming: bool) {
        self.request_count += 1;
        let (number, sent) = (self.request_count, self.now);
        let pending = PendingModelRequest {
            number,
            id: None,
            sent,
            streaming,
            paused: false,
            body: body.clone(),
            summary: false,
        };
        let main = *agent == PlayerAgent::Main;
        let Some(conversation) = self.conversation(agent) else { return };
        let failures = &conversation.failures;
        let again = failures.retries + failures.broken_streams + failures.reductions > 0;
        conversation.pending = Some(pending);
        conversation.message = None;
        if main {
            if let Some(turn) = &mut self.turn {
                turn.first_request.get_or_insert(sent);
            }
            if self.args.partial && !again && self.has(PlayerBehavior::StatusRequesting) {
                self.print_requesting();
            }
        }
        self.effects.push(PlayerEffect::RequestModel { number, body });
    }

    fn print_requesting(&mut self) {
        let uuids = self.turn.as_ref().map(PlayerTurn::uuids).unwrap_or_default();
        let mut fields = json!({ "status": "requesting" });
        if !uuids.is_empty() {
            fields["user_message_uuids"] = uuids.into();
        }
        self.print_system("status", fields);
    }

    pub(crate) fn request_body(&mut self, agent: &PlayerAgent) -> Value {
        let model = self.model();
        let tools: Vec<Value> = {
            let structured = self.structured_output_definition();
            let definition = |tool: &String| match &structured {
                Some(definition) if definition["name"] == **tool => definition.clone(),
                _ => tool_definition(tool),
            };
            self.tools().iter().map(definition).collect()
        };
        let mut system = self.args.system_prompt.clone().unwrap_or_else(|| {
            "You are an agent working with the user toward their goals.".to_owned()
        });
        if let Some(more) = &self.args.append_system_prompt {
            system = format!("{system}\n\n{more}");
        }
        if self.mode == PlayerMode::Plan {
            let plan = self.plan_path();
            system = format!("{system}\n\nPlan mode is active. Plan file: {}", plan.display());
        }
        let opening = "You are a Claude agent, built on Anthropic's Claude Agent SDK.";
        let (effort, session) = (self.effort.clone(), self.id.clone());
        let mut messages = self
            .conversation(agent)
            .map(|conversation| conversation.history.messages())
            .unwrap_or_default();
        if let Some(first) = messages.first_mut().and_then(|it| it["content"].as_array_mut())
            && let Some(reminder) = self.reminder()
        {
            first.insert(0, json!({ "type": "text", "text": reminder }));
        }
        let mut body = json!({
            "model": model, "max_tokens": 128_000, "stream": true,
            "system": [{ "type": "text", "text": opening }, { "type": "text", "text": system }],
            "messages": messages,
            "tools": tools,
            "thinking": { "type": "adaptive", "display": "updates" },
            "output_config": { "effort": effort },
            "metadata": { "user_id": format!("play_session_{session}") },
        });
        if let Some(object) = body.as_object_mut() {
            self.set_thinking(object);
        }
        body
    }

    /// Changes the `thinking` of a request for releases that have a budget for it.
    fn set_thinking(&self, body: &mut Map<String, Value>) {
        let is_off = self.thinking_budget == Some(0);
        match self.thinking_budget {
            Some(budget) if !is_off && self.has(PlayerBehavior::ThinkingBudgets) => {
                let thinking = json!({ "type": "enabled", "budget_tokens": budget });
                body.insert("thinking".to_owned(), thinking);
            }
            None if self.has(PlayerBehavior::ThinkingBudgets) => drop(body.remove("thinking")),
            _ if is_off && self.has(PlayerBehavior::ThinkingLeftOut) => {
                drop(body.remove("thinking"));
            }
            _ => {}
        }
    }

    /// The contents of the `CLAUDE.md` files, which precede the first prompt.
    fn reminder(&self) -> Option<String> {
        let files = self.settings.memory.iter();
        let parts: Vec<String> = files
            .map(|(path, text)| format!("Contents of {}:\n\n{text}", path.display()))
            .collect();
        let all = parts.join("\n\n");
        (!all.is_empty()).then(|| format!("<system-reminder>\n{all}\n</system-reminder>\n"))
    }
}

/// The definition of a tool for the model.
fn tool_definition(tool: &str) -> Value {
    let name = if tool == "Task" { "Agent" } else { tool };
    json!({ "name": name, "description": name, "input_schema": { "type": "object" } })
}
