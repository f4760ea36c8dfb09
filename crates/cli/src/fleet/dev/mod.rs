//! `towpath fleet dev`: a fleet on this machine, for trying out and for tests.
//!
//! It starts NATS servers, workers and a gateway as processes, and ends them all when it is stopped. They are
//! the same programs as in production, so what can be tried here includes killing them.

mod announcement;
mod arguments;
mod nats;
mod process;
mod supervisor;

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fleet::bus::BusError;
use fleet::bus::nats::NatsConfig;
use fleet::setup::{FleetSetup, FleetSize};
use gateway::access::{Role, TokenStore, TokenStoreError};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use announcement::ReadyFleet;
pub(crate) use arguments::DevArgs;
use nats::DevServers;
use process::{ProcessKind, Recipe, is_port_taken, log_file};
use supervisor::DevSupervisor;

use crate::clock::now;
use crate::exit::CommandStatus;
use crate::serve::{Demo, ServeError, ServerLock, StopSignals};
use crate::settings::{CliSettings, SettingsError};

/// How long the servers, and each of the other processes, may take to be ready, also on a busy machine.
const START_TIMEOUT: Duration = Duration::from_mins(1);

const RETRY: Duration = Duration::from_millis(50);

/// How often servers are started with other ports, because another program took one of them.
const START_ATTEMPTS: usize = 5;

/// The name of the token that is printed. It stays valid when the gateway is started again.
const TOKEN: &str = "fleet-dev";

#[derive(Debug, thiserror::Error)]
pub(super) enum DevError {
    #[error("could not use `{}`", path.display())]
    Data { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Lock(#[from] ServeError),
    #[error(transparent)]
    Tokens(#[from] TokenStoreError),
    #[error("could not use a root directory")]
    Root(#[source] io::Error),
    #[error("`{0}` accepts connections from other machines")]
    NotLoopback(SocketAddr),
    #[error("NATS server `{}` not found", .0.display())]
    NoNats(OsString),
    #[error("could not run `{}`", program.display())]
    Program { program: PathBuf, source: io::Error },
    #[error("`{}` is not a NATS server", .0.display())]
    NotNats(PathBuf),
    #[error("`{}` is NATS {version}, which is too old: 2.12 is needed", program.display())]
    OldNats { program: PathBuf, version: String },
    #[error("`{}` was used with {earlier} NATS servers, not with {asked}", data.display())]
    OtherServers { data: PathBuf, earlier: u8, asked: u8 },
    #[error("could not set up the NATS servers")]
    Setup(#[source] BusError),
    #[error("{what} did not start{}", shown(log))]
    NotStarted { what: String, log: String },
    #[error("could not listen for signals")]
    Signals(#[source] io::Error),
    #[error("could not write the output")]
    Write(#[source] io::Error),
}

impl DevError {
    pub(super) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Lock(error) => return error.hint(),
            Self::Settings(error) => return error.hint(),
            Self::NoNats(_) => {
                "install nats-server 2.12 or later (https://github.com/nats-io/nats-server/releases), or \
                 name one with `--nats-server` or `TOWPATH_NATS_SERVER`"
            }
            Self::NotNats(_) => "name the program with `--nats-server`",
            Self::OldNats { .. } => {
                "install nats-server 2.15 from its releases on GitHub (the packages of Debian 12 and 13 are \
                 older), and name it with `--nats-server` or `TOWPATH_NATS_SERVER`"
            }
            Self::OtherServers { earlier, .. } => {
                return Some(format!("use `--servers {earlier}`, or another `--data`"));
            }
            Self::NotLoopback(_) => {
                "this command is for one machine; `docs/fleet.md` shows how to set up a fleet for others"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// Where everything of a fleet on this machine is.
struct DevPlan {
    data: PathBuf,
    roots: Vec<PathBuf>,
    servers: u8,
    program: PathBuf,
    towpath: PathBuf,
    /// Removed at the end.
    _temporary: Option<TempDir>,
}

pub(super) async fn run(args: &DevArgs) -> Result<CommandStatus, DevError> {
    if !args.listen.ip().is_loopback() {
        return Err(DevError::NotLoopback(args.listen));
    }
    let settings = CliSettings::from_environment()?;
    let mut signals = StopSignals::listen().map_err(DevError::Signals)?;
    let program =
        settings.find_nats_server(args.nats_server.as_deref()).map_err(DevError::NoNats)?;
    nats::check_version(&program).await?;
    let plan = DevPlan::new(args, program)?;
    let _lock = ServerLock::acquire(&plan.data).await?;
    let mut supervisor = DevSupervisor::new(args.restart).map_err(DevError::Signals)?;
    let started = tokio::select! {
        started = start(args, &plan, &mut supervisor) => started.map(Some),
        _ = signals.stopped() => Ok(None),
    };
    let result = match started {
        Ok(Some(ready)) => match ready.print(args.json).map_err(DevError::Write) {
            Ok(()) => {
                supervisor.run(signals.stopped()).await;
                Ok(CommandStatus::Success)
            }
            Err(error) => Err(error),
        },
        Ok(None) => Ok(CommandStatus::Success),
        Err(error) => Err(error),
    };
    supervisor.stop(&mut signals).await;
    for worker in plan.worker_directories() {
        supervisor::stop_agents(&settings, worker).await;
    }
    result
}

impl DevPlan {
    fn new(args: &DevArgs, program: PathBuf) -> Result<Self, DevError> {
        let failed = |path: &Path, source| DevError::Data { path: path.to_owned(), source };
        let (data, temporary) = if let Some(data) = &args.data {
            (data.clone(), None)
        } else {
            let made = tempfile::Builder::new().prefix("towpath-fleet-").tempdir();
            let made = made.map_err(|source| failed(&std::env::temp_dir(), source))?;
            (made.path().to_owned(), Some(made))
        };
        let data = std::path::absolute(&data).unwrap_or(data);
        journal::secure_directory(&data).map_err(SettingsError::from)?;
        for name in ["nats", "logs"] {
            let path = data.join(name);
            std::fs::create_dir_all(&path).map_err(|source| failed(&path, source))?;
        }
        let asked = args.servers.as_deref().and_then(|it| it.parse().ok());
        let earlier = nats::earlier_count(&data.join("nats"));
        if let (Some(earlier), Some(asked)) = (earlier, asked)
            && earlier != asked
        {
            return Err(DevError::OtherServers { data, earlier, asked });
        }
        let mut roots = args.roots.clone();
        if roots.is_empty() && args.agent.demo {
            let project = data.join("ferry");
            if !project.exists() {
                Demo::write_project(&project).map_err(|source| failed(&project, source))?;
            }
            roots.push(project);
        } else if roots.is_empty() {
            roots.push(std::env::current_dir().map_err(DevError::Root)?);
        }
        for root in &mut roots {
            *root = root.canonicalize().map_err(DevError::Root)?;
        }
        let towpath = std::env::current_exe().map_err(SettingsError::OwnPath)?;
        let servers = asked.or(earlier).unwrap_or(1);
        Ok(Self { data, roots, servers, program, towpath, _temporary: temporary })
    }

    /// The data directories of all workers that this directory was ever used with.
    fn worker_directories(&self) -> Vec<PathBuf> {
        let directories = (1..).map(|number| self.data.join(format!("w{number}")));
        directories.take_while(|directory| directory.is_dir()).collect()
    }

    fn worker(&self, args: &DevArgs, name: String, servers: &DevServers) -> Recipe {
        // Nothing of it can be reached from other machines.
        let mut arguments: Vec<OsString> =
            vec!["worker".into(), "--json".into(), "--terminal".into()];
        let mut option = |name: &str, value: OsString| arguments.extend([name.into(), value]);
        option("--nats", servers.addresses.join(",").into());
        option("--creds", servers.credentials.clone().into());
        option("--name", name.clone().into());
        option("--slots", args.slots.to_string().into());
        option("--data", self.data.join(&name).into());
        for root in &self.roots {
            option("--root", root.clone().into());
        }
        if let Some(claude) = &args.agent.claude {
            option("--claude", claude.clone());
        }
        if let Some(agent) = &args.default_agent.name {
            option("--agent", agent.clone().into());
        }
        if let Some(takeover) = args.takeover {
            option("--takeover", format!("{}s", takeover.as_secs()).into());
        }
        if args.agent.demo {
            arguments.push("--demo".into());
        }
        self.recipe(ProcessKind::Worker, name, arguments)
    }

    fn gateway(&self, listen: SocketAddr, servers: &DevServers) -> Recipe {
        let mut arguments: Vec<OsString> = vec!["serve".into(), "--json".into()];
        let mut option = |name: &str, value: OsString| arguments.extend([name.into(), value]);
        option("--nats", servers.addresses.join(",").into());
        option("--creds", servers.credentials.clone().into());
        option("--data", self.gateway_directory().into());
        option("--listen", listen.to_string().into());
        self.recipe(ProcessKind::Gateway, "gateway".to_owned(), arguments)
    }

    fn gateway_directory(&self) -> PathBuf {
        self.data.join("gateway")
    }

    fn recipe(&self, kind: ProcessKind, name: String, arguments: Vec<OsString>) -> Recipe {
        let log = log_file(&self.data.join("logs"), &name);
        Recipe { kind, name, program: self.towpath.clone(), arguments, log }
    }
}

/// Starts everything, and returns when all of it is ready.
async fn start(
    args: &DevArgs,
    plan: &DevPlan,
    supervisor: &mut DevSupervisor,
) -> Result<ReadyFleet, DevError> {
    let servers = start_servers(plan, supervisor).await?;
    let names = (1..=args.workers).map(|number| format!("w{number}"));
    let recipes: Vec<_> = names.map(|name| plan.worker(args, name, &servers)).collect();
    // All at once: each of them waits for the disk and the servers.
    let mut starting = Vec::new();
    for recipe in &recipes {
        starting.push(supervisor.start(recipe)?);
    }
    let mut workers = Vec::new();
    for process in starting {
        let (name, pid) = (process.name().to_owned(), process.pid());
        process.ready(START_TIMEOUT).await?;
        workers.push((name, pid));
    }
    // After the workers, so that it knows all of them when it is ready.
    let directory = plan.gateway_directory();
    journal::secure_directory(&directory).map_err(SettingsError::from)?;
    let token = TokenStore::open(&directory)?.add(TOKEN, Role::Admin, now())?;
    let process = supervisor.start(&plan.gateway(args.listen, &servers))?;
    let pid = process.pid();
    let ready = process.ready(START_TIMEOUT).await?;
    let url = ready["url"].as_str().unwrap_or_default().to_owned();
    // If it is started again, it has the same address.
    if let Some(address) = url.strip_prefix("http://").and_then(|it| it.parse().ok()) {
        supervisor.replace(plan.gateway(address, &servers));
    }
    Ok(ReadyFleet {
        url,
        token: token.reveal().to_owned(),
        pid,
        nats: servers.open_addresses,
        workers,
        roots: plan.roots.clone(),
        data: args.data.is_some().then(|| plan.data.clone()),
    })
}

/// Starts the servers, and creates the streams as soon as they can be stored.
async fn start_servers(
    plan: &DevPlan,
    supervisor: &mut DevSupervisor,
) -> Result<DevServers, DevError> {
    let mut attempt = 1;
    loop {
        let servers = DevServers::prepare(&plan.program, &plan.data.join("nats"), plan.servers)?;
        for recipe in &servers.recipes {
            // Only what this attempt writes matters.
            let _ = std::fs::remove_file(&recipe.log);
            supervisor.start(recipe)?;
        }
        match set_up(plan, &servers, supervisor).await {
            Err(DevError::NotStarted { log, .. })
                if is_port_taken(&log) && attempt < START_ATTEMPTS =>
            {
                attempt += 1;
                supervisor.kill_all().await;
            }
            result => return result.map(|()| servers),
        }
    }
}

async fn set_up(
    plan: &DevPlan,
    servers: &DevServers,
    supervisor: &mut DevSupervisor,
) -> Result<(), DevError> {
    let config = NatsConfig {
        servers: servers.addresses.clone(),
        credentials: Some(servers.credentials.clone()),
        authorities: None,
        certificate: None,
        name: super::CONNECTION_NAME.to_owned(),
    };
    let size = if plan.servers == 1 { FleetSize::Single } else { FleetSize::Cluster };
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        if let Some(ended) = supervisor.ended() {
            return Err(ended.into_error());
        }
        let initialized = async { FleetSetup::connect(&config).await?.init(size).await };
        // The servers refuse everything until they have found each other and elected a leader.
        match timeout(START_TIMEOUT, initialized).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) if Instant::now() > deadline => return Err(DevError::Setup(error)),
            _ => sleep(RETRY).await,
        }
    }
}

fn shown(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!(":\n{log}") }
}
