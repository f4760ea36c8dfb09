//! Permission modes and rules.

use serde::{Deserialize, Serialize};

/// How much the agent may do without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// Ask before writing and before commands with effects.
    Default,
    /// Files may be edited unasked.
    AcceptEdits,
    /// Read and plan only.
    Plan,
    /// Everything unasked; refused unless the CLI was started with the flag that permits it.
    BypassPermissions,
    /// What is not allowed by a rule is denied, unasked.
    DontAsk,
    /// A classifier of the CLI decides.
    Auto,
}

impl PermissionMode {
    /// All of them, in the order a person would step through them.
    pub const ALL: [Self; 6] = [
        Self::Default,
        Self::AcceptEdits,
        Self::Plan,
        Self::DontAsk,
        Self::Auto,
        Self::BypassPermissions,
    ];

    /// As the CLI spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::BypassPermissions => "bypassPermissions",
            Self::DontAsk => "dontAsk",
            Self::Auto => "auto",
        }
    }

    /// The mode the CLI spells so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// A change to the rules, to be sent with an allowance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum PermissionUpdate {
    /// More rules.
    AddRules {
        /// The rules.
        rules: Vec<Rule>,
        /// What they do.
        behavior: Behavior,
        /// Where they are kept.
        destination: Destination,
    },
    /// These rules instead of all others of that behavior.
    ReplaceRules {
        /// The rules.
        rules: Vec<Rule>,
        /// What they do.
        behavior: Behavior,
        /// Where they are kept.
        destination: Destination,
    },
    /// Fewer rules.
    RemoveRules {
        /// The rules.
        rules: Vec<Rule>,
        /// What they did.
        behavior: Behavior,
        /// Where they were kept.
        destination: Destination,
    },
    /// Another mode.
    SetMode {
        /// The mode.
        mode: PermissionMode,
        /// Where it is kept.
        destination: Destination,
    },
    /// Directories the agent may work in.
    AddDirectories {
        /// The directories.
        directories: Vec<String>,
        /// Where they are kept.
        destination: Destination,
    },
    /// Directories the agent may no longer work in.
    RemoveDirectories {
        /// The directories.
        directories: Vec<String>,
        /// Where they were kept.
        destination: Destination,
    },
}

/// A tool, and optionally which of its calls: `Bash` with `touch:*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// The tool.
    pub tool_name: String,
    /// Which calls; all where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_content: Option<String>,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Behavior {
    /// Runs unasked.
    Allow,
    /// Is refused unasked.
    Deny,
    /// Asks.
    Ask,
}

/// Where a rule is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Destination {
    /// Until the process ends.
    Session,
    /// `.claude/settings.local.json`
    LocalSettings,
    /// `.claude/settings.json`
    ProjectSettings,
    /// `~/.claude/settings.json`
    UserSettings,
}
