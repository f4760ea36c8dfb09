//! A line of the stream and what it was read as.

use std::fmt;

use crate::event::Event;
use crate::json::Raw;
use crate::kind::Kind;

/// Part of the stream, with its reading.
///
/// Nearly always a whole line. Where a line holds several objects, each is a `Line`, and their
/// [`bytes`](Self::bytes) laid side by side are the line again: a prefix belongs to the object
/// behind it, what follows the last object is a `Line` of its own.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    /// The bytes as they came, never rewritten.
    pub bytes: &'a [u8],
    /// How it was written.
    pub dialect: Dialect,
    /// What it was read as.
    pub reading: Reading<'a>,
}

/// What a [`Line`] was read as. Every line has a reading; none is an error.
#[derive(Clone, Debug)]
pub enum Reading<'a> {
    /// A known kind in a known shape.
    Event(Event<'a>),
    /// A kind this crate does not model: to be passed on and shown, never acted on.
    Unknown(Unknown<'a>),
    /// A known kind in an unexpected shape: to be kept, shown and counted.
    Mismatch(Mismatch<'a>),
    /// Not an event.
    Noise(Noise),
}

/// An event of a kind that is not modelled.
#[derive(Clone, Debug)]
pub struct Unknown<'a> {
    /// What it says it is.
    pub kind: Kind<'a>,
    /// The whole object.
    pub object: Raw<'a>,
}

/// An event of a known kind whose shape is not the known one.
#[derive(Clone, Debug)]
pub struct Mismatch<'a> {
    /// What it says it is.
    pub kind: Kind<'a>,
    /// Where and how it differs, as `message.content: expected …, found …`.
    pub reason: String,
    /// The whole object.
    pub object: Raw<'a>,
}

/// Why something is not an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// Nothing but white space.
    Blank,
    /// Not UTF-8.
    NotUtf8,
    /// Not JSON.
    NotJson,
    /// JSON, but no object with a `type`.
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

/// How a line was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// What Claude Code prints with `--output-format stream-json`, and reads. Its
    /// `--output-format json` object is a `result` line of this dialect.
    StreamJson,
    /// An array of events, as `--output-format json --verbose` prints.
    JsonArray,
    /// The flat events of early wrappers: `toolName`, `toolUseId`, `session_start`.
    Flat,
    /// A `tool_result` that stands by itself instead of inside a `user` message.
    LooseToolResult,
    /// Events of the Messages API that stand by themselves, as in a recording of its stream.
    ApiStream,
    /// Session files under `~/.claude/projects`.
    Transcript,
}

impl Dialect {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StreamJson => "stream-json",
            Self::JsonArray => "json-array",
            Self::Flat => "flat",
            Self::LooseToolResult => "loose-tool-result",
            Self::ApiStream => "api-stream",
            Self::Transcript => "transcript",
        }
    }
}

impl<'a> Line<'a> {
    /// The event, where it is one.
    pub fn event(&self) -> Option<&Event<'a>> {
        match &self.reading {
            Reading::Event(event) => Some(event),
            _ => None,
        }
    }

    /// What the line says it is, where it says so.
    pub fn kind(&self) -> Option<Kind<'a>> {
        match &self.reading {
            Reading::Event(event) => Some(event.kind),
            Reading::Unknown(unknown) => Some(unknown.kind),
            Reading::Mismatch(mismatch) => Some(mismatch.kind),
            Reading::Noise(_) => None,
        }
    }
}
