//! What a person wants of an agent, and how it is said to the CLI.
//!
//! Options are kept with the session: a process that is started later, after a crash or a nap, gets
//! the same ones.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wire::note::{Setting, WatchWish};
use wire::say::PermissionMode;

/// What a person wants of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// Where it works.
    pub directory: PathBuf,
    /// The model; the CLI's default where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard it thinks: `low`, `medium`, `high`, ….
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// What it may do unasked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// Tools it may use unasked, as `Read` or `Bash(git:*)`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Tools it may not use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// More directories it may work in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_directories: Vec<PathBuf>,
    /// More of a system prompt.
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
    /// More of an environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Whether the first process branches off the conversation it resumes instead of going on in
    /// it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fork: bool,
    /// Whether a turn that was cut is taken up again unasked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub continue_after_cut: bool,
    /// What is done with the files it changes; no process is told of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<Box<WatchWish>>,
}

/// The conversation a process is started for, by the CLI's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversation {
    /// A new one under this id.
    New(String),
    /// The one the CLI knows by this id.
    Resumed(String),
    /// A branch of the one the CLI knows by this id; it gets an id of its own.
    Forked(String),
}

/// Variables that every agent gets. The state events tell when a turn is over for good; the
/// checkpoints are what a rewind goes back to.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1"),
    ("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "true"),
    ("CLAUDE_CODE_ENTRYPOINT", "towpath"),
];

impl Options {
    /// The CLI's arguments. An agent is never started without `--permission-prompt-tool stdio`,
    /// for without it nobody could answer its questions.
    pub fn arguments(&self, conversation: &Conversation) -> Vec<OsString> {
        let mut arguments = Arguments::default();
        for flag in ["-p", "--verbose", "--include-partial-messages", "--replay-user-messages"] {
            arguments.flag(flag);
        }
        arguments.option("--input-format", "stream-json");
        arguments.option("--output-format", "stream-json");
        arguments.option("--permission-prompt-tool", "stdio");
        match conversation {
            Conversation::New(id) => arguments.option("--session-id", id),
            Conversation::Resumed(id) => arguments.option("--resume", id),
            Conversation::Forked(id) => {
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
        arguments.listed("--allowedTools", &self.allowed_tools);
        arguments.listed("--disallowedTools", &self.disallowed_tools);
        for directory in &self.extra_directories {
            arguments.option("--add-dir", directory);
        }
        arguments.optional("--append-system-prompt", self.append_system_prompt.as_deref());
        arguments.optional("--mcp-config", self.mcp_config.as_deref());
        arguments.optional("--max-turns", self.max_turns.map(|most| most.to_string()));
        arguments.optional("--max-budget-usd", self.max_budget_usd.map(|most| most.to_string()));
        arguments.0
    }

    /// The variables that go on top of the environment Towpath itself has.
    pub fn environment(&self) -> impl Iterator<Item = (String, String)> {
        let effort = self.effort.iter().map(|it| ("CLAUDE_CODE_EFFORT_LEVEL", it.as_str()));
        let own = self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let all = ENVIRONMENT.into_iter().chain(effort).chain(own);
        all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>().into_iter()
    }

    /// As they are kept.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("options serialise")
    }

    /// Takes over a setting that was changed while the agent lived.
    pub fn apply(&mut self, setting: &Setting) {
        match setting {
            Setting::Model(model) => self.model.clone_from(model),
            Setting::PermissionMode(mode) => self.permission_mode = PermissionMode::named(mode),
            Setting::Effort(effort) => self.effort = Some(effort.clone()),
            Setting::Watch(wish) => self.watch.clone_from(wish),
        }
    }
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
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

    /// One argument for all: the CLI takes every further word of such an option for a tool, a
    /// prompt that follows included.
    fn listed(&mut self, name: &str, values: &[String]) {
        if !values.is_empty() {
            self.option(name, values.join(","));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Conversation, Options};
    use wire::say::PermissionMode;

    fn line(options: &Options, conversation: &Conversation) -> String {
        let arguments = options.arguments(conversation);
        arguments.iter().map(|it| it.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_agent_can_always_ask() {
        let conversation = Conversation::New("x".to_owned());
        let bypassing = Options {
            permission_mode: Some(PermissionMode::BypassPermissions),
            ..Options::default()
        };
        for options in [Options::default(), bypassing] {
            assert!(line(&options, &conversation).contains("--permission-prompt-tool stdio"));
        }
    }

    #[test]
    fn what_is_wanted_is_said() {
        let options = Options {
            model: Some("opus".to_owned()),
            allowed_tools: vec!["Read".to_owned(), "Bash(git:*)".to_owned()],
            extra_directories: vec!["/srv".into()],
            max_turns: Some(3),
            max_budget_usd: Some(0.5),
            ..Options::default()
        };
        let line = line(&options, &Conversation::Forked("a".to_owned()));
        let end = "--resume a --fork-session --model opus --allowedTools Read,Bash(git:*) \
                   --add-dir /srv --max-turns 3 --max-budget-usd 0.5";
        assert!(line.ends_with(end), "{line}");
    }

    #[test]
    fn options_of_an_older_towpath_are_read() {
        let options: Options = serde_json::from_str(r#"{"directory":"/p","gone":1}"#).unwrap();
        assert_eq!(options, Options { directory: "/p".into(), ..Options::default() });
    }
}
