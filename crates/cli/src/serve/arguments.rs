//! What can be said to `towpath serve`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::settings::AgentChoice;
use crate::telegram::BotChoice;

/// Your agents in any browser
///
/// Serves a web UI and an API, prints a link to open, and drives sessions until it is ended. Ended
/// by SIGTERM or Ctrl-C it leaves running agents alone: the next `serve` on the same data picks
/// them up where they are. Listens on this machine only unless told otherwise.
#[expect(clippy::struct_excessive_bools, reason = "they are switches, each on its own")]
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Exit codes: 0 ended; 1 nobody to stop, no such token; 2 could not start.

Examples:
  towpath serve --demo                       # no CLI, no key, no network
  towpath serve --root ~/src                 # sessions may work below ~/src
  towpath serve --listen 0.0.0.0:4280 --host box.lan --tls-cert box.pem --tls-key box.key
  towpath serve --telegram --allow 4711      # and in Telegram: see `towpath telegram --help`
  towpath serve tokens add phone --role drive
  towpath serve --stop                       # and end its agents"
)]
pub(crate) struct ServeOptions {
    #[command(subcommand)]
    pub(crate) deed: Option<Deed>,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4280")]
    pub(crate) listen: SocketAddr,
    /// Where the journal and the keys are [default: `TOWPATH_DATA`]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) data: Option<PathBuf>,
    /// A directory below which sessions may work; may be given several times [default: here]
    #[arg(long = "root", value_name = "DIR")]
    pub(crate) roots: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) agent: AgentChoice,
    /// Run the Telegram bridge too; its token comes from `TOWPATH_TELEGRAM_TOKEN`
    #[arg(long)]
    pub(crate) telegram: bool,
    #[command(flatten)]
    pub(crate) bot: BotChoice,
    /// Print `{"url","token","pid"}` on stdout when ready
    #[arg(long)]
    pub(crate) json: bool,
    /// Do not print a link that opens everything: where output is kept in a log
    #[arg(long, conflicts_with = "json")]
    pub(crate) no_link: bool,
    /// End the server of this data directory, and its agents
    #[arg(long)]
    pub(crate) stop: bool,
    /// A name people know this machine by; may be given several times
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// A certificate chain, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Listen beyond this machine without TLS: everybody on the way can read along
    #[arg(long)]
    pub(crate) without_tls: bool,
    /// A header in which a proxy in front says who has signed in; it must drop those from outside
    #[arg(long, value_name = "HEADER")]
    pub(crate) trusted_header: Option<String>,
    /// Where that proxy connects from; may be given several times
    #[arg(long = "trusted-proxy", value_name = "ADDRESS", requires = "trusted_header", default_values = ["127.0.0.1", "::1"])]
    pub(crate) trusted_proxies: Vec<IpAddr>,
    /// What those may do whom the proxy has signed in
    #[arg(long, value_name = "ROLE", requires = "trusted_header", default_value = "drive")]
    pub(crate) trusted_role: RoleName,
    /// How many connections there may be at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,
    /// Serve pages from a directory instead of those built in
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) pages: Option<PathBuf>,
}

/// Beside serving.
#[derive(Subcommand)]
pub(crate) enum Deed {
    /// Who may use the server
    #[command(subcommand)]
    Tokens(TokenDeed),
}

/// What to do with tokens.
#[derive(Subcommand)]
pub(crate) enum TokenDeed {
    /// Make a token, in place of the one of that name; it is shown this once
    Add {
        /// What it is called
        name: String,
        /// What its holder may do
        #[arg(long, default_value = "drive")]
        role: RoleName,
    },
    /// Say which there are
    List,
    /// Take one back, and sign out whoever signed in with it
    Revoke {
        /// What it is called
        name: String,
    },
}

/// What somebody may do.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RoleName {
    /// Read
    Watch,
    /// Prompt, answer, change sessions
    Drive,
    /// Keep tokens too
    Admin,
}

impl From<RoleName> for gateway::access::Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Watch => Self::Watch,
            RoleName::Drive => Self::Drive,
            RoleName::Admin => Self::Admin,
        }
    }
}
