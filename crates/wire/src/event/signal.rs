//! Events outside the conversation.

use super::{EnvelopeFields, Fault, FieldOutcome};
use crate::json::{Cursor, ParseError, Raw, Text};

/// An event outside the conversation.
#[derive(Clone, Debug)]
pub enum Signal<'a> {
    /// `rate_limit_event`: usage of the plan's limits.
    RateLimit(RateLimit<'a>),
    /// `tool_progress`: a call is still running.
    ToolProgress(ToolProgress<'a>),
    /// `tool_use_summary`: a summary of several calls.
    ToolUseSummary(Option<Text<'a>>),
    /// `prompt_suggestion`: a suggestion for the next prompt.
    PromptSuggestion(Option<Text<'a>>),
    /// `command_lifecycle`: the state of a prompt.
    CommandLifecycle(CommandLifecycle<'a>),
    /// `conversation_reset`: the conversation starts over without history. The id is that of the
    /// conversation; the next `init` carries the new session id.
    ConversationReset(Option<Text<'a>>),
    /// The flat dialect's `permission_request`. It has no id, so the host cannot answer it.
    PermissionPrompt(PermissionPrompt<'a>),
    /// The flat dialect's `error`.
    Error(Fault<'a>),
    /// A known type that Towpath does not interpret.
    Other,
}

/// Usage of the plan's limits.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateLimit<'a> {
    /// `allowed`, `allowed_warning`, `rejected`.
    pub status: Option<Text<'a>>,
    /// `five_hour`, `seven_day`, ….
    pub window: Option<Text<'a>>,
    /// When the window resets, in seconds since 1970.
    pub resets_at: Option<f64>,
    /// The used fraction of the limit.
    pub utilization: Option<f64>,
    /// All windows by name, each with `utilization`, `resetsAt` and `status`. 2.1.120 has none.
    pub windows: Option<Raw<'a>>,
}

/// A call is still running.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToolProgress<'a> {
    pub tool_use_id: Option<Text<'a>>,
    pub tool_name: Option<Text<'a>>,
    pub elapsed_seconds: Option<f64>,
}

/// The state of a prompt.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandLifecycle<'a> {
    /// The id the prompt was sent with.
    pub command_uuid: Option<Text<'a>>,
    /// `queued`, `started`, `completed`, `cancelled`, ….
    pub state: Option<Text<'a>>,
}

/// A request for permission that cannot be answered through the stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct PermissionPrompt<'a> {
    pub prompt: Option<Text<'a>>,
    pub metadata: Option<Raw<'a>>,
}

impl<'a> Signal<'a> {
    /// Reads a known type of which only the envelope is used.
    pub(crate) fn read_other(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Self, ParseError> {
        top.walk(cursor, |_, _| Ok(FieldOutcome::No))?;
        Ok(Self::Other)
    }

    /// Reads a signal with a single text field, `wanted`.
    pub(crate) fn read_text(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
        wanted: &str,
    ) -> Result<Option<Text<'a>>, ParseError> {
        let mut text = None;
        top.walk(cursor, |cursor, key| {
            if key != wanted {
                return Ok(FieldOutcome::No);
            }
            text = cursor.value()?.optional_text()?;
            Ok(FieldOutcome::Yes)
        })?;
        Ok(text)
    }

    pub(crate) fn read_error(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Self, ParseError> {
        let mut fault = Fault::default();
        top.walk(cursor, |cursor, key| {
            match key {
                "error" => fault = Fault::read(cursor)?.unwrap_or_default(),
                "message" => fault.message = cursor.value()?.text_if_string(),
                _ => return Ok(FieldOutcome::No),
            }
            Ok(FieldOutcome::Yes)
        })?;
        Ok(Self::Error(fault))
    }
}

impl<'a> RateLimit<'a> {
    pub(crate) fn read(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Self, ParseError> {
        let mut this = Self::default();
        top.walk(cursor, |cursor, key| {
            if key != "rate_limit_info" {
                return Ok(FieldOutcome::No);
            }
            cursor.fields(|cursor, key| {
                match key {
                    "status" => this.status = cursor.value()?.optional_text()?,
                    "rateLimitType" => this.window = cursor.value()?.optional_text()?,
                    "resetsAt" => this.resets_at = cursor.value()?.raw().number(),
                    "utilization" => this.utilization = cursor.value()?.optional_number()?,
                    "unifiedWindows" => this.windows = cursor.value()?.optional_raw(),
                    _ => cursor.skip()?,
                }
                Ok(())
            })?;
            Ok(FieldOutcome::Yes)
        })?;
        Ok(this)
    }
}

impl<'a> ToolProgress<'a> {
    pub(crate) fn read(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Self, ParseError> {
        let mut this = Self::default();
        walk_fields!(top, cursor, {
            "tool_use_id" => this.tool_use_id, optional_text;
            "tool_name" => this.tool_name, optional_text;
            "elapsed_time_seconds" => this.elapsed_seconds, optional_number;
        })?;
        Ok(this)
    }
}

impl<'a> CommandLifecycle<'a> {
    pub(crate) fn read(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Self, ParseError> {
        let mut this = Self::default();
        walk_fields!(top, cursor, {
            "command_uuid" => this.command_uuid, optional_text;
            "state" => this.state, optional_text;
        })?;
        Ok(this)
    }
}

impl<'a> PermissionPrompt<'a> {
    pub(crate) fn read(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Self, ParseError> {
        let mut this = Self::default();
        top.walk(cursor, |cursor, key| {
            match key {
                "prompt" => this.prompt = cursor.value()?.optional_text()?,
                "metadata" => this.metadata = cursor.value()?.optional_raw(),
                _ => return Ok(FieldOutcome::No),
            }
            Ok(FieldOutcome::Yes)
        })?;
        Ok(this)
    }
}
