//! The content of lines as types.
//!
//! Only fields that some part of Towpath decides on have types. The others stay in the bytes of the
//! line, or in a [`Raw`](crate::json::Raw) if they are passed on unchanged. The types are as loose as
//! the captures: a field that is `null` counts as absent.

/// Walks an event's object and stores the values of known keys, as `"key" | "alias" => target, reader;`.
/// All other keys belong to the envelope.
macro_rules! walk_fields {
    ($top:ident, $cursor:ident, { $($($key:literal)|+ => $target:expr, $read:ident;)+ }) => {
        $top.walk($cursor, |cursor, key| {
            match key {
                $($($key)|+ => $target = cursor.value()?.$read()?,)+
                _ => return Ok($crate::event::FieldOutcome::No),
            }
            Ok($crate::event::FieldOutcome::Yes)
        })
    };
}

mod control;
mod message;
mod record;
mod signal;
mod stream;
mod system;
mod turn_ended;

use crate::acp::event::AcpEvent;
use crate::json::{Cursor, ParseError, Text};
use crate::kind::Kind;
use crate::line::Dialect;
use crate::other_agents::OtherAgentEvent;

pub use control::{
    CanUseTool, ControlCancel, ControlRequest, ControlRequestKind, ControlResponse, ControlResult,
};
pub use message::{Assistant, Block, Blocks, Content, Message, ToolResult, ToolUse, User};
pub use record::{ProgressRecord, QueueOperation, Record};
pub use signal::{CommandLifecycle, PermissionPrompt, RateLimit, Signal, ToolProgress};
pub use stream::{Delta, Stream};
pub use system::{
    ApiRetry, CompactBoundary, Hook, HookPhase, Init, PermissionDenied, SessionState, StatusUpdate,
    System, SystemNotice, Task, TaskPhase, ThinkingTokens,
};
pub use turn_ended::{Denial, Fault, ModelUsage, ResultSubtype, TurnEnded, Usage};

/// A line of a known kind in a known shape.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    pub kind: Kind<'a>,
    pub envelope: Envelope<'a>,
    pub body: Body<'a>,
    /// Fields in an unexpected shape, each with its path and the difference. They were skipped: the
    /// event can be acted on without them.
    pub unexpected: Vec<String>,
}

/// The content of an [`Event`].
///
/// Large variants are boxed: most lines are deltas, and a delta should not take the space of a whole
/// message.
#[derive(Clone, Debug)]
pub enum Body<'a> {
    /// A turn starts: `system/init`, and the flat dialect's `session_start`.
    Init(Box<Init<'a>>),
    /// A message of the model.
    Assistant(Box<Assistant<'a>>),
    /// A message to the model: a prompt, or tool results.
    User(Box<User<'a>>),
    /// A delta of a message that is streaming.
    Stream(Stream<'a>),
    /// A turn ended: `result`.
    TurnEnded(Box<TurnEnded<'a>>),
    /// Any other `system` line.
    System(System<'a>),
    /// A request of the other side.
    ControlRequest(Box<ControlRequest<'a>>),
    /// A reply to a control request.
    ControlResponse(ControlResponse<'a>),
    /// A control request is withdrawn.
    ControlCancel(ControlCancel<'a>),
    /// An event outside the conversation.
    Signal(Signal<'a>),
    /// An entry that occurs only in session files.
    Record(Record<'a>),
    /// A line of another agent.
    OtherAgent(Box<OtherAgentEvent<'a>>),
    /// A message of the Agent Client Protocol. It is not boxed, because most of them are chunks of text.
    Acp(AcpEvent<'a>),
}

/// Fields that a line of any kind may carry.
#[derive(Clone, Debug, Default)]
pub struct Envelope<'a> {
    /// The CLI's id of the session. It changes with `/clear`.
    pub session_id: Option<Text<'a>>,
    /// The line's own id.
    pub uuid: Option<Text<'a>>,
    /// The tool call whose sub-agent this belongs to; absent for the main agent.
    pub parent_tool_use_id: Option<Text<'a>>,
    /// When it was written, as ISO 8601.
    pub timestamp: Option<Text<'a>>,
    /// Fields of session files; none in a stream.
    pub file: Option<Box<FileFields<'a>>>,
    /// Which side wrote it, if a recording of both sides says so.
    pub sender: Option<Sender>,
}

/// A side of a conversation over the Agent Client Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    Client,
    Agent,
}

/// Fields that lines of session files carry and lines of the stream do not.
///
/// They are boxed so that deltas of a live stream do not need space for them.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileFields<'a> {
    /// It belongs to a sub-agent.
    pub sidechain: bool,
    /// The version of the CLI that wrote it.
    pub version: Option<Text<'a>>,
    /// The working directory.
    pub cwd: Option<Text<'a>>,
}

impl<'a> Envelope<'a> {
    fn file_fields(&mut self) -> &mut FileFields<'a> {
        self.file.get_or_insert_default()
    }
}

impl<'a> Event<'a> {
    /// Whether it belongs to a sub-agent.
    pub fn of_sub_agent(&self) -> bool {
        self.envelope.parent_tool_use_id.is_some()
            || self.envelope.file.as_ref().is_some_and(|file| file.sidechain)
    }

    /// The complete message it carries, if any.
    pub fn message(&self) -> Option<&Message<'a>> {
        match &self.body {
            Body::Assistant(assistant) => Some(&assistant.message),
            Body::User(user) => Some(&user.message),
            _ => None,
        }
    }

    /// Content blocks, deltas and `result` subtypes that this crate does not know, and fields in an
    /// unexpected shape. The event can be acted on; these parts can only be shown.
    pub fn unmodelled(&self) -> Vec<String> {
        let mut parts = self.unknown_parts();
        parts.extend(self.unexpected.iter().map(|field| format!("{}: {field}", self.kind)));
        parts
    }

    fn unknown_parts(&self) -> Vec<String> {
        let named = |sort: &str, name: Text<'_>| format!("{sort}/{name}");
        match &self.body {
            Body::Assistant(_) | Body::User(_) => self
                .message()
                .into_iter()
                .flat_map(|message| message.content.blocks())
                .filter_map(Block::unmodelled)
                .map(|name| named("content_block", name))
                .collect(),
            Body::Stream(Stream::BlockStart { block, .. }) => {
                block.unmodelled().map(|name| named("content_block", name)).into_iter().collect()
            }
            Body::Stream(Stream::BlockDelta { delta: Delta::Other(name), .. }) => {
                vec![named("delta", *name)]
            }
            Body::TurnEnded(turn) => match turn.ending {
                Some(ResultSubtype::Other(name)) => vec![named("result", name)],
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }
}

/// The kind and the common fields of an object while it is read.
pub(crate) struct EnvelopeFields<'a> {
    pub(crate) kind: Kind<'a>,
    /// A later key may change the kind.
    guessed: bool,
    pub(crate) envelope: Envelope<'a>,
    /// A key that occurs only in session files was found.
    pub(crate) transcript_key: bool,
    session_id_is_camel: bool,
    /// The dialect of another agent that its keys show.
    pub(crate) other_agent: Option<Dialect>,
    /// Fields in an unexpected shape.
    pub(crate) unexpected: Vec<String>,
}

impl<'a> EnvelopeFields<'a> {
    /// Starts with the kind that the first keys suggest. A later duplicate key may change it.
    pub(crate) fn guessed(kind: Kind<'a>) -> Self {
        Self { guessed: true, ..Self::known(kind) }
    }

    /// Starts with the kind that all keys together give.
    pub(crate) fn known(kind: Kind<'a>) -> Self {
        Self {
            kind,
            guessed: false,
            envelope: Envelope::default(),
            transcript_key: false,
            session_id_is_camel: false,
            other_agent: None,
            unexpected: Vec::new(),
        }
    }

    pub(crate) fn is_guess(&self) -> bool {
        self.guessed
    }

    /// Reads a field that is not specific to the kind.
    pub(crate) fn take(&mut self, cursor: &mut Cursor<'a>, key: &str) -> Result<(), ParseError> {
        let envelope = &mut self.envelope;
        let mut text = |cursor: &mut Cursor<'a>| {
            cursor.lenient(key, &mut self.unexpected, |cursor| cursor.value()?.optional_text())
        };
        match key {
            "type" => {
                if cursor.value()?.text_if_string() != Some(self.kind.name) && self.guessed {
                    return Err(ParseError::Retyped);
                }
            }
            "subtype" if self.kind.name == *"system" || self.kind.name == *"result" => {
                if cursor.value()?.text_if_string() != self.kind.subtype && self.guessed {
                    return Err(ParseError::Retyped);
                }
            }
            // Session files of 2.1.263 have both; `sessionId` is the right one.
            "session_id" if self.session_id_is_camel => cursor.skip()?,
            "session_id" => envelope.session_id = text(cursor)?,
            "uuid" => envelope.uuid = text(cursor)?,
            "parent_tool_use_id" => envelope.parent_tool_use_id = text(cursor)?,
            "timestamp" => envelope.timestamp = cursor.value()?.text_if_string(),
            "sessionId" => {
                self.transcript_key = true;
                self.session_id_is_camel = true;
                envelope.session_id = text(cursor)?;
            }
            "isSidechain" => {
                self.transcript_key = true;
                let sidechain = cursor
                    .lenient(key, &mut self.unexpected, |cursor| cursor.value()?.optional_bool())?;
                envelope.file_fields().sidechain = sidechain.unwrap_or(false);
            }
            "parentUuid" | "leafUuid" => {
                self.transcript_key = true;
                cursor.skip()?;
            }
            "version" => envelope.file_fields().version = cursor.value()?.text_if_string(),
            "cwd" => envelope.file_fields().cwd = cursor.value()?.text_if_string(),
            _ => cursor.skip()?,
        }
        Ok(())
    }

    /// Skips an object of an unknown kind, in which any shape is accepted.
    pub(crate) fn pass(&mut self, cursor: &mut Cursor<'a>) -> Result<(), ParseError> {
        self.walk(cursor, |cursor, key| {
            if matches!(key, "type" | "subtype") {
                return Ok(FieldOutcome::No);
            }
            cursor.skip()?;
            Ok(FieldOutcome::Yes)
        })
    }

    /// Walks the object. `visit` reads the keys it knows and returns whether it did.
    #[inline]
    pub(crate) fn walk(
        &mut self,
        cursor: &mut Cursor<'a>,
        mut visit: impl FnMut(&mut Cursor<'a>, &str) -> Result<FieldOutcome, ParseError>,
    ) -> Result<(), ParseError> {
        cursor.fields(|cursor, key| match visit(cursor, key)? {
            FieldOutcome::Yes => Ok(()),
            FieldOutcome::No => self.take(cursor, key),
        })
    }
}

/// Whether a visitor has read the value at the cursor.
pub(crate) enum FieldOutcome {
    Yes,
    No,
}
