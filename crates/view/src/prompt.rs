//! What people say to the agent.

use serde::{Deserialize, Serialize};
use wire::note::{Actor, Delivery, PromptState};

/// Somebody's words to the agent, once they are part of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// The words.
    pub text: String,
    /// How many pictures came with it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub images: usize,
    /// Where it stands. A session that nobody drove with Towpath has only accepted ones.
    pub state: PromptState,
    /// Who speaks.
    pub speaker: Speaker,
    /// Who sent it, and from where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Actor>,
}

/// Who speaks in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// A person, or a program in their place.
    Person,
    /// The agent's program, which puts the texts of skills, hooks and notifications this way; worth
    /// folding away.
    Program,
    /// The main agent, to its sub-agent.
    Agent,
}

/// A prompt that waits for its turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitingPrompt {
    /// Its id, made by the sender.
    pub id: String,
    /// Its words.
    pub text: String,
    /// How many pictures go with it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub images: usize,
    /// When it may go to the agent.
    pub delivery: Delivery,
    /// Queued, or already on its way to the agent.
    pub state: PromptState,
    /// Who sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Actor>,
    /// Since when it waits, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}
