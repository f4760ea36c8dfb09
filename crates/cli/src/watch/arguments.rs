//! What can be said to `towpath watch`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Pass a stream on untouched, and act on every file the agent changes
///
/// Put it behind an agent: stdout is stdin, byte for byte, whatever happens beside it. When a call
/// that changes a file has succeeded, the file is brought to every target, committed, or told to a
/// hook. What goes wrong is said on stderr and in the report; the stream goes on.
#[expect(clippy::struct_excessive_bools, reason = "they are switches, each on its own")]
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 done; 1 something did not arrive and never will; 2 could not try; 128 and the number of
the signal that ended it before the stream was over.

Targets: a directory; s3://BUCKET/PREFIX, gs://, az:// with the vendors' own environment variables;
http:// or https:// for PUT and DELETE, with `TOWPATH_WATCH_TOKEN` as bearer token.

Examples:
  claude -p 'fix it' --output-format stream-json --verbose | towpath watch --to ../copy
  … | towpath watch --to s3://backup/project --to https://files.example/p/ --report report.json
  … | towpath watch --commit                            # one commit a turn, just the agent's files
  … | towpath watch --commit=change --branch            # on a branch per session, yours untouched
  … | towpath watch --scan --exec 'rsync -a \"$1\" host:project/\"$1\"'
  … | towpath watch --post ./my-hook | towpath inspect")]
pub(crate) struct WatchOptions {
    /// Bring changed files to a directory or an address; may be given several times
    #[arg(long, value_name = "TARGET")]
    pub(crate) to: Vec<String>,
    /// Run a command for each changed file; it finds the path as `$1`
    #[arg(long, value_name = "COMMAND")]
    pub(crate) exec: Vec<String>,
    /// The project [default: the directory the stream names, else the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// Only these files: names or paths with `*`
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// Not these files
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// Also find what shell commands changed, as far as `.gitignore` lets
    #[arg(long)]
    pub(crate) scan: bool,
    /// Put together events that a terminal or a pretty-printer spread over several lines
    #[arg(long)]
    pub(crate) rejoin: bool,
    /// Bring files after each change, or when the turn is over
    #[arg(long, value_name = "WHEN", default_value = "change")]
    pub(crate) every: When,
    /// Commit the agent's changes, one commit a turn or a change
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "turn")]
    pub(crate) commit: Option<When>,
    /// The commit's message; `{summary}`, `{prompt}`, `{session}`, `{files}`, `{tool}`, `{count}`
    /// are filled in
    #[arg(long, value_name = "TEMPLATE", requires = "commit")]
    pub(crate) message: Option<String>,
    /// A line below the message, in place of those that name the session and the agent
    #[arg(long, value_name = "LINE", requires = "commit", conflicts_with = "no_trailers")]
    pub(crate) trailer: Vec<String>,
    /// No lines below the message
    #[arg(long, requires = "commit")]
    pub(crate) no_trailers: bool,
    /// The commit's author, as `Name <address>` [default: you]
    #[arg(long, value_name = "AUTHOR", requires = "commit")]
    pub(crate) author: Option<String>,
    /// Commit to a branch of the session's own, whatever is checked out
    #[arg(long, value_name = "NAME", requires = "commit", num_args = 0..=1, require_equals = true, default_missing_value = "towpath/{session}")]
    pub(crate) branch: Option<String>,
    /// Commit in a working tree of the session's own, below this directory
    #[arg(long, value_name = "DIR", requires = "commit")]
    pub(crate) worktree: Option<PathBuf>,
    /// Run a command when a file is about to change; it gets the CLI's hook JSON on stdin
    #[arg(long, value_name = "COMMAND")]
    pub(crate) pre: Option<String>,
    /// Run a command when a file has changed
    #[arg(long, value_name = "COMMAND")]
    pub(crate) post: Option<String>,
    /// Run a command when a turn is over
    #[arg(long, value_name = "COMMAND")]
    pub(crate) stop: Option<String>,
    /// Run GitButler's hooks, if the `but` that is installed has them
    #[arg(long)]
    pub(crate) gitbutler: bool,
    /// How long one push, commit or hook may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: u64,
    /// How often a push is tried
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) attempts: u32,
    /// How long all that is left may take when the stream is over, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub(crate) grace: u64,
    /// Write what came of every change to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Say only what went wrong
    #[arg(long, short, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say everything
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Read and write instead of `tee(2)`, for comparing
    #[arg(long, hide = true)]
    pub(crate) copy: bool,
}

/// How many changes go together.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum When {
    /// Each by itself
    Change,
    /// Those of a turn
    Turn,
}
