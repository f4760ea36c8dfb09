//! What the API writes: the events of a stream, and the whole message.
//!
//! Fields come in the order in which the real API sends them.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::usage::Usage;

/// One event of a stream.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Event<'a> {
    MessageStart { message: Message<'a> },
    ContentBlockStart { index: usize, content_block: Content<'a> },
    Ping,
    ContentBlockDelta { index: usize, delta: Delta<'a> },
    ContentBlockStop { index: usize },
    MessageDelta { delta: Stop<'a>, usage: Usage<'a> },
    MessageStop,
    Error { error: Problem<'a> },
}

#[derive(Serialize)]
#[serde(tag = "type")]
pub(super) enum Delta<'a> {
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "signature_delta")]
    Signature { signature: &'a str },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: &'a str },
}

/// A content block, beginning or whole.
#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Content<'a> {
    Text {
        text: &'a str,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a Value,
    },
    #[serde(untagged)]
    Raw(&'a Value),
}

/// A message, beginning or whole.
#[derive(Serialize)]
pub(super) struct Message<'a> {
    pub(super) model: &'a str,
    pub(super) id: &'a str,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) role: &'static str,
    pub(super) content: &'a RawValue,
    #[serde(flatten)]
    pub(super) stop: Stop<'a>,
    pub(super) usage: Usage<'a>,
}

/// Why a message ended; nothing while it has not.
#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct Stop<'a> {
    pub(super) stop_reason: Option<&'a str>,
    pub(super) stop_sequence: Option<&'a str>,
}

/// What went wrong.
#[derive(Serialize)]
pub(super) struct Problem<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    pub(super) message: &'a str,
}

impl<'a> Message<'a> {
    pub(super) fn new(
        (model, id): (&'a str, &'a str),
        content: &'a RawValue,
        stop: Stop<'a>,
        usage: Usage<'a>,
    ) -> Self {
        Self { model, id, kind: "message", role: "assistant", content, stop, usage }
    }
}

impl Event<'_> {
    /// Writes the event as it goes over the wire.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(self.name().as_bytes());
        out.extend_from_slice(b"\ndata: ");
        write_json(self, out);
        out.extend_from_slice(b"\n\n");
    }

    fn name(&self) -> &'static str {
        match self {
            Self::MessageStart { .. } => "message_start",
            Self::ContentBlockStart { .. } => "content_block_start",
            Self::Ping => "ping",
            Self::ContentBlockDelta { .. } => "content_block_delta",
            Self::ContentBlockStop { .. } => "content_block_stop",
            Self::MessageDelta { .. } => "message_delta",
            Self::MessageStop => "message_stop",
            Self::Error { .. } => "error",
        }
    }
}

/// Appends a value as JSON.
pub(super) fn write_json(value: &impl Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value)
        .expect("text and numbers are JSON, and memory can be written");
}
