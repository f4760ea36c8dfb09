//! What the lines say, in types.
//!
//! Only what some part of Towpath decides on is typed; the rest stays in the line's bytes, or in a
//! [`Raw`](crate::json::Raw) where a field is passed on as it is. Types are as loose as the CLI was
//! seen to be: a field that is `null` is a field that is absent.

mod control;
mod message;
mod record;
mod signal;
mod stream;
mod system;
mod turn_ended;

use crate::json::{Cursor, ParseError, Text};
use crate::kind::Kind;

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
    /// What the line says it is.
    pub kind: Kind<'a>,
    /// What every kind may carry.
    pub envelope: Envelope<'a>,
    /// What it says.
    pub body: Body<'a>,
}

/// What an [`Event`] says.
///
/// Large variants are boxed: most lines are deltas, and a delta should not be moved about in the
/// space of a whole message.
#[derive(Clone, Debug)]
pub enum Body<'a> {
    /// A turn begins: `system/init`, and the flat dialect's `session_start`.
    Init(Box<Init<'a>>),
    /// Something the model said or did.
    Assistant(Box<Assistant<'a>>),
    /// Something said to the model: a prompt, or the results of its tools.
    User(Box<User<'a>>),
    /// A piece of a message that is still being written.
    Stream(Stream<'a>),
    /// A turn is over: `result`.
    TurnEnded(Box<TurnEnded<'a>>),
    /// Any other `system` line.
    System(System<'a>),
    /// The other side asks something.
    ControlRequest(Box<ControlRequest<'a>>),
    /// An answer to a control request.
    ControlResponse(ControlResponse<'a>),
    /// A control request is withdrawn.
    ControlCancel(ControlCancel<'a>),
    /// A remark beside the conversation.
    Signal(Signal<'a>),
    /// An entry that only session files have.
    Record(Record<'a>),
}

/// Fields that a line of any kind may carry.
#[derive(Clone, Debug, Default)]
pub struct Envelope<'a> {
    /// The CLI's id of the session; it changes with `/clear`.
    pub session_id: Option<Text<'a>>,
    /// The line's own id.
    pub uuid: Option<Text<'a>>,
    /// The tool call whose sub-agent this belongs to; absent for the main agent.
    pub parent_tool_use_id: Option<Text<'a>>,
    /// When it was written, as ISO 8601.
    pub timestamp: Option<Text<'a>>,
    /// What session files add; nothing in the stream.
    pub file: Option<Box<FileFields<'a>>>,
}

/// Fields that lines of session files carry and lines of the stream do not.
///
/// Kept apart, in a box, so that the deltas of a live stream need not make room for them.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileFields<'a> {
    /// Whether it is a sub-agent's.
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

    /// The message it carries, where it carries one whole.
    pub fn message(&self) -> Option<&Message<'a>> {
        match &self.body {
            Body::Assistant(assistant) => Some(&assistant.message),
            Body::User(user) => Some(&user.message),
            _ => None,
        }
    }

    /// What it holds that has no type here: content blocks, deltas and `result` subtypes this crate
    /// has not met. The event can be acted on; these parts can only be shown.
    pub fn unmodelled(&self) -> Vec<String> {
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

/// The top of an object while it is read: what it is, and the fields every kind may carry.
pub(crate) struct EnvelopeFields<'a> {
    pub(crate) kind: Kind<'a>,
    /// Whether keys that are still to come may make it another kind.
    guessed: bool,
    pub(crate) envelope: Envelope<'a>,
    /// A key that only session files have was met.
    pub(crate) transcript_key: bool,
    session_id_is_camel: bool,
}

impl<'a> EnvelopeFields<'a> {
    /// Begins with the kind that the first keys tell; a later duplicate may overrule it.
    pub(crate) fn guessed(kind: Kind<'a>) -> Self {
        Self { guessed: true, ..Self::settled(kind) }
    }

    /// Begins with the kind that all keys together tell.
    pub(crate) fn settled(kind: Kind<'a>) -> Self {
        Self {
            kind,
            guessed: false,
            envelope: Envelope::default(),
            transcript_key: false,
            session_id_is_camel: false,
        }
    }

    /// Whether keys that are still to come may make it another kind.
    pub(crate) fn is_guess(&self) -> bool {
        self.guessed
    }

    /// Takes a field that is not particular to the kind.
    pub(crate) fn take(&mut self, cursor: &mut Cursor<'a>, key: &str) -> Result<(), ParseError> {
        let envelope = &mut self.envelope;
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
            // Session files of 2.1.263 have both, and mean `sessionId`.
            "session_id" if self.session_id_is_camel => cursor.skip()?,
            "session_id" => envelope.session_id = cursor.value()?.optional_text()?,
            "uuid" => envelope.uuid = cursor.value()?.optional_text()?,
            "parent_tool_use_id" => {
                envelope.parent_tool_use_id = cursor.value()?.optional_text()?;
            }
            "timestamp" => envelope.timestamp = cursor.value()?.text_if_string(),
            "sessionId" => {
                self.transcript_key = true;
                self.session_id_is_camel = true;
                envelope.session_id = cursor.value()?.optional_text()?;
            }
            "isSidechain" => {
                self.transcript_key = true;
                let sidechain = cursor.value()?.optional_bool()?.unwrap_or(false);
                envelope.file_fields().sidechain = sidechain;
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

    /// Steps over an object of which nothing is known, so that no shape is wrong: only its kind
    /// must stand.
    pub(crate) fn pass(&mut self, cursor: &mut Cursor<'a>) -> Result<(), ParseError> {
        self.walk(cursor, |cursor, key| {
            if matches!(key, "type" | "subtype") {
                return Ok(FieldOutcome::No);
            }
            cursor.skip()?;
            Ok(FieldOutcome::Yes)
        })
    }

    /// Walks the object, leaving to `visit` the keys it knows; it says whether it took the value.
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

/// Whether a visitor took the value under the cursor.
pub(crate) enum FieldOutcome {
    Yes,
    No,
}
