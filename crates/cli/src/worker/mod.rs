//! `towpath worker`: drives sessions for the gateways of a fleet.

mod session_files;
mod transcript_part;
mod tree_part;

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fleet::bus::BusError;
use fleet::bus::metered::MeteredBus;
use fleet::worker::{Worker, WorkerConfig, WorkerError};
use gateway::ProjectRoutes;
use serde::Serialize;
use session::{OpenError, Roots, Sessions};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::exit::{CommandStatus, report_error};
use crate::fleet::NatsArgs;
use crate::serve::{Demo, ServeError, ServerLock, StopMode, StopSignals, home, release};
use crate::settings::{AgentArgs, AgentLookupError, CliSettings, DefaultAgentArgs, SettingsError};
use crate::worker_metrics::{self, WorkerMetrics};
use session_files::LocalSessionFiles;
use tree_part::TreeRemote;

/// Drive sessions on this machine for a fleet
///
/// Connects to the NATS servers of a fleet, which `towpath fleet init` has set up. Any `towpath serve
/// --nats` then shows the sessions, and starts new ones here. Agents never wait for the servers: what they
/// print is stored here first, and sent when the servers can be reached. SIGTERM and Ctrl-C leave agents
/// running, and the next worker with the same data directory takes them over; `towpath serve --stop
/// --data DIR` also stops the agents.
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 stopped; 2 could not start.

Examples:
  towpath worker --nats nats://n1:4222 --creds worker.nk --slots 8 --root ~/src
  towpath worker --pool linux --metrics 9464 # figures at http://127.0.0.1:9464/metrics
  towpath worker --demo                      # without CLI, API key or network")]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    servers: NatsArgs,
    /// The name of this machine in the fleet [default: its host name]
    #[arg(long = "name", value_name = "NAME")]
    worker_name: Option<String>,
    /// How many agents may run here at the same time
    #[arg(long, value_name = "N", default_value_t = 4)]
    slots: u32,
    /// A name for machines that are alike
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// A directory below which sessions may work; repeatable [default: the current directory]
    #[arg(long = "root", value_name = "DIR")]
    roots: Vec<PathBuf>,
    /// Let admins, and tokens with that right, have a shell here in the browser. Off by default, because a worker is
    /// for other machines; the gateway must have terminals too
    #[arg(long)]
    terminal: bool,
    /// Take over the sessions of workers that are away for this long, such as `10m` [default: never]
    ///
    /// A worker with this option also ends its own agents if it cannot reach the fleet for that time. Give all
    /// workers of a fleet the same.
    #[arg(long, value_name = "TIME", value_parser = parse_takeover)]
    takeover: Option<Duration>,
    /// Push the working trees of sessions to this remote of their repositories, such as `origin`, instead of sending
    /// them whole over the fleet's servers. Give all workers of a fleet the same
    #[arg(long, value_name = "REMOTE")]
    tree_remote: Option<String>,
    /// The data directory [default: `worker` in `TOWPATH_DATA`]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Serve figures for Prometheus at `http://ADDRESS/metrics`, without sign-in: a port on this machine, or
    /// an address
    #[arg(long, value_name = "ADDRESS", value_parser = worker_metrics::parse_address)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    agent: AgentArgs,
    #[command(flatten)]
    default_agent: DefaultAgentArgs,
    /// Print one JSON object when the worker is connected
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
enum WorkerCommandError {
    #[error("could not start the async runtime")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Agent(#[from] AgentLookupError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("could not use a root directory")]
    Root(#[source] io::Error),
    #[error("could not set up the demo")]
    Demo(#[source] io::Error),
    #[error("this machine has no host name that can be used")]
    NoName,
    #[error("could not use the journal")]
    Journal(#[from] journal::Error),
    #[error("could not open the sessions")]
    Open(#[from] OpenError),
    #[error("could not connect to the fleet's servers")]
    Connect(#[source] BusError),
    #[error("could not become a worker of the fleet")]
    Worker(#[from] WorkerError),
    #[error("could not listen on `{address}` for metrics")]
    Metrics { address: SocketAddr, source: io::Error },
    #[error("could not write the output")]
    Write(#[source] io::Error),
}

/// The line that `--json` prints.
#[derive(Serialize)]
struct WorkerReady<'a> {
    name: &'a str,
    pid: u32,
    slots: u32,
}

pub(crate) fn run(args: &WorkerArgs) -> CommandStatus {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done = runtime.map_err(WorkerCommandError::Runtime).and_then(|runtime| {
        let done = runtime.block_on(work(args));
        runtime.shutdown_background();
        done
    });
    match done {
        Ok(()) => CommandStatus::Success,
        Err(error) => {
            report_error(&error, error.hint());
            CommandStatus::Error
        }
    }
}

async fn work(args: &WorkerArgs) -> Result<(), WorkerCommandError> {
    let demo = args.agent.demo.then(Demo::new).transpose().map_err(WorkerCommandError::Demo)?;
    let mut settings = CliSettings::from_environment()?;
    let data = args.data.clone().or_else(|| demo.as_ref().map(Demo::data));
    let data = data.unwrap_or_else(|| settings.data_directory.join("worker"));
    settings.data_directory = std::path::absolute(&data).unwrap_or(data);
    let warnings = settings.secure_data_directory()?;
    crate::log::init_with_file(&settings.log_file("worker"));
    for warning in warnings {
        warn!("{warning}");
    }
    let mut signals = StopSignals::listen().map_err(WorkerCommandError::Runtime)?;
    let agent = settings.find_default_program(&args.agent, args.default_agent.name.as_deref())?;
    let listener = match args.metrics {
        Some(address) => {
            let failed = |source| WorkerCommandError::Metrics { address, source };
            Some(TcpListener::bind(address).await.map_err(failed)?)
        }
        None => None,
    };
    let lock = ServerLock::acquire(&settings.data_directory).await?;
    let mut home = home(&settings, agent)?;
    args.default_agent.apply(&mut home.agents).map_err(AgentLookupError::from)?;
    let sessions = Sessions::new(home, settings.open_journal()?);
    let roots = args.roots(demo.as_ref()).map_err(WorkerCommandError::Root)?;
    let name = args.worker_name.clone().or_else(host_name).ok_or(WorkerCommandError::NoName)?;
    let tree_remote = args.tree_remote.clone();
    let tree_remote = tree_remote.map(|remote| TreeRemote { name: remote, worker: name.clone() });
    let files = LocalSessionFiles::new(sessions.config().clone(), roots.clone(), tree_remote);
    let data = settings.data_directory.clone();
    let shell = args.terminal.then(|| settings.shell_config());
    let projects = ProjectRoutes::new(sessions.clone(), roots.clone(), data, shell);
    let config = WorkerConfig {
        name: name.clone(),
        pool: args.pool.clone(),
        slots: args.slots,
        roots,
        files: Some(Arc::new(files)),
        projects: Some(Arc::new(projects.clone())),
        worktrees: Some(Arc::new(projects.clone())),
        takeover: args.takeover,
        unwatched_interval: fleet::ship::UNWATCHED_INTERVAL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let connected = async {
        let bus = args.servers.connect(&name).await.map_err(WorkerCommandError::Connect)?;
        let connection = bus.status();
        let (bus, appends) = MeteredBus::new(Arc::new(bus));
        let worker = Worker::connect(Arc::new(bus), sessions.clone(), config).await?;
        worker.settle().await?;
        for (id, problem) in sessions.recover().await? {
            warn!(session = %id, %problem, "a session could not be opened");
        }
        let metrics = WorkerMetrics {
            name: name.clone(),
            slots: args.slots,
            sessions: sessions.clone(),
            appends,
            connection,
        };
        Ok::<_, WorkerCommandError>((worker, metrics))
    };
    let (worker, metrics) = tokio::select! {
        connected = connected => connected?,
        mode = signals.stopped() => {
            if matches!(mode, StopMode::StopAgents) {
                release(mode, false, &sessions, &lock).await;
            }
            return Ok(());
        }
    };
    info!(name, "the worker is connected");
    args.announce(&name).map_err(WorkerCommandError::Write)?;
    // Dropped, and with it its task, at the end.
    let mut tasks = JoinSet::new();
    if let Some(listener) = listener {
        tasks.spawn(metrics.serve(listener));
    }
    let mut mode = StopMode::KeepAgents;
    worker.run(async { mode = signals.stopped().await }).await;
    info!("the worker stops");
    projects.close().await;
    let temporary = demo.is_some() && args.data.is_none();
    release(mode, temporary, &sessions, &lock).await;
    Ok(())
}

impl WorkerArgs {
    fn roots(&self, demo: Option<&Demo>) -> io::Result<Roots> {
        let mut roots = self.roots.clone();
        if roots.is_empty() {
            roots.extend(demo.map(Demo::project));
        }
        if roots.is_empty() {
            roots.push(std::env::current_dir()?);
        }
        Roots::new(&roots)
    }

    /// Tells that the worker is connected.
    fn announce(&self, name: &str) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        if self.json {
            let ready = WorkerReady { name, pid: std::process::id(), slots: self.slots };
            writeln!(out, "{}", serde_json::to_string(&ready)?)?;
        } else {
            let slots = if self.slots == 1 { "1 slot" } else { &format!("{} slots", self.slots) };
            writeln!(out, "{name} is connected to the fleet, with {slots}. Ctrl-C stops it.")?;
        }
        out.flush()
    }
}

impl WorkerCommandError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(BusError::Setup(_)) => {
                Some("run `towpath fleet init`, then `towpath fleet check`")
            }
            Self::NoName => Some("give it a name with `--name`"),
            _ => None,
        }
    }
}

/// The name of this machine, as far as a name in a fleet may have it.
fn host_name() -> Option<String> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = name.split('.').next().unwrap_or_default().to_owned();
    (!name.is_empty()).then_some(name)
}

/// The shortest time after which sessions are taken over: leases last 15 seconds.
const MIN_TAKEOVER: Duration = Duration::from_secs(30);

/// A time such as `90s`, `10m` or `2h`.
pub(crate) fn parse_takeover(text: &str) -> Result<Duration, String> {
    let (number, unit) =
        text.split_at(text.trim_end_matches(|it: char| !it.is_ascii_digit()).len());
    let number: u64 = number.parse().map_err(|_| "write a time such as `10m`".to_owned())?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err("write a time such as `90s`, `10m` or `2h`".to_owned()),
    };
    let time = Duration::from_secs(number.saturating_mul(seconds));
    if time < MIN_TAKEOVER {
        return Err("a worker must be away for 30 seconds at least".to_owned());
    }
    Ok(time)
}
