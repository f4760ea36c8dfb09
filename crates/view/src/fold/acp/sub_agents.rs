//! Sub-agents, which have sessions of their own. Each is shown as a call with what it does below it.

use serde_json::json;
use wire::json::{Raw, Text};

use super::content::prompt_text;
use super::{headline, id_of, is_id};
use crate::call::{Call, CallResult, CallState, SubAgent, SubAgentState};
use crate::fold::calls::{RESULT_BYTES, call_mut};
use crate::fold::turns::TurnActivity;
use crate::fold::{Fold, Visibility, prefix};
use crate::item::{ItemBody, ItemId};

/// How many sub-agents are followed at a time.
const MAX_SUB_AGENTS: usize = 1000;

/// How much of a description is kept.
const DESCRIPTION_BYTES: usize = 4 << 10;

/// The tool that starts sub-agents has this name everywhere in a conversation.
const AGENT_TOOL: &str = "Agent";

impl Fold {
    /// A sub-agent is new, or has changed.
    pub(super) fn sub_agent_changed(
        &mut self,
        parent: Option<ItemId>,
        session: Text<'_>,
        title: Option<Text<'_>>,
        description: Option<Text<'_>>,
        state: Option<Raw<'_>>,
    ) -> Visibility {
        let session = id_of(session);
        let state = state.and_then(sub_agent_state);
        let id = match self.acp.sub_agents.get(&session) {
            Some(id) => id.clone(),
            None if self.acp.sub_agents.len() >= MAX_SUB_AGENTS => return Visibility::Hidden,
            None => self.create_sub_agent(session, parent),
        };
        let at = self.entry.at;
        let short = |text: Text<'_>| prefix(&text.decode(), DESCRIPTION_BYTES);
        let (title, description) = (title.map(short), description.map(short));
        if title.is_none() && description.is_none() && state.is_none() {
            return Visibility::Hidden;
        }
        self.change(&id, |item| {
            let Some(call) = call_mut(item) else { return };
            if let Some(title) = &title {
                call.target = headline(title);
            }
            set_input(call, title, description, None);
            let Some(state) = state else { return };
            call.agent.get_or_insert_default().state = state;
            call.state = match state {
                SubAgentState::Running => CallState::Running,
                SubAgentState::Completed => CallState::Done,
                SubAgentState::Failed => CallState::Failed,
                SubAgentState::Stopped => CallState::Unanswered,
            };
            call.ended = at.filter(|_| !call.state.is_open());
        });
        Visibility::Visible
    }

    fn create_sub_agent(&mut self, session: String, parent: Option<ItemId>) -> ItemId {
        self.finish_acp_message(parent.as_ref());
        let id = ItemId::call(&format!("agent:{session}"));
        let turn = self.turn_of_agent(parent.as_ref());
        let position = self.next_position();
        let call = Call {
            started: self.entry.at,
            agent: Some(SubAgent::default()),
            ..Call::new(AGENT_TOOL.to_owned())
        };
        if parent.is_none() {
            self.note_activity(turn, TurnActivity::Acted);
        }
        self.add_item(id.clone(), turn, parent, position, ItemBody::Call(Box::new(call)));
        self.acp.sub_agents.insert(session, id.clone());
        id
    }

    /// The process of a sub-agent is gone.
    pub(super) fn stop_sub_agent(&mut self, id: &ItemId) {
        let runs = |call: &Call| {
            call.agent.as_ref().is_some_and(|agent| agent.state == SubAgentState::Running)
        };
        let item = self.items.get(id).map(|item| &item.body);
        if !matches!(item, Some(ItemBody::Call(call)) if runs(call)) {
            return;
        }
        self.change(id, |item| {
            let Some(call) = call_mut(item) else { return };
            call.state = call.state.abandoned();
            call.agent.get_or_insert_default().state = SubAgentState::Stopped;
        });
    }

    /// A message between an agent and its sub-agent. Both of their sessions report it.
    pub(super) fn session_message(
        &mut self,
        session: Option<Text<'_>>,
        sender: Option<Text<'_>>,
        recipient: Option<Text<'_>>,
        content: Option<Raw<'_>>,
    ) -> Visibility {
        let (Some(sender), Some(recipient)) = (sender, recipient) else {
            return Visibility::Hidden;
        };
        let is_main = |id: Text<'_>| self.acp.session.as_ref().is_some_and(|it| is_id(id, it));
        let is_copy = session.is_some_and(|session| session.decode() == recipient.decode());
        if is_copy && !is_main(recipient) {
            return Visibility::Hidden;
        }
        let text = content.map(|it| prompt_text(it, RESULT_BYTES)).unwrap_or_default().0;
        if text.is_empty() {
            return Visibility::Hidden;
        }
        if let Some(item) = self.acp.sub_agents.get(&id_of(recipient)).cloned() {
            self.change(&item, |item| {
                let Some(call) = call_mut(item) else { return };
                set_input(call, None, None, Some(&text));
            });
            self.add_agents_prompt(Some(item), text, 0);
            return Visibility::Visible;
        }
        let Some(item) = self.acp.sub_agents.get(&id_of(sender)).cloned() else {
            return Visibility::Hidden;
        };
        let seq = self.entry.seq;
        self.change(&item, |item| {
            let Some(call) = call_mut(item) else { return };
            call.result = Some(CallResult { text, seq, ..CallResult::default() });
        });
        Visibility::Visible
    }
}

/// Stores what is known about a sub-agent in the form of the tool's input.
fn set_input(call: &mut Call, title: Option<String>, kind: Option<String>, prompt: Option<&str>) {
    let old = Raw::parse(&call.input);
    let known = |key: &str| Some(old?.get(key)?.text()?.decode().into_owned());
    let mut input = serde_json::Map::new();
    let fields = [
        ("subagent_type", kind.or_else(|| known("subagent_type"))),
        ("description", title.or_else(|| known("description"))),
        ("prompt", prompt.map(str::to_owned).or_else(|| known("prompt"))),
    ];
    for (key, value) in fields {
        if let Some(value) = value {
            input.insert(key.to_owned(), json!(value));
        }
    }
    call.input = json!(input).to_string();
}

fn sub_agent_state(state: Raw<'_>) -> Option<SubAgentState> {
    let word = state.text().or_else(|| state.get("state")?.text())?;
    let reason = state.get("stopReason").and_then(Raw::text).map(Text::decode);
    Some(match (&*word.decode(), reason.as_deref()) {
        ("running" | "requires_action", _) => SubAgentState::Running,
        ("idle", Some("cancelled")) => SubAgentState::Stopped,
        ("idle", Some("error" | "refusal")) | ("failed", _) => SubAgentState::Failed,
        ("idle" | "completed", _) => SubAgentState::Completed,
        _ => return None,
    })
}
