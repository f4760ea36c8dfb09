//! Entries that occur only in session files.

use super::{EnvelopeFields, FieldOutcome};
use crate::json::{Cursor, ParseError, Raw, Text};

/// An entry of a session file that the CLI never writes to stdout.
#[derive(Clone, Debug)]
pub enum Record<'a> {
    /// `summary`, `ai-title`, `custom-title`: the title of the session.
    Title(Option<Text<'a>>),
    /// `queue-operation`: a prompt was queued, dequeued or removed.
    QueueOperation(QueueOperation<'a>),
    /// `progress`: a call is still running.
    Progress(ProgressRecord<'a>),
    /// `cost-state`: the cost of the session so far, in dollars.
    CostState(Option<f64>),
    /// A known type that Towpath does not interpret.
    Other,
}

/// A prompt was queued, dequeued or removed.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueOperation<'a> {
    /// `enqueue`, `dequeue`, `remove`, `popAll`.
    pub operation: Option<Text<'a>>,
    /// The prompt: a string or an array of blocks.
    pub content: Option<Raw<'a>>,
}

/// A call is still running.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgressRecord<'a> {
    /// `bash_progress`, `agent_progress`, ….
    pub name: Option<Text<'a>>,
    pub tool_use_id: Option<Text<'a>>,
}

impl<'a> Record<'a> {
    /// Reads an entry of type `name`, which must be a known one.
    pub(crate) fn read(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
        name: &str,
    ) -> Result<Self, ParseError> {
        match name {
            "summary" | "ai-title" | "custom-title" => Self::read_title(cursor, top),
            "queue-operation" => QueueOperation::read(cursor, top).map(Self::QueueOperation),
            "progress" => ProgressRecord::read(cursor, top).map(Self::Progress),
            "cost-state" => Self::read_cost(cursor, top),
            _ => {
                top.walk(cursor, |_, _| Ok(FieldOutcome::No))?;
                Ok(Self::Other)
            }
        }
    }

    fn read_title(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Self, ParseError> {
        let mut title = None;
        top.walk(cursor, |cursor, key| {
            match key {
                "summary" | "aiTitle" | "customTitle" | "title" => {
                    title = cursor.value()?.optional_text()?;
                }
                _ => return Ok(FieldOutcome::No),
            }
            Ok(FieldOutcome::Yes)
        })?;
        Ok(Self::Title(title))
    }

    fn read_cost(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Self, ParseError> {
        let mut cost = None;
        top.walk(cursor, |cursor, key| {
            if key != "totalCostUSD" {
                return Ok(FieldOutcome::No);
            }
            cost = cursor.value()?.optional_number()?;
            Ok(FieldOutcome::Yes)
        })?;
        Ok(Self::CostState(cost))
    }
}

impl<'a> QueueOperation<'a> {
    fn read(cursor: &mut Cursor<'a>, top: &mut EnvelopeFields<'a>) -> Result<Self, ParseError> {
        let mut this = Self::default();
        top.walk(cursor, |cursor, key| {
            match key {
                "operation" => this.operation = cursor.value()?.optional_text()?,
                "content" => this.content = cursor.value()?.optional_raw(),
                _ => return Ok(FieldOutcome::No),
            }
            Ok(FieldOutcome::Yes)
        })?;
        Ok(this)
    }
}

impl<'a> ProgressRecord<'a> {
    fn read(cursor: &mut Cursor<'a>, top: &mut EnvelopeFields<'a>) -> Result<Self, ParseError> {
        let mut this = Self::default();
        top.walk(cursor, |cursor, key| {
            match key {
                "data" => {
                    this.name = cursor.value()?.raw().get("type").and_then(Raw::text);
                }
                "toolUseID" => this.tool_use_id = cursor.value()?.text_if_string(),
                _ => return Ok(FieldOutcome::No),
            }
            Ok(FieldOutcome::Yes)
        })?;
        Ok(this)
    }
}
