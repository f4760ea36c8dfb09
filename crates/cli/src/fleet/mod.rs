//! `towpath fleet`: sets up and checks the NATS servers that connect the machines of a fleet.

mod connection;
mod dev;
mod report;

use std::io;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use fleet::bus::BusError;
use fleet::setup::{CheckOptions, FindingSeverity, FleetSetup, FleetSize, PruneOptions};

use crate::exit::{CommandStatus, report_error};
pub(crate) use connection::{ConnectionTime, NatsArgs, ServedFleetArgs};

/// The name of this command among the connections of the servers.
const CONNECTION_NAME: &str = "fleet-admin";

const DAY: Duration = Duration::from_hours(24);

/// Set up and check the servers that connect many machines
///
/// A fleet is several machines with sessions, connected by NATS servers with JetStream, version 2.12 or
/// later. These commands need the credentials of an administrator of the fleet's account.
/// `docs/fleet.md` shows how to start three servers.
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 done, or `check` found nothing wrong; 1 `check` refuses something; 2 could not run; 3 `check`
could not find everything out.

Examples:
  towpath fleet init --nats nats://n1:4222,nats://n2:4222,nats://n3:4222 --creds admin.creds
  towpath fleet check --nats tls://n1:4222 --creds admin.creds \\
    --monitor http://n1:8222,http://n2:8222,http://n3:8222
  towpath fleet check --json | jq '.findings[] | select(.severity != \"good\")'
  towpath fleet status
  towpath fleet prune --dry-run              # what deleted sessions leave behind

  # everything on this machine, to try it
  towpath fleet dev --demo")]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    action: FleetAction,
}

#[derive(Subcommand)]
enum FleetAction {
    /// Create the streams and tables of a fleet
    ///
    /// Creates what is missing, and corrects settings of streams that lose messages. Run again, it changes
    /// nothing. It never removes anything, and never reduces the number of servers that store a stream.
    Init {
        #[command(flatten)]
        connection: FleetConnectionArgs,
        /// Use one server: what it stores is lost with it
        #[arg(long)]
        single: bool,
    },
    /// Check that the servers lose nothing, and say what to change
    ///
    /// Checks versions, JetStream, streams, replicas, the clock, and that each message is on disk before it
    /// is acknowledged. Only the monitoring address of a server tells the last: if that cannot be reached, the exit
    /// code is 3, or 0 with `--without-monitor`.
    Check {
        #[command(flatten)]
        connection: FleetConnectionArgs,
        /// Accept one server
        #[arg(long)]
        single: bool,
        /// Monitoring addresses of all servers [default: port 8222 of each]
        #[arg(long, value_name = "URL", value_delimiter = ',')]
        monitor: Vec<String>,
        /// Accept that it is not known whether messages are on disk
        #[arg(long, conflicts_with = "monitor")]
        without_monitor: bool,
    },
    /// Show workers, sessions and streams
    Status {
        #[command(flatten)]
        connection: FleetConnectionArgs,
    },
    /// Remove what deleted sessions leave on the servers
    ///
    /// The log of a deleted session is removed but for its end, from which workers and gateways that were away learn
    /// that the session is gone, and so are its transcript, its working tree and its large messages. Nothing
    /// of other sessions is touched.
    Prune {
        #[command(flatten)]
        connection: FleetConnectionArgs,
        /// Only sessions that were deleted at least this many days ago
        #[arg(long, value_name = "NUMBER", default_value_t = 7)]
        days: u32,
        /// Say what would be removed, and remove nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Start a fleet on this machine, to try it
    ///
    /// Starts NATS servers, workers and a gateway, prints a link, and ends all of them and their agents on
    /// Ctrl-C or SIGTERM. Nothing else is needed but a `nats-server` 2.12 or later. Everything listens on this
    /// machine only, and no other user can connect. A process that ends is reported, and not started
    /// again without `--restart`.
    #[command(after_help = "\
Exit codes: 0 stopped; 2 could not start.

Examples:
  towpath fleet dev --demo                          # without CLI, API key or network
  towpath fleet dev --workers 3 --root ~/src --data ~/fleet
  towpath fleet dev --demo --servers 3 --restart    # kill what you like
  towpath fleet dev --demo --json | head -1 | jq .workers")]
    Dev(dev::DevArgs),
}

#[derive(Args)]
struct FleetConnectionArgs {
    #[command(flatten)]
    servers: NatsArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
enum FleetError {
    #[error("could not start the async runtime")]
    Runtime(#[source] io::Error),
    #[error("could not connect to the NATS servers")]
    Connect(#[source] BusError),
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error(transparent)]
    Dev(#[from] dev::DevError),
    #[error("could not write the output")]
    Write(#[from] io::Error),
}

pub(crate) fn run(args: &FleetArgs) -> CommandStatus {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.map_err(FleetError::Runtime).and_then(|runtime| {
        let done = runtime.block_on(args.action.run());
        runtime.shutdown_background();
        done
    });
    match done {
        Ok(status) => status,
        Err(FleetError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            CommandStatus::Success
        }
        Err(error) => {
            report_error(&error, error.hint().as_deref());
            CommandStatus::Error
        }
    }
}

impl FleetAction {
    async fn run(&self) -> Result<CommandStatus, FleetError> {
        match self {
            Self::Init { connection, single } => {
                let steps = connection.connect().await?.init(size(*single)).await?;
                report::write_steps(&steps, connection.json)?;
                Ok(CommandStatus::Success)
            }
            Self::Check { connection, single, monitor, without_monitor } => {
                let options = CheckOptions {
                    size: size(*single),
                    monitors: monitor.clone(),
                    now: SystemTime::now(),
                };
                let findings = connection.connect().await?.check(&options).await?;
                report::write_findings(&findings, connection.json)?;
                let has = |severity| findings.iter().any(|it| it.severity == severity);
                Ok(if has(FindingSeverity::Refused) {
                    CommandStatus::Negative
                } else if has(FindingSeverity::Unknown) && !without_monitor {
                    CommandStatus::Uncertain
                } else {
                    CommandStatus::Success
                })
            }
            Self::Prune { connection, days, dry_run } => {
                let options = PruneOptions {
                    now: SystemTime::now(),
                    older_than: DAY * *days,
                    dry_run: *dry_run,
                };
                let pruned = connection.connect().await?.prune(options).await?;
                report::write_pruned(&pruned, *dry_run, connection.json)?;
                Ok(CommandStatus::Success)
            }
            Self::Dev(args) => Ok(dev::run(args).await?),
            Self::Status { connection } => {
                let status = connection.connect().await?.status().await?;
                report::write_status(&status, connection.json)?;
                Ok(CommandStatus::Success)
            }
        }
    }
}

impl FleetConnectionArgs {
    async fn connect(&self) -> Result<FleetSetup, FleetError> {
        let config = self.servers.config(CONNECTION_NAME);
        FleetSetup::connect(&config).await.map_err(FleetError::Connect)
    }
}

impl FleetError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Dev(error) => return error.hint(),
            Self::Connect(BusError::Unavailable(_)) => {
                "start the servers, or give their addresses with `--nats`; `docs/fleet.md` shows how"
            }
            Self::Bus(BusError::Denied(_)) => {
                "give the credentials of the fleet's administrator with `--creds`"
            }
            Self::Bus(BusError::Unavailable(_)) => {
                "if the servers were started a moment ago, try again; else look at their logs"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

fn size(single: bool) -> FleetSize {
    if single { FleetSize::Single } else { FleetSize::Cluster }
}
