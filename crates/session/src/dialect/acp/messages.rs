//! What the machine says, as lines for the agent.

use wire::acp::{RpcId, rpc_id_of_key};
use wire::json::Raw;
use wire::outgoing::{
    AcpOptionValue, AcpReply, AcpRequest, ControlReply, OutgoingLine, OutgoingPrompt,
    OutgoingRequest,
};

use super::responses::{PROMPT, STEER};
use super::state::{OpenRequest, PromptInProgress};
use super::{AcpDriver, DialectStep, form};
use crate::agent_event::AgentEvent;
use crate::agent_message::{AgentMessage, SettingKey};
use crate::shim::MAX_WRITE;

impl AcpDriver {
    /// Takes in a message of the machine.
    pub(crate) fn message(&mut self, message: AgentMessage) -> Vec<DialectStep> {
        match message {
            AgentMessage::Prompt(prompt) if prompt.steers() => self.steer(&prompt),
            AgentMessage::Prompt(prompt) => self.prompt(&prompt),
            AgentMessage::Request { id, request } => self.request(id, &request),
            AgentMessage::Set { id, key, value } => self.set(id, &key, value.as_deref()),
            AgentMessage::Reply { request, reply } => {
                let reply = match reply {
                    ControlReply::Allow { .. } => AcpReply::Submitted(Vec::new()),
                    ControlReply::Deny(_) => AcpReply::Declined,
                    ControlReply::Hook(_) | ControlReply::Mcp(_) => return Vec::new(),
                    ControlReply::Error(text) => AcpReply::Error(Self::refusal(&text)),
                };
                self.answer(&request, |open| match open {
                    OpenRequest::Permission => AcpReply::Cancelled,
                    OpenRequest::Form(_) | OpenRequest::Link => reply,
                });
            }
            AgentMessage::Choice { request, choice } => {
                self.answer(&request, |open| match (open, choice.as_deref()) {
                    (OpenRequest::Permission, Some(choice)) => AcpReply::Chosen(choice),
                    (OpenRequest::Permission, None) => AcpReply::Cancelled,
                    (_, Some("accept")) => AcpReply::Submitted(Vec::new()),
                    _ => AcpReply::Declined,
                });
            }
            AgentMessage::Answers { request, answers } => {
                self.answer(&request, |open| match open {
                    OpenRequest::Form(fields) => {
                        AcpReply::Submitted(form::content(fields, &answers))
                    }
                    OpenRequest::Permission => AcpReply::Cancelled,
                    OpenRequest::Link => AcpReply::Submitted(Vec::new()),
                });
            }
        }
        self.take_steps()
    }

    fn prompt(&mut self, prompt: &OutgoingPrompt) {
        let id = prompt.id();
        if self.state.prompt.is_some() {
            // Some agents queue a second prompt, others cancel the first.
            return self.event(AgentEvent::PromptReturned(id));
        }
        let images = self.can_have(prompt);
        let session = self.state.session.clone().unwrap_or_default();
        let request = AcpRequest::Prompt { session: &session, prompt, images };
        let line = OutgoingLine::acp_request(&format!("{PROMPT}{id}"), &request);
        self.state.replays = false;
        self.state.prompt =
            Some(PromptInProgress { id, started: false, stopped: false, failed: false });
        if line.as_str().len() >= MAX_WRITE {
            self.state.prompt = None;
            return self.turn_ended(id, Some("the prompt is too large for the agent".to_owned()));
        }
        self.send(line);
    }

    fn steer(&mut self, prompt: &OutgoingPrompt) {
        let id = prompt.id();
        let images = prompt.has_images() && self.state.capabilities.images;
        let session = self.state.session.clone().unwrap_or_default();
        let request = AcpRequest::Steer { session: &session, prompt, images };
        let line = OutgoingLine::acp_request(&format!("{STEER}{id}"), &request);
        let fits = line.as_str().len() < MAX_WRITE;
        let whole = images || !prompt.has_images();
        if self.state.prompt.is_none() || !self.state.capabilities.steering || !fits || !whole {
            return self.event(AgentEvent::PromptReturned(id));
        }
        self.state.steered.insert(id, false);
        self.send(line);
    }

    /// Whether the images of a prompt can be sent. If not, the conversation says so.
    fn can_have(&mut self, prompt: &OutgoingPrompt) -> bool {
        let images = self.state.capabilities.images;
        if prompt.has_images() && !images {
            self.report_problem("this agent takes no images; it gets the text alone".to_owned());
        }
        images
    }

    fn request(&mut self, id: String, request: &OutgoingRequest) {
        let refusal = match request {
            OutgoingRequest::Initialize(_) => return self.initialize(id),
            OutgoingRequest::Interrupt { .. } => return self.interrupt(id),
            OutgoingRequest::CancelAsyncMessage { .. } => {
                // What the agent has, it does not give back.
                let answer = Ok(Some(r#"{"cancelled":false}"#.to_owned()));
                return self.event(AgentEvent::RequestAnswered { id, answer });
            }
            OutgoingRequest::RewindFiles { .. } | OutgoingRequest::RewindConversation { .. } => {
                "this agent cannot go back in the conversation"
            }
            OutgoingRequest::GetContextUsage {}
            | OutgoingRequest::GetSessionCost {}
            | OutgoingRequest::GetUsage {} => "this agent cannot be asked for its usage",
            OutgoingRequest::GetWorkspaceDiff {} => "this agent cannot list changes",
            OutgoingRequest::FileSuggestions { .. } => "this agent cannot suggest files",
            _ => "this agent cannot do that",
        };
        let answer = Err(refusal.to_owned());
        self.event(AgentEvent::RequestAnswered { id, answer });
    }

    /// Tells the agent to stop. Its open requests must be answered, or it may wait for them.
    fn interrupt(&mut self, id: String) {
        if let Some(session) = self.state.session.clone() {
            self.send(OutgoingLine::acp_cancel(&session));
        }
        if let Some(prompt) = &mut self.state.prompt {
            prompt.stopped = true;
        }
        self.cancel_requests();
        self.event(AgentEvent::RequestAnswered { id, answer: Ok(None) });
    }

    fn set(&mut self, id: String, key: &SettingKey, value: Option<&str>) {
        let line = match value {
            Some(value) => self.setting_line(&id, key, value),
            None => Err("this agent has no default to go back to".to_owned()),
        };
        match line {
            Ok(line) => self.send(line),
            Err(reason) => {
                self.event(AgentEvent::RequestAnswered { id, answer: Err(reason) });
            }
        }
    }

    /// The request that makes a setting, in the way that the session offers.
    pub(super) fn setting_line(
        &self,
        id: &str,
        key: &SettingKey,
        value: &str,
    ) -> Result<OutgoingLine, String> {
        let offered = &self.state.offered;
        let session = self.state.session.as_deref().unwrap_or_default();
        let category = |name: &str| offered.categories.get(name);
        let option = match key {
            SettingKey::Mode if offered.modes => None,
            SettingKey::Mode => category("mode"),
            SettingKey::Model => category("model"),
            SettingKey::Effort => category("thought_level"),
            SettingKey::Option(id) => offered.options.get(id),
        };
        let request = match (key, option) {
            (_, Some(option)) if offered.switches.contains(option) => {
                let on = value.parse().map_err(|_| "the value is not `true` or `false`")?;
                AcpRequest::SetOption { session, option, value: AcpOptionValue::Switched(on) }
            }
            (_, Some(option)) => {
                AcpRequest::SetOption { session, option, value: AcpOptionValue::Selected(value) }
            }
            (SettingKey::Mode, None) if offered.modes => {
                AcpRequest::SetMode { session, mode: value }
            }
            (SettingKey::Model, None) if offered.models => {
                AcpRequest::SetModel { session, model: value }
            }
            _ => return Err(format!("this agent has no setting `{}`", key.name())),
        };
        Ok(OutgoingLine::acp_request(id, &request))
    }

    /// Answers a request of the agent, unless it was answered or belongs to another process.
    fn answer<'a>(&mut self, key: &str, reply: impl FnOnce(&OpenRequest) -> AcpReply<'a>) {
        let id = rpc_id_of_key(key);
        if self.key(id) != key {
            return;
        }
        let Some(open) = self.state.requests.remove(id) else { return };
        if let Some(id) = Raw::parse(id).and_then(RpcId::of) {
            self.reply(&id, &reply(&open));
        }
    }
}
