//! The agent's own list of what is to be done.

use serde::{Deserialize, Serialize};

/// An entry of the agent's list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Todo {
    /// The CLI's id of it, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What is to be done.
    pub text: String,
    /// The same while it is being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// Where it stands.
    pub state: TodoState,
}

/// Where an entry of the agent's list stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoState {
    /// Not begun.
    Pending,
    /// Under way.
    Doing,
    /// Done.
    Done,
}
