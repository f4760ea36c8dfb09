//! What can be said on the command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::doctor::DoctorOptions;
use crate::run::RunOptions;
use crate::serve::ServeArgs;
use crate::sessions::SessionsOptions;
use crate::telegram::TelegramArgs;
use crate::view::ViewOptions;
use crate::watch::WatchOptions;

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
    Doctor(DoctorOptions),
    Inspect(InspectOptions),
    /// Play `claude`: its arguments, its lines, its tools, without a model or a network
    ///
    /// Takes the arguments of `claude` 2.1.325 and speaks as it does. The model's replies come from
    /// `ANTHROPIC_BASE_URL`, from `--scenario FILE`, or from a built-in demonstration.
    #[command(
        disable_help_flag = true,
        disable_version_flag = true,
        after_help = "\
Examples:
  towpath play -p 'show me everything'
  ANTHROPIC_BASE_URL=http://127.0.0.1:4010 ANTHROPIC_API_KEY=x towpath play -p hi"
    )]
    Play {
        /// What `claude` is given
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARG")]
        arguments: Vec<String>,
    },
    Run(Box<RunOptions>),
    Serve(Box<ServeArgs>),
    Sessions(SessionsOptions),
    Stub(StubOptions),
    Telegram(Box<TelegramArgs>),
    Verify(VerifyOptions),
    View(ViewOptions),
    Watch(Box<WatchOptions>),
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

/// Answer like the Messages API, from a script
///
/// Listens on loopback and speaks as `api.anthropic.com` does: streaming and not, with tools,
/// thinking, token counts and errors in its shape. Without a scenario it answers any prompt with
/// something sensible, the same every time. With `--record` it passes requests on to a real API and
/// writes a scenario that replays the conversation, byte for byte and at the same pace. Keys are
/// never written down.
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 ended by SIGINT or SIGTERM; 2 could not start.

Examples:
  towpath stub --listen 127.0.0.1:4010 &
  ANTHROPIC_BASE_URL=http://127.0.0.1:4010 ANTHROPIC_API_KEY=none claude -p 'hi'

  towpath stub scenarios/tool-read.scenario            # these replies, in order
  towpath stub scenarios                               # the scenario that begins as the prompt does
  towpath stub --json | jq -r .url                     # for scripts: one line when it is ready
  towpath stub --requests asked.jsonl                  # keep what the client sends
  towpath stub --record https://api.anthropic.com --out talk.scenario")]
pub(crate) struct StubOptions {
    /// A scenario whose replies to give, or a directory of scenarios to choose from by first prompt
    #[arg(conflicts_with = "record")]
    pub(crate) scenario: Option<PathBuf>,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Print `{"url","pid"}` on stdout when ready
    #[arg(long)]
    pub(crate) json: bool,
    /// Write every request to this file, a line of JSON each
    #[arg(long, value_name = "FILE")]
    pub(crate) requests: Option<PathBuf>,
    /// Pass requests on to the API at this address and record what it answers
    #[arg(long, value_name = "URL", requires = "out", value_parser = web_address)]
    pub(crate) record: Option<String>,
    /// The scenario to write; its replies lie beside it
    #[arg(long, value_name = "FILE", requires = "record")]
    pub(crate) out: Option<PathBuf>,
}

fn web_address(text: &str) -> Result<String, String> {
    match text.split_once("://") {
        Some(("http" | "https", rest)) if !rest.is_empty() => Ok(text.to_owned()),
        _ => Err("it must begin with `https://` or `http://`".to_owned()),
    }
}

/// Hold scenarios with an agent and say where it differs
///
/// Runs the conversations in `scenarios/` against a real Claude Code, several versions of it, or the
/// built-in agent, each in a home and working directory of its own, against a scripted API, without
/// credentials and, where the system allows it, without a network. What differs is shown with what
/// was expected, what came nearest, and where the capture lies.
#[expect(clippy::struct_excessive_bools, reason = "they are switches, each on its own")]
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 all hold; 1 something differs; 2 something could not be run.

Examples:
  towpath verify                                       # the whole book with the built-in agent
  towpath verify --claude npm:2.1.325 --claude npm:2.1.37 --claude play
  towpath verify --claude \"$(which claude)\" 'permission-*'
  towpath verify --claude npm:2.1.325 --markdown > docs/protocol.md
  towpath verify --json my.scenario | jq '.results[] | select(.outcome == \"differs\")'")]
pub(crate) struct VerifyOptions {
    /// Scenarios: names, names with `*`, files or directories; all of `scenarios/` without any
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<String>,
    /// An agent: a path, `npm:VERSION` or `play`; several give a matrix [default: play]
    #[arg(long, value_name = "AGENT")]
    pub(crate) claude: Vec<String>,
    /// How long a step may wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: u64,
    /// Try what differs once more, by itself, before it counts: for machines under load
    #[arg(long)]
    pub(crate) again: bool,
    /// How many scenarios to hold at a time [default: one for each core]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) jobs: Option<usize>,
    /// Name the scenarios and hold none
    #[arg(long)]
    pub(crate) list: bool,
    /// Print one JSON object instead of a table
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,
    /// Print the protocol as a page, made of what really went and came
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Write a report for build servers
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Keep every capture: DIR/VERSION/NAME/{stdin.jsonl,stdout.jsonl,stderr.txt,requests.jsonl,run.json}
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    /// Set where this program has started itself without a network
    #[arg(long, hide = true)]
    pub(crate) isolated: bool,
}
