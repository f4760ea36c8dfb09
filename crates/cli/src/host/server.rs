//! The session host as other commands see it, and a server that becomes one.

use std::time::Duration;

use session::Sessions;
use session::host::{HostClient, HostKind, HostListener, HostLock, SessionHost};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::settings::CliSettings;

/// How long a background host may take to release its sessions and to exit.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a host may take to start listening, or to exit.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

const RETRY: Duration = Duration::from_millis(20);

/// What is known of the session host of a data directory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HostState {
    None,
    Running {
        kind: HostKind,
        pid: u32,
        sessions: Option<usize>,
    },
    /// A process has the lock and does not answer.
    Silent {
        pid: Option<u32>,
    },
}

/// Looks for the session host of the data directory. One that starts or exits is waited for.
pub(crate) async fn find_host(settings: &CliSettings) -> HostState {
    let data = &settings.data_directory;
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    loop {
        let client = HostClient::connect(data, &settings.runtime_directory).await;
        if let Ok(Some(mut client)) = client {
            let sessions = client.ping().await.ok().map(|status| status.sessions);
            return HostState::Running { kind: client.kind(), pid: client.pid(), sessions };
        }
        match HostLock::holder(data) {
            None => return HostState::None,
            Some(pid) if Instant::now() >= deadline => return HostState::Silent { pid },
            Some(_) => sleep(RETRY).await,
        }
    }
}

/// Makes a server the session host. A background host is asked to leave first; its agents go on under
/// their shims. A server runs without it too, so a failure is logged.
pub(crate) async fn become_host(
    settings: &CliSettings,
    sessions: &Sessions,
) -> Option<HostListener> {
    let lock = match take_lock(settings).await {
        Ok(lock) => lock,
        Err(reason) => {
            warn!(%reason, "this server hosts no sessions of other clients");
            return None;
        }
    };
    let host = SessionHost::Server(sessions.clone());
    match HostListener::start(lock, &settings.runtime_directory, host) {
        Ok(listener) => Some(listener),
        Err(error) => {
            warn!(%error, "this server hosts no sessions of other clients");
            None
        }
    }
}

async fn take_lock(settings: &CliSettings) -> Result<HostLock, String> {
    let data = &settings.data_directory;
    let deadline = Instant::now() + LEAVE_TIMEOUT;
    loop {
        match HostLock::try_acquire(data) {
            Ok(Some(lock)) => return Ok(lock),
            Ok(None) => {}
            Err(error) => return Err(error.to_string()),
        }
        ask_to_leave(settings).await;
        if Instant::now() >= deadline {
            let pid =
                HostLock::holder(data).flatten().map_or_else(String::new, |pid| format!(" {pid}"));
            return Err(format!("process{pid} is the session host and does not leave"));
        }
        sleep(RETRY).await;
    }
}

/// Has a background host release its sessions and exit. Returns whether there was one.
pub(crate) async fn stop_background_host(settings: &CliSettings) -> bool {
    let Some(pid) = ask_to_leave(settings).await else { return false };
    let deadline = Instant::now() + LEAVE_TIMEOUT;
    // Another one may be there by then.
    while HostLock::holder(&settings.data_directory) == Some(Some(pid)) && Instant::now() < deadline
    {
        sleep(RETRY).await;
    }
    true
}

/// Asks a background host to leave. Returns its process.
async fn ask_to_leave(settings: &CliSettings) -> Option<u32> {
    let client = HostClient::connect(&settings.data_directory, &settings.runtime_directory).await;
    let mut client = client.ok().flatten().filter(|it| it.kind() == HostKind::Background)?;
    let pid = client.pid();
    info!(pid, "asking the background host to leave");
    if let Err(error) = client.leave().await {
        warn!(pid, %error, "the background host does not leave");
    }
    Some(pid)
}
