//! What can be changed in a session: settings of the running agent, and how far it is rewound.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::WatchChoice;

/// A setting that can be changed while the agent runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "setting", content = "value", rename_all = "snake_case")]
pub enum Setting {
    /// The model; the agent's default if there is none.
    Model(Option<String>),
    /// The permission mode, as the CLI spells it.
    PermissionMode(String),
    /// The reasoning effort: `low`, `medium`, `high`, ….
    Effort(String),
    /// An option that only this agent has, by its id.
    AgentOption { id: String, value: String },
    /// What Towpath does with the files the agent changes.
    Watch(WatchChoice),
    /// Other options of the session by name; null is the default. Secrets are masked in a note.
    Options(BTreeMap<String, serde_json::Value>),
}

/// What a rewind restores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rewind {
    Files,
    Conversation,
    Both,
}
