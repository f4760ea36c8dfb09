//! Which entries only served streaming.
//!
//! A message arrives as a draft, piece by piece, and each of its blocks once more, whole, in an
//! `assistant` line with the message's id while the block is still open (so in every capture).
//! The pieces of a block that came whole say nothing more; those of a block that did not are all
//! there is of it, and stay. The frame of a message (`message_start`, `message_delta`,
//! `message_stop`) stays in any case.
//!
//! Decisions depend on the order of lines alone, never on how many are looked at in one go: between
//! two drafts there is a [calm](Drafts::calm) entry at which one can stop and begin again.

use std::collections::HashMap;

use wire::event::{Assistant, Block, Body, Message, Stream};
use wire::note::Note;
use wire::{Event, Reading};

use crate::entry::Entry;
use crate::id::Seq;
use wire::Origin;

/// After so many entries without another piece, a draft is taken to be abandoned: a sub-agent that
/// was killed says nothing more, and must not hold up the settling for ever.
const ABANDONED: u64 = 4096;

/// The drafts that are being written, one per agent at a time.
#[derive(Debug, Default)]
pub(crate) struct Drafts {
    open: HashMap<Speaker, Draft>,
    seen: u64,
    calm: Option<Seq>,
    superfluous: Vec<Seq>,
}

/// Who writes a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Speaker {
    Main,
    /// By the call that started it.
    SubAgent(String),
}

/// A message that is being written.
#[derive(Debug)]
struct Draft {
    message: String,
    block: Option<OpenBlock>,
    /// How many entries were seen when its last piece came.
    touched: u64,
}

/// The block that is being written.
#[derive(Debug)]
struct OpenBlock {
    index: u64,
    sort: Sort,
    pieces: Vec<Seq>,
    came_whole: bool,
}

/// What tells blocks of a message apart.
#[derive(Debug, PartialEq, Eq)]
enum Sort {
    Text,
    Thinking,
    Call(Option<String>),
    Other(String),
}

impl Drafts {
    /// Looks at the next entry.
    pub(crate) fn look_at(&mut self, entry: &Entry) {
        self.seen += 1;
        match entry.origin {
            Origin::Agent => {
                let mut lines = wire::read(&entry.bytes);
                // A line that holds several objects is no piece that could be dropped by itself.
                if let (Some(line), None) = (lines.next(), lines.next())
                    && let Reading::Event(event) = &line.reading
                {
                    self.hear(entry.seq, event);
                }
            }
            Origin::Towpath => match Note::read(&entry.bytes) {
                Some(Note::AgentGone { .. } | Note::AgentStarted { .. }) => {
                    let agents: Vec<_> = self.open.keys().cloned().collect();
                    for agent in &agents {
                        self.close(agent);
                    }
                }
                Some(Note::TurnOver { .. }) => self.close(&Speaker::Main),
                _ => {}
            },
        }
        self.close_abandoned();
        if self.open.is_empty() {
            self.calm = Some(entry.seq);
        }
    }

    /// The last entry at which no draft was open. What comes after it is not decided yet.
    pub(crate) fn calm(&self) -> Option<Seq> {
        self.calm
    }

    /// The entries up to the calm one that only served streaming, in order.
    pub(crate) fn superfluous(mut self) -> Vec<Seq> {
        let calm = self.calm.unwrap_or_default();
        self.superfluous.retain(|seq| *seq <= calm);
        self.superfluous.sort_unstable();
        self.superfluous
    }

    fn hear(&mut self, seq: Seq, event: &Event<'_>) {
        let agent = match event.envelope.parent_tool_use_id {
            Some(call) => Speaker::SubAgent(call.decode().into_owned()),
            None => Speaker::Main,
        };
        match &event.body {
            Body::Stream(piece) => self.take(seq, agent, piece),
            Body::Assistant(whole) => self.finish_block(&agent, whole),
            Body::TurnEnded(_) => self.close(&agent),
            _ => {}
        }
    }

    fn take(&mut self, seq: Seq, agent: Speaker, piece: &Stream<'_>) {
        if let Stream::MessageStart(message) = piece {
            self.close(&agent);
            if let Some(message) = id_of(message) {
                self.open.insert(agent, Draft { message, block: None, touched: self.seen });
            }
            return;
        }
        let Some(draft) = self.open.get_mut(&agent) else { return };
        draft.touched = self.seen;
        match piece {
            Stream::BlockStart { index, block } => {
                let block = OpenBlock {
                    index: *index,
                    sort: Sort::of(block),
                    pieces: vec![seq],
                    came_whole: false,
                };
                let before = draft.block.replace(block);
                self.decide(before);
            }
            Stream::BlockDelta { index, .. } | Stream::BlockStop { index } => {
                if let Some(block) = &mut draft.block
                    && block.index == *index
                {
                    block.pieces.push(seq);
                }
            }
            Stream::MessageStop | Stream::Error(_) => self.close(&agent),
            Stream::MessageStart(_) | Stream::MessageDelta { .. } | Stream::Ping => {}
        }
    }

    /// Takes note that a block came whole. Where an interrupt cut it short, its words came as far as
    /// they were streamed (2.1.325, `interrupt-with-queued`); of a call nobody has seen as much.
    fn finish_block(&mut self, agent: &Speaker, whole: &Assistant<'_>) {
        let Some(draft) = self.open.get_mut(agent) else { return };
        if id_of(&whole.message).as_ref() != Some(&draft.message) {
            return;
        }
        if let Some(block) = &mut draft.block
            && (!whole.aborted || block.sort == Sort::Text)
            && whole.message.content.blocks().any(|other| Sort::of(&other) == block.sort)
        {
            block.came_whole = true;
        }
    }

    fn close(&mut self, agent: &Speaker) {
        let block = self.open.remove(agent).and_then(|draft| draft.block);
        self.decide(block);
    }

    fn close_abandoned(&mut self) {
        let seen = self.seen;
        let abandoned: Vec<_> = self
            .open
            .extract_if(|_, draft| seen - draft.touched > ABANDONED)
            .map(|(_, draft)| draft.block)
            .collect();
        for block in abandoned {
            self.decide(block);
        }
    }

    fn decide(&mut self, block: Option<OpenBlock>) {
        if let Some(block) = block
            && block.came_whole
        {
            self.superfluous.extend(block.pieces);
        }
    }
}

impl Sort {
    fn of(block: &Block<'_>) -> Self {
        match block {
            Block::Text(_) => Self::Text,
            Block::Thinking(_) => Self::Thinking,
            Block::ToolUse(call) => Self::Call(call.id.map(|id| id.decode().into_owned())),
            Block::ToolResult(result) => {
                Self::Call(result.tool_use_id.map(|id| id.decode().into_owned()))
            }
            Block::Media { name, .. } | Block::Other(name) | Block::Unknown(name) => {
                Self::Other(name.decode().into_owned())
            }
        }
    }
}

fn id_of(message: &Message<'_>) -> Option<String> {
    message.id.map(|id| id.decode().into_owned())
}
