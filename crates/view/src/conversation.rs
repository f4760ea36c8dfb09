//! The document that a client starts with, its turns and its to-do list.

use serde::{Deserialize, Serialize};
use wire::note::TurnEnding;

use crate::agent_info::AgentInfo;
use crate::call::Request;
use crate::item::{Item, ItemId, QueuedPrompt, Revision, is_false};
use crate::status::ConversationStatus;
use crate::usage::{SessionUsage, TokenCounts};

/// The newest part of a session at a revision: everything a client needs to display it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// Clients ask for the changes after this revision.
    pub revision: Revision,
    pub head: ConversationHead,
    /// What the agent says about itself; `None` before it started for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentInfo>,
    pub status: ConversationStatus,
    /// Prompts waiting to be sent, in order.
    pub queue: Vec<QueuedPrompt>,
    /// Requests waiting for a person, oldest first.
    pub requests: Vec<Request>,
    pub todos: Vec<Todo>,
    pub usage: SessionUsage,
    /// The turns that the items belong to, in order.
    pub turns: Vec<Turn>,
    /// Ordered by position.
    pub items: Vec<Item>,
    /// Whether there are items before the first one; [`Fold::older`](crate::Fold::older) has them.
    pub more: bool,
}

/// What is known about a session as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConversationHead {
    /// The CLI's session id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The permission mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The model's reasoning effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The version of the CLI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// A next prompt that the agent suggests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

/// The agent's work from a prompt, or from its own start, to the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Counted from 1; turn 0 holds what came before the first one.
    pub number: u64,
    /// When it last changed.
    pub rev: Revision,
    /// Its first entry.
    pub first: u64,
    /// In milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<u64>,
    /// The prompts it answers; empty if the agent started by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<ItemId>,
    /// Why the agent started by itself, as the protocol spells it: `task-notification`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// `None` while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<TurnEnd>,
    /// Each message counted once, sub-agents included.
    pub tokens: TokenCounts,
    /// In dollars, if the agent reports it. There is no price list here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// The conversation was rewound to before this turn: the agent no longer remembers it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub rewound: bool,
    /// It was imported: it happened before Towpath drove the session.
    #[serde(default, skip_serializing_if = "is_false")]
    pub imported: bool,
    /// Files it changed, in the order of their first change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileEdits>,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// `None` if the recording does not say, as in a transcript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<TurnEnding>,
    /// Why the CLI stopped, as it spells it: `max_turns`, `aborted_streaming`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// In milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// As the agent measured it, or computed from the entries' times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// A file that a turn changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileEdits {
    /// As the model wrote it.
    pub path: String,
    /// How often it was changed.
    pub edits: u32,
}

/// An entry of the agent's to-do list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Todo {
    /// The CLI's id, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub text: String,
    /// The text to show while it is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    pub state: TodoState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoState {
    Pending,
    Doing,
    Done,
}
