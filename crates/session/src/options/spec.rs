//! The description of every session option: its name, its kind, its help, who may set it and when a
//! change takes effect.
//!
//! The arguments of `towpath run`, the API, the configuration files and the chats are made from this
//! table, so that an option is added in one place.

use wire::outgoing::PermissionMode;

use super::similar::WrittenWord;

/// The description of one option.
#[derive(Debug)]
pub struct OptionSpec {
    /// The key in the API, in configuration files and in chats: `max_turns`.
    pub name: &'static str,
    /// The argument of `towpath run`, without dashes: `max-turns`.
    pub flag: &'static str,
    pub kind: OptionKind,
    /// One sentence for people.
    pub help: &'static str,
    pub role: OptionRole,
    pub effect: OptionEffect,
}

/// What the value of an option is, and how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    Text {
        multiline: bool,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// The name of an agent in the catalog.
    Agent,
    Integer {
        min: u32,
        max: u32,
    },
    /// A positive amount of money.
    Dollars,
    /// A time as `30m`, or `never`.
    Duration,
    Switch {
        /// What it is if it is not set.
        default: bool,
    },
    /// Texts.
    List,
    /// Absolute paths of directories.
    Directories,
    /// Environment variables: an object of texts, or `NAME=VALUE` on each line.
    Variables,
    /// MCP servers: a JSON object, or the path of a file with one.
    Mcp,
}

/// Who may set an option through the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OptionRole {
    Drive,
    /// The option can run programs on the machine, or lets the agent do so without asking.
    Admin,
}

/// What a change does to a session whose agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionEffect {
    /// The agent is told, or only Towpath needs to know.
    Live,
    /// The agent is restarted before its next turn.
    Restart,
    /// It can only be set when the session is created.
    Creation,
}

const MODES: [&str; PermissionMode::ALL.len()] = {
    let mut names = [""; PermissionMode::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = PermissionMode::ALL[at].name();
        at += 1;
    }
    names
};

/// All options, in the order in which they are shown.
pub static OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "agent",
        flag: "agent",
        kind: OptionKind::Agent,
        help: "Agent that works in the session, by name: `towpath agents` lists them",
        role: OptionRole::Drive,
        effect: OptionEffect::Creation,
    },
    OptionSpec {
        name: "model",
        flag: "model",
        kind: OptionKind::Text { multiline: false },
        help: "Model to use, by name or alias",
        role: OptionRole::Drive,
        effect: OptionEffect::Live,
    },
    OptionSpec {
        name: "effort",
        flag: "effort",
        kind: OptionKind::Choice(&["low", "medium", "high", "xhigh", "max"]),
        help: "Reasoning effort; which levels there are depends on the model",
        role: OptionRole::Drive,
        effect: OptionEffect::Live,
    },
    OptionSpec {
        name: "mode",
        flag: "mode",
        kind: OptionKind::Choice(&MODES),
        help: "Permission mode: what the agent may do without asking",
        role: OptionRole::Drive,
        effect: OptionEffect::Live,
    },
    OptionSpec {
        name: "fallback_model",
        flag: "fallback-model",
        kind: OptionKind::Text { multiline: false },
        help: "Model to use while the first one is overloaded",
        role: OptionRole::Drive,
        effect: OptionEffect::Restart,
    },
    OptionSpec {
        name: "max_turns",
        flag: "max-turns",
        kind: OptionKind::Integer { min: 1, max: 100_000 },
        help: "Maximum number of requests to the model per turn",
        role: OptionRole::Drive,
        effect: OptionEffect::Restart,
    },
    OptionSpec {
        name: "max_budget_usd",
        flag: "max-budget",
        kind: OptionKind::Dollars,
        help: "Maximum cost of an agent process, in dollars",
        role: OptionRole::Drive,
        effect: OptionEffect::Restart,
    },
    OptionSpec {
        name: "budget_usd",
        flag: "budget",
        kind: OptionKind::Dollars,
        help: "Cost of the session, in dollars, from which on queued prompts wait until someone \
               allows the same amount again",
        role: OptionRole::Drive,
        effect: OptionEffect::Live,
    },
    OptionSpec {
        name: "append_system_prompt",
        flag: "append-system-prompt",
        kind: OptionKind::Text { multiline: true },
        help: "Text to append to the system prompt",
        role: OptionRole::Drive,
        effect: OptionEffect::Restart,
    },
    OptionSpec {
        name: "allowed_tools",
        flag: "allow",
        kind: OptionKind::List,
        help: "Tools to allow without asking: `Read`, `Bash(git:*)`",
        role: OptionRole::Drive,
        effect: OptionEffect::Restart,
    },
    OptionSpec {
        name: "disallowed_tools",
        flag: "deny",
        kind: OptionKind::List,
        help: "Tools to forbid",
        role: OptionRole::Drive,
        effect: OptionEffect::Restart,
    },
    OptionSpec {
        name: "extra_directories",
        flag: "add-dir",
        kind: OptionKind::Directories,
        help: "Additional directories the agent may work in",
        role: OptionRole::Drive,
        effect: OptionEffect::Restart,
    },
    OptionSpec {
        name: "mcp_config",
        flag: "mcp-config",
        kind: OptionKind::Mcp,
        help: "MCP servers, as JSON or a JSON file",
        role: OptionRole::Admin,
        effect: OptionEffect::Restart,
    },
    OptionSpec {
        name: "environment",
        flag: "env",
        kind: OptionKind::Variables,
        help: "Environment variables for the agent, as NAME=VALUE",
        role: OptionRole::Admin,
        effect: OptionEffect::Restart,
    },
    OptionSpec {
        name: "idle_timeout",
        flag: "idle-timeout",
        kind: OptionKind::Duration,
        help: "Time after which an idle agent is stopped, as `30m` or `never`; the next prompt \
               starts it again",
        role: OptionRole::Drive,
        effect: OptionEffect::Live,
    },
    OptionSpec {
        name: "continue_after_cut",
        flag: "continue-after-cut",
        kind: OptionKind::Switch { default: false },
        help: "Continue a turn that was cut short because the agent died",
        role: OptionRole::Drive,
        effect: OptionEffect::Live,
    },
    OptionSpec {
        name: "session_persistence",
        flag: "no-session-persistence",
        kind: OptionKind::Switch { default: true },
        help: "Whether the CLI saves the conversation; without that, an agent that was stopped \
               starts again without what was said before",
        role: OptionRole::Drive,
        effect: OptionEffect::Creation,
    },
    OptionSpec {
        name: "delete_when_ended",
        flag: "delete-when-ended",
        kind: OptionKind::Switch { default: false },
        help: "Delete the session from Towpath when it is closed or its agent was stopped because \
               it was idle",
        role: OptionRole::Drive,
        effect: OptionEffect::Live,
    },
];

impl OptionSpec {
    /// The option with this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        OPTIONS.iter().find(|it| it.name == name)
    }

    /// The names that someone may have meant who wrote `name`, the nearest first.
    pub fn similar(name: &str) -> Vec<&'static str> {
        let Some(wanted) = WrittenWord::new(name) else { return Vec::new() };
        let distance = |spec: &Self| wanted.distance(spec.name).min(wanted.distance(spec.flag));
        wanted.nearest(OPTIONS.iter().map(|it| (distance(it), it.name)))
    }
}

impl OptionKind {
    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text { multiline: false } => "text",
            Self::Text { multiline: true } => "multiline",
            Self::Choice(_) => "choice",
            Self::Agent => "agent",
            Self::Integer { .. } => "integer",
            Self::Dollars => "dollars",
            Self::Duration => "duration",
            Self::Switch { .. } => "switch",
            Self::List => "list",
            Self::Directories => "directories",
            Self::Variables => "variables",
            Self::Mcp => "mcp",
        }
    }
}

impl OptionRole {
    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Drive => "drive",
            Self::Admin => "admin",
        }
    }
}

impl OptionEffect {
    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Restart => "restart",
            Self::Creation => "creation",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{OPTIONS, OptionSpec};

    #[test]
    fn every_option_has_its_own_name_and_flag_and_a_help_of_one_line() {
        let names: BTreeSet<_> = OPTIONS.iter().map(|it| it.name).collect();
        let flags: BTreeSet<_> = OPTIONS.iter().map(|it| it.flag).collect();
        assert_eq!((names.len(), flags.len()), (OPTIONS.len(), OPTIONS.len()));
        for spec in OPTIONS {
            assert!(spec.help.len() > 10 && !spec.help.contains('\n'), "{}", spec.name);
            assert!(!spec.help.contains("  ") && !spec.help.ends_with('.'), "{}", spec.help);
        }
    }

    #[test]
    fn the_documentation_lists_every_option() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
        let text = std::fs::read_to_string(path).unwrap();
        for OptionSpec { name, flag, .. } in OPTIONS {
            assert!(text.contains(&format!("| `{name}` | `--{flag}` |")), "{name}");
        }
    }

    #[test]
    fn a_misspelled_name_finds_the_option() {
        for (written, meant) in [
            ("maxturns", "max_turns"),
            ("modle", "model"),
            ("env", "environment"),
            ("permission_mode", "mode"),
            ("allowed-tool", "allowed_tools"),
            ("add-dir", "extra_directories"),
            ("idle", "idle_timeout"),
            ("budget", "max_budget_usd"),
        ] {
            assert!(OptionSpec::similar(written).contains(&meant), "{written}");
        }
        assert_eq!(OptionSpec::similar("x".repeat(100_000).as_str()), [""; 0]);
        assert_eq!(OptionSpec::similar("colour"), [""; 0]);
    }
}
