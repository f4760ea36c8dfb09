//! Other agents' own streams and session files, read into one vocabulary.
//!
//! A line is recognised by its `type` and by keys that only one agent writes, so a stream may begin
//! in the middle and a file may mix agents. Where two agents write the same line, the lines before it
//! decide: see [`AgentStreamReader`]. The shapes follow captures of real programs (`captures/`) and,
//! for Cursor and Droid, published descriptions.
//!
//! Known names that say nothing about the conversation have no steps. A name that is not known here
//! stays unknown, and a known one in an unexpected shape is a mismatch, as for Claude Code.

mod acp;
mod codex_exec;
mod codex_rollout;
mod copilot;
mod cursor;
mod droid;
mod fields;
mod gemini;
mod opencode;
mod patch;
mod pi;
mod step;
mod stream;
mod tools;

pub use step::{
    AgentCall, AgentCallEnd, AgentStep, AgentText, AgentTodo, AgentTurnEnd, AgentUsage, CallAction,
    ChangedFile, FileContent, SessionFacts, TextExtent, TurnOutcome, UsageScope,
};
pub use stream::AgentStreamReader;

use crate::event::{Body, EnvelopeFields};
use crate::json::{Cursor, ParseError, Raw, Shape, Text};
use crate::line::Dialect;
use fields::ObjectFields;

/// A line of another agent.
#[derive(Clone, Debug)]
pub struct OtherAgentEvent<'a> {
    /// What it says, in order.
    pub steps: Vec<AgentStep<'a>>,
    /// The kind of the object inside the line, where the line's `type` is that of an envelope.
    pub detail: Option<Text<'a>>,
    /// When it was written, in milliseconds since 1970, if the line has a number for that.
    pub at_ms: Option<u64>,
}

/// The steps of a line while it is read.
#[derive(Default)]
struct LineSteps<'a> {
    steps: Vec<AgentStep<'a>>,
    detail: Option<Text<'a>>,
    session: Option<Text<'a>>,
}

impl<'a> LineSteps<'a> {
    fn push(&mut self, step: AgentStep<'a>) {
        self.steps.push(step);
    }

    /// Notes the type of the inner object; returns it.
    fn inside(&mut self, kind: Option<Raw<'a>>) -> Option<std::borrow::Cow<'a, str>> {
        self.detail = kind.and_then(Raw::text);
        self.detail.map(Text::decode)
    }
}

/// Whether a name is one that the dialect has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knowledge {
    Known,
    Unknown,
}

/// The reading of an object that may be another agent's.
pub(crate) enum OtherAgentReading<'a> {
    /// It is not recognised.
    NotRecognised,
    /// It is another agent's, of an unknown kind.
    Unknown,
    Read(Body<'a>, Dialect),
}

/// Reads the object at the cursor if it is one of another agent; otherwise the cursor stays.
pub(crate) fn read<'a>(
    cursor: &mut Cursor<'a>,
    top: &mut EnvelopeFields<'a>,
    name: &str,
) -> Result<OtherAgentReading<'a>, ParseError> {
    if !is_candidate(name) {
        return Ok(OtherAgentReading::NotRecognised);
    }
    let start = cursor.clone();
    cursor.skip()?;
    let line = ObjectFields::new(start.raw_up_to(cursor));
    if line.raw().get("type").and_then(Raw::text) != Some(top.kind.name) {
        return Err(ParseError::Retyped);
    }
    let Some(dialect) = dialect_of(name, line) else {
        *cursor = start;
        return Ok(OtherAgentReading::NotRecognised);
    };
    top.other_agent = Some(dialect);
    top.kind.subtype = line.raw().get("subtype").and_then(Raw::text);
    let mut out = LineSteps::default();
    let knowledge = read_steps(dialect, name, line, &mut out)?;
    if knowledge == Knowledge::Unknown {
        top.kind.subtype = top.kind.subtype.or(out.detail);
        return Ok(OtherAgentReading::Unknown);
    }
    let text = |key: &str| line.raw().get(key).and_then(Raw::text);
    top.envelope.session_id =
        out.session.or_else(|| text("session_id")).or_else(|| text("sessionID"));
    top.envelope.timestamp = text("timestamp");
    let at_ms = ["timestamp", "timestamp_ms"].iter().find_map(|key| line.count(key).ok().flatten());
    let event = OtherAgentEvent { steps: out.steps, detail: out.detail, at_ms };
    Ok(OtherAgentReading::Read(Body::OtherAgent(Box::new(event)), dialect))
}

/// Whether an object of that type may be another agent's. Decided by the name alone, so that lines of
/// Claude Code are not looked at twice.
fn is_candidate(name: &str) -> bool {
    name.contains('.')
        || matches!(
            name,
            "init"
                | "message"
                | "tool_use"
                | "tool_result"
                | "tool_call"
                | "error"
                | "result"
                | "text"
                | "reasoning"
                | "thinking"
                | "completion"
                | "abort"
                | "interaction_query"
                | "step_start"
                | "step_finish"
                | "message_start"
                | "session"
        )
        || codex_rollout::is_line(name)
        || codex_rollout::is_bare_item(name)
        || pi::is_line(name)
}

/// The dialect of an object, from keys that only one agent writes with this type.
fn dialect_of(name: &str, line: ObjectFields<'_>) -> Option<Dialect> {
    let is_text = |key: &str| line.is(key, Shape::String);
    let is_object = |key: &str| line.is(key, Shape::Object);
    let dialect = match name {
        "init" if is_text("session_id") || is_text("model") => Dialect::Gemini,
        "message" if is_object("message") => Dialect::Pi,
        "message" if is_text("role") && line.has("text") => Dialect::Droid,
        "message" if is_text("role") && line.is("content", Shape::Array) => Dialect::CodexRollout,
        "message" if is_text("role") => Dialect::Gemini,
        "message_start" if pi::is_message_start(line) => Dialect::Pi,
        "session" if is_text("id") && line.has("cwd") => Dialect::Pi,
        "tool_use" | "tool_result" if line.has("tool_id") => Dialect::Gemini,
        "text" | "tool_use" | "reasoning" | "step_start" | "step_finish" if is_object("part") => {
            Dialect::OpenCode
        }
        // Without its part it is one in an unexpected shape.
        "step_start" | "step_finish" if line.has("sessionID") => Dialect::OpenCode,
        "tool_result" if line.has("toolId") || line.has("value") => Dialect::Droid,
        "tool_call" if line.has("toolName") || line.has("toolId") => Dialect::Droid,
        "tool_call" | "interaction_query" | "thinking" if is_text("subtype") => Dialect::Cursor,
        "reasoning" if line.has("text") => Dialect::Droid,
        "completion" if line.has("finalText") => Dialect::Droid,
        "error" if is_text("sessionID") => Dialect::OpenCode,
        "error" if line.has("severity") => Dialect::Gemini,
        "error" if is_text("source") && is_text("message") => Dialect::Droid,
        "result" if line.has("exitCode") && line.has("sessionId") => Dialect::Copilot,
        "result" if line.has("status") && !line.has("subtype") => Dialect::Gemini,
        _ if codex_exec::is_line(name) => Dialect::CodexExec,
        _ if codex_rollout::is_line(name) && line.has("payload") => Dialect::CodexRollout,
        _ if codex_rollout::is_bare_item(name) => Dialect::CodexRollout,
        _ if (name.contains('.') || name == "abort") && is_object("data") => Dialect::Copilot,
        _ if pi::is_line(name) => Dialect::Pi,
        _ => return None,
    };
    Some(dialect)
}

fn read_steps<'a>(
    dialect: Dialect,
    name: &str,
    line: ObjectFields<'a>,
    out: &mut LineSteps<'a>,
) -> Result<Knowledge, ParseError> {
    match dialect {
        Dialect::CodexExec => codex_exec::read(name, line, out),
        Dialect::CodexRollout => codex_rollout::read(name, line, out),
        Dialect::Gemini => gemini::read(name, line, out),
        Dialect::OpenCode => opencode::read(name, line, out),
        Dialect::Cursor => cursor::read(name, line, out),
        Dialect::Droid => droid::read(name, line, out),
        Dialect::Copilot => copilot::read(name, line, out),
        Dialect::Pi => pi::read(name, line, out),
        _ => Ok(Knowledge::Unknown),
    }
}

/// A JSON text that may be written inside a string, as the arguments of a function often are.
fn unwrapped_json(value: Raw<'_>) -> std::borrow::Cow<'_, str> {
    match value.text() {
        Some(text) => {
            let text = text.decode();
            if Raw::parse(&text).is_some() { text } else { value.as_str().into() }
        }
        None => value.as_str().into(),
    }
}
