//! What the model says: whole messages, and the pieces of those that are still being written.
//!
//! The CLI writes a line per finished block, all with the id of the message, and no line says which
//! block of the message it is. A block is therefore called by its rank among the lines of its
//! message. While it streams it already has the rank its line will have, because the line comes
//! before the next block begins.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use wire::event::{Assistant, Block, Event, Message, ToolUse};
use wire::json::Text;

use super::turns::Deeds;
use super::{Fold, Heard};
use crate::item::{Body, ItemId, Level, Notice, Raw, RawReason};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Speech {
    messages: HashMap<String, Spoken>,
    /// The message each agent is writing, by the call of the agent; the main one has none.
    pub(super) writing: BTreeMap<String, Writing>,
}

/// A message, as far as it was heard.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Spoken {
    /// The rank of its next block.
    pub(super) next: u32,
    /// The lines it came in, by their own ids, since a session file may hold a line twice.
    lines: Vec<u128>,
    pub(super) usage: super::money::Counted,
}

/// A message that is being written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Writing {
    pub(super) message: String,
    /// Blocks that no line has confirmed, by their index in the message.
    pub(super) open: BTreeMap<u64, ItemId>,
    /// What block is growing, for the status.
    pub(super) sort: Sort,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Sort {
    #[default]
    Nothing,
    Thinking,
    Writing,
}

impl Speech {
    /// What the main agent is writing.
    pub(super) fn sort(&self) -> Sort {
        self.writing.get("").map_or(Sort::Nothing, |writing| writing.sort)
    }

    pub(super) fn spoken(&mut self, message: &str) -> &mut Spoken {
        self.messages.entry(message.to_owned()).or_default()
    }
}

impl Fold {
    /// The call whose agent an event belongs to.
    pub(super) fn parent_of(&self, event: &Event<'_>) -> Option<ItemId> {
        match event.envelope.parent_tool_use_id {
            Some(id) => Some(ItemId::call(&id.decode())),
            None if event.of_sub_agent() => self.calls.sidechain.clone(),
            None => None,
        }
    }

    /// The message's id; where it has none, a name that no other message has.
    pub(super) fn id_of(&self, message: &Message<'_>) -> String {
        match message.id {
            Some(id) => id.decode().into_owned(),
            None => format!("@{}", self.now.seq),
        }
    }

    /// The turn of an agent's work: a sub-agent's belongs to the turn that called it.
    pub(super) fn turn_of_agent(&mut self, parent: Option<&ItemId>) -> u64 {
        let call = parent.and_then(|parent| self.shelf.get(parent)).map(|item| item.turn);
        call.unwrap_or_else(|| self.working_turn())
    }

    /// A whole block of a message, or several.
    pub(super) fn assistant(
        &mut self,
        event: &Event<'_>,
        assistant: &Assistant<'_>,
        bytes: &[u8],
    ) -> Heard {
        let message = &assistant.message;
        let parent = self.parent_of(event);
        let agent = parent.as_ref().map_or(String::new(), |it| it.as_str().to_owned());
        let synthetic = message.model.is_some_and(|model| model == "<synthetic>");
        if parent.is_none() {
            self.signs.answered();
        }
        let turn = self.turn_of_agent(parent.as_ref());
        let id = self.id_of(message);
        if let Some(writing) = self.speech.writing.get(&agent)
            && writing.message != id
        {
            // What the CLI says in the model's place does not replace what the model said.
            if synthetic {
                self.finish_blocks(&agent);
            } else {
                self.give_up_blocks(&agent);
            }
        }
        if let Some(usage) = message.usage {
            let named = message.id.is_some().then_some(&*id);
            self.count(named, usage, parent.as_ref(), event.of_sub_agent());
        }
        if let Some(uuid) =
            event.envelope.uuid.and_then(|it| it.decode().parse::<uuid::Uuid>().ok())
        {
            let spoken = self.speech.spoken(&id);
            if spoken.lines.contains(&uuid.as_u128()) {
                return Heard::Housekeeping;
            }
            spoken.lines.push(uuid.as_u128());
        }
        let failed = assistant.error.is_some() || assistant.api_error;
        let mut heard = Heard::Housekeeping;
        for block in message.content.blocks() {
            let line = BlockOf { agent: &agent, message: &id, parent: parent.clone(), turn };
            heard = match block {
                Block::Text(text) if synthetic || failed => {
                    let name = assistant.error.and_then(|it| it.name);
                    self.program_says(&line, text, name, failed)
                }
                _ => self.block(&line, block, bytes),
            };
        }
        if self.now.transcript && parent.is_none() {
            self.signs.resting = self.calls.none_open();
        }
        heard
    }

    fn block(&mut self, line: &BlockOf<'_>, block: Block<'_>, bytes: &[u8]) -> Heard {
        match block {
            Block::Text(text) if text.is_empty() => Heard::Housekeeping,
            Block::Text(text) => self.words(line, text, false),
            Block::Thinking(text) => self.words(line, text, true),
            Block::ToolUse(call) => self.call(line, &call),
            Block::ToolResult(result) => self.call_answered(&result, None, line.parent.clone()),
            Block::Media { name, .. } => {
                self.new_block(line, Body::Media { name: name.decode().into_owned() })
            }
            Block::Other(name) if name == "redacted_thinking" => {
                self.new_block(line, Body::Thinking { text: String::new(), tokens: None })
            }
            Block::Other(name) | Block::Unknown(name) => {
                let name = format!("content_block/{name}");
                let text = String::from_utf8_lossy(bytes);
                let text = super::cut_to(&text, super::RAW_BYTES);
                self.new_block(line, Body::Raw(Raw { name, reason: RawReason::Unknown, text }))
            }
        }
    }

    /// Words or thoughts, which may have been streamed before.
    fn words(&mut self, line: &BlockOf<'_>, text: Text<'_>, thought: bool) -> Heard {
        let text = text.decode();
        let open = self.confirm(line, |body| match body {
            Body::Text { .. } => !thought,
            Body::Thinking { .. } => thought,
            _ => false,
        });
        // The counts come before the thoughts they are about.
        let tokens = if thought { self.signs.thinking_tokens.take() } else { None };
        if let Some(id) = open {
            self.settle(&id, |body| {
                if let Body::Thinking { tokens: thought, .. } = body {
                    *thought = tokens;
                }
                if let Some(said) = body.growing()
                    && *said != *text
                {
                    *said = text.into_owned();
                }
            });
            return Heard::Shown;
        }
        let text = text.into_owned();
        let body = if thought { Body::Thinking { text, tokens } } else { Body::Text { text } };
        self.new_block(line, body)
    }

    /// The open block that the line completes, which is open no more.
    fn confirm(&mut self, line: &BlockOf<'_>, fits: impl Fn(&Body) -> bool) -> Option<ItemId> {
        let writing = self.speech.writing.get_mut(line.agent)?;
        if writing.message != line.message {
            return None;
        }
        let items = &self.shelf;
        let fits = |id: &ItemId| items.get(id).is_some_and(|item| fits(&item.body));
        let (&index, _) = writing.open.iter().find(|(_, id)| fits(id))?;
        writing.sort = Sort::Nothing;
        writing.open.remove(&index)
    }

    /// A block that was not streamed.
    fn new_block(&mut self, line: &BlockOf<'_>, body: Body) -> Heard {
        let spoken = self.speech.spoken(line.message);
        spoken.next += 1;
        let id = ItemId::block(line.message, spoken.next - 1);
        let deeds = deeds(&body);
        let place = self.next_place();
        self.put_at(id, line.turn, line.parent.clone(), place, body);
        if line.parent.is_none() {
            self.acted(line.turn, deeds);
        }
        Heard::Shown
    }

    /// A call that the line completes, streamed before or not.
    fn call(&mut self, line: &BlockOf<'_>, call: &ToolUse<'_>) -> Heard {
        let Some(id) = call.id else {
            let body = self.whole_call(call);
            return self.new_block(line, body);
        };
        let id = ItemId::call(&id.decode());
        let streamed = self.confirm_call(line, &id);
        if streamed {
            let whole = self.whole_call(call);
            self.settle(&id, |body| *body = whole);
        } else if self.shelf.has(&id) {
            // A session file may hold it twice, and a request for leave may have come before it.
            return Heard::Housekeeping;
        } else {
            let body = self.whole_call(call);
            let place = self.next_place();
            self.put_at(id.clone(), line.turn, line.parent.clone(), place, body);
        }
        if line.parent.is_none() {
            self.acted(line.turn, Deeds::Acted);
        }
        self.call_begun(&id, call, line.parent.as_ref());
        Heard::Shown
    }

    fn confirm_call(&mut self, line: &BlockOf<'_>, id: &ItemId) -> bool {
        let Some(writing) = self.speech.writing.get_mut(line.agent) else { return false };
        let before = writing.open.len();
        writing.open.retain(|_, open| open != id);
        writing.sort = Sort::Nothing;
        writing.open.len() < before
    }

    /// The CLI speaks in the model's place: the API failed, or there was nothing to ask it.
    fn program_says(
        &mut self,
        line: &BlockOf<'_>,
        text: Text<'_>,
        name: Option<Text<'_>>,
        failed: bool,
    ) -> Heard {
        let text = text.decode().into_owned();
        let body = if failed || text.starts_with("API Error") {
            Body::Failure { name: name.map(|it| it.decode().into_owned()), text }
        } else {
            Body::Notice(Notice { level: Level::Info, text })
        };
        self.new_block(line, body)
    }
}

/// What the main agent did with an item.
pub(super) fn deeds(body: &Body) -> Deeds {
    match body {
        Body::Text { .. } | Body::Failure { .. } | Body::Notice(_) => Deeds::Spoke,
        _ => Deeds::Acted,
    }
}

/// Whose block it is.
pub(super) struct BlockOf<'a> {
    agent: &'a str,
    message: &'a str,
    parent: Option<ItemId>,
    turn: u64,
}
