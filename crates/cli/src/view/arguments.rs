//! The arguments of `towpath view`.

use std::path::PathBuf;

use clap::Args;

/// Show a stream or transcript as a person reads it
///
/// Reads what `claude --output-format stream-json` prints, session files under
/// `~/.claude/projects`, and recordings of older versions. A stream is shown as it comes; a file is
/// paged. What cannot be understood is shown as it is.
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 done; 2 the input could not be read or the output not written.

Examples:
  claude -p 'hi' --output-format stream-json --verbose --include-partial-messages | towpath view
  towpath view ~/.claude/projects/*/6f4c….jsonl
  towpath view --follow run.jsonl              # while somebody else writes it
  towpath view --html talk.html run.jsonl      # one file, opens offline
  towpath view --full run.jsonl | less -R      # thoughts, raw events, output to its end")]
pub(crate) struct ViewOptions {
    /// File to read; `-` or none for stdin
    pub(crate) file: Option<PathBuf>,
    /// Write one HTML file instead; `-` for stdout
    #[arg(long, value_name = "OUT", conflicts_with = "follow")]
    pub(crate) html: Option<PathBuf>,
    /// Go on when the file grows, until interrupted
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Show everything: thoughts, raw events, output to its end
    #[arg(long)]
    pub(crate) full: bool,
    /// Print straight to the terminal
    #[arg(long)]
    pub(crate) no_pager: bool,
    /// The program that pages
    #[arg(
        long,
        env = "PAGER",
        value_name = "COMMAND",
        default_value = "less",
        hide_env_values = true
    )]
    pub(crate) pager: String,
    /// Columns to use [default: those of the terminal, 100 at most]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(20..))]
    pub(crate) width: Option<u16>,
}
