//! What a release offers: tools, slash commands, sub-agents and its model, from its `init` lines.

use crate::scenario::AgentVersion;

/// The lists of an `init` line, and the model that a session starts with.
#[derive(Debug)]
pub(crate) struct PlayerOffers {
    /// The tools, without those that need a host or an option.
    pub(crate) tools: &'static [&'static str],
    pub(crate) slash_commands: &'static [&'static str],
    /// How many of the first slash commands are skills.
    pub(crate) skills: usize,
    pub(crate) agents: &'static [&'static str],
    /// The model, if no other one is chosen.
    pub(crate) model: &'static str,
}

impl PlayerOffers {
    pub(super) fn of(version: AgentVersion) -> &'static Self {
        let known = ALL.iter().rfind(|(first, _)| *first <= version);
        known.map_or(&ALL[0].1, |(_, offers)| offers)
    }
}

/// What is offered from each of these versions on, oldest first.
static ALL: [(AgentVersion, PlayerOffers); 4] = [
    (
        AgentVersion(1, 0, 128),
        PlayerOffers {
            tools: &[
                "Task",
                "Bash",
                "Glob",
                "Grep",
                "ExitPlanMode",
                "Read",
                "Edit",
                "MultiEdit",
                "Write",
                "NotebookEdit",
                "WebFetch",
                "TodoWrite",
                "WebSearch",
                "BashOutput",
                "KillShell",
                "SlashCommand",
            ],
            slash_commands: &[
                "compact",
                "context",
                "cost",
                "init",
                "output-style:new",
                "pr-comments",
                "release-notes",
                "todos",
                "review",
                "security-review",
            ],
            skills: 0,
            agents: &["general-purpose", "statusline-setup", "output-style-setup"],
            model: "claude-sonnet-4-20250514",
        },
    ),
    (
        AgentVersion(2, 0, 60),
        PlayerOffers {
            tools: &[
                "Task",
                "AgentOutputTool",
                "Bash",
                "Glob",
                "Grep",
                "ExitPlanMode",
                "Read",
                "Edit",
                "Write",
                "NotebookEdit",
                "WebFetch",
                "TodoWrite",
                "WebSearch",
                "BashOutput",
                "KillShell",
                "Skill",
                "SlashCommand",
                "EnterPlanMode",
            ],
            slash_commands: &[
                "compact",
                "cost",
                "init",
                "pr-comments",
                "release-notes",
                "review",
                "security-review",
            ],
            skills: 0,
            agents: &["general-purpose", "statusline-setup", "Explore", "Plan"],
            model: "claude-sonnet-4-5-20250929",
        },
    ),
    (
        AgentVersion(2, 1, 37),
        PlayerOffers {
            tools: &[
                "Task",
                "TaskOutput",
                "Bash",
                "Glob",
                "Grep",
                "ExitPlanMode",
                "Read",
                "Edit",
                "Write",
                "NotebookEdit",
                "WebFetch",
                "TodoWrite",
                "WebSearch",
                "TaskStop",
                "AskUserQuestion",
                "Skill",
                "EnterPlanMode",
                "ToolSearch",
            ],
            slash_commands: &[
                "debug",
                "compact",
                "context",
                "cost",
                "init",
                "pr-comments",
                "release-notes",
                "review",
                "security-review",
                "insights",
            ],
            skills: 1,
            agents: &["Bash", "general-purpose", "statusline-setup", "Explore", "Plan"],
            model: "claude-sonnet-4-5-20250929",
        },
    ),
    (
        AgentVersion(2, 1, 325),
        PlayerOffers {
            tools: &[
                "Task",
                "AskUserQuestion",
                "Bash",
                "CronCreate",
                "CronDelete",
                "CronList",
                "Edit",
                "EnterPlanMode",
                "EnterWorktree",
                "ExitPlanMode",
                "ExitWorktree",
                "ListAgents",
                "Monitor",
                "NotebookEdit",
                "Read",
                "ReportFindings",
                "ScheduleWakeup",
                "SendMessage",
                "Skill",
                "TaskStop",
                "ToolSearch",
                "WebFetch",
                "WebSearch",
                "Workflow",
                "Write",
            ],
            slash_commands: &[
                "deep-research",
                "dataviz",
                "update-config",
                "verify",
                "debug",
                "code-review",
                "simplify",
                "batch",
                "fewer-permission-prompts",
                "doctor",
                "loop",
                "claude-api",
                "workflow-authoring",
                "run",
                "run-skill-generator",
                "plugin-authoring",
                "agents",
                "auto-mode-setup",
                "autocompact",
                "clear",
                "color",
                "compact",
                "config",
                "output-style",
                "context",
                "effort",
                "fast",
                "focus",
                "heapdump",
                "init",
                "mcp",
                "model",
                "__remote-workflow",
                "workflow-launch-exec",
                "reload-plugins",
                "reload-skills",
                "rename",
                "security-review",
                "usage",
                "insights",
                "recap",
                "goal",
                "list-agents",
                "team-onboarding",
            ],
            skills: 16,
            agents: &["claude", "Explore", "general-purpose", "Plan", "statusline-setup"],
            model: "claude-opus-5-5",
        },
    ),
];

#[cfg(test)]
mod tests {
    use super::PlayerOffers;
    use crate::scenario::AgentVersion;

    #[test]
    fn a_release_offers_what_the_newest_one_before_it_did() {
        let tools = |version| PlayerOffers::of(version).tools;
        assert!(tools(AgentVersion(1, 0, 128)).contains(&"MultiEdit"));
        assert!(!tools(AgentVersion(2, 0, 60)).contains(&"MultiEdit"));
        assert!(tools(AgentVersion(2, 1, 37)).contains(&"Glob"));
        assert!(!tools(AgentVersion(2, 1, 325)).contains(&"Glob"));
    }
}
