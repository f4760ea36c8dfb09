//! What a session is doing right now.

use serde::{Deserialize, Serialize};
use wire::note::{ExitCause, HoldReason};

use crate::item::ItemId;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConversationStatus {
    pub phase: SessionPhase,
    /// When the phase began, in milliseconds since 1970, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// When the running turn began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_since: Option<u64>,
    /// Why queued prompts wait until someone resumes the queue; none if they are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_hold: Option<HoldReason>,
    /// How many prompts are sent later.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub schedules: u32,
    /// When the next of them is sent, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_schedule: Option<u64>,
    /// What to do before the agent works, if it wants someone to sign in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<SignInNeed>,
}

/// The agent does nothing before someone signs in with the agent's own program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInNeed {
    /// What to do.
    pub text: String,
    /// The ways to sign in that the agent names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SessionPhase {
    /// Ready for a prompt.
    #[default]
    Idle,
    /// The agent process is starting.
    Starting,
    /// A turn is running, and nothing more specific is known.
    Working,
    /// The model is thinking.
    Thinking {
        /// Estimated tokens so far.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
    },
    /// The model is writing its answer, or the input of a call.
    Writing,
    /// A tool is running.
    Running {
        tool: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        target: String,
        /// The call.
        item: ItemId,
        /// How many other calls run at the same time.
        #[serde(default, skip_serializing_if = "is_zero")]
        others: u32,
    },
    /// The agent waits for a person's decision or answer.
    Waiting {
        /// How many requests are open.
        requests: u32,
    },
    /// An API request failed and will be repeated.
    Retrying {
        /// The attempt that failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_attempts: Option<u64>,
        /// Milliseconds from `since` until the next attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delay_ms: Option<u64>,
    },
    /// The history is being summarised.
    Compacting,
    /// The turn was asked to stop and has not stopped yet.
    Interrupting,
    /// The agent has printed nothing for a while.
    Stalled {
        /// For how long, when it was noticed.
        seconds: u64,
    },
    /// There is no agent process.
    Stopped { cause: ExitCause },
}

impl SessionPhase {
    /// Whether a turn is running.
    pub fn is_busy(&self) -> bool {
        !matches!(self, Self::Idle | Self::Stopped { .. })
    }

    /// Whether the agent process was stopped to save memory; the next prompt starts it again.
    pub fn is_parked(&self) -> bool {
        matches!(self, Self::Stopped { cause: ExitCause::Parked | ExitCause::Restarted })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
