//! Tokens and money.

use serde::{Deserialize, Serialize};

/// What the session has used so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// All tokens, each message counted once, sub-agents included.
    pub tokens: Tokens,
    /// Dollars, where the agent says so; unknown otherwise, never guessed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Tokens in the main agent's context as of its last message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// Tokens that fit into its context, where the agent says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// How much of the plan is used, where the agent says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanLimit>,
}

/// Numbers of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Read at full price.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Taken from the prompt cache.
    pub cache_read: u64,
    /// Put into the prompt cache.
    pub cache_write: u64,
}

/// How much of the plan is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanLimit {
    /// `allowed`, `allowed_warning`, `rejected`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Which window: `five_hour`, `seven_day`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// When it begins anew, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<f64>,
    /// The part that is used, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<f64>,
}

impl Tokens {
    /// All of them.
    pub fn total(self) -> u64 {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
    }

    pub(crate) fn subtract(&mut self, other: Self) {
        self.input = self.input.saturating_sub(other.input);
        self.output = self.output.saturating_sub(other.output);
        self.cache_read = self.cache_read.saturating_sub(other.cache_read);
        self.cache_write = self.cache_write.saturating_sub(other.cache_write);
    }
}

impl From<wire::event::Usage> for Tokens {
    fn from(usage: wire::event::Usage) -> Self {
        Self {
            input: usage.input_tokens.unwrap_or(0),
            output: usage.output_tokens.unwrap_or(0),
            cache_read: usage.cache_read_input_tokens.unwrap_or(0),
            cache_write: usage.cache_creation_input_tokens.unwrap_or(0),
        }
    }
}
