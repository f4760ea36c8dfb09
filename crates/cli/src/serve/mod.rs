//! `towpath serve`: runs the gateway until a signal stops it.

mod announcement;
mod arguments;
mod demo;
mod fleet_bridge;
mod fleet_tokens;
mod lock;
mod newer_cli;
mod server_record;
mod stop;
mod telegram;
mod tokens;
mod watch_supervisor;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anstream::eprintln;
use fleet::bus::{Bus, BusError};
use fleet::gateway::Fleet;
use fleet::mirror::Mirror;
use gateway::access::{Role, TokenSecret, TokenStore, TokenStoreError};
use gateway::{
    Certificate, EndpointPolicy, GatewayConfig, Hosts, ProxyConfig, PushConfig, Roots, TlsError,
};
use journal::{DirectoryWarning, Journal};
use session::{
    AgentProgram, OpenError, SessionLimits, Sessions, SessionsConfig, UnattendedLimits, WatchPolicy,
};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::unbounded_channel;
use tracing::{info, warn};

pub(crate) use arguments::ServeArgs;
use arguments::ServeCommand;
pub(crate) use demo::Demo;
use fleet_bridge::ServedFleet;
use fleet_tokens::SharedTokens;
pub(crate) use lock::ServerLock;
use lock::ServerRunning;
use newer_cli::NewerCliTask;
use server_record::ServerRecord;
pub(crate) use stop::{StopMode, release};
pub(crate) use watch_supervisor::WatchSupervisor;

use crate::clock::now;
use crate::exit::CommandStatus;
use crate::exit::report_error;
use crate::fleet::{ConnectionTime, NatsArgs};
use crate::host::become_host;
use crate::settings::{AgentLookupError, CliSettings, SettingsError};
use crate::telegram::TelegramError;
use crate::watch::WatchArgsError;

/// How long the parts beside the gateway may take to stop.
const PARTS_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the server waits for a copy of the fleet's sessions. The rest is copied while it runs.
const FLEET_TIMEOUT: Duration = Duration::from_secs(20);

/// The name of the token in the printed link. Each start creates a new one; browsers stay signed in.
const LINK_TOKEN: &str = "link";

pub(crate) fn run(args: &ServeArgs) -> CommandStatus {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let result = runtime.map_err(ServeError::Runtime).and_then(|runtime| {
        let result = runtime.block_on(run_command(args));
        // Threads that still read for a disconnected client must not delay the exit.
        runtime.shutdown_background();
        result
    });
    match result {
        Ok(status) => status,
        Err(error) => {
            report_error(&error, error.hint().as_deref());
            CommandStatus::Error
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error("could not start the async runtime")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Agent(#[from] AgentLookupError),
    #[error("could not use the journal")]
    Journal(#[from] journal::Error),
    #[error("`{0}` accepts connections from other machines without encryption")]
    NotLoopback(SocketAddr),
    #[error("any user of this machine could sign in with `--trusted-header`")]
    NoTrustedProxy,
    #[error("could not listen on `{address}`")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("could not use a root directory")]
    Root(#[source] io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Tokens(#[from] TokenStoreError),
    #[error("could not use the lock file `{}`", path.display())]
    Lock { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Running(#[from] ServerRunning),
    #[error("could not set up the demo")]
    Demo(#[source] io::Error),
    #[error("could not create the demo session")]
    FirstSession(#[from] OpenError),
    #[error("could not connect to the fleet's servers")]
    Fleet(#[source] BusError),
    #[error(
        "files of a fleet's sessions change on other machines, so nothing can be done with them here"
    )]
    ActionsOfFleet,
    #[error("could not print the address")]
    Announce(#[source] io::Error),
    #[error(transparent)]
    Serve(#[from] gateway::Error),
    #[error(transparent)]
    TelegramError(#[from] TelegramError),
    #[error(transparent)]
    Watch(#[from] WatchArgsError),
}

impl ServeError {
    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::TelegramError(no) => return no.hint(),
            Self::Settings(no) => return no.hint(),
            Self::Agent(no) => return no.hint(),
            Self::Watch(no) => return no.hint().map(str::to_owned),
            Self::Journal(_) => "run `towpath doctor` to check it",
            Self::Fleet(BusError::Setup(_)) => "run `towpath fleet check` to see what is missing",
            Self::ActionsOfFleet => "leave out `--commit`, `--to` and the hooks",
            Self::NotLoopback(_) => {
                "use `--tls-cert` and `--tls-key`, a proxy with TLS, or `--without-tls`"
            }
            Self::NoTrustedProxy => {
                "name the address that your proxy connects from with `--trusted-proxy`, and make sure \
                 that only the proxy can connect from there"
            }
            Self::Listen { .. } => "use port 0 to select a free one: `--listen 127.0.0.1:0`",
            Self::Running(_) => "stop it with `towpath serve --stop`",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

async fn run_command(args: &ServeArgs) -> Result<CommandStatus, ServeError> {
    let is_demo = args.agent.demo && !args.stop && args.command.is_none();
    let demo = is_demo.then(Demo::new).transpose().map_err(ServeError::Demo)?;
    let mut settings = CliSettings::from_environment()?;
    if let Some(data) = args.data.clone().or_else(|| demo.as_ref().map(Demo::data)) {
        settings.data_directory = std::path::absolute(&data).unwrap_or(data);
    } else if args.fleet.servers().is_some() {
        // A copy of the fleet's sessions is not mixed with the sessions of this machine.
        settings.data_directory = settings.data_directory.join("gateway");
    }
    let warnings = settings.secure_data_directory()?;
    if let Some(ServeCommand::Tokens(command)) = &args.command {
        return tokens::run(command, &settings.data_directory);
    }
    if args.stop {
        return stop::stop(args, &settings).await;
    }
    serve(args, &settings, demo.as_ref(), &warnings).await
}

async fn serve(
    args: &ServeArgs,
    settings: &CliSettings,
    demo: Option<&Demo>,
    warnings: &[DirectoryWarning],
) -> Result<CommandStatus, ServeError> {
    if args.trusted_header.is_some() && args.trusted_proxies.is_empty() {
        return Err(ServeError::NoTrustedProxy);
    }
    let log = crate::log::init_with_file(&settings.log_file("serve"));
    for warning in warnings {
        warn!("{warning}");
    }
    let mut signals = StopSignals::listen().map_err(ServeError::Runtime)?;
    let secure = args.tls_cert.is_some();
    if !args.listen.ip().is_loopback() && !secure && !args.without_tls {
        return Err(ServeError::NotLoopback(args.listen));
    }
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(chain), Some(key)) => Some(Certificate::read(chain, key)?),
        _ => None,
    };
    let servers = args.fleet.servers();
    let agent = if servers.is_some() {
        // Agents are started on other machines.
        AgentProgram { program: "claude".into(), arguments: Vec::new() }
    } else {
        settings.find_default_program(&args.agent, args.default_agent.name.as_deref())?
    };
    let lock = ServerLock::acquire(&settings.data_directory).await?;
    let tokens = Arc::new(TokenStore::open(&settings.data_directory)?);
    let listener = TcpListener::bind(args.listen).await;
    let listen = |source| ServeError::Listen { address: args.listen, source };
    let listener = listener.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let default = args.actions.default_config(args.stop_hook.as_deref())?.map(Arc::new);
    if servers.is_some() && default.is_some() {
        return Err(ServeError::ActionsOfFleet);
    }
    let (hooks, hook_requests) = unbounded_channel();
    let mut home = home(settings, agent)?;
    home.limits.budget_per_day = args.budget_per_day.or(home.limits.budget_per_day);
    home.allow_bypass = args.allow_bypass;
    args.default_agent.apply(&mut home.agents).map_err(AgentLookupError::from)?;
    home.watch = WatchPolicy { default, hooks: Some(hooks) };
    let journal = settings.open_journal()?;
    let (sessions, fleet) = match &servers {
        Some(servers) => {
            let connecting = connect(servers, &args.fleet.gateway_name, &journal);
            // Nothing runs here that would have to be stopped.
            let connected = signals.unless_stopped(connecting).await;
            let Some(fleet) = connected else { return Ok(CommandStatus::Success) };
            let fleet = fleet?;
            let relay = Arc::new(fleet.fleet.clone());
            (Sessions::relayed(home, journal, relay), Some(fleet))
        }
        None => (Sessions::new(home, journal), None),
    };
    let host = if servers.is_none() { become_host(settings, &sessions).await } else { None };
    info!(%address, data = %settings.data_directory.display(), version = env!("CARGO_PKG_VERSION"), "the server starts");
    // A session that another process runs, or that cannot be read, does not keep the server from
    // running the others.
    for (id, problem) in sessions.recover().await? {
        eprintln!("note: session {} could not be opened: {problem}", crate::sessions::short_id(id));
    }
    if let Some(demo) = demo {
        demo.create_session(&sessions).await?;
    }
    // Nothing of this machine belongs to the sessions of a fleet.
    let roots = if servers.is_some() {
        Roots::new(&[]).map_err(ServeError::Root)?
    } else {
        roots(&args.roots, demo)?
    };
    let config = gateway_config(args, settings, address, &roots, log);
    // The data of a demo is removed with it, so no other server could take over its agents.
    let temporary = demo.is_some() && args.data.is_none();
    let record = ServerRecord { address, data: settings.data_directory.clone(), temporary };
    // Without a record, only `--stop` with the same data directory finds this server.
    let _record = record.write(&settings.runtime_directory).ok();
    let link = create_link(args, settings, fleet.as_ref(), &tokens)?;
    let _shared_tokens = fleet.as_ref().map(|it| SharedTokens::start(&it.bus, &tokens));
    let beside = || match fleet {
        Some(fleet) => fleet_bridge::start(&args.bot, settings, fleet, sessions.clone()),
        None => telegram::start(&args.bot, settings, roots.clone(), sessions.clone()),
    };
    let beside = args.telegram.then(beside).transpose()?;
    announcement::print(args, address, link.as_ref(), roots.directories())
        .map_err(ServeError::Announce)?;
    let start_watching = || WatchSupervisor::start(sessions.clone(), hook_requests, roots);
    let watch_supervisor = servers.is_none().then(start_watching);
    // The journal of a fleet's gateway is a copy, which only its workers write to.
    let _newer_cli = servers.is_none().then(|| NewerCliTask::start(sessions.journal().clone()));
    let mut mode = StopMode::KeepAgents;
    let shutdown = async { mode = signals.wait(&tokens).await };
    let (store, served) = (Arc::clone(&tokens), sessions.clone());
    gateway::run(listener, tls, served, store, config, shutdown).await?;
    info!("the server stops");
    // Clients wait for the next host, which starts when this server has exited.
    drop(host);
    let watch_stopped = async {
        if let Some(supervisor) = watch_supervisor {
            let _ = tokio::time::timeout(PARTS_TIMEOUT, supervisor.stop()).await;
        }
    };
    let telegram_stopped = async {
        if let Some(beside) = beside {
            beside.stop().await;
        }
    };
    // The next server continues what was not finished in time.
    let _ = tokio::join!(watch_stopped, telegram_stopped);
    release(mode, temporary, &sessions, &lock).await;
    Ok(CommandStatus::Success)
}

/// How the gateway serves.
fn gateway_config(
    args: &ServeArgs,
    settings: &CliSettings,
    address: SocketAddr,
    roots: &Roots,
    log: Option<PathBuf>,
) -> GatewayConfig {
    GatewayConfig {
        data: settings.data_directory.clone(),
        hosts: Hosts::new(address, &args.hosts),
        roots: roots.clone(),
        proxy: (!args.trusted_proxies.is_empty()).then(|| ProxyConfig {
            header: args.trusted_header.clone(),
            addresses: args.trusted_proxies.clone(),
            role: args.trusted_role.into(),
        }),
        log,
        pages: args.pages.clone(),
        shell: args.has_terminals().then(|| settings.shell_config()),
        demo: args.agent.demo,
        secure: args.tls_cert.is_some(),
        max_connections: args.connections as usize,
        push: PushConfig {
            endpoints: if args.allow_private_push {
                EndpointPolicy::Any
            } else {
                EndpointPolicy::Public
            },
            notify_after: Duration::from_secs(u64::from(args.notify_after)),
        },
    }
}

/// Creates the token of the printed link, if there is one.
fn create_link(
    args: &ServeArgs,
    settings: &CliSettings,
    fleet: Option<&ServedFleet>,
    tokens: &TokenStore,
) -> Result<Option<TokenSecret>, TokenStoreError> {
    if args.no_link {
        return Ok(None);
    }
    let name = match fleet {
        Some(fleet) => fleet_link_name(&fleet.gateway, &settings.data_directory),
        None => LINK_TOKEN.to_owned(),
    };
    tokens.add(&name, Role::Admin, now()).map(Some)
}

/// The name of the token in the link of a gateway. The gateways of a fleet share their tokens, and each start
/// replaces only its own.
fn fleet_link_name(gateway: &str, data: &Path) -> String {
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let digest = Sha256::digest(format!("{machine}\n{}", data.display()));
    let number = digest.iter().take(2).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    let is_allowed = |it: &char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    let gateway: String = gateway.chars().filter(is_allowed).take(40).collect();
    format!("{LINK_TOKEN}-{gateway}-{number:04x}")
}

/// Connects to a fleet. The journal is a copy of its sessions, which is kept up to date while this process runs. If
/// the servers are away, the copy is served as it is until they are back.
async fn connect(
    servers: &NatsArgs,
    name: &str,
    journal: &Journal,
) -> Result<ServedFleet, ServeError> {
    let connected = servers.connect_or_wait(name).await;
    let (bus, time) = connected.map_err(ServeError::Fleet)?;
    let bus: Arc<dyn Bus> = Arc::new(bus);
    let mirror = Mirror::open(Arc::clone(&bus), journal.clone()).await?;
    let fleet = Fleet::new(Arc::clone(&bus), mirror);
    tokio::spawn(fleet.clone().run());
    if time == ConnectionTime::Now
        && tokio::time::timeout(FLEET_TIMEOUT, fleet.ready()).await.is_err()
    {
        warn!("the copy of the fleet's sessions is not complete yet");
    }
    Ok(ServedFleet { bus, fleet, gateway: name.to_owned() })
}

/// Agents outlive this process, because another server is expected soon.
pub(crate) fn home(
    settings: &CliSettings,
    agent: AgentProgram,
) -> Result<SessionsConfig, SettingsError> {
    Ok(SessionsConfig {
        allow_bypass: false,
        unattended: UnattendedLimits::LONG,
        takeover_delay: Duration::ZERO,
        prompt_gate: session::PromptGate::default(),
        ..settings.session_config(agent, SessionLimits::default())?
    })
}

pub(crate) fn roots(given: &[PathBuf], demo: Option<&Demo>) -> Result<Roots, ServeError> {
    let mut roots = given.to_vec();
    roots.extend(demo.map(Demo::project));
    if roots.is_empty() {
        roots.push(std::env::current_dir().map_err(ServeError::Root)?);
    }
    Roots::new(&roots).map_err(ServeError::Root)
}

/// The signals that stop the server, and the one that reloads its tokens.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    stop_agents: Signal,
    reload_tokens: Signal,
}

impl StopSignals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            stop_agents: signal(SignalKind::user_defined1())?,
            reload_tokens: signal(SignalKind::user_defined2())?,
        })
    }

    /// Waits for a signal that stops the process.
    pub(crate) async fn stopped(&mut self) -> StopMode {
        tokio::select! {
            _ = self.interrupt.recv() => StopMode::KeepAgents,
            _ = self.terminate.recv() => StopMode::KeepAgents,
            _ = self.stop_agents.recv() => StopMode::StopAgents,
        }
    }

    /// What some work results in; none if a signal stops the process before.
    async fn unless_stopped<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            result = work => Some(result),
            _ = self.stopped() => None,
        }
    }

    /// Waits for a signal that stops the server, and reloads the tokens on request until then.
    async fn wait(&mut self, tokens: &TokenStore) -> StopMode {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return StopMode::KeepAgents,
                _ = self.terminate.recv() => return StopMode::KeepAgents,
                _ = self.stop_agents.recv() => return StopMode::StopAgents,
                _ = self.reload_tokens.recv() => if let Err(error) = tokens.reload() {
                    warn!(%error, "the access tokens could not be reloaded");
                },
            }
        }
    }
}
