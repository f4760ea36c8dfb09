//! `towpath host`: the background process that drives the sessions of clients that may go away.
//!
//! A client starts it (see [`session::host`]); it is not part of the documented command line. This
//! module also has what servers do as session hosts, and what other commands tell about them.

mod detach;
mod server;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use session::host::{BackgroundHost, HostClient, HostListener, HostLock, SessionHost};
use session::{AgentProgram, SessionLimits, SessionsConfig, UnattendedLimits};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

pub(crate) use server::{HostState, become_host, find_host, stop_background_host};

use crate::exit::CommandStatus;
use crate::serve::{ServerLock, StopSignals};
use crate::settings::{CliSettings, SettingsError};

/// How long to wait for a host that exits, or for a server that starts.
const START_TIMEOUT: Duration = Duration::from_secs(10);

const RETRY: Duration = Duration::from_millis(20);

/// How long releasing the sessions may take. The next host takes over the others all the same.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long agents without a host run. A host that was killed is missed only when its clients come
/// back, and an idle agent is soon started again.
const UNATTENDED: UnattendedLimits =
    UnattendedLimits { idle: Duration::from_mins(1), ..UnattendedLimits::LONG };

/// Drive the sessions of clients that may go away
#[derive(Args)]
pub(crate) struct HostArgs {
    /// The data directory
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The directory for sockets whose path would be too long
    #[arg(long, value_name = "DIR")]
    runtime: PathBuf,
    /// How long to stay when there is nothing to do, in milliseconds
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000)]
    linger: u64,
}

#[derive(Debug, thiserror::Error)]
enum HostCommandError {
    #[error("could not start the runtime")]
    Runtime(#[source] io::Error),
    #[error("could not use the lock of the session host")]
    Lock(#[source] io::Error),
    #[error("could not listen for clients")]
    Listen(#[source] io::Error),
    #[error("a server runs on `{}` that hosts no sessions", .0.display())]
    OtherServer(PathBuf),
    #[error("another session host runs and does not answer")]
    Stuck,
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("the journal cannot be used")]
    Journal(#[from] journal::Error),
}

pub(crate) fn run(args: &HostArgs) -> CommandStatus {
    detach::detach();
    let settings = CliSettings::for_host(args.data.clone(), args.runtime.clone());
    crate::log::init_with_file(&settings.log_file("host"));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let ran = runtime.map_err(HostCommandError::Runtime).and_then(|runtime| {
        let ran = runtime.block_on(host(args, &settings));
        runtime.shutdown_background();
        ran
    });
    match ran {
        Ok(()) => CommandStatus::Success,
        Err(error) => {
            // The stderr of this process goes nowhere.
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::error!(%error, cause, "the session host could not run");
            CommandStatus::Error
        }
    }
}

async fn host(args: &HostArgs, settings: &CliSettings) -> Result<(), HostCommandError> {
    let mut signals = StopSignals::listen().map_err(HostCommandError::Runtime)?;
    let Some(lock) = wait_for_lock(settings).await? else {
        info!("another process hosts the sessions");
        return Ok(());
    };
    // How agents are started comes with each session.
    let unused = AgentProgram { program: "claude".into(), arguments: Vec::new() };
    let config = SessionsConfig {
        unattended: UNATTENDED,
        takeover_delay: Duration::ZERO,
        prompt_gate: session::PromptGate::default(),
        ..settings.session_config(unused, SessionLimits::default())?
    };
    let journal = settings.open_journal()?;
    let sessions = BackgroundHost::new(config, journal.clone());
    let listener =
        HostListener::start(lock, &args.runtime, SessionHost::Background(sessions.clone()));
    let listener = listener.map_err(HostCommandError::Listen)?;
    info!(version = env!("CARGO_PKG_VERSION"), "the session host starts");
    let collecting = tokio::spawn({
        let sessions = sessions.clone();
        async move { sessions.collect().await }
    });
    let is_idle = tokio::select! {
        () = sessions.idle(Duration::from_millis(args.linger)) => true,
        () = sessions.asked_to_leave() => false,
        _ = signals.stopped() => false,
    };
    collecting.abort();
    // From here on no session is opened, and the next host waits for the lock.
    let lock = listener.close();
    if is_idle {
        sessions.retire().await;
    } else {
        info!("the session host leaves");
        let released = tokio::time::timeout(RELEASE_TIMEOUT, sessions.release()).await;
        if released.is_err() {
            warn!("some sessions did not store their last changes in time");
        }
        for id in released.unwrap_or_default() {
            warn!(session = %id, "the last changes of a session were not stored");
        }
    }
    let closed = journal.close().await;
    drop(lock);
    Ok(closed?)
}

/// Waits for the right to be the session host. None if another process is.
async fn wait_for_lock(settings: &CliSettings) -> Result<Option<HostLock>, HostCommandError> {
    let data = &settings.data_directory;
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        let has_server = ServerLock::is_held(data);
        // A server that starts or stops is the host, or is about to make way for one.
        if !has_server
            && let Some(lock) = HostLock::try_acquire(data).map_err(HostCommandError::Lock)?
        {
            return Ok(Some(lock));
        }
        if answers(settings).await {
            return Ok(None);
        }
        if Instant::now() >= deadline {
            return Err(if has_server {
                HostCommandError::OtherServer(data.clone())
            } else {
                HostCommandError::Stuck
            });
        }
        sleep(RETRY).await;
    }
}

/// Whether a session host answers.
async fn answers(settings: &CliSettings) -> bool {
    let (data, runtime): (&Path, &Path) = (&settings.data_directory, &settings.runtime_directory);
    HostClient::connect(data, runtime).await.is_ok_and(|client| client.is_some())
}
