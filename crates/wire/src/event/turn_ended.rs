//! The end of a turn, with its errors and token usage.

use std::borrow::Cow;

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
        let mut unexpected = Vec::new();
        // A `type` without any field of a result is a mismatch.
        let mut has_fields = this.ending.is_some();
        top.walk(cursor, |cursor, key| {
            if !this.take(cursor, key, &mut unexpected)? {
                return Ok(FieldOutcome::No);
            }
            has_fields = true;
            Ok(FieldOutcome::Yes)
        })?;
        top.unexpected.append(&mut unexpected);
        if has_fields { Ok(this) } else { Err(ShapeError::missing("subtype")) }
    }

    /// Reads a field and returns whether it is one of a result. The end of a turn must not be missed
    /// because of the shape of a field, so an odd one is only reported.
    fn take(
        &mut self,
        cursor: &mut Cursor<'a>,
        key: &str,
        unexpected: &mut Vec<String>,
    ) -> Result<bool, ParseError> {
        /// Reads the value with a method of [`JsonValue`](crate::json::JsonValue).
        macro_rules! read {
            ($read:ident) => {
                cursor.lenient(key, unexpected, |cursor| cursor.value()?.$read())?
            };
        }
        match key {
            "is_error" | "isError" => {
                // A wrapper that writes all values as strings must not hide a failure.
                let flag = |cursor: &mut Cursor<'a>| {
                    let value = cursor.value()?;
                    let is_true = value.text_if_string().is_some_and(|text| text == *"true");
                    if is_true { Ok(Some(true)) } else { value.optional_bool() }
                };
                self.is_error = cursor.lenient(key, unexpected, flag)?;
            }
            "result" => {
                let mut result = self.clone();
                let read = |cursor: &mut Cursor<'a>| result.take_result(cursor).map(Some);
                if cursor.lenient(key, unexpected, read)?.is_some() {
                    *self = result;
                }
            }
            "error" => {
                let fault = Fault::read(cursor)?;
                self.result = self.result.or(fault.and_then(|it| it.message.or(it.name)));
            }
            "stop_reason" => self.stop_reason = read!(optional_text),
            "terminal_reason" => self.terminal_reason = read!(optional_text),
            "errors" => self.errors = cursor.value()?.optional_raw(),
            "num_turns" => self.num_turns = read!(optional_count),
            "duration_ms" => self.duration_ms = read!(optional_count),
            "total_cost_usd" | "cost_usd" => {
                let cost = read!(optional_number).filter(|cost| cost.is_finite());
                // 1.0.24 writes both; the total takes precedence.
                if key == "total_cost_usd" || self.total_cost_usd.is_none() {
                    self.total_cost_usd = cost;
                }
            }
            "usage" => self.usage = cursor.lenient(key, unexpected, Usage::read)?,
            "modelUsage" => self.model_usage = read!(optional_object),
            "permission_denials" => self.permission_denials = read!(optional_array),
            "user_message_uuids" => self.user_message_uuids = read!(optional_array),
            "origin" => {
                let origin = cursor.value()?.raw().get("kind");
                self.origin = origin.and_then(Raw::text);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `result` is text; the flat dialect puts an object there.
    fn take_result(&mut self, cursor: &mut Cursor<'a>) -> Result<(), ParseError> {
        if cursor.shape()? != Shape::Object {
            self.result = cursor.value()?.optional_text()?;
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
    /// The whole error as it was written.
    pub raw: Option<Raw<'a>>,
}

impl<'a> Fault<'a> {
    /// Reads a name or an object; `None` for `null` and `false`. An error of any other shape has only
    /// its raw text.
    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Option<Self>, ParseError> {
        let start = cursor.clone();
        let mut fault = if cursor.shape()? == Shape::Object {
            Self::read_object(cursor, 1)?
        } else {
            let value = cursor.value()?;
            if matches!(value.raw().as_str(), "null" | "false") {
                return Ok(None);
            }
            Self { name: value.text_if_string(), ..Self::default() }
        };
        fault.raw = Some(start.raw_up_to(cursor));
        Ok(Some(fault))
    }

    /// Reads an object that is nested in `depth - 1` others of its kind.
    fn read_object(cursor: &mut Cursor<'a>, depth: usize) -> Result<Self, ParseError> {
        let mut fault = Self::default();
        cursor.fields(|cursor, key| {
            match key {
                "type" | "code" => fault.name = cursor.value()?.text_if_string(),
                "message" => fault.message = cursor.value()?.text_if_string(),
                // The API's own envelope: `{"type":"error","error":{…}}`.
                "error" if depth < MAX_ENVELOPES && cursor.shape()? == Shape::Object => {
                    fault = Self::read_object(cursor, depth + 1)?;
                }
                _ => cursor.skip()?,
            }
            Ok(())
        })?;
        Ok(fault)
    }

    /// The error for a person: its message, else its name, else what was written.
    pub fn text(&self) -> Option<Cow<'a, str>> {
        let text = self.message.or(self.name).filter(|text| !text.is_empty());
        text.map(Text::decode).or_else(|| self.raw.map(Raw::readable))
    }
}

/// How many envelopes around an error are opened. Gateways add one or two; an error that nests deeper
/// is shown as it was written.
const MAX_ENVELOPES: usize = 8;

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
