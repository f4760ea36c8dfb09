//! The options of a session, and the CLI arguments they become.
//!
//! They are stored with the session: a process that is started later, after a crash or a pause,
//! gets the same ones. [`OPTIONS`] describes all of them, and every client is made from that table.

mod changes;
mod checks;
mod idle_timeout;
mod similar;
mod spec;
mod spending;
mod text;
mod value;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wire::note::{HoldReason, Setting, WatchChoice};
use wire::outgoing::PermissionMode;

use crate::catalog::AgentProtocol;
use crate::schedule::PromptSchedule;
pub use changes::OptionChanges;
pub(crate) use changes::{needs_restart, without_secrets};
pub(crate) use checks::variables_of as check_variables;
pub use idle_timeout::IdleTimeout;
pub(crate) use similar::similar_words;
pub use spec::{OPTIONS, OptionEffect, OptionKind, OptionRole, OptionSpec};
pub(crate) use spending::RaisedDay;
pub use spending::SessionSpending;
pub use value::{MASK, OptionError, check_dollars};

/// The options of a session. Stored as JSON in the journal.
#[expect(clippy::struct_excessive_bools, reason = "they are independent switches")]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionOptions {
    /// The working directory of the agent.
    pub directory: PathBuf,
    /// The agent, by its name in the catalog; Claude Code if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What was set of an agent that says itself which settings it has: `mode`, `model`, `effort`, or the
    /// id of an option.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub agent_settings: BTreeMap<String, String>,
    /// The CLI's default if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard the model thinks: `low`, `medium`, `high`, ….
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// The model to use while the first one is overloaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_model: Option<String>,
    /// Tools the agent may use without asking, as `Read` or `Bash(git:*)`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Tools the agent may not use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// Further directories the agent may work in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_directories: Vec<PathBuf>,
    /// Text to add to the system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append_system_prompt: Option<String>,
    /// MCP servers: JSON, or the path of a file with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_config: Option<String>,
    /// How many model round trips a turn may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// How many dollars a process may spend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_budget_usd: Option<f64>,
    /// How many dollars the session may cost before queued prompts wait for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<f64>,
    /// Further environment variables.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Whether the first process branches off the conversation it resumes instead of continuing it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fork: bool,
    /// Whether a turn that was cut off by an exit is continued automatically.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub continue_after_cut: bool,
    /// When an agent without work is stopped; the default of the server if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<IdleTimeout>,
    /// Whether the CLI may keep nothing of the conversation. Its next process then starts without
    /// what was said before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_persistence: bool,
    /// Whether Towpath deletes the session when it has ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub delete_when_ended: bool,
    /// Whether options were changed that the running process was not started with. It is stored, so
    /// that a Towpath that takes over the process restarts it too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub restart_pending: bool,
    /// Why queued prompts are not sent; none if they are. It is stored, so that a queue that was held
    /// stays so in the next process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_hold: Option<HoldReason>,
    /// What the session has cost, and what it may.
    #[serde(skip_serializing_if = "SessionSpending::is_none")]
    pub spending: SessionSpending,
    /// Prompts that are sent later.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<PromptSchedule>,
    /// What Towpath does with changed files. The agent does not know of it, except for hooks that run
    /// before a change.
    #[serde(skip_serializing_if = "WatchChoice::is_inherit")]
    pub watch: WatchChoice,
}

/// Stored options that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableOptions {
    /// The working directory, which is stored separately.
    pub directory: PathBuf,
    pub reason: String,
}

/// The conversation a process is started for, by the CLI's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CliConversation {
    /// A new conversation with this id.
    New(String),
    /// The CLI's conversation with this id.
    Resumed(String),
    /// A branch of the CLI's conversation with this id. The CLI chooses the id of the branch.
    Forked(String),
}

/// Variables that every agent gets. The state events show when a turn has really ended; a rewind
/// needs the checkpoints.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1"),
    ("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "true"),
    ("CLAUDE_CODE_ENTRYPOINT", "towpath"),
];

impl SessionOptions {
    /// The CLI's arguments. An agent is never started without `--permission-prompt-tool stdio`,
    /// because its requests could not be answered without it.
    pub(crate) fn arguments(&self, conversation: &CliConversation) -> Vec<OsString> {
        let mut arguments = CliArguments::default();
        for flag in ["-p", "--verbose", "--include-partial-messages", "--replay-user-messages"] {
            arguments.flag(flag);
        }
        arguments.option("--input-format", "stream-json");
        arguments.option("--output-format", "stream-json");
        arguments.option("--permission-prompt-tool", "stdio");
        match conversation {
            CliConversation::New(id) => arguments.option("--session-id", id),
            CliConversation::Resumed(id) => arguments.option("--resume", id),
            CliConversation::Forked(id) => {
                arguments.option("--resume", id);
                arguments.flag("--fork-session");
            }
        }
        arguments.optional("--model", self.model.as_deref());
        arguments.optional("--permission-mode", self.permission_mode.map(PermissionMode::name));
        if self.permission_mode == Some(PermissionMode::BypassPermissions) {
            // Without it the CLI refuses to be switched back to this mode later.
            arguments.flag("--allow-dangerously-skip-permissions");
        }
        arguments.optional("--fallback-model", self.fallback_model.as_deref());
        arguments.listed("--allowedTools", &self.allowed_tools);
        arguments.listed("--disallowedTools", &self.disallowed_tools);
        for directory in &self.extra_directories {
            arguments.option("--add-dir", directory);
        }
        if let Some(text) = &self.append_system_prompt {
            // A text may start with a dash, as lists do.
            arguments.flag(&format!("--append-system-prompt={text}"));
        }
        arguments.optional("--mcp-config", self.mcp_config.as_deref());
        arguments.optional("--max-turns", self.max_turns.map(|most| most.to_string()));
        arguments.optional("--max-budget-usd", self.max_budget_usd.map(|most| most.to_string()));
        if self.without_persistence {
            arguments.flag("--no-session-persistence");
        }
        arguments.0
    }

    /// The variables to add to Towpath's own environment.
    pub(crate) fn environment(&self) -> impl Iterator<Item = (String, String)> {
        let effort = self.effort.iter().map(|it| ("CLAUDE_CODE_EFFORT_LEVEL", it.as_str()));
        let own = self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let all = ENVIRONMENT.into_iter().chain(effort).chain(own);
        all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>().into_iter()
    }

    /// Reads stored options. Unreadable ones never become defaults: the session would lose its
    /// budget and the tools that it may not use.
    pub fn from_json(json: &str, directory: PathBuf) -> Result<Self, UnreadableOptions> {
        match serde_json::from_str::<Self>(json) {
            Ok(options) => Ok(Self { directory, ..options }),
            Err(error) => Err(UnreadableOptions { directory, reason: error.to_string() }),
        }
    }

    /// The options of a session that branches off the conversation of this one. What is done with
    /// changed files was allowed for the original only.
    pub fn for_fork(self) -> Result<Self, &'static str> {
        if self.without_persistence {
            return Err("the CLI keeps nothing of this conversation, so there is nothing to copy");
        }
        Ok(Self {
            fork: true,
            watch: WatchChoice::Inherit,
            restart_pending: false,
            queue_hold: None,
            spending: self.spending.for_fork(),
            schedules: Vec::new(),
            ..self
        })
    }

    /// The form in which the journal stores them.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("options serialise")
    }

    /// Applies a setting that was changed in the running session.
    pub(crate) fn apply(&mut self, setting: &Setting, protocol: AgentProtocol) {
        match setting {
            Setting::Model(None) if protocol == AgentProtocol::Acp => {
                self.agent_settings.remove("model");
            }
            Setting::Model(Some(value))
            | Setting::PermissionMode(value)
            | Setting::Effort(value)
            | Setting::AgentOption { value, .. }
                if protocol == AgentProtocol::Acp =>
            {
                let key = match setting {
                    Setting::PermissionMode(_) => "mode",
                    Setting::Effort(_) => "effort",
                    Setting::AgentOption { id, .. } => id,
                    _ => "model",
                };
                self.agent_settings.insert(key.to_owned(), value.clone());
            }
            // Only an agent with options of its own has such a setting.
            Setting::AgentOption { .. } => {}
            Setting::Model(model) => self.model.clone_from(model),
            Setting::PermissionMode(mode) => self.permission_mode = PermissionMode::named(mode),
            Setting::Effort(effort) => self.effort = Some(effort.clone()),
            Setting::Watch(watch) => self.watch.clone_from(watch),
            Setting::Options(values) => {
                // Their sender has checked them. One that a later version wrote is left out.
                for (name, value) in values {
                    if let Some(spec) = OptionSpec::find(name) {
                        let _ = self.set_value(spec, value);
                    }
                }
            }
        }
    }
}

#[derive(Default)]
struct CliArguments(Vec<OsString>);

impl CliArguments {
    fn flag(&mut self, name: &str) {
        self.0.push(name.into());
    }

    fn option(&mut self, name: &str, value: impl Into<OsString>) {
        self.0.extend([name.into(), value.into()]);
    }

    fn optional(&mut self, name: &str, value: Option<impl Into<OsString>>) {
        if let Some(value) = value {
            self.option(name, value);
        }
    }

    /// One argument for all values: the CLI reads every word after such an option as a tool, even a
    /// prompt that follows.
    fn listed(&mut self, name: &str, values: &[String]) {
        if !values.is_empty() {
            self.option(name, values.join(","));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CliConversation, SessionOptions};
    use wire::outgoing::PermissionMode;

    fn line(options: &SessionOptions, conversation: &CliConversation) -> String {
        let arguments = options.arguments(conversation);
        arguments.iter().map(|it| it.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_agent_can_always_ask_for_permission() {
        let conversation = CliConversation::New("x".to_owned());
        let bypassing = SessionOptions {
            permission_mode: Some(PermissionMode::BypassPermissions),
            ..SessionOptions::default()
        };
        for options in [SessionOptions::default(), bypassing] {
            assert!(line(&options, &conversation).contains("--permission-prompt-tool stdio"));
        }
    }

    #[test]
    fn options_become_arguments() {
        let options = SessionOptions {
            model: Some("opus".to_owned()),
            allowed_tools: vec!["Read".to_owned(), "Bash(git:*)".to_owned()],
            extra_directories: vec!["/srv".into()],
            fallback_model: Some("sonnet".to_owned()),
            append_system_prompt: Some("- be brief".to_owned()),
            max_turns: Some(3),
            max_budget_usd: Some(0.5),
            without_persistence: true,
            ..SessionOptions::default()
        };
        let line = line(&options, &CliConversation::Forked("a".to_owned()));
        let end = "--resume a --fork-session --model opus --fallback-model sonnet \
                   --allowedTools Read,Bash(git:*) --add-dir /srv \
                   --append-system-prompt=- be brief --max-turns 3 --max-budget-usd 0.5 \
                   --no-session-persistence";
        assert!(line.ends_with(end), "{line}");
    }

    #[test]
    fn options_of_an_older_version_are_read() {
        let options: SessionOptions =
            serde_json::from_str(r#"{"directory":"/p","gone":1}"#).unwrap();
        assert_eq!(options, SessionOptions { directory: "/p".into(), ..SessionOptions::default() });
    }
}
