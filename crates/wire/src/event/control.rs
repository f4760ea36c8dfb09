//! The control protocol: questions and answers beside the conversation, in both directions.

use super::{EnvelopeFields, FieldOutcome};
use crate::json::{Cursor, ParseError, Raw, ShapeError, Text};
use crate::kind::Kind;
use crate::names;

/// The other side asks something and waits for the answer.
#[derive(Clone, Debug)]
pub struct ControlRequest<'a> {
    /// What the answer must name.
    pub request_id: Text<'a>,
    /// The question.
    pub request: ControlRequestKind<'a>,
}

/// A question.
#[derive(Clone, Debug)]
pub enum ControlRequestKind<'a> {
    /// `can_use_tool`: may this call be made? Also how questions and plans are put to a person.
    CanUseTool(CanUseTool<'a>),
    /// `hook_callback`: a hook registered with `initialize` is due.
    HookCallback {
        /// The hook.
        callback_id: Option<Text<'a>>,
        /// What a hook program would read on stdin.
        input: Option<Raw<'a>>,
        /// The call it is about.
        tool_use_id: Option<Text<'a>>,
    },
    /// `mcp_message`: JSON-RPC for an MCP server that lives with the host.
    McpMessage {
        /// The server.
        server_name: Option<Text<'a>>,
        /// The JSON-RPC message.
        message: Option<Raw<'a>>,
    },
    /// A known subtype that nothing here decides on; the whole `request` object.
    Other(Raw<'a>),
}

/// May this call be made?
#[derive(Clone, Copy, Debug)]
pub struct CanUseTool<'a> {
    /// The tool.
    pub tool_name: Text<'a>,
    /// What it would be given; an allowance must give it back, changed or not.
    pub input: Option<Raw<'a>>,
    /// The call.
    pub tool_use_id: Option<Text<'a>>,
    /// Rules that would spare the question next time.
    pub suggestions: Option<Raw<'a>>,
    /// The path that made the CLI ask.
    pub blocked_path: Option<Text<'a>>,
    /// Why the CLI asks.
    pub decision_reason: Option<Text<'a>>,
    /// What the call is for, in the model's words.
    pub description: Option<Text<'a>>,
    /// The sub-agent that asks.
    pub agent_id: Option<Text<'a>>,
}

/// An answer to a control request. With `--replay-user-messages` the CLI also echoes the host's
/// own answers, so an id that was not asked is nothing to act on.
#[derive(Clone, Debug)]
pub struct ControlResponse<'a> {
    /// The request it answers; absent where the request had none.
    pub request_id: Option<Text<'a>>,
    /// The answer.
    pub response: ControlResult<'a>,
}

/// An answer.
#[derive(Clone, Copy, Debug)]
pub enum ControlResult<'a> {
    /// It worked; what came of it.
    Success(Option<Raw<'a>>),
    /// It did not; why.
    Error(Option<Text<'a>>),
}

/// A request needs no answer any more.
#[derive(Clone, Debug)]
pub struct ControlCancel<'a> {
    /// The request.
    pub request_id: Text<'a>,
}

impl<'a> ControlRequest<'a> {
    /// Reads the request and completes the kind with its subtype; nothing where that is not known.
    pub(crate) fn read(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Option<Self>, ParseError> {
        let mut request_id = None;
        let mut request = None;
        top.walk(cursor, |cursor, key| {
            match key {
                "request_id" => request_id = cursor.value()?.optional_text()?,
                "request" => request = Some(RequestParts::read(cursor)?),
                _ => return Ok(FieldOutcome::No),
            }
            Ok(FieldOutcome::Yes)
        })?;
        let request = request.ok_or_else(|| ShapeError::missing("request"))?;
        let subtype =
            request.subtype.ok_or_else(|| ShapeError::missing("subtype").under("request"))?;
        top.kind = Kind { name: top.kind.name, subtype: Some(subtype) };
        let Some(request) = request.assemble(subtype).map_err(|it| it.under("request"))? else {
            return Ok(None);
        };
        let request_id = request_id.ok_or_else(|| ShapeError::missing("request_id"))?;
        Ok(Some(Self { request_id, request }))
    }
}

/// The request before its `subtype` says which of these count.
struct RequestParts<'a> {
    whole: Raw<'a>,
    subtype: Option<Text<'a>>,
    tool_name: Option<Text<'a>>,
    input: Option<Raw<'a>>,
    tool_use_id: Option<Text<'a>>,
    suggestions: Option<Raw<'a>>,
    blocked_path: Option<Text<'a>>,
    decision_reason: Option<Text<'a>>,
    description: Option<Text<'a>>,
    agent_id: Option<Text<'a>>,
    callback_id: Option<Text<'a>>,
    server_name: Option<Text<'a>>,
    message: Option<Raw<'a>>,
}

impl<'a> RequestParts<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, ParseError> {
        let start = cursor.clone();
        let mut this = Self {
            whole: Raw::checked(""),
            subtype: None,
            tool_name: None,
            input: None,
            tool_use_id: None,
            suggestions: None,
            blocked_path: None,
            decision_reason: None,
            description: None,
            agent_id: None,
            callback_id: None,
            server_name: None,
            message: None,
        };
        cursor.fields(|cursor, key| {
            let text = match key {
                "subtype" => &mut this.subtype,
                "tool_name" => &mut this.tool_name,
                "tool_use_id" => &mut this.tool_use_id,
                "blocked_path" => &mut this.blocked_path,
                "decision_reason" => &mut this.decision_reason,
                "agent_id" => &mut this.agent_id,
                "callback_id" => &mut this.callback_id,
                "server_name" => &mut this.server_name,
                "description" => {
                    this.description = cursor.value()?.text_if_string();
                    return Ok(());
                }
                "input" => {
                    this.input = cursor.value()?.optional_raw();
                    return Ok(());
                }
                "permission_suggestions" => {
                    this.suggestions = cursor.value()?.optional_array()?;
                    return Ok(());
                }
                "message" => {
                    this.message = cursor.value()?.optional_raw();
                    return Ok(());
                }
                _ => return cursor.skip(),
            };
            *text = cursor.value()?.optional_text()?;
            Ok(())
        })?;
        this.whole = start.raw_up_to(cursor);
        Ok(this)
    }

    /// The request of that subtype; nothing where the subtype is not known.
    fn assemble(self, subtype: Text<'a>) -> Result<Option<ControlRequestKind<'a>>, ParseError> {
        Ok(Some(match &*subtype.decode() {
            "can_use_tool" => ControlRequestKind::CanUseTool(CanUseTool {
                tool_name: self.tool_name.ok_or_else(|| ShapeError::missing("tool_name"))?,
                input: self.input,
                tool_use_id: self.tool_use_id,
                suggestions: self.suggestions,
                blocked_path: self.blocked_path,
                decision_reason: self.decision_reason,
                description: self.description,
                agent_id: self.agent_id,
            }),
            "hook_callback" => ControlRequestKind::HookCallback {
                callback_id: self.callback_id,
                input: self.input,
                tool_use_id: self.tool_use_id,
            },
            "mcp_message" => ControlRequestKind::McpMessage {
                server_name: self.server_name,
                message: self.message,
            },
            name if names::CONTROL_REQUESTS.contains(&name) => {
                ControlRequestKind::Other(self.whole)
            }
            _ => return Ok(None),
        }))
    }
}

impl<'a> ControlResponse<'a> {
    /// Reads the response and completes the kind with its subtype; nothing where that is not known.
    pub(crate) fn read(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Option<Self>, ParseError> {
        let mut whole = None;
        let mut request_id = None;
        let mut subtype = None;
        let mut payload = None;
        let mut error = None;
        top.walk(cursor, |cursor, key| {
            if key != "response" {
                return Ok(FieldOutcome::No);
            }
            whole = Some(());
            cursor.fields(|cursor, key| {
                match key {
                    "subtype" => subtype = cursor.value()?.optional_text()?,
                    "request_id" => request_id = cursor.value()?.optional_text()?,
                    "response" => payload = cursor.value()?.optional_raw(),
                    "error" => error = cursor.value()?.text_if_string(),
                    _ => cursor.skip()?,
                }
                Ok(())
            })?;
            Ok(FieldOutcome::Yes)
        })?;
        whole.ok_or_else(|| ShapeError::missing("response"))?;
        let subtype = subtype.ok_or_else(|| ShapeError::missing("subtype").under("response"))?;
        top.kind = Kind { name: top.kind.name, subtype: Some(subtype) };
        let response = match &*subtype.decode() {
            "success" => ControlResult::Success(payload),
            "error" => ControlResult::Error(error),
            _ => return Ok(None),
        };
        Ok(Some(Self { request_id, response }))
    }
}

impl<'a> ControlCancel<'a> {
    pub(crate) fn read(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Self, ParseError> {
        let mut request_id = None;
        top.walk(cursor, |cursor, key| {
            if key != "request_id" {
                return Ok(FieldOutcome::No);
            }
            request_id = cursor.value()?.optional_text()?;
            Ok(FieldOutcome::Yes)
        })?;
        Ok(Self { request_id: request_id.ok_or_else(|| ShapeError::missing("request_id"))? })
    }
}
