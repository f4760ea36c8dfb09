//! Compaction: after a turn, redundant deltas are removed and the other entries are compressed into
//! segments.
//!
//! Reading, deciding and compressing happen outside the writer thread, which only inserts a segment
//! per transaction. From then on the rows of its entries are obsolete, and maintenance deletes them in
//! small steps. An interrupted compaction is simply done again: how far a session is compacted is
//! stored with each segment.
//!
//! A message streams as deltas, and each of its blocks is repeated in an `assistant` line with the
//! message's id while the block is still open (so in every capture). The deltas of a block that came
//! complete are redundant; those of a block that did not are all there is of it, and stay. The frame
//! of a message (`message_start`, `message_delta`, `message_stop`) always stays.
//!
//! Which entries are removed depends on the order of lines alone, never on how many are compacted at
//! once: a compaction only goes up to a [boundary](DeltaFilter::boundary) between two messages.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;
use wire::event::{Assistant, Block, Body, Message, Stream};
use wire::note::Note;
use wire::{Event, Origin, Reading};

use crate::error::Error;
use crate::id::{Seq, SessionId, SessionKey};
use crate::journal::Journal;
use crate::query::{self, ReadLimit};
use crate::records::Entry;
use crate::segment::Segment;
use crate::writer::{Mutation, NewSegment};

/// The size of a segment before compression: enough to compress well, and no more, because a reader
/// decompresses the whole segment for one entry.
const SEGMENT_BYTES: usize = 256 << 10;

/// A smaller segment is compressed again together with what follows, because turns can be short.
const SMALL_SEGMENT: usize = SEGMENT_BYTES / 2;

/// How much is read at once.
const READ_LIMIT: ReadLimit = ReadLimit { entries: 2048, bytes: 2 << 20 };

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionStats {
    /// The last entry that is compacted.
    pub upto: Seq,
    /// How many entries were removed.
    pub removed: u64,
    /// How many entries were compressed.
    pub compressed: u64,
}

/// The entries to compact.
struct CompactionPlan {
    key: SessionKey,
    from: Seq,
    to: Seq,
    redundant: HashSet<Seq>,
}

pub(crate) async fn compact(
    journal: &Journal,
    session: SessionId,
    upto: Seq,
) -> Result<CompactionStats, Error> {
    let mut plan =
        journal.readers().read(move |reader| CompactionPlan::make(reader, session, upto)).await?;
    let mut stats = CompactionStats { upto: plan.from, ..CompactionStats::default() };
    while plan.from < plan.to {
        let (next, step) = journal.readers().read(move |reader| plan.next(reader, session)).await?;
        plan = next;
        let (to, compressed) = (step.segment.to, step.compressed);
        let passed = to.0 - step.segment.from.0;
        if journal.change(Mutation::Compact(step.segment)).await? != to {
            break;
        }
        stats.upto = to;
        stats.compressed += compressed;
        stats.removed += passed - compressed;
        plan.from = to;
    }
    Ok(stats)
}

/// One segment of a compaction.
struct CompactionStep {
    segment: NewSegment,
    compressed: u64,
}

impl CompactionPlan {
    /// Selects the entries from where the session is compacted up to the last boundary.
    fn make(connection: &Connection, session: SessionId, upto: Seq) -> Result<Self, Error> {
        let head = query::head(connection, session)?.ok_or(Error::NoSuchSession(session))?;
        let from = head.compacted;
        let mut filter = DeltaFilter::default();
        let mut seen = from;
        'all: while seen < upto {
            let entries = query::uncompacted(connection, head.key, seen, READ_LIMIT)?;
            if entries.is_empty() {
                break;
            }
            for entry in entries {
                if entry.seq > upto {
                    break 'all;
                }
                filter.observe(&entry);
                seen = entry.seq;
            }
        }
        let to = filter.boundary().unwrap_or(from);
        let redundant = filter.redundant().into_iter().collect();
        Ok(Self { key: head.key, from, to, redundant })
    }

    /// Compresses the next segment.
    fn next(
        self,
        connection: &Connection,
        session: SessionId,
    ) -> Result<(Self, CompactionStep), Error> {
        let snapshot = connection.unchecked_transaction()?;
        let before = query::last_segment_below(&snapshot, self.key, SMALL_SEGMENT)?;
        let replaces = before.as_ref().map(|(last, _)| *last);
        let mut entries = before.map(|(_, entries)| entries).unwrap_or_default();
        let included = entries.len();
        let mut bytes: usize = entries.iter().map(|entry| entry.bytes.len()).sum();
        let mut to = self.from;
        while bytes < SEGMENT_BYTES && to < self.to {
            let next = query::uncompacted(&snapshot, self.key, to, READ_LIMIT)?;
            if next.is_empty() {
                // Another process compacted the session; the writer will discard this segment.
                to = self.to;
            }
            for entry in next {
                // An entry as large as a segment gets one of its own.
                let alone = entry.bytes.len() >= SEGMENT_BYTES && entries.len() > included;
                if entry.seq > self.to || bytes >= SEGMENT_BYTES || alone {
                    bytes = SEGMENT_BYTES;
                    break;
                }
                to = entry.seq;
                if !self.redundant.contains(&entry.seq) {
                    bytes += entry.bytes.len();
                    entries.push(entry);
                }
            }
        }
        let compressed = (entries.len() - included) as u64;
        let replaces = replaces.filter(|_| compressed > 0);
        let segment = if compressed == 0 { None } else { Some(compress(&entries)?) };
        let from = self.from;
        let segment = NewSegment { session, from, to, replaces, segment };
        Ok((self, CompactionStep { segment, compressed }))
    }
}

fn compress(entries: &[Entry]) -> Result<(Seq, Segment), Error> {
    let last = entries.last().map_or(Seq(0), |entry| entry.seq);
    let segment = Segment::compress(entries)
        .map_err(|error| Error::io(std::path::Path::new("a segment in memory"), error))?;
    Ok((last, segment))
}

/// After this many entries without a delta, a message counts as abandoned: a killed sub-agent sends
/// nothing more and must not block compaction.
const ABANDONED: u64 = 4096;

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
    block: Option<OpenBlock>,
    /// The value of `seen` at its last delta.
    touched: u64,
}

/// The block of a message that is streaming.
#[derive(Debug)]
struct OpenBlock {
    index: u64,
    identity: BlockIdentity,
    deltas: Vec<Seq>,
    complete: bool,
}

/// What distinguishes the blocks of a message.
#[derive(Debug, PartialEq, Eq)]
enum BlockIdentity {
    Text,
    Thinking,
    Call(Option<String>),
    Other(String),
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
                    self.observe_event(entry.seq, event);
                }
            }
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

    fn observe_event(&mut self, seq: Seq, event: &Event<'_>) {
        let agent = match event.envelope.parent_tool_use_id {
            Some(call) => MessageAuthor::SubAgent(call.decode().into_owned()),
            None => MessageAuthor::Main,
        };
        match &event.body {
            Body::Stream(delta) => self.observe_delta(seq, agent, delta),
            Body::Assistant(complete) => self.complete_block(&agent, complete),
            Body::TurnEnded(_) => self.close(&agent),
            _ => {}
        }
    }

    fn observe_delta(&mut self, seq: Seq, agent: MessageAuthor, delta: &Stream<'_>) {
        if let Stream::MessageStart(message) = delta {
            self.close(&agent);
            if let Some(message) = message_id(message) {
                self.open
                    .insert(agent, StreamedMessage { message, block: None, touched: self.seen });
            }
            return;
        }
        let Some(message) = self.open.get_mut(&agent) else { return };
        message.touched = self.seen;
        match delta {
            Stream::BlockStart { index, block } => {
                let block = OpenBlock {
                    index: *index,
                    identity: BlockIdentity::of(block),
                    deltas: vec![seq],
                    complete: false,
                };
                let before = message.block.replace(block);
                self.close_block(before);
            }
            Stream::BlockDelta { index, .. } | Stream::BlockStop { index } => {
                if let Some(block) = &mut message.block
                    && block.index == *index
                {
                    block.deltas.push(seq);
                }
            }
            Stream::MessageStop | Stream::Error(_) => self.close(&agent),
            Stream::MessageStart(_) | Stream::MessageDelta { .. } | Stream::Ping => {}
        }
    }

    /// Marks the open block as complete. After an interrupt, the `assistant` line has all the text
    /// that was streamed (2.1.325, `interrupt-with-queued`); no capture shows that for other blocks.
    fn complete_block(&mut self, agent: &MessageAuthor, complete: &Assistant<'_>) {
        let Some(message) = self.open.get_mut(agent) else { return };
        if message_id(&complete.message).as_ref() != Some(&message.message) {
            return;
        }
        if let Some(block) = &mut message.block
            && (!complete.aborted || block.identity == BlockIdentity::Text)
            && complete
                .message
                .content
                .blocks()
                .any(|other| BlockIdentity::of(&other) == block.identity)
        {
            block.complete = true;
        }
    }

    fn close(&mut self, agent: &MessageAuthor) {
        let block = self.open.remove(agent).and_then(|message| message.block);
        self.close_block(block);
    }

    fn close_abandoned(&mut self) {
        let seen = self.seen;
        let abandoned: Vec<_> = self
            .open
            .extract_if(|_, message| seen - message.touched > ABANDONED)
            .map(|(_, message)| message.block)
            .collect();
        for block in abandoned {
            self.close_block(block);
        }
    }

    fn close_block(&mut self, block: Option<OpenBlock>) {
        if let Some(block) = block
            && block.complete
        {
            self.redundant.extend(block.deltas);
        }
    }
}

impl BlockIdentity {
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

fn message_id(message: &Message<'_>) -> Option<String> {
    message.id.map(|id| id.decode().into_owned())
}
