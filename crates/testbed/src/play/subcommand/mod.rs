//! The subcommands of the CLI, such as `auth status` and `mcp list`: what each prints and its exit code.
//!
//! A word is a subcommand only if it is the first operand and there is no `-p`; with `-p`, 2.1.325 takes
//! the same word for a prompt. What needs an account or a download is refused, because the player has
//! neither.

mod auth;
mod health;
mod mcp;
pub(crate) mod mcp_config;

use std::fmt::Write as _;

use crate::play::session::VERSION;
use crate::play::settings::PlayerEnvironment;

/// What a subcommand printed, and its exit code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubcommandOutput {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: u8,
}

/// A subcommand that has subcommands of its own, or only a line of usage.
struct Subcommand {
    name: &'static str,
    alias: Option<&'static str>,
    usage: &'static str,
    /// The commands under it.
    commands: &'static [&'static str],
}

const fn group(name: &'static str, commands: &'static [&'static str]) -> Subcommand {
    Subcommand { name, alias: None, usage: "", commands }
}

const fn single(name: &'static str, usage: &'static str) -> Subcommand {
    Subcommand { name, alias: None, usage, commands: &[] }
}

/// All subcommands of 2.1.325.
const SUBCOMMANDS: &[Subcommand] = &[
    single("agents", ""),
    single("attach", "Usage: claude attach <id|name>"),
    group("auth", &["login", "logout", "status"]),
    group("auto-mode", &["config", "critique", "defaults", "reset"]),
    single("doctor", ""),
    single("gateway", "error: required option '--config <path>' not specified"),
    single("install", ""),
    Subcommand {
        name: "stop",
        alias: Some("kill"),
        usage: "Usage: claude stop <id>",
        commands: &[],
    },
    single("logs", "Usage: claude logs <id|name>"),
    group(
        "mcp",
        &[
            "add",
            "add-from-claude-desktop",
            "add-json",
            "get",
            "list",
            "login",
            "logout",
            "remove",
            "reset-project-choices",
            "serve",
        ],
    ),
    Subcommand {
        name: "plugin",
        alias: Some("plugins"),
        usage: "",
        commands: &[
            "configure",
            "details",
            "disable",
            "enable",
            "eval",
            "install",
            "list",
            "marketplace",
            "uninstall",
            "update",
            "validate",
        ],
    },
    group("project", &[]),
    single("respawn", "usage: claude respawn <id>|--all"),
    single("rm", "Usage: claude rm <id>"),
    single("setup-token", ""),
    Subcommand { name: "update", alias: Some("upgrade"), usage: "", commands: &[] },
];

impl SubcommandOutput {
    fn printed(stdout: impl Into<String>) -> Self {
        Self { stdout: stdout.into(), ..Self::default() }
    }

    fn refused(stderr: impl Into<String>) -> Self {
        Self { stderr: stderr.into(), code: 1, ..Self::default() }
    }
}

/// Whether the CLI takes a word for a subcommand.
pub(crate) fn is_subcommand(word: &str) -> bool {
    find(word).is_some()
}

fn find(word: &str) -> Option<&'static Subcommand> {
    SUBCOMMANDS.iter().find(|it| it.name == word || it.alias == Some(word))
}

/// Runs the subcommand that the first word names.
pub(crate) async fn run_subcommand(
    words: &[String],
    environment: &PlayerEnvironment,
) -> SubcommandOutput {
    let (Some(subcommand), rest) = (words.first().and_then(|it| find(it)), words.get(1..)) else {
        return SubcommandOutput::default();
    };
    let rest = rest.unwrap_or_default();
    let before_dashes = rest.iter().take_while(|it| *it != "--");
    let asks_for_help = before_dashes.clone().any(|it| it == "--help" || it == "-h");
    let first = rest.first().map(String::as_str);
    let is_group = !subcommand.commands.is_empty() || subcommand.name == "project";
    if asks_for_help || (is_group && first == Some("help")) {
        return SubcommandOutput::printed(help(subcommand));
    }
    if is_group {
        let Some(command) = first else { return SubcommandOutput::refused(help(subcommand)) };
        if !subcommand.commands.contains(&command) {
            return SubcommandOutput::refused(format!("error: unknown command '{command}'\n"));
        }
        let rest = &rest[1..];
        return match (subcommand.name, command) {
            ("auth", _) => auth::run(command, rest, environment),
            ("mcp", _) => mcp::run(command, rest, environment).await,
            ("plugin", "list") => plugin_list(rest),
            _ => unavailable(&format!("{} {command}", subcommand.name)),
        };
    }
    if let Some(option) = before_dashes.into_iter().find(|it| it.starts_with('-'))
        && !(subcommand.name == "agents" && option == "--json")
    {
        return SubcommandOutput::refused(format!("error: unknown option '{option}'\n"));
    }
    match (subcommand.name, first) {
        ("agents", Some("--json")) => SubcommandOutput::printed("[]\n"),
        ("agents", _) => SubcommandOutput::refused(
            "'claude agents' requires an interactive terminal (stdout is not a TTY) — use 'claude \
             agents --json' for a machine-readable listing.\n",
        ),
        ("doctor", _) => SubcommandOutput::printed(doctor()),
        ("update", _) => SubcommandOutput {
            stdout: format!(
                "Current version: {VERSION}\nChecking for updates to latest version...\n"
            ),
            stderr: "Error: Failed to install native update\nThe built-in agent has no updates of \
                     its own; it comes with Towpath\n"
                .to_owned(),
            code: 1,
        },
        ("attach" | "logs" | "stop" | "rm" | "respawn", Some(name)) => SubcommandOutput::refused(
            format!("No job matching '{name}'. Run 'claude agents' to list running sessions.\n"),
        ),
        _ if !subcommand.usage.is_empty() => {
            SubcommandOutput::refused(format!("{}\n", subcommand.usage))
        }
        _ => unavailable(subcommand.name),
    }
}

fn help(subcommand: &Subcommand) -> String {
    let names = match subcommand.alias {
        Some(alias) => format!("{}|{alias}", subcommand.name),
        None => subcommand.name.to_owned(),
    };
    let command = if subcommand.commands.is_empty() { "" } else { " [command]" };
    let mut text = format!(
        "Usage: claude {names} [options]{command}\n\nOptions:\n  -h, --help  Display help for command\n"
    );
    if !subcommand.commands.is_empty() {
        text.push_str("\nCommands:\n");
        for command in subcommand.commands.iter().chain(&["help"]) {
            let _ = writeln!(text, "  {command}");
        }
    }
    text
}

fn doctor() -> String {
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    let machine = if machine == "x86_64" { "x64" } else { machine };
    format!(
        "Claude Code doctor\n\nRunning: towpath play ({VERSION})\nPlatform: {system}-{machine}\n\
         Config install method: unknown\nAuto-updates: disabled\n\nNo warnings found\n"
    )
}

fn plugin_list(options: &[String]) -> SubcommandOutput {
    if let Some(option) = unknown_option(options, &["--json", "--available"]) {
        return option;
    }
    if options.iter().any(|it| it == "--json") {
        return SubcommandOutput::printed("[]\n");
    }
    SubcommandOutput::printed(
        "No plugins installed. Use `claude plugin install` to install a plugin.\n",
    )
}

/// The error for the first option that a command does not have.
fn unknown_option(options: &[String], known: &[&str]) -> Option<SubcommandOutput> {
    let unknown = options
        .iter()
        .take_while(|it| *it != "--")
        .find(|it| it.starts_with('-') && it.len() > 1 && !known.contains(&it.as_str()))?;
    Some(SubcommandOutput::refused(format!("error: unknown option '{unknown}'\n")))
}

/// What a command says that needs an account, a terminal or a download.
fn unavailable(command: &str) -> SubcommandOutput {
    SubcommandOutput::refused(format!(
        "Error: `{command}` needs the real Claude Code; this is the built-in agent of Towpath\n"
    ))
}
