//! The end of a turn, with its errors and token usage.

use super::{EnvelopeFields, FieldOutcome};
use crate::json::{Cursor, ParseError, Raw, Shape, ShapeError, Text};
use crate::names;

/// How a turn came to its end.
#[derive(Clone, Debug, Default)]
pub struct TurnEnded<'a> {
    /// The `subtype`; the flat dialect has none.
    pub ending: Option<ResultSubtype<'a>>,
    /// Whether the CLI calls it an error. An API failure is `success` with this set.
    pub is_error: Option<bool>,
    /// The last words, or the text of the error.
    pub result: Option<Text<'a>>,
    /// Why the model stopped.
    pub stop_reason: Option<Text<'a>>,
    /// Why the CLI stopped, from 2.1.197 on.
    pub terminal_reason: Option<Text<'a>>,
    /// What went wrong: strings, in some versions objects.
    pub errors: Option<Raw<'a>>,
    /// Model round trips; cumulative in 1.0.x.
    pub num_turns: Option<u64>,
    /// Wall time of the turn.
    pub duration_ms: Option<u64>,
    /// What the process has cost so far, in dollars.
    pub total_cost_usd: Option<f64>,
    /// Tokens of this turn's main agent.
    pub usage: Option<Usage>,
    /// Tokens of the process so far by model: see [`TurnEnded::models`].
    pub model_usage: Option<Raw<'a>>,
    /// Calls that were not allowed: see [`TurnEnded::denials`].
    pub permission_denials: Option<Raw<'a>>,
    /// Ids of the prompts it answers, from 2.1.325 on.
    pub user_message_uuids: Option<Raw<'a>>,
    /// Who asked for the turn where nobody prompted it, as in `task-notification`.
    pub origin: Option<Text<'a>>,
}

/// The subtype of a `result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultSubtype<'a> {
    /// The turn ran to its end; that it went well, [`TurnEnded::failed`] says.
    Success,
    /// One of the known errors.
    Error(Text<'a>),
    /// A subtype this crate has not met; it counts as an error.
    Other(Text<'a>),
}

/// Tokens of one model, over the life of a process.
#[derive(Clone, Copy, Debug)]
pub struct ModelUsage<'a> {
    /// The model.
    pub model: Text<'a>,
    /// Its tokens.
    pub usage: Usage,
    /// Its cost in dollars.
    pub cost_usd: Option<f64>,
}

/// A call that was not allowed.
#[derive(Clone, Copy, Debug)]
pub struct Denial<'a> {
    /// The tool.
    pub tool_name: Option<Text<'a>>,
    /// The call.
    pub tool_use_id: Option<Text<'a>>,
    /// What the tool would have been given.
    pub tool_input: Option<Raw<'a>>,
}

impl<'a> TurnEnded<'a> {
    pub(crate) fn read(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Self, ParseError> {
        let mut this = Self { ending: top.kind.subtype.map(ResultSubtype::of), ..Self::default() };
        // Any of its fields makes it an end of a turn; a bare `type` does not.
        let mut says_something = this.ending.is_some();
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
                    // 1.0.24 writes both; the total is what counts.
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
            says_something = true;
            Ok(FieldOutcome::Yes)
        })?;
        if says_something { Ok(this) } else { Err(ShapeError::missing("subtype")) }
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

    /// Whether the turn failed: an error subtype *or* `is_error`, since an API failure is a
    /// `success` with `is_error`, and an interrupt up to 2.1.37 an error without it.
    pub fn failed(&self) -> bool {
        self.is_error == Some(true)
            || matches!(self.ending, Some(ResultSubtype::Error(_) | ResultSubtype::Other(_)))
    }

    /// Tokens and cost by model, over the life of the process.
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

    /// Calls that were not allowed during the turn.
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

/// An error as a word (`"rate_limit"`) or as an object with a type and a message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fault<'a> {
    /// What sort of error it is.
    pub name: Option<Text<'a>>,
    /// What it says to a person.
    pub message: Option<Text<'a>>,
}

impl<'a> Fault<'a> {
    /// Reads a word or an object; `null` is no fault.
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

/// How many tokens a message took, as the API counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Read at full price.
    pub input_tokens: Option<u64>,
    /// Written.
    pub output_tokens: Option<u64>,
    /// Put into the prompt cache.
    pub cache_creation_input_tokens: Option<u64>,
    /// FieldOutcome from the prompt cache.
    pub cache_read_input_tokens: Option<u64>,
}

impl Usage {
    /// Reads a usage object; `null` is no usage. The flat dialect's camelCase is understood.
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

    /// This usage with what `later` says of the same message laid over it.
    ///
    /// A `message_delta` repeats only the counts that changed, so what it leaves out stands.
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
