//! Which deltas are redundant.
//!
//! A message streams as deltas, and each of its blocks is repeated in an `assistant` line with the
//! message's id before the message ends (so in every capture). The deltas of a message are redundant
//! if such lines repeat all their content. Otherwise they are all there is of it, and stay: after an
//! interrupt, with a line that came late, or with one that lacks a block. The frame of a message
//! (`message_start`, `message_delta`, `message_stop`) always stays.

use std::collections::HashMap;

use serde_json::{Map, Value};
use wire::event::{Assistant, Block, Body, Delta, Message, Stream};
use wire::json::Raw;
use wire::note::Note;
use wire::{Event, Origin, Reading};

use crate::id::Seq;
use crate::records::Entry;

/// After this many entries without a delta, a message counts as abandoned: a killed sub-agent sends
/// nothing more and must not block compaction.
const ABANDONED: u64 = 4096;

/// The inputs of tools that are paths, which the CLI resolves.
const PATHS: [&str; 3] = ["file_path", "notebook_path", "path"];

/// Finds redundant deltas: entries whose content a complete message repeats.
#[derive(Debug, Default)]
pub(crate) struct DeltaFilter {
    /// The messages that are streaming, at most one per agent.
    open: HashMap<MessageAuthor, StreamedMessage>,
    /// How many entries were observed.
    seen: u64,
    boundary: Option<Seq>,
    redundant: Vec<Seq>,
}

/// The agent that writes a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum MessageAuthor {
    Main,
    /// Identified by the call that started it.
    SubAgent(String),
}

/// A message that is streaming.
#[derive(Debug)]
struct StreamedMessage {
    message: String,
    blocks: Vec<StreamedBlock>,
    /// The blocks that `assistant` lines had so far.
    complete: Vec<BlockContent>,
    /// The value of `seen` at its last delta.
    touched: u64,
}

/// A block as it was streamed.
#[derive(Debug)]
struct StreamedBlock {
    index: u64,
    /// None if it has content that cannot be compared.
    content: Option<BlockContent>,
    deltas: Vec<Seq>,
}

/// The content of a block, as far as it is streamed.
#[derive(Debug, PartialEq)]
enum BlockContent {
    Text(String),
    Thinking(String),
    Call {
        id: Option<String>,
        /// JSON.
        input: String,
    },
    /// A block that `wire` does not interpret.
    Other {
        /// Its fields without the input.
        fields: Map<String, Value>,
        input: String,
    },
}

impl DeltaFilter {
    /// Takes the next entry.
    pub(crate) fn observe(&mut self, entry: &Entry) {
        self.seen += 1;
        match entry.origin {
            Origin::Agent => {
                let mut lines = wire::read(&entry.bytes);
                // A line with several objects cannot be removed because of one of them.
                if let (Some(line), None) = (lines.next(), lines.next())
                    && let Reading::Event(event) = &line.reading
                {
                    self.observe_event(entry, event);
                }
            }
            // A session file has no deltas.
            Origin::Sent | Origin::Transcript => {}
            Origin::Towpath => match entry.line().note() {
                Some(Note::AgentExited { .. } | Note::AgentStarted { .. }) => {
                    let agents: Vec<_> = self.open.keys().cloned().collect();
                    for agent in &agents {
                        self.close(agent);
                    }
                }
                Some(Note::TurnEnded { .. }) => self.close(&MessageAuthor::Main),
                _ => {}
            },
        }
        self.close_abandoned();
        if self.open.is_empty() {
            self.boundary = Some(entry.seq);
        }
    }

    /// The last entry at which no message was streaming. Entries after it are not decided yet.
    pub(crate) fn boundary(&self) -> Option<Seq> {
        self.boundary
    }

    /// The redundant entries up to the boundary, in order.
    pub(crate) fn redundant(mut self) -> Vec<Seq> {
        let boundary = self.boundary.unwrap_or_default();
        self.redundant.retain(|seq| *seq <= boundary);
        self.redundant.sort_unstable();
        self.redundant
    }

    fn observe_event(&mut self, entry: &Entry, event: &Event<'_>) {
        let agent = match event.envelope.parent_tool_use_id {
            Some(call) => MessageAuthor::SubAgent(call.decode().into_owned()),
            None => MessageAuthor::Main,
        };
        match &event.body {
            Body::Stream(delta) => self.observe_delta(entry, agent, delta),
            Body::Assistant(complete) => self.observe_complete(entry, &agent, complete),
            Body::TurnEnded(_) => self.close(&agent),
            _ => {}
        }
    }

    fn observe_delta(&mut self, entry: &Entry, agent: MessageAuthor, delta: &Stream<'_>) {
        let seq = entry.seq;
        if let Stream::MessageStart(message) = delta {
            self.close(&agent);
            if let Some(message) = message_id(message) {
                let (blocks, complete) = (Vec::new(), Vec::new());
                let touched = self.seen;
                self.open.insert(agent, StreamedMessage { message, blocks, complete, touched });
            }
            return;
        }
        let Some(message) = self.open.get_mut(&agent) else { return };
        message.touched = self.seen;
        match delta {
            Stream::BlockStart { index, block } => {
                let content = BlockContent::started(block)
                    .or_else(|| BlockContent::other(other_blocks(entry).into_iter().next()?));
                message.blocks.push(StreamedBlock { index: *index, content, deltas: vec![seq] });
            }
            Stream::BlockDelta { index, delta } => {
                if let Some(block) = message.block(*index) {
                    block.deltas.push(seq);
                    let appended = block.content.as_mut().is_some_and(|it| it.append(delta));
                    if !appended {
                        block.content = None;
                    }
                }
            }
            Stream::BlockStop { index } => {
                if let Some(block) = message.block(*index) {
                    block.deltas.push(seq);
                }
            }
            Stream::MessageStop | Stream::Error(_) => self.close(&agent),
            Stream::MessageStart(_) | Stream::MessageDelta { .. } | Stream::Ping => {}
        }
    }

    fn observe_complete(&mut self, entry: &Entry, agent: &MessageAuthor, complete: &Assistant<'_>) {
        if let Some(message) = self.open.get_mut(agent)
            && message_id(&complete.message).as_ref() == Some(&message.message)
        {
            let mut has_others = false;
            for block in complete.message.content.blocks() {
                let content = BlockContent::complete(&block);
                has_others |= content.is_none();
                message.complete.extend(content);
            }
            if has_others {
                let others = other_blocks(entry).into_iter();
                message.complete.extend(others.filter_map(BlockContent::other));
            }
        }
    }

    fn close(&mut self, agent: &MessageAuthor) {
        if let Some(message) = self.open.remove(agent) {
            self.redundant.extend(message.redundant());
        }
    }

    fn close_abandoned(&mut self) {
        let seen = self.seen;
        let abandoned = self.open.extract_if(|_, message| seen - message.touched > ABANDONED);
        self.redundant.extend(abandoned.flat_map(|(_, message)| message.redundant()));
    }
}

impl StreamedMessage {
    /// The last block with an index.
    fn block(&mut self, index: u64) -> Option<&mut StreamedBlock> {
        self.blocks.iter_mut().rev().find(|block| block.index == index)
    }

    /// The deltas of the message, if complete blocks repeat all of its content. Each complete block
    /// stands for one that was streamed: two equal ones need two.
    ///
    /// If a block is missing, all stay: readers pair the blocks with the lines by their order.
    fn redundant(mut self) -> Vec<Seq> {
        let mut redundant = Vec::new();
        for block in self.blocks {
            let Some(content) = block.content else { return Vec::new() };
            redundant.extend(block.deltas);
            if let Some(at) = self.complete.iter().position(|it| it.repeats(&content)) {
                self.complete.remove(at);
            } else if !content.is_empty() {
                return Vec::new();
            }
        }
        redundant
    }
}

impl BlockContent {
    /// The content with which a block starts.
    fn started(block: &Block<'_>) -> Option<Self> {
        match block {
            // The input follows as deltas; here it is an empty object.
            Block::ToolUse(call) => {
                let id = call.id.map(|id| id.decode().into_owned());
                Some(Self::Call { id, input: String::new() })
            }
            block => Self::complete(block),
        }
    }

    /// The content of a block that `wire` does not interpret, started or complete.
    fn other(block: Value) -> Option<Self> {
        let Value::Object(mut fields) = block else { return None };
        let input = match fields.remove("input") {
            None => String::new(),
            Some(input) => input.to_string(),
        };
        // A block starts with an empty input.
        let input = if input == "{}" { String::new() } else { input };
        Some(Self::Other { fields, input })
    }

    /// The content of a complete block; none if `wire` does not interpret it.
    fn complete(block: &Block<'_>) -> Option<Self> {
        match block {
            Block::Text(text) => Some(Self::Text(text.decode().into_owned())),
            Block::Thinking(text) => Some(Self::Thinking(text.decode().into_owned())),
            Block::ToolUse(call) => Some(Self::Call {
                id: call.id.map(|id| id.decode().into_owned()),
                input: call.input.map(input_json).unwrap_or_default(),
            }),
            Block::ToolResult(_) | Block::Media { .. } | Block::Other(_) | Block::Unknown(_) => {
                None
            }
        }
    }

    /// Whether nothing was streamed. The CLI writes no line for such a block.
    fn is_empty(&self) -> bool {
        matches!(self, Self::Text(text) | Self::Thinking(text) if text.is_empty())
    }

    /// Appends a delta. False if it has content that cannot be compared.
    fn append(&mut self, delta: &Delta<'_>) -> bool {
        match (self, delta) {
            (Self::Text(text), Delta::Text(more))
            | (Self::Thinking(text), Delta::Thinking(more))
            | (
                Self::Call { input: text, .. } | Self::Other { input: text, .. },
                Delta::InputJson(more),
            ) => {
                text.push_str(&more.decode());
                true
            }
            // Neither signatures nor citations are shown; the complete block has them too.
            (_, Delta::Signature(_) | Delta::Known(_)) => true,
            _ => false,
        }
    }

    /// Whether this complete block has the content that was streamed.
    fn repeats(&self, streamed: &Self) -> bool {
        match (self, streamed) {
            (Self::Call { id, input }, Self::Call { id: streamed_id, input: streamed }) => {
                id == streamed_id && input_repeats(input, streamed)
            }
            (Self::Other { fields, input }, Self::Other { fields: started, input: streamed }) => {
                started.iter().all(|(key, value)| fields.get(key) == Some(value))
                    && input_repeats(input, streamed)
            }
            _ => self == streamed,
        }
    }
}

/// Whether the complete input of a call has everything of the streamed one. The CLI formats it anew
/// and resolves paths. No input is an empty object.
fn input_repeats(complete: &str, streamed: &str) -> bool {
    let read = |text: &str| match text.trim() {
        "" => Ok(Value::Object(Map::new())),
        text => serde_json::from_str(text),
    };
    match (read(complete), read(streamed)) {
        (Ok(Value::Object(complete)), Ok(Value::Object(streamed))) => {
            streamed.iter().all(|(key, value)| {
                let is_repeated =
                    |it: &Value| it == value || PATHS.contains(&&**key) && is_same_file(it, value);
                complete.get(key).is_some_and(is_repeated)
            })
        }
        (Ok(complete), Ok(streamed)) => complete == streamed,
        _ => false,
    }
}

/// The input of a call as JSON. The CLI up to 2.1.37 writes that of a server's tool as a string.
fn input_json(input: Raw<'_>) -> String {
    match input.text() {
        Some(text) => text.decode().into_owned(),
        None => input.as_str().to_owned(),
    }
}

/// Whether two values are absolute paths of files with the same name.
fn is_same_file(one: &Value, other: &Value) -> bool {
    let name = |value: &Value| {
        let path = value.as_str().filter(|path| path.starts_with('/'))?;
        path.rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_owned)
    };
    name(one).is_some_and(|name_of_one| Some(name_of_one) == name(other))
}

/// The blocks of a line that `wire` does not interpret.
fn other_blocks(entry: &Entry) -> Vec<Value> {
    let Ok(mut line) = serde_json::from_slice::<Value>(&entry.bytes) else { return Vec::new() };
    let blocks = match line["message"]["content"].take() {
        Value::Array(blocks) => blocks,
        _ => vec![line["event"]["content_block"].take()],
    };
    let is_other = |block: &Value| {
        let known = ["text", "thinking", "tool_use"];
        block["type"].as_str().is_some_and(|name| !known.contains(&name))
    };
    blocks.into_iter().filter(is_other).collect()
}

fn message_id(message: &Message<'_>) -> Option<String> {
    message.id.map(|id| id.decode().into_owned())
}
