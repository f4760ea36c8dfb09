//! What a driver knows of its agent. It is stored with the session, so that another Towpath can go on with
//! the same process.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use wire::json::{Raw, Shape};

/// What was agreed with the agent's process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AcpState {
    /// The number of the process.
    pub(super) run: u64,
    pub(super) phase: AcpPhase,
    pub(super) version: u8,
    /// The agent's id of the session: the one that is open, or is to be continued.
    pub(super) session: Option<String>,
    /// Whether that session is to be copied: it belongs to another conversation of Towpath.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) copies: bool,
    pub(super) capabilities: AgentCapabilities,
    /// The answer to `initialize`, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) initialized: Option<String>,
    pub(super) offered: OfferedSettings,
    /// Whether what the agent reports may be repeated: its session was loaded, and no prompt came since.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) replays: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt: Option<PromptInProgress>,
    /// Prompts that were sent into the running turn, and whether the agent has accepted them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) steered: BTreeMap<Uuid, bool>,
    /// Requests of the agent that wait for an answer, by their JSON-RPC id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) requests: BTreeMap<String, OpenRequest>,
}

/// How far the opening of the session has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AcpPhase {
    /// Nothing was sent.
    #[default]
    New,
    /// `initialize` was sent.
    Initializing,
    /// A session is being opened.
    Opening(OpeningWay),
    /// The session is open, and its settings are being made.
    Configuring(BTreeSet<String>),
    /// The session was loaded, and some of what it repeats may come behind the answer.
    Settling,
    Ready,
    /// The agent cannot work.
    Failed,
}

/// How a session is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OpeningWay {
    New,
    Resume,
    Load,
    Fork,
}

/// What the agent can do beyond what every agent can.
#[expect(clippy::struct_excessive_bools, reason = "the protocol has these switches")]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AgentCapabilities {
    pub(super) resume: bool,
    pub(super) load: bool,
    pub(super) fork: bool,
    pub(super) images: bool,
    pub(super) steering: bool,
    pub(super) extra_directories: bool,
    pub(super) mcp_http: bool,
    pub(super) mcp_sse: bool,
}

/// The settings that the session offers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct OfferedSettings {
    /// Whether there are modes outside the options.
    pub(super) modes: bool,
    /// The ids of all modes.
    pub(super) mode_ids: BTreeSet<String>,
    /// Whether there are models outside the options.
    pub(super) models: bool,
    /// The ids of options by their category.
    pub(super) categories: BTreeMap<String, String>,
    /// The ids of all options.
    pub(super) options: BTreeSet<String>,
    /// The ids of options that are on or off.
    pub(super) switches: BTreeSet<String>,
}

/// The prompt that the agent works on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PromptInProgress {
    pub(super) id: Uuid,
    /// Whether the agent has shown that it works on it.
    #[serde(default)]
    pub(super) started: bool,
    /// Whether the agent was told to stop.
    #[serde(default)]
    pub(super) stopped: bool,
    /// Whether the agent reported an error outside the answer.
    #[serde(default)]
    pub(super) failed: bool,
}

/// A request of the agent that waits for an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OpenRequest {
    Permission,
    /// A form with these fields.
    Form(Vec<FormField>),
    /// A link to be opened.
    Link,
}

/// A field of a form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FormField {
    pub(super) key: String,
    /// The question as it is shown.
    pub(super) question: String,
    pub(super) kind: FieldKind,
    /// Labels and values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) options: Vec<(String, String)>,
    /// The key of the field for an answer in one's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) custom: Option<String>,
}

/// What the answer in a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FieldKind {
    Text,
    Number,
    Integer,
    Switch,
    Several,
}

impl AgentCapabilities {
    /// Reads the answer to `initialize`.
    pub(super) fn of(result: Raw<'_>, version: u8) -> Self {
        let path = |keys: &[&str]| keys.iter().try_fold(result, |object, key| object.get(key));
        // A capability is a switch, or an object that may be empty.
        let has = |keys: &[&str]| {
            let found = path(keys);
            found.is_some_and(|it| it.boolean() == Some(true) || it.shape() == Shape::Object)
        };
        let steering = has(&["_meta", "steering", "supported"]);
        if version >= 2 {
            return Self {
                // Version 2 has no other way.
                resume: true,
                load: false,
                fork: has(&["capabilities", "session", "fork"]),
                images: has(&["capabilities", "session", "prompt", "image"]),
                steering,
                extra_directories: has(&["capabilities", "session", "additionalDirectories"]),
                mcp_http: has(&["capabilities", "session", "mcp", "http"]),
                mcp_sse: false,
            };
        }
        let agent = |keys: &[&str]| has(&[&["agentCapabilities"], keys].concat());
        Self {
            resume: agent(&["sessionCapabilities", "resume"]),
            load: agent(&["loadSession"]),
            fork: agent(&["sessionCapabilities", "fork"]),
            images: agent(&["promptCapabilities", "image"]),
            steering,
            extra_directories: agent(&["sessionCapabilities", "additionalDirectories"]),
            mcp_http: agent(&["mcpCapabilities", "http"]),
            mcp_sse: agent(&["mcpCapabilities", "sse"]),
        }
    }
}

impl OfferedSettings {
    /// Takes in what an answer or an update says about the options.
    pub(super) fn read_options(&mut self, options: Raw<'_>) {
        self.categories.clear();
        self.options.clear();
        self.switches.clear();
        for option in options.items() {
            let text = |key: &str| Some(option.get(key)?.text()?.decode().into_owned());
            // Version 1 calls it `id`, version 2 `configId`.
            let Some(id) = text("id").or_else(|| text("configId")) else { continue };
            if text("category").as_deref() == Some("mode") {
                let values = option.get("options").into_iter().flat_map(Raw::items);
                let ids = values.filter_map(|value| value.get("value")?.text());
                self.mode_ids.extend(ids.map(String::from));
            }
            if let Some(category) = text("category") {
                self.categories.entry(category).or_insert_with(|| id.clone());
            }
            if text("type").as_deref() == Some("boolean") {
                self.switches.insert(id.clone());
            }
            self.options.insert(id);
        }
    }
}
