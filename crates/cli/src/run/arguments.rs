//! The arguments of `towpath run`.

use std::path::PathBuf;

use clap::builder::TypedValueParser as _;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use serde_json::{Value, json};
use session::{OPTIONS, OptionChanges, OptionError, OptionKind, OptionSpec, SessionOptions};
use wire::outgoing::PermissionMode;

use crate::settings::{AgentArgs, AgentNameParser};

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
#[expect(clippy::struct_excessive_bools, reason = "each is an independent command-line switch")]
#[command(after_help = "\
Exit codes: 0 the turn completed; 1 it failed or was stopped; 2 it could not start.

Examples:
  towpath run                                     # a conversation
  towpath run --demo 'give me a tour'             # no CLI, key or network needed
  git diff | towpath run 'review this' > review.md
  towpath run --image screen.png 'what is wrong here?'
  towpath run --continue                          # continue the newest session of this directory
  towpath run --agent codex 'fix the tests'       # another agent; see `towpath agents`
  towpath run --continue-from 1a2b --agent gemini # another agent continues a conversation
  towpath run --json 'fix the tests' --mode acceptEdits | jq -r 'select(.type == \"result\").result'")]
pub(crate) struct RunArgs {
    /// The prompt; `-` is stdin
    pub(crate) prompt: Option<String>,
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
    /// Continue a session: `last`, or the beginning of its id or of the CLI's id
    ///
    /// Sessions that the CLI ran without Towpath are found too, in any project. `last` is the newest
    /// session of this directory.
    #[arg(long, short, value_name = "ID", group = "resumed")]
    pub(crate) resume: Option<String>,
    /// Continue the newest session of this directory, like `--resume last`
    #[arg(long = "continue", short, group = "resumed")]
    pub(crate) continue_last: bool,
    /// Continue in a copy of the session and leave the original unchanged
    #[arg(long, requires = "resumed")]
    pub(crate) fork: bool,
    /// Continue the conversation of a session with another agent: a new session, which gets a summary
    #[arg(long, value_name = "ID", conflicts_with = "resumed", requires = "agent")]
    pub(crate) continue_from: Option<String>,
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
    pub(crate) options: SessionOptionArgs,
}

impl RunArgs {
    /// The session to continue.
    pub(crate) fn resumed_session(&self) -> Option<&str> {
        if self.continue_last { Some("last") } else { self.resume.as_deref() }
    }
}

/// What happens to the agent's requests if no user is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RequestPolicy {
    /// Deny them at once; the agent learns that no user was present
    Deny,
    /// Leave them open until the session is resumed from a terminal
    Wait,
}

/// Options of the session. They are stored with it; `--resume` changes those that are given.
///
/// The arguments are made from the table of options, so that each option has the same name, help and
/// checks here as everywhere else.
pub(crate) struct SessionOptionArgs {
    /// The working directory; the current one if there is none.
    pub(crate) cwd: Option<PathBuf>,
    /// The profile whose options come first.
    pub(crate) profile: Option<String>,
    given: Vec<(&'static OptionSpec, Value)>,
}

const CWD: &str = "cwd";
const PROFILE: &str = "profile";
/// Stands for an agent whose words are not known.
const OTHER_AGENT: &str = "other";
const HEADING: &str = "Session options";

impl SessionOptionArgs {
    /// The changes that the arguments make to options: lists and variables are added to, everything
    /// else is replaced.
    pub(crate) fn changes(&self, options: &SessionOptions) -> Result<OptionChanges, OptionError> {
        let mut changes = OptionChanges::default();
        for (spec, value) in &self.given {
            let known = changes.iter().find(|(it, _)| it.name == spec.name);
            let known = known.map_or_else(|| options.value(spec), |(_, value)| value.clone());
            changes.set_for(options.agent.as_deref(), spec, merge(known, value.clone()))?;
        }
        Ok(changes)
    }

    /// The agent that is asked for.
    pub(crate) fn agent(&self) -> Option<&str> {
        let agent = self.given.iter().find(|(spec, _)| spec.kind == OptionKind::Agent);
        agent.and_then(|(_, name)| name.as_str())
    }

    /// Whether an argument asks for the mode in which the agent asks for nothing.
    pub(crate) fn wants_bypass(&self) -> bool {
        let bypass = PermissionMode::BypassPermissions.name();
        self.given.iter().any(|(spec, value)| spec.name == "mode" && value == bypass)
    }
}

fn merge(known: Value, more: Value) -> Value {
    match (known, more) {
        (Value::Array(mut known), Value::Array(more)) => {
            for one in more {
                if !known.contains(&one) {
                    known.push(one);
                }
            }
            Value::Array(known)
        }
        (Value::Object(mut known), Value::Object(more)) if !known.contains_key("mcpServers") => {
            known.extend(more);
            Value::Object(known)
        }
        (_, more) => more,
    }
}

impl Args for SessionOptionArgs {
    fn augment_args(command: Command) -> Command {
        let cwd = Arg::new(CWD)
            .long(CWD)
            .value_name("DIR")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Working directory [default: the current one]")
            .help_heading(HEADING);
        let profile = Arg::new(PROFILE)
            .long(PROFILE)
            .value_name("NAME")
            .help(
                "Options from your configuration, before those given here; `none` for none (see \
                 `towpath config`)",
            )
            .help_heading(HEADING);
        command.arg(cwd).arg(profile).args(OPTIONS.iter().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SessionOptionArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for spec in OPTIONS {
            if let OptionKind::Switch { default } = spec.kind {
                if matches.get_flag(spec.name) {
                    given.push((spec, Value::Bool(!default)));
                }
                continue;
            }
            for value in matches.get_many::<Value>(spec.name).into_iter().flatten() {
                given.push((spec, value.clone()));
            }
        }
        check_words(&given, matches)?;
        let cwd = matches.get_one::<PathBuf>(CWD).cloned();
        Ok(Self { cwd, profile: matches.get_one::<String>(PROFILE).cloned(), given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Refuses words that Claude Code does not have, unless the session may have another agent.
fn check_words(
    given: &[(&'static OptionSpec, Value)],
    matches: &ArgMatches,
) -> Result<(), clap::Error> {
    let has = |id: &str| matches.try_contains_id(id).unwrap_or(false);
    let agent = given.iter().find(|(spec, _)| spec.kind == OptionKind::Agent);
    let agent = agent.and_then(|(_, name)| name.as_str());
    // The derived code has taken the arguments of the group out by now, but not the group.
    let continues = agent.is_none() && (has(PROFILE) || has("resumed"));
    if continues {
        return Ok(());
    }
    let mut changes = OptionChanges::default();
    for (spec, value) in given.iter().filter(|(spec, _)| is_word(spec)) {
        changes.set_for(agent, spec, value.clone()).map_err(|error| {
            let message = format!("{error}; words of other agents need `--agent NAME`\n");
            clap::Error::raw(clap::error::ErrorKind::ValueValidation, message)
        })?;
    }
    Ok(())
}

/// Whether another agent may have other values than those of the table.
fn is_word(spec: &OptionSpec) -> bool {
    matches!(spec.kind, OptionKind::Choice(_)) && matches!(spec.name, "mode" | "effort")
}

fn argument(spec: &'static OptionSpec) -> Arg {
    let argument = Arg::new(spec.name).long(spec.flag).help_heading(HEADING);
    let several =
        matches!(spec.kind, OptionKind::List | OptionKind::Directories | OptionKind::Variables);
    match spec.kind {
        OptionKind::Switch { default: false } => {
            argument.action(ArgAction::SetTrue).help(spec.help)
        }
        OptionKind::Switch { default: true } => argument
            .action(ArgAction::SetTrue)
            .help(format!("Switch off: {}", lowercase(spec.help))),
        OptionKind::Agent => argument
            .value_name(value_name(spec))
            .value_parser(AgentNameParser.try_map(move |text| parse(spec, &text)))
            .hide_possible_values(true)
            .help(spec.help),
        OptionKind::Choice(words) => argument
            .value_name(value_name(spec))
            .value_parser(move |text: &str| parse(spec, text))
            .help(format!("{} ({})", spec.help, words.join(", "))),
        _ => argument
            .value_name(value_name(spec))
            .value_parser(move |text: &str| parse(spec, text))
            // A text may start with a dash; the table refuses it where it would be an option.
            .allow_hyphen_values(spec.kind == OptionKind::Text { multiline: true })
            .action(if several { ArgAction::Append } else { ArgAction::Set })
            .help(if several {
                format!("{}; repeatable", spec.help)
            } else {
                spec.help.to_owned()
            }),
    }
}

fn lowercase(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|it| it.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}

fn value_name(spec: &OptionSpec) -> &'static str {
    match spec.kind {
        OptionKind::Text { multiline: false } => "MODEL",
        OptionKind::Text { multiline: true } => "TEXT",
        OptionKind::Choice(_) => "WORD",
        OptionKind::Agent => "NAME",
        OptionKind::Integer { .. } => "NUMBER",
        OptionKind::Dollars => "DOLLARS",
        OptionKind::Duration => "TIME",
        OptionKind::Switch { .. } => "",
        OptionKind::List => "TOOL",
        OptionKind::Directories => "DIR",
        OptionKind::Variables => "NAME=VALUE",
        OptionKind::Mcp => "JSON|FILE",
    }
}

/// Reads one occurrence of an argument. A list has an occurrence for each of its entries.
fn parse(spec: &'static OptionSpec, text: &str) -> Result<Value, OptionError> {
    let value = match spec.kind {
        OptionKind::List => json!([text]),
        OptionKind::Directories => json!([absolute(text)]),
        OptionKind::Mcp if !text.trim_start().starts_with('{') => json!(absolute(text)),
        // It is checked when all arguments are known.
        OptionKind::Choice(_) if is_word(spec) => {
            let value = json!(text);
            let agent = Some(OTHER_AGENT.to_owned());
            let mut options = SessionOptions { agent, ..SessionOptions::default() };
            return options.set_value(spec, &value).map(|()| value);
        }
        // The text is passed on as it is, with its spaces.
        OptionKind::Text { .. } => json!(text),
        _ => return spec.parse(text),
    };
    SessionOptions::default().set_value(spec, &value)?;
    Ok(value)
}

/// The agent may start in another directory than this process.
fn absolute(path: &str) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
    absolute.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};
    use serde_json::json;
    use session::{OPTIONS, OptionSpec, SessionOptions};

    use super::SessionOptionArgs;

    fn parse(arguments: &[&str]) -> Result<SessionOptionArgs, String> {
        let command = SessionOptionArgs::augment_args(Command::new("run").no_binary_name(true));
        let matches = command.try_get_matches_from(arguments).map_err(|it| it.to_string())?;
        SessionOptionArgs::from_arg_matches(&matches).map_err(|it| it.to_string())
    }

    #[test]
    fn every_option_is_an_argument_with_its_help() {
        let mut command = SessionOptionArgs::augment_args(Command::new("run"));
        command.build();
        for spec in OPTIONS {
            let argument = command.get_arguments().find(|it| it.get_long() == Some(spec.flag));
            let help = argument.unwrap().get_help().unwrap().to_string();
            let words: String = spec.help.chars().skip(1).collect();
            assert!(help.contains(&words), "{}: {help}", spec.name);
        }
    }

    #[test]
    fn lists_and_variables_are_added_once_and_the_rest_is_replaced() {
        let given = parse(&[
            "--allow",
            "Read",
            "--allow",
            "Bash(git log, x)",
            "--env",
            "A=b=c",
            "--max-turns",
            "4",
            "--no-session-persistence",
            "--append-system-prompt",
            "- brief",
        ])
        .unwrap();
        let mut options = SessionOptions {
            allowed_tools: vec!["Read".to_owned()],
            environment: [("B".to_owned(), "1".to_owned())].into(),
            max_turns: Some(9),
            ..SessionOptions::default()
        };
        given.changes(&options).unwrap().apply(&mut options).unwrap();
        let value = |name| options.value(OptionSpec::find(name).unwrap());
        assert_eq!(value("allowed_tools"), json!(["Read", "Bash(git log, x)"]));
        assert_eq!(value("environment"), json!({"A": "b=c", "B": "1"}));
        assert_eq!(value("max_turns"), json!(4));
        assert_eq!(value("session_persistence"), json!(false));
        assert_eq!(value("append_system_prompt"), json!("- brief"));
    }

    #[test]
    fn other_agents_have_words_of_their_own() {
        let given =
            parse(&["--mode", "read-only", "--effort=minimal", "--agent", "codex"]).unwrap();
        let mut options = SessionOptions::default();
        given.changes(&options).unwrap().apply(&mut options).unwrap();
        let value = |name| options.value(OptionSpec::find(name).unwrap());
        assert_eq!(value("mode"), json!("read-only"));
        assert_eq!(value("effort"), json!("minimal"));
        // The agent of a session that is continued, or of a profile, is known later.
        let given = parse(&["--mode", "read-only", "--profile", "mine"]).unwrap();
        assert!(given.changes(&SessionOptions::default()).is_err());
        options.agent_settings.clear();
        given.changes(&options).unwrap().apply(&mut options).unwrap();
        assert_eq!(options.agent_settings["mode"], "read-only");
    }

    #[test]
    fn invalid_values_are_rejected_with_the_valid_ones() {
        for (arguments, part) in [
            (["--mode", "yolo"], "acceptEdits"),
            (["--agent=claude", "--mode=read-only"], "acceptEdits"),
            (["--agent=codex", "--mode=--x"], "dash"),
            (["--effort", "minimal"], "xhigh"),
            (["--env", "=x"], "no name of a variable"),
            (["--env", "A"], "NAME=VALUE"),
            (["--max-turns", "0"], "from 1 to"),
            (["--model=--x", "--max-turns=1"], "dash"),
            (["--idle-timeout", "soon"], "never"),
        ] {
            let error = parse(&arguments).err().expect("an error");
            assert!(error.contains(part), "{arguments:?}: {error}");
        }
    }
}
