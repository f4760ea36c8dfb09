//! Turns: from a prompt, or from the agent's own start, to the end of its work on it.

use serde::{Deserialize, Serialize};
use wire::note::TurnEnding;

use crate::item::{ItemId, Revision, is_false};
use crate::usage::Tokens;

/// A turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Its number, from 1 on; 0 holds what came before the first.
    pub number: u64,
    /// When it last changed.
    pub rev: Revision,
    /// The first entry of it.
    pub first: u64,
    /// When it began, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<u64>,
    /// The prompts it answers; none where the agent began by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<ItemId>,
    /// Why the agent began by itself, where it says so: `task-notification`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Its end; nothing while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<TurnEnd>,
    /// Its tokens, each message counted once, sub-agents included.
    pub tokens: Tokens,
    /// What it cost in dollars, where the agent says so. There is no price list here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Somebody went back to before it: the agent no longer knows of it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub forgotten: bool,
    /// Files it changed, in the order of their first change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileTouched>,
}

/// The end of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// How it ended; nothing where the recording does not say, as in a transcript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how: Option<TurnEnding>,
    /// Why the CLI stopped, in its own word: `max_turns`, `aborted_streaming`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// How long it took in milliseconds, as the agent measured it, or from the entries' times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// A file a turn changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileTouched {
    /// Its path as the model wrote it.
    pub path: String,
    /// How often it was changed.
    pub times: u32,
}
