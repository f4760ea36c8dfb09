//! The arguments of `towpath run`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use session::SessionOptions;
use wire::outgoing::PermissionMode;

use crate::settings::AgentArgs;

/// Work with an agent in the terminal
///
/// Sends PROMPT to an agent and shows what it does. You answer the agent's requests with a key, and
/// write the next prompt when the turn has ended. Every session is saved. Ctrl-C stops the turn,
/// pressing it twice leaves the agent to finish the turn alone, and `--resume` continues a session.
/// Press `?` on an empty line to list all keys.
///
/// Without a terminal, one turn runs: the agent's text goes to stdout and everything else to stderr,
/// and requests are denied (see `--ask`). Piped stdin is the prompt, or is appended to PROMPT.
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 the turn completed; 1 it failed or was stopped; 2 it could not start.

Examples:
  towpath run                                     # a conversation
  towpath run --demo 'give me a tour'             # no CLI, key or network needed
  git diff | towpath run 'review this' > review.md
  towpath run --image screen.png 'what is wrong here?'
  towpath run --resume last                       # continue a session; an id works too
  towpath run --json 'fix the tests' --mode acceptEdits | jq -r 'select(.type == \"result\").result'")]
pub(crate) struct RunArgs {
    /// The prompt; `-` is stdin
    pub(crate) prompt: Option<String>,
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
    /// Continue a session: `last`, or the beginning of its id or of the CLI's id
    #[arg(long, short, value_name = "ID")]
    pub(crate) resume: Option<String>,
    /// Continue in a copy of the session and leave the original unchanged
    #[arg(long, requires = "resume")]
    pub(crate) fork: bool,
    /// Attach an image to the prompt: PNG, JPEG, GIF or WebP
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Vec<PathBuf>,
    /// Print the agent's stream-json output unchanged
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit after the turn, even on a terminal
    #[arg(long)]
    pub(crate) once: bool,
    /// How to handle the agent's requests [default: ask at a terminal, otherwise `deny`]
    #[arg(long, value_enum)]
    pub(crate) ask: Option<RequestPolicy>,
    #[command(flatten)]
    pub(crate) agent_options: AgentOptionArgs,
}

/// What happens to the agent's requests if no user is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RequestPolicy {
    /// Deny them at once; the agent learns that no user was present
    Deny,
    /// Leave them open until the session is resumed from a terminal
    Wait,
}

/// Options of the agent. They are stored with the session; `--resume` changes those that are given.
#[derive(Args)]
#[command(next_help_heading = "Agent options")]
pub(crate) struct AgentOptionArgs {
    /// Model to use
    #[arg(long)]
    model: Option<String>,
    /// Reasoning effort: low, medium, high, …
    #[arg(long)]
    effort: Option<String>,
    /// Permission mode: what the agent may do without asking
    #[arg(long, value_parser = parse_mode)]
    mode: Option<PermissionMode>,
    /// Allow a tool without asking: `Read`, `Bash(git:*)`
    #[arg(long, value_name = "TOOL")]
    allow: Vec<String>,
    /// Forbid a tool
    #[arg(long, value_name = "TOOL")]
    deny: Vec<String>,
    /// Working directory [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Additional directory the agent may work in
    #[arg(long, value_name = "DIR")]
    add_dir: Vec<PathBuf>,
    /// Text to append to the system prompt
    #[arg(long, value_name = "TEXT")]
    append_system_prompt: Option<String>,
    /// MCP servers, as JSON or a JSON file
    #[arg(long, value_name = "JSON|FILE")]
    mcp_config: Option<String>,
    /// Maximum number of requests to the model per turn
    #[arg(long, value_name = "NUMBER")]
    max_turns: Option<u32>,
    /// Maximum cost of the agent process, in dollars
    #[arg(long, value_name = "DOLLARS")]
    max_budget: Option<f64>,
    /// Set an environment variable for the agent
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_assignment)]
    env: Vec<(String, String)>,
    /// Continue a turn that was cut short because the agent died
    #[arg(long)]
    continue_after_cut: bool,
}

impl AgentOptionArgs {
    /// Applies the given arguments to options; the others stay unchanged.
    pub(crate) fn apply(&self, options: &mut SessionOptions) {
        fn set<T: Clone>(option: &mut Option<T>, given: Option<&T>) {
            if let Some(given) = given {
                *option = Some(given.clone());
            }
        }
        set(&mut options.model, self.model.as_ref());
        set(&mut options.effort, self.effort.as_ref());
        set(&mut options.permission_mode, self.mode.as_ref());
        set(&mut options.append_system_prompt, self.append_system_prompt.as_ref());
        set(&mut options.mcp_config, self.mcp_config.as_ref());
        set(&mut options.max_turns, self.max_turns.as_ref());
        set(&mut options.max_budget_usd, self.max_budget.as_ref());
        add(&mut options.allowed_tools, &self.allow);
        add(&mut options.disallowed_tools, &self.deny);
        let directories: Vec<PathBuf> = self.add_dir.iter().map(|it| absolute(it)).collect();
        add(&mut options.extra_directories, &directories);
        options.environment.extend(self.env.iter().cloned());
        options.continue_after_cut |= self.continue_after_cut;
    }
}

fn add<T: Clone + PartialEq>(known: &mut Vec<T>, more: &[T]) {
    for one in more {
        if !known.contains(one) {
            known.push(one.clone());
        }
    }
}

/// The agent may start in another directory than this process.
fn absolute(path: &std::path::Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn parse_mode(name: &str) -> Result<PermissionMode, String> {
    PermissionMode::named(name).ok_or_else(|| {
        let names: Vec<_> = PermissionMode::ALL.map(PermissionMode::name).into();
        format!("expected one of {}", names.join(", "))
    })
}

fn parse_assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{add, parse_assignment, parse_mode};

    #[test]
    fn tools_are_added_once() {
        let mut tools = vec!["Read".to_owned()];
        add(&mut tools, &["Read".to_owned(), "Bash(git:*)".to_owned()]);
        assert_eq!(tools, ["Read", "Bash(git:*)"]);
    }

    #[test]
    fn invalid_values_are_rejected_with_the_valid_ones() {
        assert_eq!(parse_assignment("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert!(parse_assignment("=x").is_err() && parse_assignment("A").is_err());
        assert!(parse_mode("yolo").unwrap_err().contains("acceptEdits"));
    }
}
