//! Requests: permissions, questions, plans, and the hooks that the host answers.

use wire::event::{
    CanUseTool, ControlCancel, ControlRequest, ControlResponse, Request as Asked, Response,
};
use wire::json::{Raw, Text};
use wire::note::{Actor, Outcome, Wants};

use super::{Fold, Heard};
use crate::call::{CallState, Permission};
use crate::item::{Body, HookRun, ItemId, RawReason};
use crate::request::Request;
use crate::subject;
use crate::subject::Verb;

/// What came of a request, as far as the one who tells it knows.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) outcome: Option<Outcome>,
    pub(super) by: Option<Actor>,
    pub(super) message: Option<String>,
    pub(super) answers: Vec<(String, String)>,
}

impl Fold {
    pub(super) fn control_request(&mut self, asked: &ControlRequest<'_>, bytes: &[u8]) -> Heard {
        let id = asked.request_id.decode();
        match &asked.request {
            Asked::CanUseTool(asked) => self.open_request(&id, asked),
            Asked::HookCallback { .. } if self.shelf.has(&ItemId::hook(&id)) => Heard::Housekeeping,
            Asked::HookCallback { callback_id, input, .. } => {
                let event = input.and_then(|it| it.get("hook_event_name")).and_then(Raw::text);
                let run = HookRun {
                    name: callback_id.map(|it| it.decode().into_owned()).unwrap_or_default(),
                    event: event.map(|it| it.decode().into_owned()).unwrap_or_default(),
                    ..HookRun::default()
                };
                let turn = self.working_turn();
                let place = self.next_place();
                self.put_at(ItemId::hook(&id), turn, None, place, Body::Hook(run));
                Heard::Shown
            }
            Asked::McpMessage { .. } => Heard::Housekeeping,
            Asked::Other(request) => {
                let subtype = request.get("subtype").and_then(Raw::text).map(Text::decode);
                match subtype.as_deref() {
                    // These are for a person, and nothing here has a form for them yet.
                    Some(name @ ("elicitation" | "request_user_dialog")) => {
                        self.raw(format!("control_request/{name}"), RawReason::Unknown, bytes)
                    }
                    _ => Heard::Housekeeping,
                }
            }
        }
    }

    fn open_request(&mut self, id: &str, asked: &CanUseTool<'_>) -> Heard {
        let tool = asked.tool_name.decode().into_owned();
        let wants = match &*tool {
            "AskUserQuestion" => Wants::Answers,
            "ExitPlanMode" | "exit_plan_mode" => Wants::PlanApproval,
            _ => Wants::Permission,
        };
        let item = asked.tool_use_id.map(|it| ItemId::call(&it.decode()));
        if let Some(item) = &item {
            self.ask_about(item, id, asked, wants);
        }
        let text = |text: Option<Text<'_>>| text.map(|it| it.decode().into_owned());
        let request = Request {
            id: id.to_owned(),
            item,
            wants,
            verb: Verb::of(&tool),
            target: asked.input.map(subject::target).unwrap_or_default(),
            tool,
            input: asked.input.map_or("{}", Raw::as_str).to_owned(),
            description: text(asked.description),
            reason: text(asked.decision_reason),
            blocked_path: text(asked.blocked_path),
            suggestions: asked.suggestions.map(|it| it.as_str().to_owned()),
            at: self.now.at,
            expires: None,
            rules: Vec::new(),
        };
        let rev = self.rev();
        self.requests.change(rev, |requests| {
            requests.retain(|known| known.id != request.id);
            requests.push(request);
        });
        Heard::Shown
    }

    /// Lets a call wait for its request; one that is not in the record is shown from the request.
    fn ask_about(&mut self, item: &ItemId, request: &str, asked: &CanUseTool<'_>, wants: Wants) {
        if !self.shelf.has(item) {
            let call = wire::event::ToolUse {
                id: asked.tool_use_id,
                name: asked.tool_name,
                input: asked.input,
            };
            let body = self.whole_call(&call);
            // What a sub-agent does is only told where the host asked for it; that it asks, always.
            let parent = asked.agent_id.and_then(|it| self.calls.tasks.get(&*it.decode())).cloned();
            let turn = self.turn_of_agent(parent.as_ref());
            let place = self.next_place();
            self.put_at(item.clone(), turn, parent.clone(), place, body);
            self.call_begun(item, &call, parent.as_ref());
        }
        self.change(item, |item| {
            let Body::Call(call) = &mut item.body else { return };
            if call.state.is_open() {
                call.state = CallState::Waiting;
            }
            call.permission = Some(Permission {
                request: Some(request.to_owned()),
                wants,
                outcome: None,
                by: None,
                message: None,
                answers: Vec::new(),
            });
        });
    }

    /// An answer, which the CLI repeats on stdout from 2.1.37 on.
    pub(super) fn control_response(&mut self, response: &ControlResponse<'_>) -> Heard {
        let Some(id) = response.request_id.map(Text::decode) else { return Heard::Housekeeping };
        let hook = ItemId::hook(&id);
        if self.shelf.has(&hook) {
            let outcome = match response.response {
                Response::Success(_) => "success",
                Response::Error(_) => "error",
            };
            return self.hook_ended(&hook, outcome);
        }
        if !self.is_asked(&id) {
            return Heard::Housekeeping;
        }
        let payload = match response.response {
            Response::Success(payload) => payload,
            Response::Error(message) => {
                let message = message.map(|it| it.decode().into_owned());
                let answer =
                    Answer { outcome: Some(Outcome::Denied), message, ..Answer::default() };
                return self.resolve(&id, answer);
            }
        };
        let field = |key: &str| payload.and_then(|it| it.get(key));
        let allowed = field("behavior").and_then(Raw::text).is_some_and(|it| it == "allow");
        let remembered = field("updatedPermissions").is_some_and(|it| it.items().next().is_some());
        let answers = field("updatedInput").and_then(|it| it.get("answers"));
        let answers = answers.into_iter().flat_map(Raw::fields).filter_map(|(question, answer)| {
            Some((question.decode().into_owned(), answer.text()?.decode().into_owned()))
        });
        self.resolve(
            &id,
            Answer {
                outcome: Some(match (allowed, remembered) {
                    (true, true) => Outcome::AllowedAndRemembered,
                    (true, false) => Outcome::Allowed,
                    (false, _) => Outcome::Denied,
                }),
                by: None,
                message: field("message").and_then(Raw::text).map(|it| it.decode().into_owned()),
                answers: answers.collect(),
            },
        )
    }

    pub(super) fn control_cancel(&mut self, cancel: &ControlCancel<'_>) -> Heard {
        let id = cancel.request_id.decode();
        let hook = ItemId::hook(&id);
        if self.shelf.has(&hook) {
            return self.hook_ended(&hook, "cancelled");
        }
        if !self.is_asked(&id) {
            return Heard::Housekeeping;
        }
        self.resolve(&id, Answer { outcome: Some(Outcome::Withdrawn), ..Answer::default() })
    }

    fn hook_ended(&mut self, hook: &ItemId, how: &str) -> Heard {
        self.change(hook, |item| {
            if let Body::Hook(run) = &mut item.body {
                run.outcome.get_or_insert_with(|| how.to_owned());
            }
        });
        Heard::Shown
    }

    fn is_asked(&self, id: &str) -> bool {
        self.requests.value.iter().any(|request| request.id == id)
    }

    /// A request is answered. The call keeps what came of it; what a later teller knows is added.
    pub(super) fn resolve(&mut self, id: &str, answer: Answer) -> Heard {
        let rev = self.rev();
        let known = self.requests.value.iter().position(|request| request.id == id);
        let item = match known {
            Some(at) => self.requests.change(rev, |requests| requests.remove(at)).item,
            None => {
                self.people.resolved.iter().find(|(known, _)| known == id).map(|it| it.1.clone())
            }
        };
        let Some(item) = item else { return Heard::Housekeeping };
        if known.is_some() {
            self.people.remember(id, &item);
        }
        self.change(&item, |item| {
            let Body::Call(call) = &mut item.body else { return };
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
            if !answer.answers.is_empty() {
                permission.answers = answer.answers;
            }
            if matches!(permission.outcome, Some(Outcome::Denied | Outcome::Expired))
                && call.state == CallState::Failed
            {
                call.state = CallState::Denied;
            }
        });
        Heard::Shown
    }

    /// A call has its result, so nobody waits to be asked about it any more. Where nobody repeated
    /// the answer, the result tells what it was.
    pub(super) fn answered_by_result(&mut self, item: &ItemId, failed: bool) {
        let about = |request: &&Request| request.item.as_ref() == Some(item);
        let Some(id) = self.requests.value.iter().find(about).map(|it| it.id.clone()) else {
            return;
        };
        let outcome = if failed { Outcome::Denied } else { Outcome::Allowed };
        self.resolve(&id, Answer { outcome: Some(outcome), ..Answer::default() });
    }

    /// Nobody will answer what is still open.
    pub(super) fn withdraw_requests(&mut self) {
        let open: Vec<_> = self.requests.value.iter().map(|request| request.id.clone()).collect();
        for id in open {
            self.resolve(&id, Answer { outcome: Some(Outcome::Withdrawn), ..Answer::default() });
        }
    }
}
