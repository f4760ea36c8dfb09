//! The arguments of `towpath run`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use session::Options;
use wire::say::PermissionMode;

use crate::settings::AgentChoice;

/// Work with an agent in the terminal
///
/// Sends PROMPT to an agent and shows what it does. What needs a person is asked with a key; after
/// the turn there is a line for the next prompt. Everything is kept: Ctrl-C stops the turn, Ctrl-C
/// twice leaves and lets the agent finish it alone, and `--resume` goes on where it stood. `?` on an
/// empty line says what else there is.
///
/// Without a terminal, the agent's words go to stdout and everything else to stderr, one turn is
/// taken, and what would have to be asked is refused (see `--ask`). Piped stdin is the prompt, or
/// stands behind PROMPT.
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 the turn is done; 1 it failed or was stopped; 2 it could not be tried.

Examples:
  towpath run                                     # a conversation
  towpath run --demo 'give me a tour'             # the same without a CLI, a key or a network
  git diff | towpath run 'review this' > review.md
  towpath run --image screen.png 'what is wrong here?'
  towpath run --resume last                       # go on; also by a session's id, or its beginning
  towpath run --json 'fix the tests' --mode acceptEdits | jq -r 'select(.type == \"result\").result'")]
pub(crate) struct RunOptions {
    /// What to do
    pub(crate) prompt: Option<String>,
    #[command(flatten)]
    pub(crate) agent: AgentChoice,
    /// Go on with a session: `last`, or the beginning of our id or the CLI's
    #[arg(long, short, value_name = "ID")]
    pub(crate) resume: Option<String>,
    /// Branch off the session instead of going on in it
    #[arg(long, requires = "resume")]
    pub(crate) fork: bool,
    /// A picture for the prompt: PNG, JPEG, GIF or WebP
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Vec<PathBuf>,
    /// Print the agent's lines as they came instead
    #[arg(long)]
    pub(crate) json: bool,
    /// Leave after the turn, also on a terminal
    #[arg(long)]
    pub(crate) once: bool,
    /// What becomes of requests [default: the person at the terminal is asked; `deny` without one]
    #[arg(long, value_enum)]
    pub(crate) ask: Option<Ask>,
    #[command(flatten)]
    pub(crate) wanted: Wanted,
}

/// What becomes of requests of the agent when there is nobody to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ask {
    /// Refuse at once; the agent is told that nobody could be asked
    Deny,
    /// Leave it open, for who goes on with the session from a terminal
    Wait,
}

/// What is wanted of the agent. Kept with the session; with `--resume`, what is said changes it.
#[derive(Args)]
#[command(next_help_heading = "The agent")]
pub(crate) struct Wanted {
    /// The model
    #[arg(long)]
    model: Option<String>,
    /// How hard it thinks: low, medium, high, …
    #[arg(long)]
    effort: Option<String>,
    /// What it may do unasked
    #[arg(long, value_parser = mode)]
    mode: Option<PermissionMode>,
    /// A tool it may use unasked: `Read`, `Bash(git:*)`
    #[arg(long, value_name = "TOOL")]
    allow: Vec<String>,
    /// A tool it may not use
    #[arg(long, value_name = "TOOL")]
    deny: Vec<String>,
    /// Where it works [default: here]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Another directory it may work in
    #[arg(long, value_name = "DIR")]
    add_dir: Vec<PathBuf>,
    /// More of a system prompt
    #[arg(long, value_name = "TEXT")]
    append_system_prompt: Option<String>,
    /// MCP servers: JSON, or a file with it
    #[arg(long, value_name = "JSON|FILE")]
    mcp_config: Option<String>,
    /// How many round trips to the model a turn may take
    #[arg(long, value_name = "NUMBER")]
    max_turns: Option<u32>,
    /// How many dollars its process may spend
    #[arg(long, value_name = "DOLLARS")]
    max_budget: Option<f64>,
    /// An environment variable for it
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    env: Vec<(String, String)>,
    /// Take up a turn again that was cut by the agent's death
    #[arg(long)]
    continue_after_cut: bool,
}

impl Wanted {
    /// Changes options to what is wanted; what is not said stays.
    pub(crate) fn apply(&self, options: &mut Options) {
        fn set<T: Clone>(option: &mut Option<T>, wanted: Option<&T>) {
            if let Some(wanted) = wanted {
                *option = Some(wanted.clone());
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

/// The agent may be started elsewhere than we were.
fn absolute(path: &std::path::Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn mode(name: &str) -> Result<PermissionMode, String> {
    PermissionMode::named(name).ok_or_else(|| {
        let names: Vec<_> = PermissionMode::ALL.map(PermissionMode::name).into();
        format!("there are {}", names.join(", "))
    })
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it must be NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{add, assignment, mode};

    #[test]
    fn what_is_said_is_added_once() {
        let mut tools = vec!["Read".to_owned()];
        add(&mut tools, &["Read".to_owned(), "Bash(git:*)".to_owned()]);
        assert_eq!(tools, ["Read", "Bash(git:*)"]);
    }

    #[test]
    fn words_that_make_no_sense_are_refused_with_those_that_do() {
        assert_eq!(assignment("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert!(assignment("=x").is_err() && assignment("A").is_err());
        assert!(mode("yolo").unwrap_err().contains("acceptEdits"));
    }
}
