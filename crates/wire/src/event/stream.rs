//! Parts of a streaming message, forwarded from the API's own stream.

use super::{Block, EnvelopeFields, Fault, FieldOutcome, Message, Usage};
use crate::json::{Cursor, ParseError, ShapeError, Text};
use crate::names;

/// A `stream_event`.
#[derive(Clone, Debug)]
pub enum Stream<'a> {
    /// A message starts, without content.
    MessageStart(Box<Message<'a>>),
    /// A block starts, with little or no content.
    BlockStart {
        index: u64,
        block: Block<'a>,
    },
    /// Content is appended to a block.
    BlockDelta {
        index: u64,
        delta: Delta<'a>,
    },
    BlockStop {
        index: u64,
    },
    /// The final fields of the message.
    MessageDelta {
        stop_reason: Option<Text<'a>>,
        /// The counts that changed since the message started.
        usage: Option<Usage>,
    },
    MessageStop,
    /// A keep-alive.
    Ping,
    /// The API aborted the stream.
    Error(Fault<'a>),
}

/// Content that is appended to a block.
#[derive(Clone, Copy, Debug)]
pub enum Delta<'a> {
    Text(Text<'a>),
    Thinking(Text<'a>),
    /// The signature of a thinking block.
    Signature(Text<'a>),
    /// A fragment of a tool's input. It is not valid JSON on its own.
    InputJson(Text<'a>),
    /// A citation, or another known type that Towpath does not interpret.
    Known(Text<'a>),
    /// A type that this crate does not know.
    Other(Text<'a>),
}

/// All fields an event may have. The `type` decides which of them are used.
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
    text: Option<Text<'a>>,
    /// The type implied by the key of the text, for writers that omit `type`.
    implied_name: Option<Text<'static>>,
    stop_reason: Option<Text<'a>>,
}

impl<'a> Stream<'a> {
    /// Reads a stream event. If the inner event is unknown, adds its type to the kind and returns
    /// `None`.
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
        let event = parts.assemble().map_err(|error| error.under("event"))?;
        if event.is_none() {
            top.kind.subtype = name;
        }
        Ok(event)
    }

    /// Reads an event of the API without the `stream_event` wrapper, as in a recording of the API's
    /// own stream.
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
                    .map_err(|error| error.under("delta"))?,
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
                    this.text = cursor.value()?.optional_text()?;
                    this.implied_name = Some(match key {
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
        let name = self.name.or(self.implied_name);
        let name = name.ok_or_else(|| ShapeError::missing("type"))?;
        let text = self.text.unwrap_or(Text::EMPTY);
        let decoded: &str = &name.decode();
        Ok(match decoded {
            "text_delta" => Delta::Text(text),
            "thinking_delta" => Delta::Thinking(text),
            "signature_delta" => Delta::Signature(text),
            "input_json_delta" => Delta::InputJson(text),
            _ if names::DELTAS.contains(&decoded) => Delta::Known(name),
            _ => Delta::Other(name),
        })
    }
}
