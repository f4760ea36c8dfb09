//! Requests of the agent: permissions, questions, plans, and hooks that the host answers.

use wire::event::{
    CanUseTool, ControlCancel, ControlRequest, ControlRequestKind as WireRequest, ControlResponse,
    ControlResult,
};
use wire::json::{Raw, Text};
use wire::note::{Actor, Outcome, RequestKind};
use wire::{RequestId, UnknownRequest};

use super::{Fold, Visibility};
use crate::agent_info::AgentInfo;
use crate::call::{CallPermission, CallState, Request};
use crate::item::{HookRun, ItemBody, ItemId, RawReason};
use crate::tool::{self, ToolAction};

/// What is known about the answer to a request.
#[derive(Default)]
pub(super) struct RequestResult {
    pub(super) outcome: Option<Outcome>,
    pub(super) by: Option<Actor>,
    pub(super) message: Option<String>,
    pub(super) answers: Vec<(String, String)>,
    /// The name of the agent's own choice that was taken.
    pub(super) choice: Option<String>,
}

impl RequestResult {
    pub(super) fn with_outcome(outcome: Outcome) -> Self {
        Self { outcome: Some(outcome), ..Self::default() }
    }
}

impl Fold {
    pub(super) fn control_request(
        &mut self,
        control: &ControlRequest<'_>,
        bytes: &[u8],
    ) -> Visibility {
        let id = control.request_id.key();
        match &control.request {
            WireRequest::CanUseTool(request) => self.open_request(&id, request),
            WireRequest::HookCallback { .. } if self.items.has(&ItemId::hook(&id)) => {
                Visibility::Hidden
            }
            WireRequest::HookCallback { callback_id, input, .. } => {
                let event = input.and_then(|it| it.get("hook_event_name")).and_then(Raw::text);
                let run = HookRun {
                    name: callback_id.map(|it| it.decode().into_owned()).unwrap_or_default(),
                    event: event.map(|it| it.decode().into_owned()).unwrap_or_default(),
                    ..HookRun::default()
                };
                let turn = self.working_turn();
                let position = self.next_position();
                self.add_item(ItemId::hook(&id), turn, None, position, ItemBody::Hook(run));
                Visibility::Visible
            }
            WireRequest::McpMessage { .. } => Visibility::Hidden,
            WireRequest::Other(request) => {
                let subtype = request.get("subtype").and_then(Raw::text).map(Text::decode);
                match subtype.as_deref() {
                    // These are for a person, and there is no other form for them yet.
                    Some(name @ ("elicitation" | "request_user_dialog")) => {
                        self.raw(format!("control_request/{name}"), RawReason::Unknown, bytes)
                    }
                    _ => Visibility::Hidden,
                }
            }
        }
    }

    fn open_request(&mut self, id: &str, request: &CanUseTool<'_>) -> Visibility {
        if self.is_open_request(id) {
            return Visibility::Hidden;
        }
        let tool = request.tool_name.decode().into_owned();
        let kind = RequestKind::of(&tool, request.input);
        let item = request.tool_use_id.map(|it| ItemId::call(&it.decode()));
        if let Some(item) = &item {
            self.attach_request(item, id, request, kind);
        }
        let text = |value: Option<Raw<'_>>| value.map(|it| it.readable().into_owned());
        self.add_request(Request {
            id: id.to_owned(),
            item,
            kind,
            action: ToolAction::of(&tool),
            target: request.input.map(tool::target).unwrap_or_default(),
            tool,
            input: request.input.map_or("{}", Raw::as_str).to_owned(),
            description: text(request.description),
            reason: text(request.decision_reason),
            blocked_path: text(request.blocked_path),
            suggestions: request.suggestions.map(|it| it.as_str().to_owned()),
            at: self.entry.at,
            expires: None,
            rules: Vec::new(),
            choices: Vec::new(),
        })
    }

    /// A request that this version does not know. The agent waits for an answer, so a person sees it
    /// as it was written, and can deny it.
    pub(super) fn open_unknown_request(&mut self, request: &UnknownRequest<'_>) -> Visibility {
        let tool = request.name();
        self.add_request(Request {
            id: request.id.into(),
            item: None,
            kind: RequestKind::Unknown,
            action: ToolAction::Use,
            target: String::new(),
            tool,
            input: request.content.as_str().to_owned(),
            description: None,
            reason: None,
            blocked_path: None,
            suggestions: None,
            at: self.entry.at,
            expires: None,
            rules: Vec::new(),
            choices: Vec::new(),
        })
    }

    /// If no answer can reach a noted request, and its line could not be read, nothing is known but that the
    /// agent waits.
    pub(super) fn open_request_without_id(&mut self, id: &str) {
        if wire::is_answerable(id) || self.is_open_request(id) {
            return;
        }
        self.add_request(Request {
            id: id.to_owned(),
            item: None,
            kind: RequestKind::Unknown,
            action: ToolAction::Use,
            target: String::new(),
            tool: wire::without_id("a long line"),
            input: "{}".to_owned(),
            description: None,
            reason: None,
            blocked_path: None,
            suggestions: None,
            at: self.entry.at,
            expires: None,
            rules: Vec::new(),
            choices: Vec::new(),
        });
    }

    /// Adds a request. While one with the same id is open, it stays: that is the one that the session has
    /// recorded, and a person must not see another one than they answer.
    pub(super) fn add_request(&mut self, request: Request) -> Visibility {
        if self.is_open_request(&request.id) {
            return Visibility::Hidden;
        }
        let rev = self.rev();
        self.requests.change(rev, |requests| requests.push(request));
        Visibility::Visible
    }

    /// Marks a call as waiting for its request. A call whose own line is missing is created from the
    /// request.
    fn attach_request(
        &mut self,
        item: &ItemId,
        id: &str,
        request: &CanUseTool<'_>,
        kind: RequestKind,
    ) {
        if !self.items.has(item) {
            let call = wire::event::ToolUse {
                id: request.tool_use_id,
                name: request.tool_name,
                input: request.input,
            };
            let body = self.complete_call_body(&call);
            // The CLI reports a sub-agent's calls only if the host asked for them, but always its
            // permission requests.
            let task = request.agent_id.map(Raw::readable);
            let parent = task.and_then(|task| self.calls.tasks.get(&*task)).cloned();
            let turn = self.turn_of_agent(parent.as_ref());
            let position = self.next_position();
            self.add_item(item.clone(), turn, parent.clone(), position, body);
            self.call_started(item, &call, parent.as_ref());
        }
        self.change(item, |item| {
            let ItemBody::Call(call) = &mut item.body else { return };
            if call.state.is_open() {
                call.state = CallState::Waiting;
            }
            call.permission = Some(CallPermission::new(Some(id.to_owned()), kind));
        });
    }

    /// An answer, which the CLI echoes on stdout since 2.1.37.
    pub(super) fn control_response(&mut self, response: &ControlResponse<'_>) -> Visibility {
        let Some(id) = response.request_id.map(RequestId::key) else { return Visibility::Hidden };
        let hook = ItemId::hook(&id);
        if self.items.has(&hook) {
            let outcome = match response.response {
                ControlResult::Success(_) => "success",
                ControlResult::Error(_) => "error",
            };
            return self.hook_ended(&hook, outcome);
        }
        if !self.is_open_request(&id) {
            return self.agent_described(response);
        }
        let payload = match response.response {
            ControlResult::Success(payload) => payload,
            ControlResult::Error(message) => {
                let message = message.map(|it| it.decode().into_owned());
                let answer =
                    RequestResult { message, ..RequestResult::with_outcome(Outcome::Denied) };
                return self.resolve(&id, answer);
            }
        };
        let field = |key: &str| payload.and_then(|it| it.get(key));
        let allowed = field("behavior").and_then(Raw::text).is_some_and(|it| it == "allow");
        let remembered = field("updatedPermissions").is_some_and(|it| it.items().next().is_some());
        let outcome = match (allowed, remembered) {
            (true, true) => Outcome::AllowedAndRemembered,
            (true, false) => Outcome::Allowed,
            (false, _) => Outcome::Denied,
        };
        let answer = RequestResult {
            outcome: Some(outcome),
            by: None,
            message: field("message").and_then(Raw::text).map(|it| it.decode().into_owned()),
            answers: answers(field("updatedInput")),
            choice: None,
        };
        self.resolve(&id, answer)
    }

    /// The reply to `initialize`, with which a new process introduces itself.
    fn agent_described(&mut self, response: &ControlResponse<'_>) -> Visibility {
        let ControlResult::Success(Some(payload)) = response.response else {
            return Visibility::Hidden;
        };
        if let Some(mut agent) = AgentInfo::of_initialize(payload) {
            // The next `init` says what this reply does not; until then the last one is the best
            // there is.
            if let Some(known) = &self.agent.value {
                agent.keep_from(known);
            }
            self.describe_agent(agent);
        }
        Visibility::Hidden
    }

    pub(super) fn control_cancel(&mut self, cancel: &ControlCancel<'_>) -> Visibility {
        let id = cancel.request_id.key();
        let hook = ItemId::hook(&id);
        if self.items.has(&hook) {
            return self.hook_ended(&hook, "cancelled");
        }
        if !self.is_open_request(&id) {
            return Visibility::Hidden;
        }
        self.resolve(&id, RequestResult::with_outcome(Outcome::Withdrawn))
    }

    fn hook_ended(&mut self, hook: &ItemId, outcome: &str) -> Visibility {
        self.change(hook, |item| {
            if let ItemBody::Hook(run) = &mut item.body {
                run.outcome.get_or_insert_with(|| outcome.to_owned());
            }
        });
        Visibility::Visible
    }

    fn is_open_request(&self, id: &str) -> bool {
        self.requests.value.iter().any(|request| request.id == id)
    }

    /// Resolves a request and stores its outcome in the call. A second source of the same answer
    /// adds what the first did not know.
    pub(super) fn resolve(&mut self, id: &str, answer: RequestResult) -> Visibility {
        let rev = self.rev();
        let known = self.requests.value.iter().position(|request| request.id == id);
        let item = match known {
            Some(at) => self.requests.change(rev, |requests| requests.remove(at)).item,
            None => {
                self.calls.resolved.iter().find(|(known, _)| known == id).map(|it| it.1.clone())
            }
        };
        let Some(item) = item else { return Visibility::Hidden };
        if known.is_some() {
            self.calls.remember_resolved(id, &item);
        }
        let call = item.clone();
        self.change(&item, |item| {
            let ItemBody::Call(call) = &mut item.body else { return };
            if call.state == CallState::Waiting {
                call.state = CallState::Running;
            }
            let Some(permission) = &mut call.permission else { return };
            if permission.request.as_deref() != Some(id) {
                return;
            }
            permission.outcome = answer.outcome.or(permission.outcome);
            permission.by = answer.by.or(permission.by.take());
            permission.message = answer.message.or(permission.message.take());
            permission.choice = answer.choice.or(permission.choice.take());
            if !answer.answers.is_empty() {
                permission.answers = answer.answers;
            }
            if matches!(permission.outcome, Some(Outcome::Denied | Outcome::Expired))
                && call.state == CallState::Failed
            {
                call.state = CallState::Denied;
            }
        });
        self.acp_request_resolved(&call);
        Visibility::Visible
    }

    /// Resolves the request of a call that has its result. If the answer was not recorded, the
    /// result shows what it was.
    pub(super) fn resolve_by_result(&mut self, item: &ItemId, failed: bool) {
        let about = |request: &&Request| request.item.as_ref() == Some(item);
        let Some(id) = self.requests.value.iter().find(about).map(|it| it.id.clone()) else {
            return;
        };
        let outcome = if failed { Outcome::Denied } else { Outcome::Allowed };
        self.resolve(&id, RequestResult::with_outcome(outcome));
    }

    /// Closes all open requests, because no answer can come any more.
    pub(super) fn withdraw_requests(&mut self) {
        let open: Vec<_> = self.requests.value.iter().map(|request| request.id.clone()).collect();
        for id in open {
            self.resolve(&id, RequestResult::with_outcome(Outcome::Withdrawn));
        }
    }
}

/// The `answers` of an object, by question.
pub(super) fn answers(object: Option<Raw<'_>>) -> Vec<(String, String)> {
    let answers = object.and_then(|it| it.get("answers"));
    let answers = answers.into_iter().flat_map(Raw::fields).filter_map(|(question, answer)| {
        Some((question.decode().into_owned(), answer.text()?.decode().into_owned()))
    });
    answers.collect()
}
