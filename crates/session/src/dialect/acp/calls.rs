//! Requests and notifications of the agent.

use serde_json::json;
use wire::acp::event::{AcpCall, AcpCallBody, AgentToolCall};
use wire::acp::{PermissionChoice, PermissionChoiceKind, RpcError, RpcErrorCode, RpcId};
use wire::json::{Raw, Shape, Text};
use wire::note::RequestKind;
use wire::outgoing::AcpReply;

use super::state::{AcpPhase, OpenRequest};
use super::{AcpDriver, asks_person, form};
use crate::agent_event::{AgentEvent, PermissionRequest};

/// The tool name of requests that are about no tool.
const ELICITATION: &str = "elicitation";

/// The answer to a request that its sender withdrew, as language servers have it.
const REQUEST_CANCELLED: i64 = -32800;

impl AcpDriver {
    pub(super) fn call(&mut self, call: &AcpCall<'_>) {
        if let AcpCallBody::Withdrawn { request } = call.body {
            return self.withdraw(request);
        }
        // Notifications that are not known are recorded and otherwise ignored.
        let asks = asks_person(&call.body);
        let Some(id) = call.id.and_then(RpcId::of) else {
            if asks {
                self.report_problem(
                    "the agent asks for something without an id, so it cannot be answered; if it waits, \
                     stop the turn"
                        .to_owned(),
                );
            }
            return;
        };
        if asks && self.state.phase == AcpPhase::Ready {
            return self.ask(&id, call);
        }
        if asks {
            let error = RpcError::method_not_found(&call.method.decode());
            return self.refuse(&id, error, "before its session was open");
        }
        self.refuse_method(&id, &call.method.decode());
    }

    /// Refuses a request that this version does not know or does not offer.
    pub(super) fn refuse_method(&mut self, id: &RpcId, method: &str) {
        self.reply(id, &AcpReply::Error(RpcError::method_not_found(method)));
        // What agents ask of a person has such names. Files and terminals are not offered, which agents
        // know, and they can do without what is outside the protocol.
        if ["session/", "elicitation/"].iter().any(|prefix| method.starts_with(prefix)) {
            let method: String = method.chars().take(100).collect();
            self.report_problem(format!(
                "the agent asked for `{method}` in a form that this version does not know; it was refused"
            ));
        }
    }

    /// Refuses a request that a person should have answered, and says so.
    fn refuse(&mut self, id: &RpcId, error: RpcError, reason: &str) {
        self.reply(id, &AcpReply::Error(error));
        self.report_problem(format!("the agent asked for something {reason}; it was refused"));
    }

    fn ask(&mut self, id: &RpcId, call: &AcpCall<'_>) {
        let opened = match &call.body {
            AcpCallBody::Permission { call, command, title, options, .. } => {
                let choices = PermissionChoice::list(*options);
                if choices.is_empty() {
                    let error = RpcError::invalid_params("there is no option to choose");
                    return self.refuse(id, error, "without an answer to choose");
                }
                let call = call.as_deref();
                let request = permission(call, *command, *title, choices);
                (request, OpenRequest::Permission)
            }
            AcpCallBody::Elicitation { message, url: Some(url), .. } => {
                let message = message.map(String::from).unwrap_or_default();
                let input = json!({ "message": message, "url": String::from(*url) });
                let choices = vec![
                    choice("accept", "Done", PermissionChoiceKind::AllowOnce),
                    choice("decline", "Decline", PermissionChoiceKind::RejectOnce),
                ];
                let request = elicitation(RequestKind::Permission, input.to_string(), choices);
                (request, OpenRequest::Link)
            }
            AcpCallBody::Elicitation { message, schema, .. } => {
                let message = message.map(String::from).unwrap_or_default();
                let fields = schema.map(|schema| form::fields(&message, schema));
                let Some(fields) = fields.filter(|fields| !fields.is_empty()) else {
                    let error = RpcError::invalid_params("the form has no field");
                    return self.refuse(id, error, "with a form that cannot be shown");
                };
                let input = form::questions(&fields);
                let questions = fields.into_iter().map(|field| field.field).collect();
                let request = elicitation(RequestKind::Question, input, Vec::new());
                (request, OpenRequest::Form(questions))
            }
            _ => return,
        };
        let (request, open) = opened;
        let key = self.key(id.as_str());
        self.state.requests.insert(id.as_str().to_owned(), open);
        match &mut self.state.prompt {
            Some(prompt) if !prompt.started => {
                prompt.started = true;
                let id = prompt.id;
                self.event(AgentEvent::TurnStarted { conversation: None });
                self.event(AgentEvent::PromptAccepted(id));
            }
            Some(_) => {}
            None => self.event(AgentEvent::Unprompted),
        }
        self.event(AgentEvent::RequestOpened(PermissionRequest { id: key, ..request }));
        if self.state.prompt.as_ref().is_some_and(|prompt| prompt.stopped) {
            // It asked before it noticed that it was told to stop.
            self.cancel_requests();
        }
    }

    /// The agent no longer needs an answer. It gets one all the same, as the protocol wants it.
    fn withdraw(&mut self, request: Raw<'_>) {
        let Some(id) = RpcId::of(request) else { return };
        if self.state.requests.remove(id.as_str()).is_none() {
            return;
        }
        let message = "the request was withdrawn".to_owned();
        let error = RpcError { code: REQUEST_CANCELLED, message, data: None };
        self.reply(&id, &AcpReply::Error(error));
        self.event(AgentEvent::RequestWithdrawn { id: self.key(id.as_str()) });
    }

    /// Answers a request without a decision.
    pub(super) fn dismiss(&mut self, id: &str, request: &OpenRequest) {
        let Some(id) = Raw::parse(id).and_then(RpcId::of) else { return };
        let reply = match request {
            OpenRequest::Permission => AcpReply::Cancelled,
            OpenRequest::Form(_) | OpenRequest::Link => AcpReply::Dismissed,
        };
        self.reply(&id, &reply);
    }

    /// Answers that this host cannot do something, and that the fault is not the request's.
    pub(super) fn refusal(message: &str) -> RpcError {
        RpcError::new(RpcErrorCode::Internal, message)
    }
}

fn choice(id: &str, name: &str, kind: PermissionChoiceKind) -> PermissionChoice {
    PermissionChoice { id: id.to_owned(), name: name.to_owned(), kind }
}

fn permission(
    call: Option<&AgentToolCall<'_>>,
    command: Option<Raw<'_>>,
    title: Option<Text<'_>>,
    choices: Vec<PermissionChoice>,
) -> PermissionRequest {
    let title = call.and_then(|call| call.title).or(title).map(String::from);
    let name = call.and_then(|call| call.name.or(call.kind)).map(String::from);
    let object = |it: Raw<'_>| (it.shape() == Shape::Object).then(|| it.as_str().to_owned());
    let input = call.and_then(|call| call.raw_input).and_then(object);
    let shown = || match command {
        Some(command) => format!(r#"{{"command":{}}}"#, command.as_str()),
        None => json!({ "title": title }).to_string(),
    };
    PermissionRequest {
        id: String::new(),
        kind: RequestKind::Permission,
        tool_name: name.or_else(|| title.clone()).unwrap_or_else(|| "tool".to_owned()),
        tool_use_id: call.map(|call| String::from(call.id)),
        input: input.filter(|input| input != "{}").unwrap_or_else(shown),
        suggestions: None,
        choices,
        agent: None,
    }
}

fn elicitation(
    kind: RequestKind,
    input: String,
    choices: Vec<PermissionChoice>,
) -> PermissionRequest {
    PermissionRequest {
        id: String::new(),
        kind,
        tool_name: ELICITATION.to_owned(),
        tool_use_id: None,
        input,
        suggestions: None,
        choices,
        agent: None,
    }
}
