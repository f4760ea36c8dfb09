//! A tool call as an agent describes it.

use super::read::FieldSet;
use crate::json::{Cursor, ParseError, Raw, ShapeError, Text};

/// What a line says about a tool call. What is none has not changed.
#[derive(Clone, Copy, Debug)]
pub struct AgentToolCall<'a> {
    pub id: Text<'a>,
    /// What it does, for a person.
    pub title: Option<Text<'a>>,
    /// The tool's name. Only some agents tell it.
    pub name: Option<Text<'a>>,
    /// `read`, `edit`, `execute`, ….
    pub kind: Option<Text<'a>>,
    /// `pending`, `in_progress`, `completed` or `failed`.
    pub status: Option<Text<'a>>,
    /// A list of blocks: content, diffs, terminals. It replaces the previous one.
    pub content: Option<Raw<'a>>,
    /// A list of paths with lines.
    pub locations: Option<Raw<'a>>,
    pub raw_input: Option<Raw<'a>>,
    pub raw_output: Option<Raw<'a>>,
    /// Details outside the protocol.
    pub meta: Option<Raw<'a>>,
}

impl<'a> AgentToolCall<'a> {
    pub(super) fn of(fields: &FieldSet<'a>, id: Text<'a>, meta: Option<Raw<'a>>) -> Self {
        Self {
            id,
            title: fields.title,
            name: fields.name,
            kind: fields.kind,
            status: fields.status,
            content: fields.content,
            locations: fields.locations,
            raw_input: fields.raw_input,
            raw_output: fields.raw_output,
            meta,
        }
    }

    /// Reads the call that a request is about.
    pub(super) fn read(object: Raw<'a>) -> Result<Self, ParseError> {
        let (mut fields, mut meta) = (FieldSet::default(), None);
        Cursor::new(object.as_str()).fields(|cursor, key| {
            match key {
                "_meta" => meta = cursor.value()?.optional_raw(),
                _ => fields.take(cursor, key)?,
            }
            Ok(())
        })?;
        let id = fields.tool_call_id.ok_or_else(|| ShapeError::missing("toolCallId"))?;
        Ok(Self::of(&fields, id, meta))
    }
}
