//! The document a follower begins with.

use serde::{Deserialize, Serialize};

use crate::item::{Item, Revision};
use crate::prompt::WaitingPrompt;
use crate::request::Request;
use crate::status::Status;
use crate::todo::Todo;
use crate::turn::Turn;
use crate::usage::Usage;

/// The newest part of a session as it stands at a revision: all that is needed to show it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// The state it shows. What comes after is asked for with it.
    pub revision: Revision,
    /// What the session is.
    pub head: Head,
    /// What it is doing.
    pub status: Status,
    /// Prompts that wait, in the order they will be taken.
    pub queue: Vec<WaitingPrompt>,
    /// Requests that wait for a person, oldest first.
    pub requests: Vec<Request>,
    /// The agent's list of what is to be done.
    pub todos: Vec<Todo>,
    /// What was used.
    pub usage: Usage,
    /// The turns that the items belong to, in order.
    pub turns: Vec<Turn>,
    /// Items in the order of their places.
    pub items: Vec<Item>,
    /// Whether there are items before the first of these; an older page has them.
    pub more: bool,
}

/// What a session is, as far as it has said so.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// The CLI's id of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The permission mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// How hard the model thinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The version of the CLI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What the agent thinks could be asked next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}
