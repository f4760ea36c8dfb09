//! The control protocol: requests and responses outside the conversation, in both directions.

use super::{EnvelopeFields, FieldOutcome};
use crate::json::{Cursor, ParseError, Raw, Shape, ShapeError, Text};
use crate::kind::Kind;
use crate::names;
use crate::request_id::RequestId;

/// A request of the other side, which waits for the response.
#[derive(Clone, Debug)]
pub struct ControlRequest<'a> {
    /// The response must carry this id.
    pub request_id: RequestId<'a>,
    pub request: ControlRequestKind<'a>,
}

/// A control request by its `subtype`.
#[derive(Clone, Debug)]
pub enum ControlRequestKind<'a> {
    /// `can_use_tool`: asks for permission to run a tool. The CLI also uses it to show questions
    /// and plans to the user.
    CanUseTool(CanUseTool<'a>),
    /// `hook_callback`: runs a hook that the host registered with `initialize`.
    HookCallback {
        callback_id: Option<Text<'a>>,
        /// What a hook program would receive on stdin.
        input: Option<Raw<'a>>,
        tool_use_id: Option<Text<'a>>,
    },
    /// `mcp_message`: JSON-RPC for an MCP server that runs in the host.
    McpMessage { server_name: Option<Text<'a>>, message: Option<Raw<'a>> },
    /// A known subtype that Towpath does not interpret; the whole `request` object.
    Other(Raw<'a>),
}

/// A request for permission to run a tool.
///
/// A person must be able to answer it whatever its shape, because the agent waits. So everything but
/// the id of the request may be missing or of another shape; [`Raw::readable`] shows it either way.
#[derive(Clone, Copy, Debug)]
pub struct CanUseTool<'a> {
    /// Empty if the request does not name the tool.
    pub tool_name: Text<'a>,
    /// The tool's input, usually an object. A reply that allows the call must repeat it, changed or not.
    pub input: Option<Raw<'a>>,
    pub tool_use_id: Option<Text<'a>>,
    /// Rules that would make this request unnecessary next time.
    pub suggestions: Option<Raw<'a>>,
    /// The path that caused the request.
    pub blocked_path: Option<Raw<'a>>,
    /// Why the CLI asks for permission.
    pub decision_reason: Option<Raw<'a>>,
    /// The purpose of the call as described by the model.
    pub description: Option<Raw<'a>>,
    /// The sub-agent that made the call.
    pub agent_id: Option<Raw<'a>>,
}

/// A response to a control request. With `--replay-user-messages` the CLI also echoes the host's
/// own responses, so the host must ignore ids of requests that it did not send.
#[derive(Clone, Debug)]
pub struct ControlResponse<'a> {
    /// The id of the request; absent if the request had none.
    pub request_id: Option<RequestId<'a>>,
    pub response: ControlResult<'a>,
}

#[derive(Clone, Copy, Debug)]
pub enum ControlResult<'a> {
    /// The request succeeded, with an optional payload.
    Success(Option<Raw<'a>>),
    /// The request failed, with an optional reason.
    Error(Option<Text<'a>>),
}

/// A request is withdrawn and needs no response.
#[derive(Clone, Debug)]
pub struct ControlCancel<'a> {
    pub request_id: RequestId<'a>,
}

impl<'a> ControlRequest<'a> {
    /// Reads the request and adds its subtype to the kind; `None` if the subtype is unknown.
    pub(crate) fn read(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Option<Self>, ParseError> {
        let mut request_id = None;
        let mut request = None;
        top.walk(cursor, |cursor, key| {
            match key {
                "request_id" => request_id = read_id(cursor)?,
                "request" => request = Some(RequestParts::read(cursor)?),
                _ => return Ok(FieldOutcome::No),
            }
            Ok(FieldOutcome::Yes)
        })?;
        let request = request.ok_or_else(|| ShapeError::missing("request"))?;
        let subtype =
            request.subtype.ok_or_else(|| ShapeError::missing("subtype").under("request"))?;
        top.kind = Kind { name: top.kind.name, subtype: Some(subtype) };
        let odd = request.odd_fields();
        let Some(request) = request.assemble(subtype) else { return Ok(None) };
        top.unexpected.extend(odd);
        let request_id = request_id.ok_or_else(|| ShapeError::missing("request_id"))?;
        Ok(Some(Self { request_id, request }))
    }
}

/// All fields a request may have. The `subtype` decides which of them are used.
struct RequestParts<'a> {
    whole: Raw<'a>,
    subtype: Option<Text<'a>>,
    tool_name: Option<Raw<'a>>,
    input: Option<Raw<'a>>,
    tool_use_id: Option<Raw<'a>>,
    suggestions: Option<Raw<'a>>,
    blocked_path: Option<Raw<'a>>,
    decision_reason: Option<Raw<'a>>,
    description: Option<Raw<'a>>,
    agent_id: Option<Raw<'a>>,
    callback_id: Option<Raw<'a>>,
    server_name: Option<Raw<'a>>,
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
            let part = match key {
                "subtype" => {
                    this.subtype = cursor.value()?.optional_text()?;
                    return Ok(());
                }
                "tool_name" => &mut this.tool_name,
                "tool_use_id" => &mut this.tool_use_id,
                "blocked_path" => &mut this.blocked_path,
                "decision_reason" => &mut this.decision_reason,
                "agent_id" => &mut this.agent_id,
                "callback_id" => &mut this.callback_id,
                "server_name" => &mut this.server_name,
                "description" => &mut this.description,
                "input" => &mut this.input,
                "permission_suggestions" => &mut this.suggestions,
                "message" => &mut this.message,
                _ => return cursor.skip(),
            };
            *part = cursor.value()?.optional_raw();
            Ok(())
        })?;
        this.whole = start.raw_up_to(cursor);
        Ok(this)
    }

    /// Fields that are usually a string and are not.
    fn odd_fields(&self) -> Vec<String> {
        let fields = [
            ("tool_name", self.tool_name),
            ("tool_use_id", self.tool_use_id),
            ("blocked_path", self.blocked_path),
            ("decision_reason", self.decision_reason),
            ("description", self.description),
            ("agent_id", self.agent_id),
            ("callback_id", self.callback_id),
            ("server_name", self.server_name),
        ];
        let odd = fields.into_iter().filter_map(|(key, value)| Some((key, value?.shape())));
        odd.filter(|(_, shape)| *shape != Shape::String)
            .map(|(key, shape)| format!("request.{key}: expected a string, found {shape}"))
            .collect()
    }

    /// `None` if the subtype is unknown.
    fn assemble(self, subtype: Text<'a>) -> Option<ControlRequestKind<'a>> {
        let text = |value: Option<Raw<'a>>| value.and_then(Raw::text);
        Some(match &*subtype.decode() {
            "can_use_tool" => ControlRequestKind::CanUseTool(CanUseTool {
                tool_name: text(self.tool_name).unwrap_or(Text::EMPTY),
                input: self.input,
                tool_use_id: text(self.tool_use_id).filter(|id| !id.is_empty()),
                suggestions: self.suggestions,
                blocked_path: self.blocked_path,
                decision_reason: self.decision_reason,
                description: self.description,
                agent_id: self.agent_id,
            }),
            "hook_callback" => ControlRequestKind::HookCallback {
                callback_id: text(self.callback_id),
                input: self.input,
                tool_use_id: text(self.tool_use_id),
            },
            "mcp_message" => ControlRequestKind::McpMessage {
                server_name: text(self.server_name),
                message: self.message,
            },
            name if names::CONTROL_REQUESTS.contains(&name) => {
                ControlRequestKind::Other(self.whole)
            }
            _ => return None,
        })
    }
}

/// The id of a request; `None` for `null`. Another version may write a number.
fn read_id<'a>(cursor: &mut Cursor<'a>) -> Result<Option<RequestId<'a>>, ParseError> {
    let value = cursor.value()?;
    match value.optional_raw() {
        None => Ok(None),
        Some(raw) => match RequestId::of(raw) {
            Some(id) => Ok(Some(id)),
            None => Err(value.shape_error("a string or a number")),
        },
    }
}

impl<'a> ControlResponse<'a> {
    /// Reads the response and adds its subtype to the kind; `None` if the subtype is unknown.
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
                    "request_id" => request_id = read_id(cursor)?,
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
            request_id = read_id(cursor)?;
            Ok(FieldOutcome::Yes)
        })?;
        Ok(Self { request_id: request_id.ok_or_else(|| ShapeError::missing("request_id"))? })
    }
}
