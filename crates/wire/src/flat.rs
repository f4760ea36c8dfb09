//! The flat dialect: events without a message around them, as early wrappers of the CLI wrote them.
//!
//! No CLI since 1.0.24 writes these, but they occur in recordings and in the output of bridges for
//! other agents. They are read into the events of the current CLI, so that callers need no special
//! case: a `tool_use` becomes a message with one call, a `tool_result` a message with one result,
//! and a `text` a delta of the streaming message.

use crate::event::{
    Assistant, Block, Body, Content, Delta, EnvelopeFields, FieldOutcome, Init, Message,
    PermissionPrompt, Signal, Stream, ToolResult, ToolUse, User,
};
use crate::json::{Cursor, ParseError, ShapeError, Text};
use crate::line::Dialect;

/// Reads an event of the flat dialect; `None` if `name` is not one of its types.
pub(crate) fn read<'a>(
    cursor: &mut Cursor<'a>,
    top: &mut EnvelopeFields<'a>,
    name: &str,
) -> Result<Option<(Body<'a>, Dialect)>, ParseError> {
    let body = match name {
        "session_start" => Body::Init(Box::new(Init::read(cursor, top)?)),
        "text" => {
            let text = Signal::read_text(cursor, top, "text")?;
            let delta = Delta::Text(text.ok_or_else(|| ShapeError::missing("text"))?);
            Body::Stream(Stream::BlockDelta { index: 0, delta })
        }
        "tool_use" => tool_use(cursor, top)?,
        "tool_result" => return tool_result(cursor, top),
        "permission_request" => {
            Body::Signal(Signal::PermissionPrompt(PermissionPrompt::read(cursor, top)?))
        }
        "error" => Body::Signal(Signal::read_error(cursor, top)?),
        _ => return Ok(None),
    };
    Ok(Some((body, Dialect::Flat)))
}

fn tool_use<'a>(
    cursor: &mut Cursor<'a>,
    top: &mut EnvelopeFields<'a>,
) -> Result<Body<'a>, ParseError> {
    let (mut id, mut name, mut input) = (None, None, None);
    top.walk(cursor, |cursor, key| {
        match key {
            "id" | "toolUseId" | "tool_use_id" => id = cursor.value()?.optional_text()?,
            "toolName" | "tool_name" | "name" | "tool" => name = cursor.value()?.optional_text()?,
            "toolInput" | "input" | "tool_input" => input = cursor.value()?.optional_raw(),
            _ => return Ok(FieldOutcome::No),
        }
        Ok(FieldOutcome::Yes)
    })?;
    let name = name.ok_or_else(|| ShapeError::missing("toolName"))?;
    Ok(Body::Assistant(Box::new(Assistant {
        message: message(Text::word("\"assistant"), Block::ToolUse(ToolUse { id, name, input })),
        error: None,
        api_error: false,
        aborted: false,
        request_id: None,
    })))
}

/// Fields with which other agents say whether a call succeeded.
const OUTCOME_FIELDS: &[&str] = &[
    "error",
    "errors",
    "exitCode",
    "exit_code",
    "failed",
    "failure",
    "ok",
    "outcome",
    "state",
    "status",
    "success",
];

/// `None` if it may be an event of another agent: it does not say which call it belongs to, or it says
/// neither what the tool returned nor, in the words of this dialect, whether that is an error.
fn tool_result<'a>(
    cursor: &mut Cursor<'a>,
    top: &mut EnvelopeFields<'a>,
) -> Result<Option<(Body<'a>, Dialect)>, ParseError> {
    let start = cursor.clone();
    let (mut id, mut content, mut is_error) = (None, None, None);
    let mut says_outcome = false;
    let mut dialect = Dialect::LooseToolResult;
    top.walk(cursor, |cursor, key| {
        match key {
            "toolUseId" => {
                dialect = Dialect::Flat;
                id = cursor.value()?.optional_text()?;
            }
            "tool_use_id" => id = cursor.value()?.optional_text()?,
            "content" => content = cursor.value()?.optional_raw(),
            "isError" | "is_error" => is_error = cursor.value()?.optional_bool()?,
            key if OUTCOME_FIELDS.contains(&key) => {
                says_outcome |= cursor.value()?.optional_raw().is_some();
            }
            _ => return Ok(FieldOutcome::No),
        }
        Ok(FieldOutcome::Yes)
    })?;
    // Other agents write a `tool_result` with fields of their own. Taken for this one, their failures
    // would be shown as successes. `toolUseId` belongs to this dialect alone.
    let id = id.filter(|id: &Text<'_>| !id.is_empty());
    let has_outcome = is_error.is_some() || content.is_some() || dialect == Dialect::Flat;
    let is_ours = id.is_some() && has_outcome && (is_error.is_some() || !says_outcome);
    if !is_ours {
        *cursor = start;
        return Ok(None);
    }
    let result = ToolResult { tool_use_id: id, content, is_error };
    let user = User {
        message: message(Text::word("\"user"), Block::ToolResult(result)),
        tool_use_result: None,
        replay: false,
        synthetic: false,
        priority: None,
    };
    Ok(Some((Body::User(Box::new(user)), dialect)))
}

fn message<'a>(role: Text<'static>, block: Block<'a>) -> Message<'a> {
    Message { role: Some(role), content: Content::one(block), ..Message::default() }
}
