//! An agent that records how it was started and then becomes another program.
//!
//! It shows what really reached the agent: its arguments and its environment, for every start.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// An agent that records how it was started.
#[derive(Debug)]
pub struct AgentRecorder {
    directory: PathBuf,
}

/// One start of an agent.
#[derive(Clone, Debug)]
pub struct AgentStart {
    pub arguments: Vec<String>,
    pub environment: BTreeMap<String, String>,
}

impl AgentRecorder {
    /// Writes the program into a directory of its own. It records each start there and becomes
    /// `program`, which is part of a shell command.
    ///
    /// # Panics
    ///
    /// If the directory or the program cannot be written.
    pub fn new(directory: &Path, program: &str) -> Self {
        let recorder = Self { directory: directory.to_owned() };
        std::fs::create_dir_all(directory).expect("a directory");
        // The record gets its name when it is complete.
        let script = format!(
            "#!/bin/sh\nstart=$(mktemp '{0}/new.XXXXXX')\n\
             {{ printf '%s\\0' \"$@\"; printf '\\1'; env -0; }} > \"$start\"\n\
             mv \"$start\" \"{0}/start-$(ls '{0}' | grep -c start-)\"\nexec {program} \"$@\"\n",
            directory.display()
        );
        std::fs::write(recorder.program(), script).expect("a script");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(recorder.program(), executable).expect("a program");
        recorder
    }

    /// The program to use as the agent.
    pub fn program(&self) -> PathBuf {
        self.directory.join("agent")
    }

    /// All starts so far, in their order.
    ///
    /// # Panics
    ///
    /// If a record is not UTF-8.
    pub fn starts(&self) -> Vec<AgentStart> {
        let record = |number: usize| std::fs::read(self.directory.join(format!("start-{number}")));
        let records = (0..).map_while(|number| record(number).ok());
        records.map(|it| AgentStart::parse(&it)).collect()
    }
}

impl AgentStart {
    fn parse(record: &[u8]) -> Self {
        let record = std::str::from_utf8(record).expect("UTF-8");
        let (arguments, environment) = record.split_once('\u{1}').expect("two parts");
        let strings = |text: &str| -> Vec<String> {
            text.split_terminator('\0').map(str::to_owned).collect()
        };
        let variables = strings(environment).into_iter();
        let variables = variables.filter_map(|it| {
            it.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
        });
        Self { arguments: strings(arguments), environment: variables.collect() }
    }

    /// The value behind an argument, or after its `=`.
    pub fn value(&self, argument: &str) -> Option<&str> {
        let inline = format!("{argument}=");
        let mut arguments = self.arguments.iter();
        while let Some(it) = arguments.next() {
            if it == argument {
                return arguments.next().map(String::as_str);
            }
            if let Some(value) = it.strip_prefix(&inline) {
                return Some(value);
            }
        }
        None
    }

    /// Checks that an agent was started with [every option](every_option).
    ///
    /// # Panics
    ///
    /// If one did not reach it.
    pub fn assert_every_option(&self, directory: &Path) {
        let directory = directory.display().to_string();
        for (argument, value) in [
            ("--model", "claude-opus-4-5"),
            ("--permission-mode", "dontAsk"),
            ("--fallback-model", "claude-sonnet-4-5"),
            ("--max-turns", "7"),
            ("--max-budget-usd", "2.5"),
            ("--append-system-prompt", "- Be brief.\n- Be \"kind\" — 'always'."),
            ("--allowedTools", "Read,Bash(git log:*)"),
            ("--disallowedTools", "WebSearch,WebFetch"),
            ("--add-dir", directory.as_str()),
            ("--mcp-config", r#"{"mcpServers":{}}"#),
        ] {
            assert_eq!(self.value(argument), Some(value), "{argument} in {:?}", self.arguments);
        }
        let is_given = |argument: &str| self.arguments.iter().any(|it| it == argument);
        assert!(is_given("--no-session-persistence"), "{:?}", self.arguments);
        let variable = |name: &str| self.environment.get(name).map(String::as_str);
        assert_eq!(variable("CLAUDE_CODE_EFFORT_LEVEL"), Some("high"));
        assert_eq!(variable("OPTION_OF_A_TEST"), Some("two words = 2"));
    }
}

/// A value for every session option that is not its default. `directory` is an existing directory
/// that sessions may use.
pub fn every_option(directory: &Path) -> Value {
    json!({
        "model": "claude-opus-4-5",
        "effort": "high",
        "mode": "dontAsk",
        "fallback_model": "claude-sonnet-4-5",
        "max_turns": 7,
        "max_budget_usd": 2.5,
        "budget_usd": 50.0,
        "append_system_prompt": "- Be brief.\n- Be \"kind\" — 'always'.",
        "allowed_tools": ["Read", "Bash(git log:*)"],
        "disallowed_tools": ["WebSearch", "WebFetch"],
        "extra_directories": [directory.display().to_string()],
        "mcp_config": {"mcpServers": {}},
        "environment": {"OPTION_OF_A_TEST": "two words = 2"},
        "idle_timeout": "1h30m",
        "continue_after_cut": true,
        "session_persistence": false,
        "delete_when_ended": true,
    })
}
