//! Messages that are being written: the deltas of their blocks.

use std::collections::BTreeMap;

use wire::event::{Block, Delta, Event, Message, Stream, ToolUse};

use super::{DraftKind, DraftMessage, activity};
use crate::fold::{Fold, RAW_BYTES, Visibility, prefix};
use crate::item::{ItemBody, ItemId, Position};

impl Fold {
    pub(in crate::fold) fn stream(&mut self, event: &Event<'_>, stream: &Stream<'_>) -> Visibility {
        let parent = self.parent_of(event);
        let agent = parent.as_ref().map_or(String::new(), |it| it.as_str().to_owned());
        if parent.is_none() {
            self.signals.model_answered();
        }
        match stream {
            Stream::MessageStart(message) => self.begin_message(agent, parent.as_ref(), message),
            Stream::BlockStart { index, block } => self.begin_block(&agent, parent, *index, *block),
            Stream::BlockDelta { index, delta } => self.block_delta(&agent, parent, *index, *delta),
            Stream::BlockStop { index } => self.stop_block(&agent, *index),
            Stream::MessageDelta { usage, .. } => {
                let message = self.messages.drafts.get(&agent).map(|it| it.message.clone());
                let (Some(message), Some(usage)) = (message, usage) else {
                    return Visibility::Hidden;
                };
                self.count_tokens(Some(&message), *usage, parent.as_ref(), event.of_sub_agent());
                Visibility::Visible
            }
            Stream::MessageStop => {
                self.finish_message(&agent);
                Visibility::Hidden
            }
            Stream::Ping => Visibility::Hidden,
            Stream::Error(fault) => {
                let name = fault.name.map(|it| it.decode().into_owned());
                let text = fault.text().map(|it| prefix(&it, RAW_BYTES)).unwrap_or_default();
                self.add_line_item(ItemBody::Failure { name, text })
            }
        }
    }

    fn begin_message(
        &mut self,
        agent: String,
        parent: Option<&ItemId>,
        message: &Message<'_>,
    ) -> Visibility {
        self.working_turn();
        self.discard_blocks(&agent);
        let id = self.message_id(message);
        if let Some(usage) = message.usage {
            self.count_tokens(Some(&id), usage, parent, parent.is_some());
        }
        // 1.0.128 to 2.0.60 include the first words of the message here; they come again as deltas.
        let draft = DraftMessage { message: id, open: BTreeMap::new(), kind: DraftKind::None };
        self.messages.drafts.insert(agent, draft);
        Visibility::Visible
    }

    fn begin_block(
        &mut self,
        agent: &str,
        parent: Option<ItemId>,
        index: u64,
        block: Block<'_>,
    ) -> Visibility {
        let (body, kind, first) = match block {
            Block::Text(text) => {
                (ItemBody::Text { text: String::new() }, DraftKind::Writing, Some(text))
            }
            Block::Thinking(text) => {
                let body = ItemBody::Thinking { text: String::new(), tokens: None };
                (body, DraftKind::Thinking, Some(text))
            }
            Block::ToolUse(call) => (self.streaming_call_body(&call), DraftKind::Writing, None),
            Block::ToolResult(_) | Block::Media { .. } | Block::Other(_) | Block::Unknown(_) => {
                return Visibility::Hidden;
            }
        };
        let seq = self.entry.seq;
        // The flat dialect writes text without announcing a message.
        let draft = self.messages.drafts.entry(agent.to_owned()).or_insert_with(|| DraftMessage {
            message: format!("@{seq}"),
            open: BTreeMap::new(),
            kind,
        });
        draft.kind = kind;
        let message = draft.message.clone();
        let id = if let Block::ToolUse(ToolUse { id: Some(id), .. }) = block {
            ItemId::call(&id.decode())
        } else {
            self.messages.next_block(&message)
        };
        if self.items.has(&id) {
            return Visibility::Hidden;
        }
        if let Some(draft) = self.messages.drafts.get_mut(agent) {
            draft.open.insert(index, id.clone());
        }
        let turn = self.turn_of_agent(parent.as_ref());
        let position = Position(Position::OPEN, self.entry.open_rank);
        self.entry.open_rank = self.entry.open_rank.wrapping_add(1);
        self.add_item(id.clone(), turn, parent, position, body);
        if let Some(first) = first.filter(|first| !first.is_empty()) {
            self.items.append(&id, self.rev(), &first.decode());
        }
        Visibility::Visible
    }

    fn block_delta(
        &mut self,
        agent: &str,
        parent: Option<ItemId>,
        index: u64,
        delta: Delta<'_>,
    ) -> Visibility {
        let (text, block) = match delta {
            Delta::Thinking(text) => (text, Block::Thinking(text)),
            Delta::Text(text) | Delta::InputJson(text) => (text, Block::Text(text)),
            Delta::Signature(_) | Delta::Known(_) | Delta::Other(_) => return Visibility::Hidden,
        };
        let open = self.messages.drafts.get(agent).and_then(|it| it.open.get(&index));
        if let Some(id) = open {
            let rev = self.rev();
            let appended = self.items.append(id, rev, &text.decode());
            return if appended { Visibility::Visible } else { Visibility::Hidden };
        }
        // Only the flat dialect has deltas without a block; otherwise the block is already finished.
        let flat = self.messages.drafts.get(agent).is_none_or(|it| it.message.starts_with('@'));
        if flat && !matches!(delta, Delta::InputJson(_)) {
            return self.begin_block(agent, parent, index, block);
        }
        Visibility::Hidden
    }

    fn stop_block(&mut self, agent: &str, index: u64) -> Visibility {
        let Some(draft) = self.messages.drafts.get_mut(agent) else { return Visibility::Hidden };
        draft.kind = DraftKind::None;
        let Some(id) = draft.open.get(&index).cloned() else { return Visibility::Hidden };
        let message = draft.message.clone();
        // An empty block gets no line.
        let item = self.items.get(&id);
        if item.is_some_and(|it| it.body.streamed_text().is_some_and(str::is_empty)) {
            if let Some(draft) = self.messages.drafts.get_mut(agent) {
                draft.open.remove(&index);
            }
            self.discard_block(&message, &id);
        }
        Visibility::Hidden
    }

    fn discard_block(&mut self, message: &str, id: &ItemId) {
        let state = self.messages.state(message);
        if state.next > 0 && *id == ItemId::block(message, state.next - 1) {
            state.next -= 1;
        }
        let rev = self.rev();
        self.items.remove(id, rev);
    }

    fn finish_message(&mut self, agent: &str) {
        self.finish_blocks(agent);
        self.messages.drafts.remove(agent);
    }

    /// Keeps the blocks that have no line as they are.
    pub(super) fn finish_blocks(&mut self, agent: &str) {
        let Some(draft) = self.messages.drafts.get_mut(agent) else { return };
        draft.kind = DraftKind::None;
        for id in std::mem::take(&mut draft.open).into_values() {
            self.finish_item(&id, |_| {});
            self.complete_streamed_call(&id);
        }
    }

    /// Ends all messages at the end of their turn, complete or not.
    pub(in crate::fold) fn finish_messages(&mut self) {
        let agents: Vec<_> = self.messages.drafts.keys().cloned().collect();
        for agent in agents {
            self.finish_message(&agent);
        }
        self.finish_acp_messages();
    }

    /// Discards the open blocks of a message, because the model was asked again.
    pub(super) fn discard_blocks(&mut self, agent: &str) {
        let Some(draft) = self.messages.drafts.get_mut(agent) else { return };
        if draft.message.starts_with('@') {
            // The flat dialect has no other line with this text.
            return self.finish_message(agent);
        }
        draft.kind = DraftKind::None;
        let message = draft.message.clone();
        for id in std::mem::take(&mut draft.open).into_values().rev() {
            self.discard_block(&message, &id);
        }
    }

    /// Completes an open item: it gets its final position and time.
    pub(super) fn finish_item(&mut self, id: &ItemId, change: impl FnOnce(&mut ItemBody)) {
        let position = self.next_position();
        let (first, at) = (self.entry.seq, self.entry.at);
        self.change(id, |item| {
            item.position = position;
            item.first = first;
            item.at = at.or(item.at);
            item.open = false;
            change(&mut item.body);
        });
        if let Some(item) = self.items.get(id).filter(|item| item.parent.is_none()) {
            let (turn, activity) = (item.turn, activity(&item.body));
            self.note_activity(turn, activity);
        }
    }
}
