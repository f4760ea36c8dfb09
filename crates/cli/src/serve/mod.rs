//! `towpath serve`: the gateway until someone ends it.

mod arguments;
mod demo;
mod post;
mod telegram;
mod tokens;
mod watching;

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anstream::eprintln;
use gateway::access::{Keyring, KeyringError, Role, Secret};
use gateway::{Certificate, Config, Hosts, Proxy, Roots, TlsError};
use serde::Serialize;
use session::machine::Limits;
use session::{AgentProgram, Alone, Home, OpenError, Sessions};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use arguments::Deed;
pub(crate) use arguments::ServeOptions;
pub(crate) use demo::Demo;
pub(crate) use post::Post;
use post::Taken;
use telegram::Beside;
use watching::Lookout;

use crate::clock::now;
use crate::complaint::complain;
use crate::settings::{NoAgent, NoHome, Settings};
use crate::telegram::NoBot;
use crate::verdict::Verdict;

/// How long letting go of sessions may take. Whatever it does not reach is picked up all the same.
const LEAVING: Duration = Duration::from_secs(2);

/// How long agents may take to end.
const ENDING: Duration = Duration::from_secs(20);

/// How often to look whether an agent has ended.
const LOOK: Duration = Duration::from_millis(50);

/// The token in the printed link. Each start makes a new one; browsers stay signed in.
const LINK: &str = "link";

/// Runs the command.
pub(crate) fn run(options: &ServeOptions) -> Verdict {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ran = runtime.map_err(Failure::Runtime).and_then(|runtime| {
        let ran = runtime.block_on(carry_out(options));
        // Threads that read for somebody who is gone must not hold up the end.
        runtime.shutdown_background();
        ran
    });
    match ran {
        Ok(verdict) => verdict,
        Err(failure) => {
            complain(&failure, failure.hint().as_deref());
            Verdict::CouldNotTry
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("could not set up what runs the server")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    NoHome(#[from] NoHome),
    #[error(transparent)]
    NoAgent(#[from] NoAgent),
    #[error("the journal cannot be used")]
    Journal(#[from] journal::Error),
    #[error("`{0}` is beyond this machine, and nothing would be encrypted")]
    NotLoopback(SocketAddr),
    #[error("could not listen on `{address}`")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("a root is not there")]
    Root(#[source] io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Keys(#[from] KeyringError),
    #[error("could not use `{}`", path.display())]
    Post { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Taken(#[from] Taken),
    #[error("could not set up the demonstration")]
    Demo(#[source] io::Error),
    #[error("could not set up the first session")]
    FirstSession(#[from] OpenError),
    #[error("could not say where it listens")]
    Announce(#[source] io::Error),
    #[error(transparent)]
    Serve(#[from] gateway::Error),
    #[error(transparent)]
    NoBot(#[from] NoBot),
}

impl Failure {
    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoBot(no) => return no.hint(),
            Self::NoHome(no) => return no.hint(),
            Self::NoAgent(no) => return no.hint(),
            Self::Journal(_) => "`towpath doctor` says what is wrong with it",
            Self::NotLoopback(_) => {
                "give `--tls-cert` and `--tls-key`, put a proxy in front, or say `--without-tls`"
            }
            Self::Listen { .. } => "port 0 takes one that is free: `--listen 127.0.0.1:0`",
            Self::Taken(_) => "`towpath serve --stop` ends it",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

#[derive(Serialize)]
struct Ready<'a> {
    url: &'a str,
    token: &'a str,
    pid: u32,
}

async fn carry_out(options: &ServeOptions) -> Result<Verdict, Failure> {
    let shows = options.agent.demo && !options.stop && options.deed.is_none();
    let demo = shows.then(Demo::new).transpose().map_err(Failure::Demo)?;
    let mut settings = Settings::read()?;
    if let Some(data) = options.data.clone().or_else(|| demo.as_ref().map(Demo::data)) {
        settings.data = std::path::absolute(&data).unwrap_or(data);
    }
    settings.make_data()?;
    if let Some(Deed::Tokens(deed)) = &options.deed {
        return tokens::carry_out(deed, &settings.data).map_err(Failure::Keys);
    }
    if options.stop {
        return stop(&settings).await;
    }
    serve(options, &settings, demo.as_ref()).await
}

async fn serve(
    options: &ServeOptions,
    settings: &Settings,
    demo: Option<&Demo>,
) -> Result<Verdict, Failure> {
    if options.telegram {
        crate::log::begin();
    }
    let mut ending = Ending::listen().map_err(Failure::Runtime)?;
    let secure = options.tls_cert.is_some();
    if !options.listen.ip().is_loopback() && !secure && !options.without_tls {
        return Err(Failure::NotLoopback(options.listen));
    }
    let tls = match (&options.tls_cert, &options.tls_key) {
        (Some(chain), Some(key)) => Some(Certificate::read(chain, key)?),
        _ => None,
    };
    let agent = settings.agent(&options.agent)?;
    let _post = Post::take(&settings.data)?;
    let keyring = Keyring::open(&settings.data)?;
    let listener = TcpListener::bind(options.listen).await;
    let listen = |source| Failure::Listen { address: options.listen, source };
    let listener = listener.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let sessions = Sessions::new(home(settings, agent)?, settings.journal()?);
    // What another Towpath drives, or left in a state nobody can read, is no reason not to serve
    // the rest; opening it says why.
    for (id, problem) in sessions.recover().await? {
        eprintln!("note: session {} is left alone: {problem}", crate::sessions::short(id));
    }
    if let Some(demo) = demo {
        demo.first_session(&sessions).await?;
    }
    let roots = roots(&options.roots, demo)?;
    let config = Config {
        data: settings.data.clone(),
        hosts: Hosts::new(address, &options.hosts),
        roots: roots.clone(),
        proxy: options.trusted_header.clone().map(|header| Proxy {
            header,
            addresses: options.trusted_proxies.clone(),
            role: options.trusted_role.into(),
        }),
        pages: options.pages.clone(),
        demo: options.agent.demo,
        secure,
        connections: options.connections as usize,
    };
    let link = (!options.no_link).then(|| keyring.add(LINK, Role::Admin, now()));
    let token = link.transpose()?;
    let beside = || Beside::begin(&options.bot, settings, roots.clone(), sessions.clone());
    let beside = options.telegram.then(beside).transpose()?;
    announce(options, address, token.as_ref()).map_err(Failure::Announce)?;
    let lookout = Lookout::begin(sessions.journal().clone(), roots);
    let mut how = How::Leave;
    let shutdown = async { how = ending.wait().await };
    gateway::run(listener, tls, sessions.clone(), config, shutdown).await?;
    let left = tokio::time::timeout(LEAVING, lookout.leave());
    let left_telegram = async {
        if let Some(beside) = beside {
            beside.leave().await;
        }
    };
    // Whatever did not get done in time is taken up by the next server.
    let _ = tokio::join!(left, left_telegram);
    // What a demonstration wrote goes with it, so nobody could pick its agents up.
    let fleeting = demo.is_some() && options.data.is_none();
    part(how, fleeting, &sessions).await;
    Ok(Verdict::Done)
}

/// Lets go of sessions, or ends their agents.
pub(crate) async fn part(how: How, fleeting: bool, sessions: &Sessions) {
    match how {
        How::Leave if fleeting => drop(tokio::time::timeout(LEAVING, end_agents(sessions)).await),
        // Nothing is lost if it takes longer: the journal has everything already.
        How::Leave => drop(tokio::time::timeout(LEAVING, sessions.leave()).await),
        How::EndAgents => drop(tokio::time::timeout(ENDING, end_agents(sessions)).await),
    }
}

/// Agents outlive this process: whoever serves next is expected soon.
pub(crate) fn home(settings: &Settings, agent: AgentProgram) -> Result<Home, NoHome> {
    Ok(Home { alone: Alone::PATIENT, ..settings.home(agent, Limits::default())? })
}

pub(crate) fn roots(given: &[PathBuf], demo: Option<&Demo>) -> Result<Roots, Failure> {
    let mut roots = given.to_vec();
    roots.extend(demo.map(Demo::project));
    if roots.is_empty() {
        roots.push(std::env::current_dir().map_err(Failure::Root)?);
    }
    Roots::new(&roots).map_err(Failure::Root)
}

fn announce(options: &ServeOptions, address: SocketAddr, token: Option<&Secret>) -> io::Result<()> {
    let scheme = if options.tls_cert.is_some() { "https" } else { "http" };
    let url = match options.hosts.first() {
        Some(name) if !address.ip().is_loopback() => {
            format!("{scheme}://{name}:{}", address.port())
        }
        _ => format!("{scheme}://{address}"),
    };
    let mut stdout = io::stdout().lock();
    match token {
        Some(token) if options.json => {
            let ready = Ready { url: &url, token: token.reveal(), pid: std::process::id() };
            let mut line = serde_json::to_vec(&ready)?;
            line.push(b'\n');
            stdout.write_all(&line)?;
        }
        Some(token) => writeln!(stdout, "{url}/#token={}", token.reveal())?,
        None => eprintln!("listening on {url}"),
    }
    stdout.flush()
}

/// How the server ends.
#[derive(Clone, Copy)]
pub(crate) enum How {
    /// Agents go on.
    Leave,
    /// Agents end too.
    EndAgents,
}

/// The signals that end the server.
pub(crate) struct Ending {
    interrupt: Signal,
    terminate: Signal,
    stop: Signal,
}

impl Ending {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            stop: signal(SignalKind::user_defined1())?,
        })
    }

    pub(crate) async fn wait(&mut self) -> How {
        tokio::select! {
            _ = self.interrupt.recv() => How::Leave,
            _ = self.terminate.recv() => How::Leave,
            _ = self.stop.recv() => How::EndAgents,
        }
    }
}

/// Ends the server of a data directory and the agents of its sessions, or those that a server which
/// is gone has left.
async fn stop(settings: &Settings) -> Result<Verdict, Failure> {
    if Post::dismiss(&settings.data).await? {
        eprintln!("stopped");
        return Ok(Verdict::Done);
    }
    let nobody = AgentProgram { program: "claude".into(), arguments: Vec::new() };
    let sessions = Sessions::new(home(settings, nobody)?, settings.journal()?);
    sessions.recover().await?;
    let ended = sessions.open_sessions().len();
    let _ = tokio::time::timeout(ENDING, end_agents(&sessions)).await;
    eprintln!("nobody serves here; {ended} agents were left, and are ended");
    Ok(if ended > 0 { Verdict::Done } else { Verdict::No })
}

/// Ends the agents of all sessions that are driven, and waits until they are gone.
async fn end_agents(sessions: &Sessions) {
    let open = sessions.open_sessions();
    for session in &open {
        if let Err(problem) = session.close().await {
            eprintln!("note: session {}: {problem}", crate::sessions::short(session.id()));
        }
    }
    for session in &open {
        // The answer comes when the agent is told to end; what it says last is still to be read.
        while let Ok(Some(record)) = sessions.journal().session(session.id()).await
            && sessions.has_remains(&record)
        {
            tokio::time::sleep(LOOK).await;
        }
    }
    sessions.leave().await;
}
