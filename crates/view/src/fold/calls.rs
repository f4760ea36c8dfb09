//! Calls of tools: which are open, and when they are not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wire::event::ToolUse;
use wire::json::Raw;
use wire::note::{self, Wants};

use super::Fold;
use crate::call::{Call, CallState, Permission, SubAgent, SubAgentState};
use crate::item::{Body, Item, ItemId};
use crate::subject;
use crate::subject::Verb;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Calls {
    /// Calls whose result has not come, in the order they were made.
    open: Vec<ItemId>,
    /// The calls that tasks belong to, by the task's id.
    pub(super) tasks: BTreeMap<String, ItemId>,
    /// The call whose sub-agent speaks, for old session files, which do not say so in the line.
    pub(super) sidechain: Option<ItemId>,
}

impl Calls {
    pub(super) fn none_open(&self) -> bool {
        self.open.is_empty()
    }

    /// Open calls, the newest first.
    pub(super) fn open(&self) -> impl Iterator<Item = &ItemId> {
        self.open.iter().rev()
    }

    pub(super) fn close(&mut self, id: &ItemId) {
        self.open.retain(|open| open != id);
    }
}

/// The call that an item is.
pub(super) fn called(item: &mut Item) -> Option<&mut Call> {
    match &mut item.body {
        Body::Call(call) => Some(call),
        _ => None,
    }
}

/// Whether the tool hands work to a sub-agent.
pub(super) fn begins_agent(tool: &str) -> bool {
    matches!(tool, "Task" | "Agent")
}

impl Fold {
    /// A call of which only the tool is known.
    pub(super) fn call_being_written(&self, call: &ToolUse<'_>) -> Body {
        let tool = call.name.decode().into_owned();
        Body::Call(Box::new(Call {
            verb: Verb::of(&tool),
            tool,
            target: String::new(),
            input: String::new(),
            state: CallState::Writing,
            began: self.now.at,
            ended: None,
            progress: None,
            outcome: None,
            permission: None,
            agent: None,
        }))
    }

    /// A call as its line has it.
    pub(super) fn whole_call(&self, call: &ToolUse<'_>) -> Body {
        let tool = call.name.decode().into_owned();
        Body::Call(Box::new(Call {
            verb: Verb::of(&tool),
            target: call.input.map(subject::target).unwrap_or_default(),
            input: call.input.map_or("{}", Raw::as_str).to_owned(),
            state: CallState::Running,
            began: self.now.at,
            ended: None,
            progress: None,
            outcome: None,
            permission: None,
            agent: begins_agent(&tool).then(SubAgent::default),
            tool,
        }))
    }

    /// The call is made.
    pub(super) fn call_begun(&mut self, id: &ItemId, call: &ToolUse<'_>, parent: Option<&ItemId>) {
        self.calls.open.push(id.clone());
        if let Some(parent) = parent {
            self.change_agent(parent, |agent| agent.calls += 1);
        }
        if self.now.transcript && begins_agent(&call.name.decode()) {
            self.calls.sidechain = Some(id.clone());
        }
    }

    /// The message is complete and no line repeats its call: a recording of the API's own stream.
    pub(super) fn complete_call(&mut self, id: &ItemId) {
        let begun = self.change(id, |item| {
            let call = called(item).filter(|call| call.state == CallState::Writing)?;
            let input = Raw::parse(&call.input);
            call.state = input.map_or(CallState::Unanswered, |_| CallState::Running);
            call.target = input.map(subject::target).unwrap_or_default();
            input.map(|_| ())
        });
        if begun.flatten().is_some() {
            self.calls.open.push(id.clone());
        }
    }

    /// A turn is over; what it called and did not hear of again stays without an answer. Agents in
    /// the background go on.
    pub(super) fn leave_calls_unanswered(&mut self) {
        let (kept, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.calls.open).into_iter().partition(|id| self.is_background(id));
        self.calls.open = kept;
        for id in left {
            self.change(&id, |item| {
                if let Some(call) = called(item) {
                    call.state = call.state.abandoned();
                    if let Some(agent) = &mut call.agent {
                        agent.state = SubAgentState::Stopped;
                    }
                }
            });
        }
    }

    /// Whether a call is made by an agent whose own call was answered already.
    fn is_background(&self, id: &ItemId) -> bool {
        let parent = self.shelf.get(id).and_then(|item| item.parent.as_ref());
        let Some(Body::Call(call)) =
            parent.and_then(|parent| self.shelf.get(parent)).map(|item| &item.body)
        else {
            return false;
        };
        !call.state.is_open()
            && call.agent.as_ref().is_some_and(|it| it.state == SubAgentState::Running)
    }

    /// A call was not allowed.
    pub(super) fn denied(&mut self, id: &ItemId, message: Option<String>) -> bool {
        self.change(id, |item| {
            let Some(call) = called(item) else { return };
            let permission = call.permission.get_or_insert(Permission {
                request: None,
                wants: Wants::Permission,
                outcome: None,
                by: None,
                message: None,
                answers: Vec::new(),
            });
            permission.outcome.get_or_insert(note::Outcome::Denied);
            if message.is_some() {
                permission.message = message;
            }
            call.state = match (call.state, permission.outcome) {
                (CallState::Done, _) => CallState::Done,
                // The CLI counts a question that an interrupt took back as refused.
                (_, Some(note::Outcome::Withdrawn)) => CallState::Unanswered,
                _ => CallState::Denied,
            };
        })
        .is_some()
    }
}
