//! What was asked of an agent, and how far it got.

use uuid::Uuid;
use wire::note::{Actor, Delivery, PromptState};

/// A prompt as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptRecord {
    /// Its id, made by the sender.
    pub id: Uuid,
    /// Where it stands in the queue: smaller goes first.
    pub place: i64,
    /// Its words.
    pub text: String,
    /// What goes with the words, as JSON that nothing here looks into.
    pub content: Option<String>,
    /// When it may go to the agent.
    pub delivery: Delivery,
    /// How far it got.
    pub state: PromptState,
    /// Who sent it.
    pub by: Actor,
    /// The turn it went into.
    pub turn: Option<u64>,
    /// When it was sent, in milliseconds since 1970.
    pub created: u64,
    /// When it last changed.
    pub changed: u64,
}
