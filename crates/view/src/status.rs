//! What the session is doing right now, in one word and a few numbers.

use serde::{Deserialize, Serialize};
use wire::note::Cause;

use crate::item::ItemId;

/// What the session is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// What.
    pub phase: Phase,
    /// Since when, in milliseconds since 1970, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// When the running turn began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_since: Option<u64>,
}

/// What a session can be doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Phase {
    /// Nothing; it waits for a prompt.
    #[default]
    Idle,
    /// The agent process is being started.
    Starting,
    /// The model was asked and has not begun to answer, or nobody can tell more.
    Working,
    /// The model thinks.
    Thinking {
        /// How much so far, estimated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
    },
    /// The model writes its answer, or the input of a call.
    Writing,
    /// A tool runs.
    Running {
        /// The tool.
        tool: String,
        /// What it works on.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        target: String,
        /// The call.
        item: ItemId,
        /// How many run beside it.
        #[serde(default, skip_serializing_if = "is_none")]
        others: u32,
    },
    /// A person has to decide or answer.
    Waiting {
        /// How many requests are open.
        requests: u32,
    },
    /// The API failed and will be asked again.
    Retrying {
        /// Which attempt failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<u64>,
        /// Of how many.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<u64>,
        /// Milliseconds from `since` until it is asked again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delay_ms: Option<u64>,
    },
    /// The history is being summarised.
    Compacting,
    /// The turn was asked to stop and has not yet.
    Interrupting,
    /// The turn has been silent for a while.
    Stalled {
        /// For how long, when it was noticed.
        seconds: u64,
    },
    /// There is no agent process.
    Gone(Gone),
}

/// Why there is no agent process, and what that means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gone {
    /// Why.
    pub why: Cause,
}

impl Phase {
    /// Whether a turn is under way.
    pub fn is_busy(&self) -> bool {
        !matches!(self, Self::Idle | Self::Gone(_))
    }

    /// Whether the agent process was put to rest and the next prompt wakes it.
    pub fn is_parked(&self) -> bool {
        matches!(self, Self::Gone(Gone { why: Cause::Parked }))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_none(number: &u32) -> bool {
    *number == 0
}
