//! Prompts in notes: when they are sent, how far they have come, and what holds them back.

use serde::{Deserialize, Serialize};

/// When a prompt is sent to the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// After the running turn, as a turn of its own.
    #[default]
    Queue,
    /// Into the running turn, at its next step.
    Steer,
}

/// How far a prompt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptState {
    /// It waits in Towpath's queue and can be edited, moved and removed.
    Queued,
    /// It was written to the agent.
    Written,
    /// The agent has repeated it.
    Accepted,
    /// The turn that answers it has ended.
    Done,
    /// It was removed before the agent started with it.
    Cancelled,
    /// The agent died with it, so it may or may not have run. It is never sent again by itself.
    Indeterminate,
}

impl PromptState {
    /// Whether no other state can follow.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled | Self::Indeterminate)
    }
}

/// What happens to queued prompts when a turn is interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueuePolicy {
    /// They stay and run next.
    #[default]
    Keep,
    /// They are cancelled.
    Clear,
    /// They stay and wait until the queue is resumed.
    Hold,
}

/// Why queued prompts wait although the agent could take them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum HoldReason {
    /// A person stopped the turn before them.
    Interrupted,
    /// A budget is spent. To resume the queue is to allow the same amount again.
    Budget {
        /// Dollars.
        spent: f64,
        /// How many dollars were allowed.
        limit: f64,
        /// The day whose budget it is, in days since 1970; none if it is the session's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        day: Option<u64>,
    },
}
