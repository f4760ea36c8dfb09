//! Tokens of one message.

use crate::json::{Cursor, Shape, Trouble};

/// How many tokens a message took, as the API counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Read at full price.
    pub input_tokens: Option<u64>,
    /// Written.
    pub output_tokens: Option<u64>,
    /// Put into the prompt cache.
    pub cache_creation_input_tokens: Option<u64>,
    /// Taken from the prompt cache.
    pub cache_read_input_tokens: Option<u64>,
}

impl Usage {
    /// Reads a usage object; `null` is no usage. The flat dialect's camelCase is understood.
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Option<Self>, Trouble> {
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
