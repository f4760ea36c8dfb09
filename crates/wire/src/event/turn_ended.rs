//! The end of a turn, with its errors and token usage.

use super::{EnvelopeFields, FieldOutcome};
use crate::json::{Cursor, ParseError, Raw, Shape, ShapeError, Text};
use crate::names;

/// The result of a turn.
#[derive(Clone, Debug, Default)]
pub struct TurnEnded<'a> {
    /// The `subtype`; the flat dialect has none.
    pub ending: Option<ResultSubtype<'a>>,
    /// Whether the CLI reports an error. An API failure is a `success` with this flag set.
    pub is_error: Option<bool>,
    /// The final message, or the text of the error.
    pub result: Option<Text<'a>>,
    pub stop_reason: Option<Text<'a>>,
    /// Why the CLI stopped, since 2.1.197.
    pub terminal_reason: Option<Text<'a>>,
    /// Strings, in some versions objects.
    pub errors: Option<Raw<'a>>,
    /// The number of model round trips; cumulative in 1.0.x.
    pub num_turns: Option<u64>,
    pub duration_ms: Option<u64>,
    /// The cost of the process so far, in dollars.
    pub total_cost_usd: Option<f64>,
    /// Tokens of this turn's main agent.
    pub usage: Option<Usage>,
    /// Tokens of the process so far by model. Use [`TurnEnded::models`] to read it.
    pub model_usage: Option<Raw<'a>>,
    /// Denied calls. Use [`TurnEnded::denials`] to read it.
    pub permission_denials: Option<Raw<'a>>,
    /// Ids of the prompts that the turn answers, since 2.1.325.
    pub user_message_uuids: Option<Raw<'a>>,
    /// What started the turn if it was not a prompt, for example `task-notification`.
    pub origin: Option<Text<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultSubtype<'a> {
    /// The turn was not aborted. It may still have failed: see [`TurnEnded::failed`].
    Success,
    /// One of the known errors.
    Error(Text<'a>),
    /// A subtype that this crate does not know; it counts as an error.
    Other(Text<'a>),
}

/// Tokens and cost of one model since the process started.
#[derive(Clone, Copy, Debug)]
pub struct ModelUsage<'a> {
    pub model: Text<'a>,
    pub usage: Usage,
    pub cost_usd: Option<f64>,
}

/// A denied call.
#[derive(Clone, Copy, Debug)]
pub struct Denial<'a> {
    pub tool_name: Option<Text<'a>>,
    pub tool_use_id: Option<Text<'a>>,
    pub tool_input: Option<Raw<'a>>,
}

impl<'a> TurnEnded<'a> {
    pub(crate) fn read(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Self, ParseError> {
        let mut this = Self { ending: top.kind.subtype.map(ResultSubtype::of), ..Self::default() };
        // A `type` without any field of a result is a mismatch.
        let mut has_fields = this.ending.is_some();
        top.walk(cursor, |cursor, key| {
            match key {
                "is_error" | "isError" => this.is_error = cursor.value()?.optional_bool()?,
                "result" => this.take_result(cursor)?,
                "error" => {
                    let fault = Fault::read(cursor)?;
                    this.result = this.result.or(fault.and_then(|it| it.message.or(it.name)));
                }
                "stop_reason" => this.stop_reason = cursor.value()?.optional_text()?,
                "terminal_reason" => this.terminal_reason = cursor.value()?.optional_text()?,
                "errors" => this.errors = cursor.value()?.optional_raw(),
                "num_turns" => this.num_turns = cursor.value()?.optional_count()?,
                "duration_ms" => this.duration_ms = cursor.value()?.optional_count()?,
                "total_cost_usd" | "cost_usd" => {
                    let cost = cursor.value()?.optional_number()?;
                    // 1.0.24 writes both; the total takes precedence.
                    if key == "total_cost_usd" || this.total_cost_usd.is_none() {
                        this.total_cost_usd = cost;
                    }
                }
                "usage" => this.usage = Usage::read(cursor)?,
                "modelUsage" => this.model_usage = cursor.value()?.optional_object()?,
                "permission_denials" => {
                    this.permission_denials = cursor.value()?.optional_array()?;
                }
                "user_message_uuids" => {
                    this.user_message_uuids = cursor.value()?.optional_array()?;
                }
                "origin" => {
                    let origin = cursor.value()?.raw().get("kind");
                    this.origin = origin.and_then(Raw::text);
                }
                _ => return Ok(FieldOutcome::No),
            }
            has_fields = true;
            Ok(FieldOutcome::Yes)
        })?;
        if has_fields { Ok(this) } else { Err(ShapeError::missing("subtype")) }
    }

    /// `result` is text; the flat dialect puts an object there.
    fn take_result(&mut self, cursor: &mut Cursor<'a>) -> Result<(), ParseError> {
        if cursor.shape()? != Shape::Object {
            self.result = cursor.value()?.text_if_string();
            return Ok(());
        }
        cursor.fields(|cursor, key| {
            match key {
                "stopReason" | "stop_reason" => {
                    self.stop_reason = cursor.value()?.optional_text()?;
                }
                "usage" => self.usage = Usage::read(cursor)?,
                _ => cursor.skip()?,
            }
            Ok(())
        })
    }

    /// Whether the turn failed: an error subtype *or* `is_error`. An API failure is a `success`
    /// with `is_error`, and an interrupt in versions up to 2.1.37 is an error subtype without it.
    pub fn failed(&self) -> bool {
        self.is_error == Some(true)
            || matches!(self.ending, Some(ResultSubtype::Error(_) | ResultSubtype::Other(_)))
    }

    /// Tokens and cost by model since the process started.
    pub fn models(&self) -> impl Iterator<Item = ModelUsage<'a>> + use<'a> {
        self.model_usage.into_iter().flat_map(Raw::fields).filter_map(|(model, usage)| {
            let mut cursor = Cursor::new(usage.as_str());
            Some(ModelUsage {
                model,
                usage: Usage::read(&mut cursor).ok()??,
                cost_usd: usage.get("costUSD").and_then(Raw::number),
            })
        })
    }

    /// Calls that were denied during the turn.
    pub fn denials(&self) -> impl Iterator<Item = Denial<'a>> + use<'a> {
        self.permission_denials.into_iter().flat_map(Raw::items).map(|denial| Denial {
            tool_name: denial.get("tool_name").and_then(Raw::text),
            tool_use_id: denial.get("tool_use_id").and_then(Raw::text),
            tool_input: denial.get("tool_input"),
        })
    }
}

impl<'a> ResultSubtype<'a> {
    fn of(subtype: Text<'a>) -> Self {
        match &*subtype.decode() {
            "success" => Self::Success,
            name if names::RESULTS.contains(&name) => Self::Error(subtype),
            _ => Self::Other(subtype),
        }
    }
}

/// An error, written as a name (`"rate_limit"`) or as an object with a type and a message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fault<'a> {
    /// The error type.
    pub name: Option<Text<'a>>,
    /// The text for the user.
    pub message: Option<Text<'a>>,
}

impl<'a> Fault<'a> {
    /// Reads a name or an object; `None` for `null`.
    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Option<Self>, ParseError> {
        match cursor.shape()? {
            Shape::Object => {
                let mut fault = Self::default();
                cursor.fields(|cursor, key| {
                    match key {
                        "type" | "code" => fault.name = cursor.value()?.text_if_string(),
                        "message" => fault.message = cursor.value()?.text_if_string(),
                        // The API's own envelope: `{"type":"error","error":{…}}`.
                        "error" if cursor.shape()? == Shape::Object => {
                            if let Some(inner) = Self::read(cursor)? {
                                fault = inner;
                            }
                        }
                        _ => cursor.skip()?,
                    }
                    Ok(())
                })?;
                Ok(Some(fault))
            }
            _ => Ok(cursor
                .value()?
                .optional_text()?
                .map(|name| Self { name: Some(name), message: None })),
        }
    }
}

/// The token counts of a message, as the API reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens that were not read from or written to the prompt cache.
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    /// Written to the prompt cache.
    pub cache_creation_input_tokens: Option<u64>,
    /// Read from the prompt cache.
    pub cache_read_input_tokens: Option<u64>,
}

impl Usage {
    /// Reads a usage object; `None` for `null`. Also accepts the camelCase keys of the flat
    /// dialect.
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Option<Self>, ParseError> {
        if cursor.shape()? == Shape::Null {
            cursor.skip()?;
            return Ok(None);
        }
        let mut usage = Self::default();
        cursor.fields(|cursor, key| {
            let field = match key {
                "input_tokens" | "inputTokens" => &mut usage.input_tokens,
                "output_tokens" | "outputTokens" => &mut usage.output_tokens,
                "cache_creation_input_tokens" | "cacheCreationInputTokens" => {
                    &mut usage.cache_creation_input_tokens
                }
                "cache_read_input_tokens" | "cacheReadInputTokens" => {
                    &mut usage.cache_read_input_tokens
                }
                _ => return cursor.skip(),
            };
            *field = cursor.value()?.optional_count()?;
            Ok(())
        })?;
        Ok(Some(usage))
    }

    /// Combines this usage with a `later` one of the same message.
    ///
    /// A `message_delta` repeats only the counts that changed, so missing counts keep their value.
    #[must_use]
    pub fn overlaid(self, later: Self) -> Self {
        Self {
            input_tokens: later.input_tokens.or(self.input_tokens),
            output_tokens: later.output_tokens.or(self.output_tokens),
            cache_creation_input_tokens: later
                .cache_creation_input_tokens
                .or(self.cache_creation_input_tokens),
            cache_read_input_tokens: later.cache_read_input_tokens.or(self.cache_read_input_tokens),
        }
    }
}
