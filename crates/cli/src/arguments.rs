//! What can be said on the command line.

use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Drives, follows and proves coding-agent sessions over stream-json.
#[derive(Parser)]
#[command(name = "towpath", version, styles = STYLES, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Inspect(InspectOptions),
    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  towpath completions bash > ~/.local/share/bash-completion/completions/towpath
  towpath completions zsh  > ~/.zfunc/_towpath
  towpath completions fish > ~/.config/fish/completions/towpath.fish")]
    Completions {
        /// Which shell
        shell: Shell,
    },
}

/// Say what a stream or transcript holds
///
/// Reads what `claude --output-format stream-json` prints, what `--output-format json` prints,
/// session files under `~/.claude/projects`, and recordings with events behind `data: ` or a log's
/// timestamps. Tells sessions, versions, models, turns, tokens, cost, tools, files and kinds, then
/// whatever is odd: unknown kinds, unexpected shapes, lines that are no events.
#[expect(clippy::struct_excessive_bools, reason = "they are switches, each on its own")]
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 done; 1 something is unknown or mismatched (with --strict); 2 some input could not be read.

Examples:
  claude -p 'hi' --output-format stream-json --verbose | towpath inspect
  towpath inspect ~/.claude/projects/*/*.jsonl
  towpath inspect --json run.jsonl | jq .sessions
  towpath inspect --events run.jsonl | jq 'select(.event == \"turn_ended\")'
  towpath inspect --strict captures/*/*.jsonl    # did a new release bring something new?")]
pub(crate) struct InspectOptions {
    /// Files to read; `-` or none for stdin
    pub(crate) files: Vec<PathBuf>,
    /// Print one JSON object instead of a report
    #[arg(long, conflicts_with = "events")]
    pub(crate) json: bool,
    /// Print one normalised event a line as JSON, whatever dialect it came in
    #[arg(long)]
    pub(crate) events: bool,
    /// Exit with 1 if anything is unknown or mismatched
    #[arg(long)]
    pub(crate) strict: bool,
    /// Put together events that a terminal or a pretty-printer spread over several lines
    #[arg(long)]
    pub(crate) rejoin: bool,
    /// List everything odd, not just the first few of each sort
    #[arg(long)]
    pub(crate) all: bool,
    /// Longest line to read, in MiB; a longer one is counted, not read
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_line: u32,
}
