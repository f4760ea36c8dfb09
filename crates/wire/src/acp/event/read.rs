//! From an object to an event.

use super::AcpEvent;
use super::call::AcpCall;
use super::response::{AcpFailure, AcpResponse, AcpResult};
use super::update::UpdateFields;
use crate::event::{Body, Envelope, Event, Sender};
use crate::json::{Cursor, ParseError, Raw, Shape, ShapeError, Text};
use crate::kind::Kind;
use crate::line::{Dialect, Mismatch, Reading, Unknown};
use crate::reader::Object;

const RESPONSE: Text<'static> = Text::word("\"response");
const ERROR: Text<'static> = Text::word("\"error");

/// Reads the object at `start` if it is a JSON-RPC message, or a recording's object around one:
/// `{"t":…,"dir":…,"msg":{…}}`.
pub(crate) fn object<'a>(start: &Cursor<'a>) -> Option<Object<'a>> {
    let mut cursor = start.clone();
    let Ok(fields) = MessageFields::read(&mut cursor) else { return None };
    if let Some(message) = fields.wrapped {
        let mut inner = Cursor::new(message.as_str());
        let mut inner = MessageFields::read(&mut inner).ok().filter(|it| it.wrapped.is_none())?;
        inner.sender = fields.direction.and_then(sender);
        return inner.object(start.raw_up_to(&cursor), cursor.position());
    }
    fields.object(start.raw_up_to(&cursor), cursor.position())
}

/// The fields of a message.
#[derive(Default)]
struct MessageFields<'a> {
    is_rpc: bool,
    /// Only other dialects have it.
    has_type: bool,
    id: Option<Raw<'a>>,
    method: Option<Text<'a>>,
    params: Option<Raw<'a>>,
    /// The parameters, if they were read while the line was walked.
    update: Option<Result<SessionNotification<'a>, ParseError>>,
    result: Option<Raw<'a>>,
    error: Option<Raw<'a>>,
    /// Only recordings have it, around a message.
    direction: Option<Text<'a>>,
    wrapped: Option<Raw<'a>>,
    sender: Option<Sender>,
}

/// Recordings mark what the client wrote with `>` and what the agent wrote with `<`.
fn sender(direction: Text<'_>) -> Option<Sender> {
    match &*direction.decode() {
        ">" => Some(Sender::Client),
        "<" => Some(Sender::Agent),
        _ => None,
    }
}

/// The parameters of `session/update`.
struct SessionNotification<'a> {
    session: Option<Text<'a>>,
    update: UpdateFields<'a>,
    meta: Option<Raw<'a>>,
}

impl<'a> MessageFields<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, ParseError> {
        let mut this = Self::default();
        cursor.fields(|cursor, key| {
            match key {
                "jsonrpc" => this.is_rpc = cursor.value()?.text_if_string().is_some(),
                "type" => this.has_type = cursor.value()?.text_if_string().is_some(),
                "id" => this.id = Some(cursor.value()?.raw()),
                "method" => {
                    this.method = cursor.value()?.text_if_string();
                    this.update = None;
                }
                "params" => this.params(cursor)?,
                "result" => this.result = Some(cursor.value()?.raw()),
                "error" => this.error = cursor.value()?.optional_raw(),
                "dir" => this.direction = cursor.value()?.text_if_string(),
                "msg" => {
                    this.wrapped = Some(cursor.value()?.raw());
                }
                _ => cursor.skip()?,
            }
            Ok(())
        })?;
        let is_wrapper = this.direction.is_some() && !this.is_rpc && !this.has_type;
        this.wrapped = this.wrapped.filter(|it| is_wrapper && it.shape() == Shape::Object);
        Ok(this)
    }

    /// Updates are nearly all lines, so they are read on the way if the method comes first.
    fn params(&mut self, cursor: &mut Cursor<'a>) -> Result<(), ParseError> {
        self.update = None;
        let start = cursor.clone();
        if self.method.is_some_and(|method| method == *"session/update") {
            match SessionNotification::read(cursor) {
                Ok(update) => self.update = Some(Ok(update)),
                Err(ParseError::ShapeError(error)) => {
                    self.update = Some(Err(ParseError::ShapeError(error)));
                    *cursor = start.clone();
                    cursor.skip()?;
                }
                Err(error) => return Err(error),
            }
            self.params = Some(start.raw_up_to(cursor));
        } else {
            self.params = cursor.value()?.optional_raw();
        }
        Ok(())
    }

    fn object(mut self, object: Raw<'a>, end: usize) -> Option<Object<'a>> {
        if !self.is_rpc || self.has_type {
            return None;
        }
        let update = self.update.take();
        let envelope = Envelope { sender: self.sender, ..Envelope::default() };
        let mut kind = self.kind()?;
        let read = if self.method.is_some_and(|method| method == *"session/update") {
            let update = update.unwrap_or_else(|| {
                let params = self.params.ok_or_else(|| ShapeError::missing("params"))?;
                SessionNotification::read(&mut Cursor::new(params.as_str()))
            });
            if let Ok(update) = &update {
                kind.subtype = update.update.kind;
            }
            update.and_then(SessionNotification::event).map_err(|error| error.under("params"))
        } else {
            self.message().map(Some)
        };
        let reading = match read {
            Ok(Some(event)) => Reading::Event(Event {
                kind,
                envelope,
                body: Body::Acp(event),
                unexpected: Vec::new(),
            }),
            Ok(None) => Reading::Unknown(Unknown { kind, object }),
            Err(error) => Reading::Mismatch(Mismatch { kind, reason: error.to_string(), object }),
        };
        Some(Object { reading, dialect: Dialect::Acp, end })
    }

    /// `None` if it is neither a call nor a response.
    fn kind(&self) -> Option<Kind<'a>> {
        let name = match (self.method, self.error, self.result) {
            (Some(method), ..) => method,
            (None, Some(_), _) => ERROR,
            (None, None, Some(_)) => RESPONSE,
            (None, None, None) => return None,
        };
        Some(Kind { name, subtype: None })
    }

    fn message(self) -> Result<AcpEvent<'a>, ParseError> {
        if let Some(method) = self.method {
            let id = self.id.filter(|id| id.shape() != Shape::Null);
            return AcpCall::of(id, method, self.params).map(|call| AcpEvent::Call(Box::new(call)));
        }
        let result = match (self.error, self.result) {
            (Some(error), _) => Err(failure(error)),
            (None, Some(result)) => Ok(AcpResult::of(result)),
            (None, None) => return Err(ShapeError::missing("result")),
        };
        let id = self.id.ok_or_else(|| ShapeError::missing("id"))?;
        Ok(AcpEvent::Response(Box::new(AcpResponse { id, result })))
    }
}

/// An error in any shape is an error.
#[expect(clippy::cast_possible_truncation, reason = "`as` saturates, and codes are small")]
fn failure(error: Raw<'_>) -> AcpFailure<'_> {
    AcpFailure {
        code: error.get("code").and_then(Raw::number).map_or(0, |code| code as i64),
        message: error.get("message").and_then(Raw::text).or_else(|| error.text()),
        data: error.get("data").filter(|data| data.shape() != Shape::Null),
    }
}

impl<'a> SessionNotification<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, ParseError> {
        let (mut session, mut update, mut meta) = (None, None, None);
        cursor.fields(|cursor, key| {
            match key {
                "sessionId" => session = cursor.value()?.text_if_string(),
                "update" => update = Some(UpdateFields::read(cursor)?),
                "_meta" => meta = cursor.value()?.optional_raw(),
                _ => cursor.skip()?,
            }
            Ok(())
        })?;
        let update = update.ok_or_else(|| ShapeError::missing("update"))?;
        Ok(Self { session, update, meta })
    }

    /// `None` if the kind of the update is not known.
    fn event(self) -> Result<Option<AcpEvent<'a>>, ParseError> {
        let meta = self.update.meta.or(self.meta);
        let update = self.update.update().map_err(|error| error.under("update"))?;
        Ok(update.map(|update| AcpEvent::Update { session: self.session, update, meta }))
    }
}

/// The fields of updates and calls, by name. A line has few of them.
#[derive(Default)]
pub(super) struct FieldSet<'a> {
    pub(super) content: Option<Raw<'a>>,
    pub(super) message_id: Option<Text<'a>>,
    pub(super) tool_call_id: Option<Text<'a>>,
    pub(super) title: Option<Text<'a>>,
    pub(super) name: Option<Text<'a>>,
    pub(super) kind: Option<Text<'a>>,
    pub(super) status: Option<Text<'a>>,
    pub(super) locations: Option<Raw<'a>>,
    pub(super) raw_input: Option<Raw<'a>>,
    pub(super) raw_output: Option<Raw<'a>>,
    pub(super) entries: Option<Raw<'a>>,
    pub(super) plan: Option<Raw<'a>>,
    pub(super) commands: Option<Raw<'a>>,
    pub(super) mode_id: Option<Text<'a>>,
    pub(super) config_options: Option<Raw<'a>>,
    pub(super) used: Option<u64>,
    pub(super) size: Option<u64>,
    pub(super) cost: Option<Raw<'a>>,
    pub(super) severity: Option<Text<'a>>,
    pub(super) description: Option<Text<'a>>,
    pub(super) compaction_id: Option<Text<'a>>,
    pub(super) summary: Option<Raw<'a>>,
    pub(super) state: Option<Raw<'a>>,
    pub(super) stop_reason: Option<Text<'a>>,
    pub(super) usage: Option<Raw<'a>>,
    pub(super) error: Option<Raw<'a>>,
    pub(super) terminal_id: Option<Text<'a>>,
    pub(super) command: Option<Text<'a>>,
    pub(super) output: Option<Raw<'a>>,
    pub(super) exit_status: Option<Raw<'a>>,
    pub(super) data: Option<Raw<'a>>,
    pub(super) session_id: Option<Text<'a>>,
    pub(super) sender: Option<Text<'a>>,
    pub(super) recipient: Option<Text<'a>>,
}

impl<'a> FieldSet<'a> {
    /// Reads a field. A text in another shape is left out: agents differ in details, and only what
    /// something here cannot do without makes a line a mismatch.
    pub(super) fn take(&mut self, cursor: &mut Cursor<'a>, key: &str) -> Result<(), ParseError> {
        let value = cursor.value()?;
        let (raw, text) = (value.optional_raw(), value.text_if_string());
        match key {
            "content" => self.content = raw,
            "messageId" => self.message_id = text,
            "toolCallId" => self.tool_call_id = text,
            "title" => self.title = text,
            "name" => self.name = text,
            "kind" => self.kind = text,
            "status" => self.status = text,
            "locations" => self.locations = raw,
            "rawInput" => self.raw_input = raw,
            "rawOutput" => self.raw_output = raw,
            "entries" => self.entries = raw,
            "plan" => self.plan = raw,
            "availableCommands" => self.commands = raw,
            "currentModeId" => self.mode_id = text,
            "configOptions" => self.config_options = raw,
            "used" => self.used = value.optional_count().ok().flatten(),
            "size" => self.size = value.optional_count().ok().flatten(),
            "cost" => self.cost = raw,
            "severity" => self.severity = text,
            "description" => self.description = text,
            "compactionId" => self.compaction_id = text,
            "summary" => self.summary = raw,
            "state" => self.state = raw,
            "stopReason" => self.stop_reason = text,
            "usage" => self.usage = raw,
            "error" => self.error = raw,
            "terminalId" => self.terminal_id = text,
            "command" => self.command = text,
            "output" => self.output = raw,
            "exitStatus" => self.exit_status = raw,
            "data" => self.data = raw,
            "sessionId" => self.session_id = text,
            "senderSessionId" => self.sender = text,
            "recipientSessionId" => self.recipient = text,
            _ => {}
        }
        Ok(())
    }
}
