//! The model's messages: complete lines, and in [`deltas`] those still being written.
//!
//! The CLI writes a line for each finished block, with the id of the message but without the index
//! of the block. A block's id is therefore its rank among the lines of its message. A streamed block
//! already has the rank its line will have, because that line comes before the next block begins.

mod deltas;

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use wire::event::{Assistant, Block, Event, Message, ToolUse};
use wire::json::Text;

use super::turns::TurnActivity;
use super::usage::MessageUsage;
use super::{Fold, RAW_BYTES, Visibility, prefix};
use crate::item::{ItemBody, ItemId, NoticeItem, NoticeLevel, RawItem, RawReason};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct MessageTracker {
    messages: HashMap<String, MessageState>,
    /// The message each agent is writing, by the agent's call; the main agent's key is empty.
    drafts: BTreeMap<String, DraftMessage>,
}

/// What is known about a message.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct MessageState {
    /// The rank of its next block.
    next: u32,
    /// The UUIDs of its lines, because a session file may hold a line twice.
    lines: Vec<u128>,
    pub(super) usage: MessageUsage,
}

/// A message that is being written.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct DraftMessage {
    message: String,
    /// Blocks that have no line yet, by their index in the message.
    open: BTreeMap<u64, ItemId>,
    kind: DraftKind,
}

/// What is being written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum DraftKind {
    #[default]
    None,
    Thinking,
    Writing,
}

/// The message that a block belongs to.
struct BlockContext<'a> {
    agent: &'a str,
    message: &'a str,
    parent: Option<ItemId>,
    turn: u64,
}

impl MessageTracker {
    /// What the main agent is writing.
    pub(super) fn draft_kind(&self) -> DraftKind {
        self.drafts.get("").map_or(DraftKind::None, |draft| draft.kind)
    }

    pub(super) fn state(&mut self, message: &str) -> &mut MessageState {
        self.messages.entry(message.to_owned()).or_default()
    }

    /// The id of the next block of a message.
    fn next_block(&mut self, message: &str) -> ItemId {
        let state = self.state(message);
        state.next += 1;
        ItemId::block(message, state.next - 1)
    }
}

/// What the main agent did by adding an item.
fn activity(body: &ItemBody) -> TurnActivity {
    match body {
        ItemBody::Text { .. } | ItemBody::Failure { .. } | ItemBody::Notice(_) => {
            TurnActivity::Replied
        }
        _ => TurnActivity::Acted,
    }
}

/// Whole lines.
impl Fold {
    /// The call whose agent an event belongs to.
    pub(super) fn parent_of(&self, event: &Event<'_>) -> Option<ItemId> {
        match event.envelope.parent_tool_use_id {
            Some(id) => Some(ItemId::call(&id.decode())),
            None if event.of_sub_agent() => self.calls.sidechain.clone(),
            None => None,
        }
    }

    /// The message's id, or a unique name for a message without one.
    fn message_id(&self, message: &Message<'_>) -> String {
        match message.id {
            Some(id) => id.decode().into_owned(),
            None => format!("@{}", self.entry.seq),
        }
    }

    /// The turn of an agent's work: a sub-agent's belongs to the turn of its call.
    pub(super) fn turn_of_agent(&mut self, parent: Option<&ItemId>) -> u64 {
        let call = parent.and_then(|parent| self.items.get(parent)).map(|item| item.turn);
        call.unwrap_or_else(|| self.working_turn())
    }

    /// An `assistant` line: one whole block of a message, or several.
    pub(super) fn assistant(
        &mut self,
        event: &Event<'_>,
        assistant: &Assistant<'_>,
        bytes: &[u8],
    ) -> Visibility {
        let message = &assistant.message;
        let parent = self.parent_of(event);
        let agent = parent.as_ref().map_or(String::new(), |it| it.as_str().to_owned());
        let synthetic = message.model.is_some_and(|model| model == "<synthetic>");
        if parent.is_none() {
            self.signals.model_answered();
        }
        let turn = self.turn_of_agent(parent.as_ref());
        let id = self.message_id(message);
        if let Some(draft) = self.messages.drafts.get(&agent)
            && draft.message != id
        {
            // The CLI's own text in place of the model does not replace what the model wrote.
            if synthetic {
                self.finish_blocks(&agent);
            } else {
                self.discard_blocks(&agent);
            }
        }
        if let Some(usage) = message.usage {
            let named = message.id.is_some().then_some(&*id);
            self.count_tokens(named, usage, parent.as_ref(), event.of_sub_agent());
        }
        if let Some(uuid) =
            event.envelope.uuid.and_then(|it| it.decode().parse::<uuid::Uuid>().ok())
        {
            let state = self.messages.state(&id);
            if state.lines.contains(&uuid.as_u128()) {
                return Visibility::Hidden;
            }
            state.lines.push(uuid.as_u128());
        }
        let failed = assistant.error.is_some() || assistant.api_error;
        let mut visibility = Visibility::Hidden;
        for block in message.content.blocks() {
            let context =
                BlockContext { agent: &agent, message: &id, parent: parent.clone(), turn };
            visibility = match block {
                Block::Text(text) if synthetic || failed => {
                    let name = assistant.error.and_then(|it| it.name);
                    self.cli_text(&context, text, name, failed)
                }
                _ => self.block(&context, block, bytes),
            };
        }
        if self.entry.transcript && parent.is_none() {
            self.signals.resting = self.calls.none_open();
        }
        visibility
    }

    fn block(&mut self, context: &BlockContext<'_>, block: Block<'_>, bytes: &[u8]) -> Visibility {
        match block {
            Block::Text(text) if text.is_empty() => Visibility::Hidden,
            Block::Text(text) => self.text_block(context, text, DraftKind::Writing),
            Block::Thinking(text) => self.text_block(context, text, DraftKind::Thinking),
            Block::ToolUse(call) => self.call_block(context, &call),
            Block::ToolResult(result) => self.call_returned(&result, None, context.parent.clone()),
            Block::Media { name, .. } => {
                self.new_block(context, ItemBody::Media { name: name.decode().into_owned() })
            }
            Block::Other(name) if name == "redacted_thinking" => {
                self.new_block(context, ItemBody::Thinking { text: String::new(), tokens: None })
            }
            Block::Other(name) | Block::Unknown(name) => {
                let name = format!("content_block/{name}");
                let text = prefix(&String::from_utf8_lossy(bytes), RAW_BYTES);
                let raw = RawItem { name, reason: RawReason::Unknown, text };
                self.new_block(context, ItemBody::Raw(raw))
            }
        }
    }

    /// A block of text or thinking, which may have been streamed before.
    fn text_block(
        &mut self,
        context: &BlockContext<'_>,
        text: Text<'_>,
        kind: DraftKind,
    ) -> Visibility {
        let text = text.decode();
        let is_thinking = kind == DraftKind::Thinking;
        let streamed = self.take_streamed(context, |body| match body {
            ItemBody::Text { .. } => !is_thinking,
            ItemBody::Thinking { .. } => is_thinking,
            _ => false,
        });
        // The token count comes before the thinking it is about.
        let tokens = if is_thinking { self.signals.thinking_tokens.take() } else { None };
        if let Some(id) = streamed {
            self.finish_item(&id, |body| {
                if let ItemBody::Thinking { tokens: known, .. } = body {
                    *known = tokens;
                }
                if let Some(known) = body.streamed_text_mut()
                    && *known != *text
                {
                    *known = text.into_owned();
                }
            });
            return Visibility::Visible;
        }
        let text = text.into_owned();
        let body =
            if is_thinking { ItemBody::Thinking { text, tokens } } else { ItemBody::Text { text } };
        self.new_block(context, body)
    }

    /// Takes the open block that a line completes from its draft.
    fn take_streamed(
        &mut self,
        context: &BlockContext<'_>,
        fits: impl Fn(&ItemBody) -> bool,
    ) -> Option<ItemId> {
        let draft = self.messages.drafts.get_mut(context.agent)?;
        if draft.message != context.message {
            return None;
        }
        let items = &self.items;
        let fits = |id: &ItemId| items.get(id).is_some_and(|item| fits(&item.body));
        let (&index, _) = draft.open.iter().find(|(_, id)| fits(id))?;
        draft.kind = DraftKind::None;
        draft.open.remove(&index)
    }

    /// Adds a block that was not streamed.
    fn new_block(&mut self, context: &BlockContext<'_>, body: ItemBody) -> Visibility {
        let id = self.messages.next_block(context.message);
        let activity = activity(&body);
        let position = self.next_position();
        self.add_item(id, context.turn, context.parent.clone(), position, body);
        if context.parent.is_none() {
            self.note_activity(context.turn, activity);
        }
        Visibility::Visible
    }

    /// A call with its whole input, which may have been streamed before.
    fn call_block(&mut self, context: &BlockContext<'_>, call: &ToolUse<'_>) -> Visibility {
        let Some(id) = call.id else {
            let body = self.complete_call_body(call);
            return self.new_block(context, body);
        };
        let id = ItemId::call(&id.decode());
        let streamed = self.take_streamed_call(context, &id);
        if streamed {
            let whole = self.complete_call_body(call);
            self.finish_item(&id, |body| *body = whole);
        } else if self.items.has(&id) {
            // A session file may hold it twice, and its permission request or its result may have come
            // before it.
            return self.describe_call(&id, call);
        } else {
            let body = self.complete_call_body(call);
            let position = self.next_position();
            self.add_item(id.clone(), context.turn, context.parent.clone(), position, body);
        }
        if context.parent.is_none() {
            self.note_activity(context.turn, TurnActivity::Acted);
        }
        self.call_started(&id, call, context.parent.as_ref());
        Visibility::Visible
    }

    fn take_streamed_call(&mut self, context: &BlockContext<'_>, id: &ItemId) -> bool {
        let Some(draft) = self.messages.drafts.get_mut(context.agent) else { return false };
        let before = draft.open.len();
        draft.open.retain(|_, open| open != id);
        draft.kind = DraftKind::None;
        draft.open.len() < before
    }

    /// Text of the CLI in place of the model: the API failed, or was not called.
    fn cli_text(
        &mut self,
        context: &BlockContext<'_>,
        text: Text<'_>,
        name: Option<Text<'_>>,
        failed: bool,
    ) -> Visibility {
        let text = text.decode().into_owned();
        let body = if failed || text.starts_with("API Error") {
            ItemBody::Failure { name: name.map(|it| it.decode().into_owned()), text }
        } else {
            ItemBody::Notice(NoticeItem { level: NoticeLevel::Info, text })
        };
        self.new_block(context, body)
    }
}
