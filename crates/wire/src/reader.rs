//! Reads one JSON object of a line.
//!
//! Nearly every line starts with its `type`, and then one pass is enough: it starts with that kind
//! and detects a later duplicate that overrides it. Otherwise, a first pass over the object's top
//! level finds the `type`.

use crate::acp;
use crate::delta_head::{self, DeltaKind, delta_head};
use crate::event::{
    Assistant, Body, CommandLifecycle, ControlCancel, ControlRequest, ControlResponse, Delta,
    EnvelopeFields, Event, Init, RateLimit, Record, Signal, Stream, System, ToolProgress,
    TurnEnded, User,
};
use crate::flat;
use crate::json::{Cursor, ParseError, Raw, Text};
use crate::kind::Kind;
use crate::line::{Dialect, Mismatch, Noise, Reading, Unknown};
use crate::names;
use crate::other_agents::{self, OtherAgentReading};

/// How messages of the Agent Client Protocol usually start.
const JSON_RPC: &[u8] = b"{\"jsonrpc\"";

const STREAM_EVENT: Text<'static> = Text::word("\"stream_event");

/// The reading of an object, and the offset of its end.
pub(crate) struct Object<'a> {
    pub(crate) reading: Reading<'a>,
    pub(crate) dialect: Dialect,
    pub(crate) end: usize,
}

/// Reads the object that starts at `at`; `None` if the text there is not a JSON object.
pub(crate) fn object_at(line: &str, at: usize) -> Option<Object<'_>> {
    let start = Cursor::starting_at(line, at);
    match kind_if_first(&start) {
        Some(kind) => read_as(&start, EnvelopeFields::guessed(kind)),
        None if line.as_bytes()[at..].starts_with(JSON_RPC) => {
            acp::event::object(&start).or_else(|| read_after_search(&start))
        }
        None => read_after_search(&start),
    }
}

/// Reads a delta in exactly the CLI's format; `None` for any other line.
#[inline]
pub(crate) fn delta(line: &str) -> Option<Event<'_>> {
    let head = delta_head(line.as_bytes())?;
    let mut cursor = Cursor::starting_at(line, head.text_start);
    let text = cursor.string().ok()?;
    if !cursor.eat_all(delta_head::TAIL) {
        return None;
    }
    let mut top = EnvelopeFields::guessed(Kind::new(STREAM_EVENT));
    if cursor.eat_all(delta_head::SESSION_ID) {
        top.envelope.session_id = Some(cursor.string().ok()?);
    }
    cursor.eat_all(delta_head::NO_PARENT);
    if cursor.eat_all(delta_head::UUID) {
        top.envelope.uuid = Some(cursor.string().ok()?);
    }
    let rest = cursor.more_fields(|cursor, key| match key {
        // A second event would override the first.
        "event" => Err(ParseError::Retyped),
        _ => top.take(cursor, key),
    });
    if rest.is_err() || top.transcript_key || !cursor.at_end() {
        return None;
    }
    let delta = match head.kind {
        DeltaKind::Text => Delta::Text(text),
        DeltaKind::InputJson => Delta::InputJson(text),
        DeltaKind::Thinking => Delta::Thinking(text),
    };
    let body = Body::Stream(Stream::BlockDelta { index: head.index, delta });
    Some(Event { kind: top.kind, envelope: top.envelope, body, unexpected: top.unexpected })
}

/// The kind, if the object starts with its `type` and, where required, its `subtype`.
fn kind_if_first<'a>(start: &Cursor<'a>) -> Option<Kind<'a>> {
    let mut cursor = start.clone();
    if !cursor.eat(b'{') || cursor.key().ok()? != *"type" {
        return None;
    }
    let name = cursor.value().ok()?.text_if_string()?;
    if !has_subtype(name) {
        return Some(Kind::new(name));
    }
    if !cursor.eat(b',') || cursor.key().ok()? != *"subtype" {
        return None;
    }
    Some(Kind { name, subtype: Some(cursor.value().ok()?.text_if_string()?) })
}

/// Searches the whole object for its kind; `None` if it has none.
fn kind_anywhere<'a>(start: &Cursor<'a>) -> Result<Option<Kind<'a>>, ParseError> {
    let mut name = None;
    let mut subtype = None;
    start.clone().fields(|cursor, key| {
        match key {
            "type" => name = cursor.value()?.text_if_string(),
            "subtype" => subtype = cursor.value()?.text_if_string(),
            _ => cursor.skip()?,
        }
        Ok(())
    })?;
    Ok(name.map(|name| Kind { name, subtype: subtype.filter(|_| has_subtype(name)) }))
}

/// Whether the top-level `subtype` is part of the kind for this type.
fn has_subtype(name: Text<'_>) -> bool {
    name == *"system" || name == *"result"
}

fn read_after_search<'a>(start: &Cursor<'a>) -> Option<Object<'a>> {
    match kind_anywhere(start) {
        Ok(Some(kind)) => read_as(start, EnvelopeFields::known(kind)),
        Ok(None) => acp::event::object(start).or_else(|| untyped(start)),
        Err(_) => None,
    }
}

/// An object that is not an event.
fn untyped<'a>(start: &Cursor<'a>) -> Option<Object<'a>> {
    let mut cursor = start.clone();
    cursor.skip().ok()?;
    let (reading, dialect) = (Reading::Noise(Noise::Untyped), Dialect::StreamJson);
    Some(Object { reading, dialect, end: cursor.position() })
}

fn read_as<'a>(start: &Cursor<'a>, mut top: EnvelopeFields<'a>) -> Option<Object<'a>> {
    let mut cursor = start.clone();
    match body(&mut cursor, &mut top) {
        Ok(Some((body, dialect))) => Some(Object {
            dialect: match dialect {
                Dialect::StreamJson if top.transcript_key => transcript_or_flat(&top),
                dialect => dialect,
            },
            reading: Reading::Event(Event {
                kind: top.kind,
                envelope: top.envelope,
                body,
                unexpected: top.unexpected,
            }),
            end: cursor.position(),
        }),
        Ok(None) => Some(Object {
            reading: Reading::Unknown(Unknown { kind: top.kind, object: start.raw_up_to(&cursor) }),
            dialect: top.other_agent.unwrap_or(Dialect::StreamJson),
            end: cursor.position(),
        }),
        Err(ParseError::Retyped) => read_after_search(start),
        // The object may fit the kind that a later duplicate of `type` gives.
        Err(ParseError::ShapeError(_)) if top.is_guess() => read_after_search(start),
        Err(ParseError::ShapeError(error)) => {
            let mut cursor = start.clone();
            cursor.skip().ok()?;
            let object = start.raw_up_to(&cursor);
            let reason = error.to_string();
            Some(Object {
                reading: Reading::Mismatch(Mismatch { kind: top.kind, reason, object }),
                dialect: top.other_agent.unwrap_or(Dialect::StreamJson),
                end: cursor.position(),
            })
        }
        Err(ParseError::NotJson) => None,
    }
}

/// Session files and the flat dialect share `sessionId`; only the latter has a `result`.
fn transcript_or_flat(top: &EnvelopeFields<'_>) -> Dialect {
    if top.kind.name == *"result" { Dialect::Flat } else { Dialect::Transcript }
}

/// Reads the body for the kind in `top`; `None` if the kind is unknown.
fn body<'a>(
    cursor: &mut Cursor<'a>,
    top: &mut EnvelopeFields<'a>,
) -> Result<Option<(Body<'a>, Dialect)>, ParseError> {
    let name = top.kind.name;
    let body = match &*name.decode() {
        "stream_event" => Stream::read(cursor, top)?.map(Body::Stream),
        "assistant" => Some(Body::Assistant(Box::new(Assistant::read(cursor, top)?))),
        "user" => Some(Body::User(Box::new(User::read(cursor, top)?))),
        "system" if top.kind.subtype.is_some_and(|subtype| subtype == *"init") => {
            Some(Body::Init(Box::new(Init::read(cursor, top)?)))
        }
        "system" => System::read(cursor, top)?.map(Body::System),
        // The flat dialect and other agents have results without a subtype.
        "result" if top.kind.subtype.is_none() => {
            match other_agents::read(cursor, top, "result")? {
                OtherAgentReading::Read(body, dialect) => return Ok(Some((body, dialect))),
                OtherAgentReading::Unknown => None,
                OtherAgentReading::NotRecognised => {
                    Some(Body::TurnEnded(Box::new(TurnEnded::read(cursor, top)?)))
                }
            }
        }
        "result" => Some(Body::TurnEnded(Box::new(TurnEnded::read(cursor, top)?))),
        "control_request" => {
            ControlRequest::read(cursor, top)?.map(Box::new).map(Body::ControlRequest)
        }
        "control_response" => ControlResponse::read(cursor, top)?.map(Body::ControlResponse),
        "control_cancel_request" => Some(Body::ControlCancel(ControlCancel::read(cursor, top)?)),
        name => return read_other_type(cursor, top, name),
    };
    Ok(body.map(|body| (body, Dialect::StreamJson)))
}

/// Reads the types outside the conversation and those of other dialects.
fn read_other_type<'a>(
    cursor: &mut Cursor<'a>,
    top: &mut EnvelopeFields<'a>,
    name: &str,
) -> Result<Option<(Body<'a>, Dialect)>, ParseError> {
    if let Some(signal) = signal(cursor, top, name)? {
        return Ok(Some((Body::Signal(signal), Dialect::StreamJson)));
    }
    if is_record(name) {
        let record = Record::read(cursor, top, name)?;
        return Ok(Some((Body::Record(record), Dialect::Transcript)));
    }
    match other_agents::read(cursor, top, name)? {
        OtherAgentReading::Read(body, dialect) => return Ok(Some((body, dialect))),
        OtherAgentReading::Unknown => return Ok(None),
        OtherAgentReading::NotRecognised => {}
    }
    if is_api_event(name) {
        let event = Stream::read_bare(cursor, top)?;
        return Ok(event.map(|event| (Body::Stream(event), Dialect::ApiStream)));
    }
    let flat = flat::read(cursor, top, name)?;
    if flat.is_none() {
        skip_unknown(cursor, top)?;
    }
    Ok(flat)
}

fn signal<'a>(
    cursor: &mut Cursor<'a>,
    top: &mut EnvelopeFields<'a>,
    name: &str,
) -> Result<Option<Signal<'a>>, ParseError> {
    Ok(Some(match name {
        "rate_limit_event" => Signal::RateLimit(RateLimit::read(cursor, top)?),
        "tool_progress" => Signal::ToolProgress(ToolProgress::read(cursor, top)?),
        "tool_use_summary" => Signal::ToolUseSummary(Signal::read_text(cursor, top, "summary")?),
        "prompt_suggestion" => {
            Signal::PromptSuggestion(Signal::read_text(cursor, top, "suggestion")?)
        }
        "command_lifecycle" => Signal::CommandLifecycle(CommandLifecycle::read(cursor, top)?),
        "conversation_reset" => {
            Signal::ConversationReset(Signal::read_text(cursor, top, "new_conversation_id")?)
        }
        name if names::SIGNALS.contains(&name) => Signal::read_other(cursor, top)?,
        _ => return Ok(None),
    }))
}

fn is_record(name: &str) -> bool {
    matches!(
        name,
        "summary" | "ai-title" | "custom-title" | "queue-operation" | "progress" | "cost-state"
    ) || names::RECORDS.contains(&name)
}

fn is_api_event(name: &str) -> bool {
    matches!(
        name,
        "message_start"
            | "message_delta"
            | "message_stop"
            | "content_block_start"
            | "content_block_delta"
            | "content_block_stop"
            | "ping"
    )
}

/// Skips a line of an unknown type and adds its subtype, if any, to the kind.
fn skip_unknown<'a>(
    cursor: &mut Cursor<'a>,
    top: &mut EnvelopeFields<'a>,
) -> Result<(), ParseError> {
    let start = cursor.clone();
    top.pass(cursor)?;
    top.kind.subtype = start.raw_up_to(cursor).get("subtype").and_then(Raw::text);
    Ok(())
}

/// Whether the whole text is JSON, for lines without an object.
pub(crate) fn is_json(text: &str) -> bool {
    Raw::parse(text).is_some()
}
