//! The command line of `towpath serve`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::fleet::ServedFleetArgs;
use crate::settings::{AgentArgs, DefaultAgentArgs};
use crate::telegram::TelegramBotArgs;
use crate::watch::ChangeActionArgs;

/// Serve the web UI and the API
///
/// Prints a link to open, and on a terminal a QR code if a phone can reach it, and runs sessions until
/// it is stopped. SIGTERM and Ctrl-C leave agents running: the next `serve` with the same data
/// directory takes them over. Listens on this machine only by default.
///
/// What is done with changed files applies to all sessions. A session may have a configuration of
/// its own, or none. A hook of `--pre` runs before the agent changes a file, and the agent waits
/// for it: exit code 2 denies the change, any other failure lets it go on.
#[expect(clippy::struct_excessive_bools, reason = "they are independent switches")]
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Exit codes: 0 stopped; 1 no server to stop or no such token; 2 could not start.

Examples:
  towpath serve --demo                       # without CLI, API key or network
  towpath serve --root ~/src                 # sessions may work below ~/src
  towpath serve --listen 0.0.0.0:4280 --host box.lan --tls-cert box.pem --tls-key box.key
  towpath serve --telegram --allow 4711      # also in Telegram: see `towpath telegram --help`
  towpath serve --commit --branch            # each session commits to a branch of its own
  towpath serve --to '/backup/{project}'     # copies changed files; also with `{session}`
  towpath serve --pre ./check                # may deny a change: exit code 2 and a reason on stderr
  towpath serve --nats nats://n1:4222 --creds gateway.nk   # the sessions of a fleet
  towpath serve tokens add phone --role drive
  towpath serve tokens add laptop --shell    # may also open terminals in the browser
  towpath serve --stop                       # also stops its agents"
)]
pub(crate) struct ServeArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ServeCommand>,
    /// The address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4280")]
    pub(crate) listen: SocketAddr,
    /// The data directory, with the journal and the tokens [default: `TOWPATH_DATA`]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) data: Option<PathBuf>,
    /// A directory below which sessions may work; repeatable [default: the current directory]
    #[arg(long = "root", value_name = "DIR")]
    pub(crate) roots: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) fleet: ServedFleetArgs,
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
    #[command(flatten)]
    pub(crate) default_agent: DefaultAgentArgs,
    /// Let admins give sessions the mode `bypassPermissions`, in which the agent asks for nothing
    #[arg(long)]
    pub(crate) allow_bypass: bool,
    /// Let queued prompts wait for a person once all sessions together have cost this much on a day (in
    /// UTC), in dollars [default: `budget_per_day` of the configuration file]
    #[arg(long, value_name = "USD", value_parser = parse_dollars)]
    pub(crate) budget_per_day: Option<f64>,
    /// Let admins, and tokens with that right, have a shell in the browser. The default on this
    /// machine only; neither with `--host` nor with `--trusted-proxy`
    #[arg(long, conflicts_with = "no_terminal")]
    pub(crate) terminal: bool,
    /// Turn off terminals in the browser
    #[arg(long)]
    pub(crate) no_terminal: bool,
    /// Also run the Telegram bridge, with the token in `TOWPATH_TELEGRAM_TOKEN`
    #[arg(long)]
    pub(crate) telegram: bool,
    #[command(flatten)]
    pub(crate) bot: TelegramBotArgs,
    #[command(flatten)]
    pub(crate) actions: ChangeActionArgs,
    /// Run a command at the end of each turn
    #[arg(long, value_name = "COMMAND", help_heading = "Changed files")]
    pub(crate) stop_hook: Option<String>,
    /// Print `{"url","token","pid"}` on stdout when ready
    #[arg(long)]
    pub(crate) json: bool,
    /// Do not print the sign-in link, for example if the output goes to a log
    #[arg(long, conflicts_with = "json")]
    pub(crate) no_link: bool,
    /// Stop the server of this data directory and its agents; else the one on the address of
    /// `--listen`, or a demo with `--demo`
    #[arg(long)]
    pub(crate) stop: bool,
    /// A host name of this machine to accept; repeatable
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// A certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Allow connections from other machines without encryption
    #[arg(long)]
    pub(crate) without_tls: bool,
    /// The header with the user name that a trusted proxy sets; it must remove it from clients
    #[arg(long, value_name = "HEADER")]
    pub(crate) trusted_header: Option<String>,
    /// An address that a proxy connects from; repeatable. Its `X-Forwarded-For` and
    /// `X-Forwarded-Proto` are believed, and its `--trusted-header`
    #[arg(long = "trusted-proxy", value_name = "ADDRESS")]
    pub(crate) trusted_proxies: Vec<IpAddr>,
    /// The role of users that the proxy signs in
    #[arg(long, value_name = "ROLE", requires = "trusted_header", default_value = "drive")]
    pub(crate) trusted_role: RoleArg,
    /// The maximum number of connections
    #[arg(long, value_name = "NUMBER", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,
    /// Send a push message when a turn took at least this long; failures and requests are always sent
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) notify_after: u32,
    /// Also send push messages without encryption and to this network
    #[arg(long, hide = true)]
    pub(crate) allow_private_push: bool,
    /// Serve the pages from a directory instead of the embedded ones
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) pages: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum ServeCommand {
    /// Manage access tokens
    #[command(subcommand)]
    Tokens(TokensCommand),
}

#[derive(Subcommand)]
pub(crate) enum TokensCommand {
    /// Create a token and print it once; replaces a token with the same name
    Add {
        name: String,
        /// What clients with this token may do
        #[arg(long, default_value = "drive")]
        role: RoleArg,
        /// They may also have a shell, which is as much as you may do; `admin` always may
        #[arg(long)]
        shell: bool,
    },
    /// List all tokens
    List,
    /// Revoke a token and sign out the browsers that used it
    Revoke { name: String },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RoleArg {
    /// Read
    Watch,
    /// Send prompts, answer requests, change sessions
    Drive,
    /// Also manage tokens, and have a shell
    Admin,
}

impl ServeArgs {
    /// Whether there are terminals. A server that others can reach has none unless asked to.
    pub(crate) fn has_terminals(&self) -> bool {
        let local = self.listen.ip().is_loopback()
            && self.hosts.is_empty()
            && self.trusted_proxies.is_empty();
        self.terminal || (local && !self.no_terminal)
    }
}

fn parse_dollars(text: &str) -> Result<f64, String> {
    let amount = text.trim().trim_start_matches('$').parse().unwrap_or(f64::NAN);
    session::check_dollars(amount)
}

impl From<RoleArg> for gateway::access::Role {
    fn from(name: RoleArg) -> Self {
        match name {
            RoleArg::Watch => Self::Watch,
            RoleArg::Drive => Self::Drive,
            RoleArg::Admin => Self::Admin,
        }
    }
}
