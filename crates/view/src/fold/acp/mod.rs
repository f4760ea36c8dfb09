//! Sessions of agents that speak the Agent Client Protocol.
//!
//! Each file handles one subject: [`agent`] what the agent says about itself; [`messages`] its texts and
//! those of other clients; [`calls`] tool calls, with [`content`] and [`terminals`] for what they show;
//! [`requests`] what it asks a person; [`sub_agents`] sessions below this one; [`turns`] prompts, their
//! ends and what they used.
//!
//! A journal has notes about prompts, turns and answers. A recording has both sides of the conversation
//! instead, and says the same with the calls of the client.

mod agent;
mod calls;
mod content;
mod messages;
mod requests;
mod sub_agents;
mod terminals;
mod turns;

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use wire::acp::event::{AcpCall, AcpCallBody, AcpEvent, AgentUpdate};
use wire::event::{Event, Sender};
use wire::json::{Raw, Text};

use super::messages::DraftKind;
use super::{Fold, Visibility};
use crate::agent_info::short_value;
use crate::item::ItemId;
use crate::wording;

/// A longer id is shortened, so that an agent with huge ids cannot fill the memory.
const MAX_ID_BYTES: usize = 200;

/// What is known about a session of such an agent beside its items.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct AcpTracker {
    /// The agent's id of the session.
    session: Option<String>,
    setup: Option<SetupCall>,
    /// The agent repeats what happened before, because the session was loaded.
    ///
    /// Some agents answer the request first and repeat afterwards, so it lasts until the next prompt.
    replays: bool,
    /// The message that each agent is writing, by the agent's item; the main agent's key is empty.
    drafts: BTreeMap<String, messages::AcpDraft>,
    /// The messages that ended last, because the agent may replace them.
    finished: VecDeque<messages::AcpDraft>,
    /// The prompt of another client that is being repeated.
    foreign_prompt: Option<messages::ForeignPrompt>,
    prompts: turns::PromptCalls,
    sub_agents: BTreeMap<String, ItemId>,
    terminals: BTreeMap<String, terminals::TerminalState>,
    forms: VecDeque<requests::OpenForm>,
    /// The compaction that was reported last.
    compaction: Option<ItemId>,
    /// The agent says that it is in an error, which some agents only tell outside the protocol.
    in_error: bool,
    /// Whether any message of the protocol was folded.
    is_used: bool,
}

/// The client's request that opens the session and is not answered yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SetupCall {
    request: String,
    /// The working directory.
    cwd: Option<String>,
}

impl AcpTracker {
    /// What the main agent is writing.
    pub(super) fn draft_kind(&self) -> DraftKind {
        match self.drafts.get("") {
            Some(draft) if draft.is_thought() => DraftKind::Thinking,
            Some(_) => DraftKind::Writing,
            None => DraftKind::None,
        }
    }
}

/// Whose update it is.
enum UpdateSource {
    Main,
    SubAgent(ItemId),
    /// A session that nothing has introduced.
    OtherSession,
}

/// An id of the protocol that names an item.
fn id_of(text: Text<'_>) -> String {
    short_id(&text.decode()).into_owned()
}

fn short_id(id: &str) -> Cow<'_, str> {
    if id.len() <= MAX_ID_BYTES {
        return Cow::Borrowed(id);
    }
    // FNV-1a, because ids must be the same after a restart.
    let hash = id.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)
    });
    Cow::Owned(format!("{}~{hash:032x}", &id[..id.floor_char_boundary(MAX_ID_BYTES / 2)]))
}

/// Whether a text is this shortened id.
fn is_id(text: Text<'_>, known: &str) -> bool {
    text == *known || (text.raw().len() > MAX_ID_BYTES && id_of(text) == known)
}

/// Whether an update adds to the conversation, rather than describing the session.
fn is_content(update: &AgentUpdate<'_>) -> bool {
    match update {
        AgentUpdate::Commands(_)
        | AgentUpdate::Mode(_)
        | AgentUpdate::Options(_)
        | AgentUpdate::Info { .. }
        | AgentUpdate::Usage { .. } => false,
        AgentUpdate::Chunk { .. }
        | AgentUpdate::Message { .. }
        | AgentUpdate::ToolCall(_)
        | AgentUpdate::ToolCallContent { .. }
        | AgentUpdate::Plan { .. }
        | AgentUpdate::PlanRemoved
        | AgentUpdate::Notice { .. }
        | AgentUpdate::Compaction { .. }
        | AgentUpdate::CompactionSummary { .. }
        | AgentUpdate::State { .. }
        | AgentUpdate::Terminal { .. }
        | AgentUpdate::TerminalOutput { .. }
        | AgentUpdate::SubAgent { .. }
        | AgentUpdate::SessionMessage { .. } => true,
    }
}

impl Fold {
    /// A message of either side.
    pub(super) fn acp(&mut self, event: &Event<'_>, message: &AcpEvent<'_>) -> Visibility {
        self.acp.is_used = true;
        match message {
            AcpEvent::Update { session, update, meta } => self.acp_update(*session, update, *meta),
            AcpEvent::Call(call) => self.acp_call(call),
            AcpEvent::Response(response) => {
                let by_client = self.entry.sent || event.envelope.sender == Some(Sender::Client);
                if by_client {
                    return self.client_answered(response);
                }
                let sides_are_known = self.turns.has_notes || event.envelope.sender.is_some();
                self.agent_answered(response, sides_are_known)
            }
        }
    }

    fn acp_update(
        &mut self,
        session: Option<Text<'_>>,
        update: &AgentUpdate<'_>,
        meta: Option<Raw<'_>>,
    ) -> Visibility {
        let parent = match self.update_source(session, meta) {
            UpdateSource::Main => None,
            UpdateSource::SubAgent(item) => Some(item),
            UpdateSource::OtherSession => return Visibility::Hidden,
        };
        if self.acp.replays && is_content(update) {
            return Visibility::Hidden;
        }
        if let AgentUpdate::Chunk { author, message, content, .. } = update {
            return self.acp_chunk(parent, *author, *message, *content);
        }
        if is_content(update) || matches!(update, AgentUpdate::Usage { .. }) {
            self.separate_messages(parent.as_ref());
        }
        match update {
            AgentUpdate::Chunk { .. } => Visibility::Hidden,
            AgentUpdate::Message { author, message, content } => {
                self.acp_message(parent, *author, *message, *content)
            }
            AgentUpdate::ToolCall(call) => {
                self.update_acp_call(parent, call);
                Visibility::Visible
            }
            AgentUpdate::ToolCallContent { call, content } => {
                self.add_acp_call_content(parent, *call, *content)
            }
            AgentUpdate::Plan { .. } | AgentUpdate::PlanRemoved if parent.is_some() => {
                // A sub-agent's to-do list is not that of the session.
                Visibility::Hidden
            }
            AgentUpdate::Plan { entries } => self.plan_changed(Some(*entries)),
            AgentUpdate::PlanRemoved => self.plan_changed(None),
            AgentUpdate::State { state, stop_reason, usage, error } => {
                self.acp_state(parent.as_ref(), *state, *stop_reason, (*usage, meta), *error)
            }
            AgentUpdate::Usage { used, size, cost } => {
                self.acp_usage(parent.as_ref(), *used, *size, *cost)
            }
            AgentUpdate::Notice { severity, title, description } => {
                self.acp_notice(*severity, *title, *description)
            }
            AgentUpdate::Compaction { status, summary, .. } => {
                self.acp_compaction(*status, *summary)
            }
            AgentUpdate::CompactionSummary { content, .. } => self.add_compaction_summary(*content),
            AgentUpdate::Terminal { id, output, exit_status, .. } => {
                self.terminal_changed(*id, *output, *exit_status)
            }
            AgentUpdate::TerminalOutput { id, data } => self.terminal_printed(*id, *data),
            AgentUpdate::SubAgent { session, title, description, state } => {
                self.sub_agent_changed(parent, *session, *title, *description, *state)
            }
            AgentUpdate::SessionMessage { sender, recipient, content } => {
                self.session_message(session, *sender, *recipient, *content)
            }
            // What a sub-agent could be set to is of no interest.
            AgentUpdate::Commands(_) | AgentUpdate::Mode(_) | AgentUpdate::Options(_)
                if parent.is_some() =>
            {
                Visibility::Hidden
            }
            AgentUpdate::Commands(commands) => self.commands_changed(*commands),
            AgentUpdate::Mode(mode) => self.mode_changed(*mode),
            AgentUpdate::Options(options) => self.options_changed(*options),
            AgentUpdate::Info { title } => self.session_info(parent.as_ref(), *title, meta),
        }
    }

    /// Whose update it is. The first session that is heard of is the main one if no call says which.
    fn update_source(&mut self, session: Option<Text<'_>>, meta: Option<Raw<'_>>) -> UpdateSource {
        if let Some(session) = session {
            match &self.acp.session {
                Some(known) if is_id(session, known) => {}
                Some(_) => {
                    let known = self.acp.sub_agents.get(&id_of(session)).cloned();
                    return known.map_or(UpdateSource::OtherSession, UpdateSource::SubAgent);
                }
                None => self.learn_acp_session(session),
            }
        }
        let parent = meta.and_then(|meta| meta.get("claudeCode")?.get("parentToolUseId")?.text());
        let parent = parent.map(|parent| ItemId::call(&id_of(parent)));
        match parent.filter(|parent| self.items.has(parent)) {
            Some(parent) => UpdateSource::SubAgent(parent),
            None => UpdateSource::Main,
        }
    }

    fn learn_acp_session(&mut self, session: Text<'_>) {
        let session = id_of(session);
        if self.acp.session.as_ref() == Some(&session) {
            return;
        }
        let rev = self.rev();
        self.head.change(rev, |head| head.session = Some(session.clone()));
        self.acp.session = Some(session);
    }

    /// A request or a notification of either side. What the other side could ask for is told by the
    /// method.
    fn acp_call(&mut self, call: &AcpCall<'_>) -> Visibility {
        match &call.body {
            AcpCallBody::Prompt { session, content } => {
                self.acp_prompt(call.id, *session, *content)
            }
            AcpCallBody::Cancel { .. } => self.turn_cancelled(),
            AcpCallBody::Permission { .. } | AcpCallBody::Elicitation { .. } => {
                self.acp_request(call)
            }
            AcpCallBody::Withdrawn { request } => self.acp_request_withdrawn(*request),
            AcpCallBody::Other => self.acp_setup(call),
        }
    }

    /// Calls of the client that open a session. All other methods, of the protocol or of an extension,
    /// are of no interest to a person.
    fn acp_setup(&mut self, call: &AcpCall<'_>) -> Visibility {
        let param = |key: &str| call.params.and_then(|params| params.get(key));
        let method = call.method.decode();
        let loads = match &*method {
            "initialize" => {
                if !self.turns.has_notes {
                    self.close_turn(None);
                }
                self.acp_process_ended();
                return Visibility::Hidden;
            }
            "_session/steering" => {
                return match param("prompt") {
                    Some(prompt) if !self.turns.has_notes => self.prompt_joined_turn(prompt),
                    _ => Visibility::Hidden,
                };
            }
            "session/new" => false,
            "session/load" => true,
            "session/resume" => param("replayFrom").is_some(),
            _ => return Visibility::Hidden,
        };
        self.acp.setup = call.id.map(|id| SetupCall {
            request: short_id(id.as_str()).into_owned(),
            cwd: param("cwd").and_then(Raw::text).map(short_value),
        });
        if let Some(session) = param("sessionId").and_then(Raw::text) {
            self.learn_acp_session(session);
        }
        // In a recording that has nothing else, what the agent repeats is all there is.
        self.acp.replays = loads && (self.turns.has_notes || self.turns.records().next().is_some());
        Visibility::Hidden
    }

    pub(super) fn recorder_remarked(&mut self, remark: RecordersRemark) -> Visibility {
        if remark == RecordersRemark::Ended && !self.turns.has_notes {
            self.close_turn(None);
            self.acp_process_ended();
        }
        Visibility::Hidden
    }

    /// The process is gone, and nothing of it can change any more.
    pub(super) fn acp_process_ended(&mut self) {
        if !self.acp.is_used {
            return;
        }
        self.finish_acp_messages();
        let sub_agents = std::mem::take(&mut self.acp.sub_agents);
        for item in sub_agents.values() {
            self.stop_sub_agent(item);
        }
        let session = self.acp.session.take();
        self.acp = AcpTracker { session, is_used: true, ..AcpTracker::default() };
    }
}

/// A line of a recording that is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordersRemark {
    /// What the agent wrote to stderr, and the like.
    Other,
    /// The agent's process ended, or its output did.
    Ended,
}

impl RecordersRemark {
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let object = std::str::from_utf8(line).ok().and_then(Raw::parse)?;
        let message = object.get("msg")?;
        match &*object.get("dir")?.text()?.decode() {
            "#" if message.get("exit").or_else(|| message.get("eof")).is_some() => {
                Some(Self::Ended)
            }
            "#" | "!" => Some(Self::Other),
            _ => None,
        }
    }
}

/// A text of the agent in one line of a card.
fn headline(text: &str) -> String {
    wording::title(text).unwrap_or_default()
}
