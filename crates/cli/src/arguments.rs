//! The command line: the list of commands, and the arguments of `stub` and `verify`.
//!
//! The arguments of the other commands are declared beside their code.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use testbed::scenario::AgentVersion;

use crate::acp::AcpArgs;
use crate::agents::AgentsArgs;
use crate::config::ConfigArgs;
use crate::doctor::DoctorArgs;
use crate::fleet::FleetArgs;
use crate::host::HostArgs;
use crate::inspect::InspectArgs;
use crate::run::RunArgs;
use crate::schedule::ScheduleArgs;
use crate::serve::ServeArgs;
use crate::sessions::SessionsArgs;
use crate::telegram::TelegramArgs;
use crate::view::ViewArgs;
use crate::watch::WatchArgs;
use crate::worker::WorkerArgs;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Run, follow and test coding-agent sessions: Claude Code, and every agent that speaks ACP
#[derive(Parser)]
#[command(
    name = "towpath",
    version,
    styles = STYLES,
    max_term_width = 100,
    after_help = "\
Examples:
  towpath run --demo 'give me a tour'    # try it without an agent, a key or a network
  towpath serve --demo                   # the same in the browser
  towpath agents                         # which agents can be used: Codex, Gemini, OpenCode, …
  towpath doctor                         # check the installation"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Subcommand)]
pub(crate) enum CliCommand {
    Acp(AcpArgs),
    Agents(AgentsArgs),
    Config(ConfigArgs),
    Doctor(DoctorArgs),
    Fleet(FleetArgs),
    #[command(hide = true)]
    Host(HostArgs),
    Inspect(InspectArgs),
    /// Stand in for `claude`: same arguments, output and tools, without a model or a network
    ///
    /// Accepts the arguments of `claude` 2.1.325 and produces the same output. The model's replies
    /// come from `ANTHROPIC_BASE_URL`, from `--scenario FILE`, or from a built-in demonstration.
    ///
    /// With `--acp` it is an agent of the Agent Client Protocol instead, which can be told to behave as
    /// badly as real agents do: `towpath play --acp --help` lists how.
    #[command(
        disable_help_flag = true,
        disable_version_flag = true,
        after_help = "\
Examples:
  towpath play -p 'show me everything'
  towpath play --acp --misbehave permission-first,no-usage
  ANTHROPIC_BASE_URL=http://127.0.0.1:4010 ANTHROPIC_API_KEY=x towpath play -p hi"
    )]
    Play {
        /// Arguments as for `claude`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARG")]
        arguments: Vec<String>,
    },
    Run(Box<RunArgs>),
    Schedule(ScheduleArgs),
    Serve(Box<ServeArgs>),
    Sessions(SessionsArgs),
    Stub(StubArgs),
    Telegram(Box<TelegramArgs>),
    Verify(VerifyArgs),
    View(ViewArgs),
    Watch(Box<WatchArgs>),
    Worker(Box<WorkerArgs>),
    /// Print a shell completion script
    #[command(after_help = "\
Examples:
  towpath completions bash > ~/.local/share/bash-completion/completions/towpath
  towpath completions zsh  > ~/.zfunc/_towpath
  towpath completions fish > ~/.config/fish/completions/towpath.fish")]
    Completions {
        /// The shell to print it for
        shell: Shell,
    },
}

/// Serve a scripted Messages API, and those of other vendors
///
/// Listens on the loopback interface and responds like `api.anthropic.com`: streaming or not, with
/// tools, thinking, token counts and errors. The same replies are also served as Responses,
/// Chat Completions and Gemini `generateContent`. A scenario's tool `shell`, `write`, `edit` or `read`
/// becomes the tool of that kind that the request offers, with its own argument names.
///
/// Without a scenario, every prompt gets a sensible reply, the same one every time. A prompt that
/// starts with `run`, `write`, `read`, `edit` or `parallel` gets tool calls, and so does each line
/// `$ COMMAND`; `think`, `slow`, `long` and `error` do what they say. With `--record`, requests are forwarded to a real API, and a scenario is
/// written that replays the conversation byte for byte and at the same pace. API keys are never
/// written to disk.
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 stopped by SIGINT or SIGTERM; 2 could not start.

Examples:
  towpath stub --listen 127.0.0.1:4010 &
  ANTHROPIC_BASE_URL=http://127.0.0.1:4010 ANTHROPIC_API_KEY=none claude -p 'hi'

  # gemini, qwen and copilot
  GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:4010 GEMINI_API_KEY=none gemini -p 'hi'
  OPENAI_BASE_URL=http://127.0.0.1:4010/v1 OPENAI_API_KEY=none OPENAI_MODEL=stub-model qwen -p 'hi'
  COPILOT_PROVIDER_BASE_URL=http://127.0.0.1:4010/v1 COPILOT_PROVIDER_TYPE=openai \\
    COPILOT_PROVIDER_API_KEY=none COPILOT_MODEL=stub-model COPILOT_OFFLINE=true copilot -p 'hi'
  # codex, with this in ~/.codex/config.toml:
  #   model_provider = \"stub\"
  #   model_providers.stub = { name = \"stub\", base_url = \"http://127.0.0.1:4010/v1\",
  #     wire_api = \"responses\" }
  # opencode, with this in ~/.config/opencode/opencode.json:
  #   {\"model\": \"stub/stub-model\", \"provider\": {\"stub\": {
  #     \"npm\": \"@ai-sdk/openai-compatible\", \"models\": {\"stub-model\": {}},
  #     \"options\": {\"baseURL\": \"http://127.0.0.1:4010/v1\", \"apiKey\": \"none\"}}}}
  # vibe, with this in ~/.vibe/config.toml:
  #   active_model = \"stub\"
  #   providers = [{ name = \"stub\", backend = \"generic\", api_base = \"http://127.0.0.1:4010/v1\" }]
  #   models = [{ name = \"stub-model\", provider = \"stub\", alias = \"stub\" }]

  towpath stub scenarios/tool-read.scenario            # these replies, in order
  towpath stub scenarios                               # choose the scenario by the first prompt
  towpath stub --json | jq -r .url                     # for scripts: one line when it is ready
  towpath stub --requests requests.jsonl               # save what the client sends
  towpath stub --record https://api.anthropic.com --out conversation.scenario")]
pub(crate) struct StubArgs {
    /// A scenario to take replies from, or a directory of scenarios to choose from by first prompt
    #[arg(conflicts_with = "record")]
    pub(crate) scenario: Option<PathBuf>,
    /// Address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Print `{"url","pid"}` on stdout when ready
    #[arg(long)]
    pub(crate) json: bool,
    /// Write every request to this file, one JSON object per line
    #[arg(long, value_name = "FILE")]
    pub(crate) requests: Option<PathBuf>,
    /// Forward requests to the API at this URL and record its responses
    #[arg(long, value_name = "URL", requires = "out", value_parser = http_url)]
    pub(crate) record: Option<String>,
    /// The scenario file to write; recorded responses are stored beside it
    #[arg(long, value_name = "FILE", requires = "record")]
    pub(crate) out: Option<PathBuf>,
}

fn http_url(text: &str) -> Result<String, String> {
    match text.split_once("://") {
        Some(("http" | "https", rest)) if !rest.is_empty() => Ok(text.to_owned()),
        _ => Err("expected a URL that starts with `https://` or `http://`".to_owned()),
    }
}

/// Run scenarios against an agent and report differences
///
/// Runs the conversations in `scenarios/` against a real Claude Code, several versions of it, other
/// agents, or the built-in agent. Each conversation has its own home and working directory and a scripted API. It
/// has no credentials and, if the system allows it, no network. A difference is reported with what
/// was expected, the nearest match, and the path of the capture.
#[expect(clippy::struct_excessive_bools, reason = "each is an independent command-line switch")]
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 no differences; 1 something differs; 2 something could not be run; 3 something is flaky or
timed out, or outcomes vary with `--times`.

Examples:
  towpath verify                                       # all scenarios with the built-in agent
  towpath verify --claude npm:2.1.325 --claude npm:2.1.37 --claude play
  towpath verify --claude \"$(which claude)\" 'permission-*'
  towpath verify --agent codex@2.6.0 --agent opencode@1.18.33   # those for other agents
  towpath verify --claude npm:2.1.325 --times 20       # are all outcomes the same 20 times?
  towpath verify --claude npm:2.1.325 --markdown > docs/protocol.md
  towpath verify --json my.scenario | jq '.results[] | select(.outcome == \"differs\")'")]
pub(crate) struct VerifyArgs {
    /// Scenarios: names, names with `*`, files or directories [default: all of `scenarios/`]
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<String>,
    /// An agent: a path, `npm:VERSION`, `play` or `play@VERSION`; repeat it to compare several, or
    /// give several releases as `npm:2.1.325,2.1.37` [default: play]
    #[arg(long, value_name = "AGENT")]
    pub(crate) claude: Vec<String>,
    /// An agent of the Agent Client Protocol: `codex@VERSION` and the like, or `play`
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Vec<String>,
    /// Every published release of Claude Code from this version on
    #[arg(long, value_name = "VERSION", conflicts_with = "all")]
    pub(crate) since: Option<AgentVersion>,
    /// Every published release of Claude Code
    #[arg(long)]
    pub(crate) all: bool,
    /// Longest time a step may wait, in seconds [default: 20 times what a turn takes on this machine]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
    /// Run everything, including what is known from earlier runs (results of releases are kept)
    #[arg(long)]
    pub(crate) again: bool,
    /// Run each scenario once, also if it does not pass: faster while writing one, and less certain
    #[arg(long, conflicts_with = "results")]
    pub(crate) once: bool,
    /// Run everything so many times, and compare the outcomes: says which scenarios did not do the same
    /// in all of these runs
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["results", "record", "markdown", "list", "bisect", "history"]
    )]
    pub(crate) times: Option<u32>,
    /// Find the release of Claude Code in which the outcome of a scenario changed
    #[arg(
        long,
        value_name = "SCENARIO",
        conflicts_with_all = ["scenarios", "claude", "agent", "since", "all", "list", "json", "markdown", "junit", "record"]
    )]
    pub(crate) bisect: Option<String>,
    /// A release with which the scenario passes, for `--bisect`
    #[arg(long, value_name = "VERSION", requires = "bisect")]
    pub(crate) good: Option<AgentVersion>,
    /// A release with which it differs, for `--bisect`
    #[arg(long, value_name = "VERSION", requires = "bisect")]
    pub(crate) bad: Option<AgentVersion>,
    /// Write the condition that `--bisect` finds into the scenario's file
    #[arg(long, requires = "bisect")]
    pub(crate) write_bounds: bool,
    /// Write a condition on the version into each scenario that differs with these releases, at the
    /// nearest release with which it passed
    #[arg(
        long,
        requires_all = ["results", "claude"],
        conflicts_with_all = ["agent", "since", "all", "again", "times", "bisect", "refine_bounds", "list", "json", "markdown", "junit", "record"]
    )]
    pub(crate) bound_differences: bool,
    /// Move conditions on the version in the scenarios to the exact release of each change, by running
    /// the releases in between
    #[arg(
        long,
        requires = "results",
        conflicts_with_all = ["claude", "agent", "since", "all", "again", "times", "bisect", "list", "json", "markdown", "junit", "record"]
    )]
    pub(crate) refine_bounds: bool,
    /// Take results of releases from this directory and write new ones to it, as in
    /// `scenarios/results`
    #[arg(long, value_name = "DIR", conflicts_with = "bisect")]
    pub(crate) results: Option<PathBuf>,
    /// Print the page about versions, made from `scenarios/results`, the scenarios and the captures
    #[arg(
        long,
        conflicts_with_all = ["scenarios", "claude", "agent", "since", "all", "bisect", "results", "list", "json", "markdown", "junit", "record"]
    )]
    pub(crate) history: bool,
    /// Number of scenarios to run at the same time [default: one per core]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) jobs: Option<usize>,
    /// List the selected scenarios without running them
    #[arg(long)]
    pub(crate) list: bool,
    /// Print one JSON object instead of a table
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,
    /// Print the protocol as a Markdown page, made from the recorded traffic
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Write an XML report for CI servers
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Save every capture: DIR/VERSION/NAME/{stdin.jsonl,stdout.jsonl,stderr.txt,requests.jsonl,run.json}
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    /// Add the order of the lines that a release prints to this file, for `--lines`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["times", "once", "lines"])]
    pub(crate) record_lines: Option<PathBuf>,
    /// Compare the order of the lines that the built-in agent prints with those in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) lines: Option<PathBuf>,
    /// Set when this program has restarted itself without a network
    #[arg(long, hide = true)]
    pub(crate) isolated: bool,
}
