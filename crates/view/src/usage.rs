//! Tokens and cost.

use serde::{Deserialize, Serialize};

/// What a session has used so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionUsage {
    /// Each message counted once, sub-agents included.
    pub tokens: TokenCounts,
    /// In dollars, if the agent reports it; never estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Tokens in the main agent's context as of its last message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// The size of the context window, if the agent reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanLimit>,
    /// The windows of the plan, as last reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<PlanLimit>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenCounts {
    /// Uncached input.
    pub input: u64,
    pub output: u64,
    /// Read from the prompt cache.
    pub cache_read: u64,
    /// Written to the prompt cache.
    pub cache_write: u64,
}

/// How much of a subscription's rate limit is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanLimit {
    /// `allowed`, `allowed_warning`, `rejected`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// `five_hour`, `seven_day`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// In seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<f64>,
    /// The used part, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<f64>,
}

impl TokenCounts {
    pub fn total(self) -> u64 {
        self.total_input().saturating_add(self.output)
    }

    /// Everything the model read: uncached input and both sides of the prompt cache.
    pub fn total_input(self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
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

impl From<wire::event::Usage> for TokenCounts {
    fn from(usage: wire::event::Usage) -> Self {
        Self {
            input: usage.input_tokens.unwrap_or(0),
            output: usage.output_tokens.unwrap_or(0),
            cache_read: usage.cache_read_input_tokens.unwrap_or(0),
            cache_write: usage.cache_creation_input_tokens.unwrap_or(0),
        }
    }
}
