//! What tools do, in a word.

use serde::{Deserialize, Serialize};

/// What a tool does, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Reads a file.
    Read,
    /// Writes a whole file.
    Write,
    /// Changes part of a file.
    Edit,
    /// Runs a command.
    Run,
    /// Looks for something in files.
    Search,
    /// Fetches a page.
    Fetch,
    /// Looks for something on the web.
    SearchWeb,
    /// Hands work to a sub-agent.
    Delegate,
    /// Keeps the list of what is to be done.
    Track,
    /// Asks the user.
    Ask,
    /// Makes or submits a plan.
    Plan,
    /// Uses a skill.
    Skill,
    /// Does something else.
    Use,
}

impl Verb {
    /// What the tool of that name does.
    pub fn of(tool: &str) -> Self {
        match tool {
            "Read" | "NotebookRead" => Self::Read,
            "Write" => Self::Write,
            "Edit" | "MultiEdit" | "NotebookEdit" => Self::Edit,
            "Bash" | "BashOutput" | "KillShell" | "KillBash" | "PowerShell" | "REPL" => Self::Run,
            "Grep" | "Glob" | "LS" | "ToolSearch" => Self::Search,
            "WebFetch" | "web_fetch" => Self::Fetch,
            "WebSearch" | "web_search" => Self::SearchWeb,
            "Task" | "Agent" | "SendMessage" => Self::Delegate,
            "TodoWrite" | "TodoRead" | "TaskCreate" | "TaskUpdate" | "TaskList" | "TaskGet" => {
                Self::Track
            }
            "AskUserQuestion" => Self::Ask,
            "EnterPlanMode" | "ExitPlanMode" | "exit_plan_mode" => Self::Plan,
            "Skill" | "SlashCommand" => Self::Skill,
            _ => Self::Use,
        }
    }

    /// The word as a person reads it at the start of a line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::Write => "Write",
            Self::Edit => "Edit",
            Self::Run => "Run",
            Self::Search => "Search",
            Self::Fetch => "Fetch",
            Self::SearchWeb => "Search the web",
            Self::Delegate => "Delegate",
            Self::Track => "Track",
            Self::Ask => "Ask",
            Self::Plan => "Plan",
            Self::Skill => "Skill",
            Self::Use => "Use",
        }
    }
}
