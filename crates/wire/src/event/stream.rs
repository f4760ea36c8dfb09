//! Pieces of a message while it is written: the API's own stream, passed on.

use super::{Block, EnvelopeFields, Fault, FieldOutcome, Message, Usage};
use crate::json::{Cursor, ParseError, ShapeError, Text};
use crate::names;

/// A `stream_event`.
#[derive(Clone, Debug)]
pub enum Stream<'a> {
    /// A message begins, empty.
    MessageStart(Box<Message<'a>>),
    /// A block begins, empty or nearly so.
    BlockStart {
        /// Its place in the message.
        index: u64,
        /// What it will be.
        block: Block<'a>,
    },
    /// A block grows.
    BlockDelta {
        /// Its place in the message.
        index: u64,
        /// By what.
        delta: Delta<'a>,
    },
    /// A block is complete.
    BlockStop {
        /// Its place in the message.
        index: u64,
    },
    /// The message's last words on itself.
    MessageDelta {
        /// Why the model stopped.
        stop_reason: Option<Text<'a>>,
        /// The counts that changed since the message began.
        usage: Option<Usage>,
    },
    /// The message is complete.
    MessageStop,
    /// A sign of life.
    Ping,
    /// The API gave up in mid-stream.
    Error(Fault<'a>),
}

/// What a block grows by.
#[derive(Clone, Copy, Debug)]
pub enum Delta<'a> {
    /// Words.
    Text(Text<'a>),
    /// Thoughts.
    Thinking(Text<'a>),
    /// The signature that closes thoughts.
    Signature(Text<'a>),
    /// A piece of a tool's input, not JSON by itself.
    InputJson(Text<'a>),
    /// A source, or another known sort that nothing here decides on.
    Known(Text<'a>),
    /// A sort this crate has not met.
    Other(Text<'a>),
}

/// The event before its `type` says which of these count.
#[derive(Default)]
struct StreamParts<'a> {
    name: Option<Text<'a>>,
    index: Option<u64>,
    delta: Option<DeltaParts<'a>>,
    block: Option<Block<'a>>,
    message: Option<Message<'a>>,
    usage: Option<Usage>,
    fault: Option<Fault<'a>>,
}

#[derive(Default)]
struct DeltaParts<'a> {
    name: Option<Text<'a>>,
    piece: Option<Text<'a>>,
    /// What the piece's key says of it, for writers that leave out the `type`.
    sort_of_piece: Option<Text<'static>>,
    stop_reason: Option<Text<'a>>,
}

impl<'a> Stream<'a> {
    /// Reads a stream event; nothing where the event inside is not known, which then completes the
    /// kind.
    pub(crate) fn read(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Option<Self>, ParseError> {
        let mut parts = None;
        top.walk(cursor, |cursor, key| {
            if key != "event" {
                return Ok(FieldOutcome::No);
            }
            let mut event = StreamParts::default();
            cursor.fields(|cursor, key| match event.take(cursor, key)? {
                FieldOutcome::Yes => Ok(()),
                FieldOutcome::No => cursor.skip(),
            })?;
            parts = Some(event);
            Ok(FieldOutcome::Yes)
        })?;
        let parts = parts.ok_or_else(|| ShapeError::missing("event"))?;
        let name = parts.name;
        let event = parts.assemble().map_err(|trouble| trouble.under("event"))?;
        if event.is_none() {
            top.kind.subtype = name;
        }
        Ok(event)
    }

    /// Reads an event of the API that stands by itself, as in a recording of the API's own stream.
    pub(crate) fn read_bare(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Option<Self>, ParseError> {
        let mut event = StreamParts { name: Some(top.kind.name), ..StreamParts::default() };
        top.walk(cursor, |cursor, key| match key {
            "type" => Ok(FieldOutcome::No),
            _ => event.take(cursor, key),
        })?;
        event.assemble()
    }
}

impl<'a> StreamParts<'a> {
    fn take(&mut self, cursor: &mut Cursor<'a>, key: &str) -> Result<FieldOutcome, ParseError> {
        match key {
            "type" => self.name = Some(cursor.value()?.text()?),
            "index" => self.index = cursor.value()?.optional_count()?,
            "delta" => self.delta = Some(DeltaParts::read(cursor)?),
            "content_block" => self.block = Some(Block::read(cursor)?),
            "message" => self.message = Some(Message::read(cursor)?),
            "usage" => self.usage = Usage::read(cursor)?,
            "error" => self.fault = Fault::read(cursor)?,
            _ => return Ok(FieldOutcome::No),
        }
        Ok(FieldOutcome::Yes)
    }

    fn assemble(self) -> Result<Option<Stream<'a>>, ParseError> {
        let name = self.name.ok_or_else(|| ShapeError::missing("type"))?;
        let index = self.index.unwrap_or(0);
        Ok(Some(match &*name.decode() {
            "content_block_delta" => Stream::BlockDelta {
                index,
                delta: self
                    .delta
                    .ok_or_else(|| ShapeError::missing("delta"))?
                    .assemble()
                    .map_err(|trouble| trouble.under("delta"))?,
            },
            "content_block_start" => Stream::BlockStart {
                index,
                block: self.block.ok_or_else(|| ShapeError::missing("content_block"))?,
            },
            "content_block_stop" => Stream::BlockStop { index },
            "message_start" => Stream::MessageStart(Box::new(self.message.unwrap_or_default())),
            "message_delta" => Stream::MessageDelta {
                stop_reason: self.delta.and_then(|delta| delta.stop_reason),
                usage: self.usage,
            },
            "message_stop" => Stream::MessageStop,
            "ping" => Stream::Ping,
            "error" => Stream::Error(self.fault.unwrap_or_default()),
            _ => return Ok(None),
        }))
    }
}

impl<'a> DeltaParts<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, ParseError> {
        let mut this = Self::default();
        cursor.fields(|cursor, key| {
            match key {
                "type" => this.name = cursor.value()?.optional_text()?,
                "text" | "thinking" | "signature" | "partial_json" => {
                    this.piece = cursor.value()?.optional_text()?;
                    this.sort_of_piece = Some(match key {
                        "text" => Text::word("\"text_delta"),
                        "thinking" => Text::word("\"thinking_delta"),
                        "signature" => Text::word("\"signature_delta"),
                        _ => Text::word("\"input_json_delta"),
                    });
                }
                "stop_reason" => this.stop_reason = cursor.value()?.optional_text()?,
                _ => cursor.skip()?,
            }
            Ok(())
        })?;
        Ok(this)
    }

    fn assemble(self) -> Result<Delta<'a>, ParseError> {
        let name = self.name.or(self.sort_of_piece);
        let name = name.ok_or_else(|| ShapeError::missing("type"))?;
        let piece = self.piece.unwrap_or(Text::EMPTY);
        let decoded: &str = &name.decode();
        Ok(match decoded {
            "text_delta" => Delta::Text(piece),
            "thinking_delta" => Delta::Thinking(piece),
            "signature_delta" => Delta::Signature(piece),
            "input_json_delta" => Delta::InputJson(piece),
            _ if names::DELTAS.contains(&decoded) => Delta::Known(name),
            _ => Delta::Other(name),
        })
    }
}
