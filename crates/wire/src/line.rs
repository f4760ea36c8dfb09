//! A line of the stream and its reading.

use std::fmt;

use crate::event::Event;
use crate::json::Raw;
use crate::kind::Kind;

/// Part of the stream, with its reading.
///
/// Nearly always a whole line. If a line contains several objects, each is a `Line`, and their
/// concatenated [`bytes`](Self::bytes) are the original line: a prefix belongs to the object after
/// it, and other text after the last object is a separate `Line`.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    /// The original bytes, unchanged.
    pub bytes: &'a [u8],
    pub dialect: Dialect,
    pub reading: Reading<'a>,
}

/// The result of reading a [`Line`]. Every line has a reading; none is an error.
#[derive(Clone, Debug)]
pub enum Reading<'a> {
    /// A known kind in a known shape.
    Event(Event<'a>),
    /// A kind that this crate does not know: to be forwarded and shown, never acted on.
    Unknown(Unknown<'a>),
    /// A known kind in an unexpected shape: to be kept, shown and counted.
    Mismatch(Mismatch<'a>),
    Noise(Noise),
}

/// An event of a kind that this crate does not know.
#[derive(Clone, Debug)]
pub struct Unknown<'a> {
    pub kind: Kind<'a>,
    pub object: Raw<'a>,
}

/// An event of a known kind in an unexpected shape.
#[derive(Clone, Debug)]
pub struct Mismatch<'a> {
    pub kind: Kind<'a>,
    /// The path and the difference: `message.content: expected …, found …`.
    pub reason: String,
    pub object: Raw<'a>,
}

/// Why a line is not an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// Empty or only white space.
    Blank,
    NotUtf8,
    NotJson,
    /// JSON, but not an object with a `type`.
    Untyped,
}

impl fmt::Display for Noise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Blank => "blank",
            Self::NotUtf8 => "not UTF-8",
            Self::NotJson => "not JSON",
            Self::Untyped => "JSON without a `type`",
        })
    }
}

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// The format that Claude Code writes with `--output-format stream-json`, and reads. The object
    /// that it writes with `--output-format json` is a `result` line of this dialect.
    StreamJson,
    /// An array of events, as `--output-format json --verbose` writes.
    JsonArray,
    /// The flat events of early wrappers: `toolName`, `toolUseId`, `session_start`.
    Flat,
    /// A `tool_result` that is not inside a `user` message.
    LooseToolResult,
    /// Events of the Messages API without a wrapper, as in a recording of its stream.
    ApiStream,
    /// Session files under `~/.claude/projects`.
    Transcript,
    /// `codex exec --json`.
    CodexExec,
    /// Session files under `~/.codex/sessions`.
    CodexRollout,
    /// `gemini -o stream-json`.
    Gemini,
    /// `cursor-agent --output-format stream-json`.
    Cursor,
    /// `opencode run --format json`.
    OpenCode,
    /// `droid exec --output-format stream-json`.
    Droid,
    /// `copilot --output-format json`, and its session files.
    Copilot,
    /// `pi --mode json`, and its session files.
    Pi,
    /// JSON-RPC messages of the Agent Client Protocol.
    Acp,
}

impl Dialect {
    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StreamJson => "stream-json",
            Self::JsonArray => "json-array",
            Self::Flat => "flat",
            Self::LooseToolResult => "loose-tool-result",
            Self::ApiStream => "api-stream",
            Self::Transcript => "transcript",
            Self::CodexExec => "codex-exec",
            Self::CodexRollout => "codex-rollout",
            Self::Gemini => "gemini",
            Self::Cursor => "cursor",
            Self::OpenCode => "opencode",
            Self::Droid => "droid",
            Self::Copilot => "copilot",
            Self::Pi => "pi",
            Self::Acp => "acp",
        }
    }

    /// The program that writes the format.
    pub const fn program(self) -> &'static str {
        match self {
            Self::StreamJson
            | Self::JsonArray
            | Self::Flat
            | Self::LooseToolResult
            | Self::ApiStream
            | Self::Transcript => "claude",
            Self::CodexExec | Self::CodexRollout => "codex",
            Self::Gemini => "gemini",
            Self::Cursor => "cursor-agent",
            Self::OpenCode => "opencode",
            Self::Droid => "droid",
            Self::Copilot => "copilot",
            Self::Pi => "pi",
            Self::Acp => "acp",
        }
    }
}

impl<'a> Line<'a> {
    /// The event; `None` for other readings.
    pub fn event(&self) -> Option<&Event<'a>> {
        match &self.reading {
            Reading::Event(event) => Some(event),
            _ => None,
        }
    }

    /// The kind; `None` for noise.
    pub fn kind(&self) -> Option<Kind<'a>> {
        match &self.reading {
            Reading::Event(event) => Some(event.kind),
            Reading::Unknown(unknown) => Some(unknown.kind),
            Reading::Mismatch(mismatch) => Some(mismatch.kind),
            Reading::Noise(_) => None,
        }
    }
}
