//! Messages while they are written: pieces of the model's stream.

use std::collections::BTreeMap;

use wire::event::{Block, Delta, Event, Message, Stream, ToolUse};

use super::speech::{Sort, Writing, deeds};
use super::{Fold, Heard};
use crate::item::{Body, ItemId, Place};

impl Fold {
    /// A piece of a message.
    pub(super) fn stream(&mut self, event: &Event<'_>, stream: &Stream<'_>) -> Heard {
        let parent = self.parent_of(event);
        let agent = parent.as_ref().map_or(String::new(), |it| it.as_str().to_owned());
        if parent.is_none() {
            self.signs.answered();
        }
        match stream {
            Stream::MessageStart(message) => self.begin_message(agent, parent.as_ref(), message),
            Stream::BlockStart { index, block } => self.begin_block(&agent, parent, *index, *block),
            Stream::BlockDelta { index, delta } => self.grow(&agent, parent, *index, *delta),
            Stream::BlockStop { index } => self.stop_block(&agent, *index),
            Stream::MessageDelta { usage, .. } => {
                let message = self.speech.writing.get(&agent).map(|it| it.message.clone());
                let (Some(message), Some(usage)) = (message, usage) else {
                    return Heard::Housekeeping;
                };
                self.count(Some(&message), *usage, parent.as_ref(), event.of_sub_agent());
                Heard::Shown
            }
            Stream::MessageStop => {
                self.finish_message(&agent);
                Heard::Housekeeping
            }
            Stream::Ping => Heard::Housekeeping,
            Stream::Error(fault) => {
                let name = fault.name.map(|it| it.decode().into_owned());
                let text = fault.message.map(|it| it.decode().into_owned()).unwrap_or_default();
                self.put_line(Body::Failure { name, text })
            }
        }
    }

    pub(super) fn begin_message(
        &mut self,
        agent: String,
        parent: Option<&ItemId>,
        message: &Message<'_>,
    ) -> Heard {
        self.working_turn();
        self.give_up_blocks(&agent);
        let id = self.id_of(message);
        if let Some(usage) = message.usage {
            self.count(Some(&id), usage, parent, parent.is_some());
        }
        // 1.0.128 to 2.0.60 have the first words of the message in here already; they come again.
        let writing = Writing { message: id, open: BTreeMap::new(), sort: Sort::Nothing };
        self.speech.writing.insert(agent, writing);
        Heard::Shown
    }

    pub(super) fn begin_block(
        &mut self,
        agent: &str,
        parent: Option<ItemId>,
        index: u64,
        block: Block<'_>,
    ) -> Heard {
        let (body, sort, first) = match block {
            Block::Text(text) => (Body::Text { text: String::new() }, Sort::Writing, Some(text)),
            Block::Thinking(text) => {
                (Body::Thinking { text: String::new(), tokens: None }, Sort::Thinking, Some(text))
            }
            Block::ToolUse(call) => (self.call_being_written(&call), Sort::Writing, None),
            Block::ToolResult(_) | Block::Media { .. } | Block::Other(_) | Block::Unknown(_) => {
                return Heard::Housekeeping;
            }
        };
        if !self.speech.writing.contains_key(agent) {
            // The flat dialect writes text without saying that a message begins.
            let message = format!("@{}", self.now.seq);
            let writing = Writing { message, open: BTreeMap::new(), sort };
            self.speech.writing.insert(agent.to_owned(), writing);
        }
        let Some(writing) = self.speech.writing.get_mut(agent) else {
            return Heard::Housekeeping;
        };
        writing.sort = sort;
        let message = writing.message.clone();
        let id = if let Block::ToolUse(ToolUse { id: Some(id), .. }) = block {
            ItemId::call(&id.decode())
        } else {
            let spoken = self.speech.spoken(&message);
            spoken.next += 1;
            ItemId::block(&message, spoken.next - 1)
        };
        if self.shelf.has(&id) {
            return Heard::Housekeeping;
        }
        if let Some(writing) = self.speech.writing.get_mut(agent) {
            writing.open.insert(index, id.clone());
        }
        let turn = self.turn_of_agent(parent.as_ref());
        let place = Place(Place::OPEN, self.now.open_rank);
        self.now.open_rank = self.now.open_rank.wrapping_add(1);
        self.put_at(id.clone(), turn, parent, place, body);
        if let Some(first) = first.filter(|first| !first.is_empty()) {
            self.shelf.append(&id, self.rev(), &first.decode());
        }
        Heard::Shown
    }

    pub(super) fn grow(
        &mut self,
        agent: &str,
        parent: Option<ItemId>,
        index: u64,
        delta: Delta<'_>,
    ) -> Heard {
        let (piece, empty) = match delta {
            Delta::Thinking(piece) => (piece, Block::Thinking(piece)),
            Delta::Text(piece) | Delta::InputJson(piece) => (piece, Block::Text(piece)),
            Delta::Signature(_) | Delta::Known(_) | Delta::Other(_) => return Heard::Housekeeping,
        };
        let open = self.speech.writing.get(agent).and_then(|it| it.open.get(&index));
        if let Some(id) = open {
            let grown = self.shelf.append(id, super::Revision(self.now.seq), &piece.decode());
            return if grown { Heard::Shown } else { Heard::Housekeeping };
        }
        // Only the flat dialect's text stands by itself; elsewhere the block is finished already.
        let flat = self.speech.writing.get(agent).is_none_or(|it| it.message.starts_with('@'));
        if flat && !matches!(delta, Delta::InputJson(_)) {
            return self.begin_block(agent, parent, index, empty);
        }
        Heard::Housekeeping
    }

    pub(super) fn stop_block(&mut self, agent: &str, index: u64) -> Heard {
        let Some(writing) = self.speech.writing.get_mut(agent) else { return Heard::Housekeeping };
        writing.sort = Sort::Nothing;
        let Some(id) = writing.open.get(&index).cloned() else { return Heard::Housekeeping };
        let message = writing.message.clone();
        // A block without words gets no line.
        if self.shelf.get(&id).is_some_and(|it| it.body.grown().is_some_and(str::is_empty)) {
            if let Some(writing) = self.speech.writing.get_mut(agent) {
                writing.open.remove(&index);
            }
            self.forget_block(&message, &id);
        }
        Heard::Housekeeping
    }

    pub(super) fn forget_block(&mut self, message: &str, id: &ItemId) {
        let spoken = self.speech.spoken(message);
        if spoken.next > 0 && *id == ItemId::block(message, spoken.next - 1) {
            spoken.next -= 1;
        }
        let rev = self.rev();
        self.shelf.remove(id, rev);
    }

    /// The message is complete.
    pub(super) fn finish_message(&mut self, agent: &str) {
        self.finish_blocks(agent);
        self.speech.writing.remove(agent);
    }

    /// What no line confirmed stands as it is.
    pub(super) fn finish_blocks(&mut self, agent: &str) {
        let Some(writing) = self.speech.writing.get_mut(agent) else { return };
        writing.sort = Sort::Nothing;
        for id in std::mem::take(&mut writing.open).into_values() {
            self.settle(&id, |_| {});
            self.complete_call(&id);
        }
    }

    /// All messages end with their turn, complete or not.
    pub(super) fn finish_speech(&mut self) {
        let agents: Vec<_> = self.speech.writing.keys().cloned().collect();
        for agent in agents {
            self.finish_message(&agent);
        }
    }

    /// The model was asked again, so what it had begun to say counts for nothing.
    pub(super) fn give_up_blocks(&mut self, agent: &str) {
        let Some(writing) = self.speech.writing.get_mut(agent) else { return };
        if writing.message.starts_with('@') {
            // The flat dialect's text has no other line.
            return self.finish_message(agent);
        }
        writing.sort = Sort::Nothing;
        let message = writing.message.clone();
        for id in std::mem::take(&mut writing.open).into_values().rev() {
            self.forget_block(&message, &id);
        }
    }

    /// An item is complete: it gets its place.
    pub(super) fn settle(&mut self, id: &ItemId, change: impl FnOnce(&mut Body)) {
        let place = self.next_place();
        let (first, at) = (self.now.seq, self.now.at);
        self.change(id, |item| {
            item.place = place;
            item.first = first;
            item.at = at.or(item.at);
            item.open = false;
            change(&mut item.body);
        });
        if let Some(item) = self.shelf.get(id).filter(|item| item.parent.is_none()) {
            let (turn, deeds) = (item.turn, deeds(&item.body));
            self.acted(turn, deeds);
        }
    }
}
