//! The command line of `towpath serve`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::settings::AgentArgs;
use crate::telegram::TelegramBotArgs;

/// Serve the web UI and the API
///
/// Prints a link to open, and runs sessions until it is stopped. SIGTERM and Ctrl-C leave agents
/// running: the next `serve` with the same data directory takes them over. Listens on this machine
/// only by default.
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
  towpath serve tokens add phone --role drive
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
    pub(crate) agent: AgentArgs,
    /// Also run the Telegram bridge, with the token in `TOWPATH_TELEGRAM_TOKEN`
    #[arg(long)]
    pub(crate) telegram: bool,
    #[command(flatten)]
    pub(crate) bot: TelegramBotArgs,
    /// Print `{"url","token","pid"}` on stdout when ready
    #[arg(long)]
    pub(crate) json: bool,
    /// Do not print the sign-in link, for example if the output goes to a log
    #[arg(long, conflicts_with = "json")]
    pub(crate) no_link: bool,
    /// Stop the server of this data directory and its agents
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
    /// Also manage tokens
    Admin,
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
