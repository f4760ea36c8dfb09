//! Messages and thoughts of the agent, and prompts of other clients.
//!
//! A message is what has one id. Without ids it lasts until anything else happens, except for updates
//! about the session, which agents send at any time.

use serde::{Deserialize, Serialize};
use wire::acp::event::ChunkAuthor;
use wire::json::{Raw, Shape, Text};
use wire::note::PromptState;

use super::content::{block_text, is_media};
use super::{id_of, is_id};
use crate::fold::turns::TurnActivity;
use crate::fold::{Fold, Visibility};
use crate::item::{ItemBody, ItemId, Position, PromptAuthor, PromptItem};

/// A longer message is continued in a new item, so that the beginning can be trimmed.
const MESSAGE_BYTES: usize = 1 << 20;

/// How many finished messages are remembered.
const FINISHED: usize = 32;

/// How many bytes of a prompt of another client are kept.
const PROMPT_BYTES: usize = 1 << 20;

/// A message that is being written, or was.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::fold) struct AcpDraft {
    /// The agent's id of it.
    message: Option<String>,
    thought: bool,
    item: ItemId,
}

/// A prompt that the agent repeats.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::fold) struct ForeignPrompt {
    message: Option<String>,
    item: ItemId,
}

impl AcpDraft {
    pub(super) fn is_thought(&self) -> bool {
        self.thought
    }

    fn is_message(&self, message: Option<Text<'_>>, thought: bool) -> bool {
        self.thought == thought
            && match (&self.message, message) {
                (Some(known), Some(message)) => is_id(message, known),
                (None, None) => true,
                _ => false,
            }
    }
}

fn key(parent: Option<&ItemId>) -> &str {
    parent.map_or("", ItemId::as_str)
}

impl Fold {
    /// A part of a message.
    pub(super) fn acp_chunk(
        &mut self,
        parent: Option<ItemId>,
        author: ChunkAuthor,
        message: Option<Text<'_>>,
        content: Raw<'_>,
    ) -> Visibility {
        if author == ChunkAuthor::User {
            return self.acp_user_text(parent, message, content);
        }
        let thought = author == ChunkAuthor::Thought;
        self.acp.foreign_prompt = None;
        if parent.is_none() {
            self.signals.model_answered();
        }
        if is_media(content) {
            return self.add_acp_media(parent, content);
        }
        let Some(text) = block_text(content).filter(|text| !text.is_empty()) else {
            return Visibility::Hidden;
        };
        let rev = self.rev();
        if let Some(draft) = self.acp.drafts.get(key(parent.as_ref()))
            && draft.is_message(message, thought)
            && self.has_room(&draft.item)
            && self.items.append(&draft.item, rev, &text)
        {
            return Visibility::Visible;
        }
        // Nothing is shown of empty lines before a text.
        let text = text.trim_start_matches(['\n', '\r']);
        if text.is_empty() {
            return Visibility::Hidden;
        }
        self.begin_acp_message(parent, thought, message, text.to_owned());
        Visibility::Visible
    }

    fn has_room(&self, item: &ItemId) -> bool {
        let text = self.items.get(item).and_then(|item| item.body.streamed_text());
        text.is_some_and(|text| text.len() < MESSAGE_BYTES)
    }

    fn begin_acp_message(
        &mut self,
        parent: Option<ItemId>,
        thought: bool,
        message: Option<Text<'_>>,
        text: String,
    ) {
        self.finish_acp_message(parent.as_ref());
        let turn = self.turn_of_agent(parent.as_ref());
        let message = message.map(id_of);
        let mut name = format!("{}@{}", message.as_deref().unwrap_or_default(), self.entry.seq);
        while self.items.has(&ItemId::message(&name)) {
            // A line may have several objects.
            name.push('+');
        }
        let id = ItemId::message(&name);
        let draft = AcpDraft { message, thought, item: id.clone() };
        self.acp.drafts.insert(key(parent.as_ref()).to_owned(), draft);
        let position = Position(Position::OPEN, self.entry.open_rank);
        self.entry.open_rank = self.entry.open_rank.wrapping_add(1);
        if parent.is_none() {
            let activity = if thought { TurnActivity::Acted } else { TurnActivity::Replied };
            self.note_activity(turn, activity);
        }
        let body = if thought {
            ItemBody::Thinking { text, tokens: None }
        } else {
            ItemBody::Text { text }
        };
        self.add_item(id, turn, parent, position, body);
    }

    /// Gives the message that an agent is writing its final position.
    pub(super) fn finish_acp_message(&mut self, parent: Option<&ItemId>) {
        let Some(draft) = self.acp.drafts.remove(key(parent)) else { return };
        let position = self.next_position();
        self.change(&draft.item, |item| {
            item.position = position;
            item.open = false;
        });
        if draft.message.is_some() {
            self.acp.finished.push_back(draft);
            if self.acp.finished.len() > FINISHED {
                self.acp.finished.pop_front();
            }
        }
    }

    /// Ends the messages of all agents.
    pub(in crate::fold) fn finish_acp_messages(&mut self) {
        self.acp.foreign_prompt = None;
        while let Some((agent, draft)) = self.acp.drafts.first_key_value() {
            if agent.is_empty() {
                self.finish_acp_message(None);
            } else {
                let parent = self.items.get(&draft.item).and_then(|item| item.parent.clone());
                match parent {
                    Some(parent) => self.finish_acp_message(Some(&parent)),
                    None => drop(self.acp.drafts.pop_first()),
                }
            }
        }
    }

    /// Something else happened, which ends a message without an id.
    pub(super) fn separate_messages(&mut self, parent: Option<&ItemId>) {
        self.acp.foreign_prompt = None;
        if self.acp.drafts.get(key(parent)).is_some_and(|draft| draft.message.is_none()) {
            self.finish_acp_message(parent);
        }
    }

    /// A whole message, in place of what was sent of it before.
    pub(super) fn acp_message(
        &mut self,
        parent: Option<ItemId>,
        author: ChunkAuthor,
        message: Text<'_>,
        content: Option<Raw<'_>>,
    ) -> Visibility {
        let blocks = |content: Raw<'_>| -> String {
            let list = content.shape() == Shape::Array;
            let first = Some(content).filter(|_| !list);
            let texts = first.into_iter().chain(content.items().filter(|_| list));
            texts.filter_map(block_text).collect::<Vec<_>>().concat()
        };
        if author == ChunkAuthor::User {
            let Some(content) = content else { return Visibility::Hidden };
            return self.acp_user_text(parent, Some(message), content);
        }
        let text = content.map(blocks).filter(|text| !text.is_empty());
        let Some(text) = text else { return Visibility::Hidden };
        let thought = author == ChunkAuthor::Thought;
        let open = self.acp.drafts.get(key(parent.as_ref()));
        let known = open.into_iter().chain(self.acp.finished.iter().rev());
        let known = known.filter(|draft| draft.is_message(Some(message), thought));
        let known = known.map(|draft| draft.item.clone()).next();
        if let Some(item) = known.filter(|item| self.items.has(item)) {
            self.change(&item, |item| {
                if let Some(known) = item.body.streamed_text_mut() {
                    *known = text;
                }
            });
        } else {
            self.begin_acp_message(parent, thought, Some(message), text);
        }
        Visibility::Visible
    }

    fn add_acp_media(&mut self, parent: Option<ItemId>, content: Raw<'_>) -> Visibility {
        self.finish_acp_message(parent.as_ref());
        let name = content.get("type").and_then(Raw::text);
        let name = name.map(id_of).unwrap_or_default();
        let turn = self.turn_of_agent(parent.as_ref());
        let position = self.next_position();
        self.add_item(ItemId::line(position), turn, parent, position, ItemBody::Media { name });
        Visibility::Visible
    }

    /// What a user said, as the agent repeats it: this client's own prompt, or that of another one.
    fn acp_user_text(
        &mut self,
        parent: Option<ItemId>,
        message: Option<Text<'_>>,
        content: Raw<'_>,
    ) -> Visibility {
        if parent.is_none() && self.acp.prompts.is_repeated(message) {
            return Visibility::Hidden;
        }
        let (text, images) = super::content::prompt_text(content, PROMPT_BYTES);
        if text.is_empty() && images == 0 {
            return Visibility::Hidden;
        }
        let same = |prompt: &&ForeignPrompt| match (&prompt.message, message) {
            (Some(known), Some(message)) => is_id(message, known),
            (None, None) => true,
            _ => false,
        };
        if let Some(known) = self.acp.foreign_prompt.as_ref().filter(same) {
            let item = known.item.clone();
            self.change(&item, |item| {
                if let ItemBody::Prompt(prompt) = &mut item.body {
                    let room = PROMPT_BYTES.saturating_sub(prompt.text.len());
                    prompt.text.push_str(&text[..text.floor_char_boundary(room)]);
                    prompt.images += images;
                }
            });
            return Visibility::Visible;
        }
        let item = if parent.is_some() {
            self.finish_acp_message(parent.as_ref());
            self.add_agents_prompt(parent, text, images)
        } else {
            self.add_client_prompt(text, images)
        };
        self.acp.foreign_prompt = Some(ForeignPrompt { message: message.map(id_of), item });
        Visibility::Visible
    }

    /// The main agent's prompt to a sub-agent.
    pub(super) fn add_agents_prompt(
        &mut self,
        parent: Option<ItemId>,
        text: String,
        images: usize,
    ) -> ItemId {
        let turn = self.turn_of_agent(parent.as_ref());
        let position = self.next_position();
        let id = ItemId::line(position);
        let prompt = PromptItem {
            text,
            images,
            state: PromptState::Done,
            author: PromptAuthor::Agent,
            by: None,
        };
        self.add_item(id.clone(), turn, parent, position, ItemBody::Prompt(prompt));
        id
    }

    /// A prompt of another client, or of this one in a recording. In a recording it begins a turn.
    pub(super) fn add_client_prompt(&mut self, text: String, images: usize) -> ItemId {
        if self.turns.has_notes {
            self.finish_acp_messages();
        } else {
            self.close_turn(None);
        }
        self.add_prompt_to_turn(text, images)
    }

    /// A prompt that becomes part of the running turn.
    pub(super) fn add_prompt_to_turn(&mut self, text: String, images: usize) -> ItemId {
        let turn = self.working_turn();
        let position = self.position_for_prompt(turn);
        let id = ItemId::line(position);
        let state = if self.turns.has_notes { PromptState::Done } else { PromptState::Accepted };
        let prompt = PromptItem { text, images, state, author: PromptAuthor::User, by: None };
        self.add_item(id.clone(), turn, None, position, ItemBody::Prompt(prompt));
        self.assign_prompt(turn, &id, self.entry.seq);
        id
    }
}
