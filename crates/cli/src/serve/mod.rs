//! `towpath serve`: runs the gateway until a signal stops it.

mod arguments;
mod demo;
mod lock;
mod stop;
mod telegram;
mod tokens;
mod watch_supervisor;

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anstream::eprintln;
use gateway::access::{Role, TokenSecret, TokenStore, TokenStoreError};
use gateway::{Certificate, GatewayConfig, Hosts, ProxyConfig, Roots, TlsError};
use journal::DirectoryWarning;
use serde::Serialize;
use session::{AgentProgram, OpenError, SessionLimits, Sessions, SessionsConfig, UnattendedLimits};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

pub(crate) use arguments::ServeArgs;
use arguments::ServeCommand;
pub(crate) use demo::Demo;
pub(crate) use lock::ServerLock;
use lock::ServerRunning;
pub(crate) use stop::{StopMode, release};
use telegram::ServerBridge;
use watch_supervisor::WatchSupervisor;

use crate::clock::now;
use crate::exit::CommandStatus;
use crate::exit::report_error;
use crate::settings::{AgentLookupError, CliSettings, SettingsError};
use crate::telegram::TelegramError;

/// How long the parts beside the gateway may take to stop.
const PARTS_TIMEOUT: Duration = Duration::from_secs(2);

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
    #[error("could not print the address")]
    Announce(#[source] io::Error),
    #[error(transparent)]
    Serve(#[from] gateway::Error),
    #[error(transparent)]
    TelegramError(#[from] TelegramError),
}

impl ServeError {
    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::TelegramError(no) => return no.hint(),
            Self::Settings(no) => return no.hint(),
            Self::Agent(no) => return no.hint(),
            Self::Journal(_) => "run `towpath doctor` to check it",
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

/// The line that `--json` prints.
#[derive(Serialize)]
struct ReadyLine<'a> {
    url: &'a str,
    token: &'a str,
    pid: u32,
}

async fn run_command(args: &ServeArgs) -> Result<CommandStatus, ServeError> {
    let is_demo = args.agent.demo && !args.stop && args.command.is_none();
    let demo = is_demo.then(Demo::new).transpose().map_err(ServeError::Demo)?;
    let mut settings = CliSettings::from_environment()?;
    if let Some(data) = args.data.clone().or_else(|| demo.as_ref().map(Demo::data)) {
        settings.data_directory = std::path::absolute(&data).unwrap_or(data);
    }
    let warnings = settings.secure_data_directory()?;
    if let Some(ServeCommand::Tokens(command)) = &args.command {
        return tokens::run(command, &settings.data_directory);
    }
    if args.stop {
        return stop::stop(&settings).await;
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
    let agent = settings.find_agent(&args.agent)?;
    let lock = ServerLock::acquire(&settings.data_directory)?;
    let tokens = Arc::new(TokenStore::open(&settings.data_directory)?);
    let listener = TcpListener::bind(args.listen).await;
    let listen = |source| ServeError::Listen { address: args.listen, source };
    let listener = listener.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let sessions = Sessions::new(home(settings, agent)?, settings.open_journal()?);
    let data = settings.data_directory.display();
    info!(%address, %data, version = env!("CARGO_PKG_VERSION"), "the server starts");
    // A session that another process runs, or that cannot be read, does not keep the server from
    // running the others.
    for (id, problem) in sessions.recover().await? {
        eprintln!("note: session {} could not be opened: {problem}", crate::sessions::short_id(id));
    }
    if let Some(demo) = demo {
        demo.create_session(&sessions).await?;
    }
    let roots = roots(&args.roots, demo)?;
    let config = GatewayConfig {
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
        demo: args.agent.demo,
        secure,
        max_connections: args.connections as usize,
    };
    let link = (!args.no_link).then(|| tokens.add(LINK_TOKEN, Role::Admin, now()));
    let link = link.transpose()?;
    let beside = || ServerBridge::start(&args.bot, settings, roots.clone(), sessions.clone());
    let beside = args.telegram.then(beside).transpose()?;
    print_address(args, address, link.as_ref()).map_err(ServeError::Announce)?;
    let watch_supervisor = WatchSupervisor::start(sessions.journal().clone(), roots);
    let mut mode = StopMode::KeepAgents;
    let shutdown = async { mode = signals.wait(&tokens).await };
    let (store, served) = (Arc::clone(&tokens), sessions.clone());
    gateway::run(listener, tls, served, store, config, shutdown).await?;
    info!("the server stops");
    let watch_stopped = tokio::time::timeout(PARTS_TIMEOUT, watch_supervisor.stop());
    let telegram_stopped = async {
        if let Some(beside) = beside {
            beside.stop().await;
        }
    };
    // The next server continues what was not finished in time.
    let _ = tokio::join!(watch_stopped, telegram_stopped);
    // The data of a demo is removed with it, so no other server could take over its agents.
    let temporary = demo.is_some() && args.data.is_none();
    release(mode, temporary, &sessions, &lock).await;
    Ok(CommandStatus::Success)
}

/// Agents outlive this process, because another server is expected soon.
pub(crate) fn home(
    settings: &CliSettings,
    agent: AgentProgram,
) -> Result<SessionsConfig, SettingsError> {
    Ok(SessionsConfig {
        unattended: UnattendedLimits::LONG,
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

fn print_address(
    args: &ServeArgs,
    address: SocketAddr,
    token: Option<&TokenSecret>,
) -> io::Result<()> {
    let scheme = if args.tls_cert.is_some() { "https" } else { "http" };
    let url = match args.hosts.first() {
        Some(name) if !address.ip().is_loopback() => {
            format!("{scheme}://{name}:{}", address.port())
        }
        _ => format!("{scheme}://{address}"),
    };
    let mut stdout = io::stdout().lock();
    match token {
        Some(token) if args.json => {
            let ready = ReadyLine { url: &url, token: token.reveal(), pid: std::process::id() };
            let mut line = serde_json::to_vec(&ready)?;
            line.push(b'\n');
            stdout.write_all(&line)?;
        }
        Some(token) => writeln!(stdout, "{url}/#token={}", token.reveal())?,
        None => eprintln!("listening on {url}"),
    }
    stdout.flush()
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
