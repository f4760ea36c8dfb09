//! The command line of `towpath fleet dev`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::settings::{AgentArgs, DefaultAgentArgs};
use crate::worker::parse_takeover;

#[derive(Args)]
pub(crate) struct DevArgs {
    #[command(flatten)]
    pub(super) agent: AgentArgs,
    #[command(flatten)]
    pub(super) default_agent: DefaultAgentArgs,
    /// How many workers to start; they are named w1, w2, …
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) workers: u32,
    /// How many agents may run at the same time on each worker
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) slots: u32,
    /// How many NATS servers to start, 1 or 3. With 3, each message is stored on two of them before it is
    /// confirmed, as in production, and one may fail [default: as many as DATA was used with, or 1]
    #[arg(long, value_name = "N", value_parser = ["1", "3"])]
    pub(super) servers: Option<String>,
    /// The address of the gateway, on this machine only; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4280")]
    pub(super) listen: SocketAddr,
    /// The directory for everything. A second `fleet dev` with it continues [default: a temporary one, which
    /// is removed at the end]
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// A directory below which sessions of all workers may work; repeatable [default: the current directory;
    /// with `--demo`, a small project]
    #[arg(long = "root", value_name = "DIR")]
    pub(super) roots: Vec<PathBuf>,
    /// The NATS server: a path, or a name to look up in `PATH` [default: `TOWPATH_NATS_SERVER`, then
    /// `nats-server`]
    #[arg(long, value_name = "PROGRAM")]
    pub(super) nats_server: Option<OsString>,
    /// Take the sessions of a worker over that is away for so long, such as `30s` or `10m` [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_takeover)]
    pub(super) takeover: Option<Duration>,
    /// Start a worker, gateway or server that ends again
    #[arg(long)]
    pub(super) restart: bool,
    /// Print `{"url","token","pid","nats":[URL…],"workers":[{"name","pid"}]}` on stdout when ready; `pid` is
    /// that of the gateway, and the addresses of `nats` contain a password
    #[arg(long)]
    pub(super) json: bool,
}
