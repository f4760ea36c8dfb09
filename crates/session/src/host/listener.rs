//! The socket of a session host.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use journal::SessionId;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};
use tracing::{debug, warn};

use super::background::BackgroundHost;
use super::host_socket_path;
use super::lock::HostLock;
use super::protocol::{
    AgentLaunch, HostFailure, HostGreeting, HostKind, HostOutput, HostStatus, NumberedHostRequest,
    NumberedHostResult, SessionHostRequest, VERSION,
};
use crate::remote::{read_line, to_line};
use crate::sessions::Sessions;
use crate::shim::private_directory;

/// The time until the next attempt to accept a connection after a failure.
const ACCEPT_RETRY: Duration = Duration::from_millis(200);

/// Listens for clients of a session host. Dropping it ends that, and gives up the lock last.
#[derive(Debug)]
pub struct HostListener {
    socket: HostSocket,
    lock: HostLock,
}

/// The socket's file and the task that accepts its connections.
#[derive(Debug)]
struct HostSocket {
    path: PathBuf,
    task: JoinHandle<()>,
}

/// The sessions of a session host.
#[derive(Clone, Debug)]
pub enum SessionHost {
    Server(Sessions),
    Background(BackgroundHost),
}

impl HostListener {
    /// Listens for clients. The caller has the lock, so a socket that is already there belongs to a
    /// host that is gone.
    pub fn start(lock: HostLock, runtime: &Path, host: SessionHost) -> io::Result<Self> {
        let path = host_socket_path(lock.data(), runtime);
        if let Some(directory) = path.parent() {
            private_directory(directory)?;
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        let socket = HostSocket { path, task: tokio::spawn(accept(listener, host)) };
        Ok(Self { socket, lock })
    }

    /// Stops listening. No other process becomes the host before the lock is dropped.
    pub fn close(self) -> HostLock {
        let Self { socket, lock } = self;
        drop(socket);
        lock
    }
}

impl Drop for HostSocket {
    fn drop(&mut self) {
        self.task.abort();
        // Without the file the next client sees at once that nothing listens.
        let _ = fs::remove_file(&self.path);
    }
}

impl SessionHost {
    fn kind(&self) -> HostKind {
        match self {
            Self::Server(_) => HostKind::Server,
            Self::Background(_) => HostKind::Background,
        }
    }

    async fn answer(&self, request: SessionHostRequest<'_>) -> Result<HostOutput, HostFailure> {
        match request {
            SessionHostRequest::Open { session, agent } => {
                self.open(SessionId(session), &agent).await?;
                Ok(HostOutput::Opened)
            }
            SessionHostRequest::Leave => match self {
                Self::Server(_) => {
                    Err(HostFailure::Failed("a server is stopped by its user".to_owned()))
                }
                Self::Background(host) => {
                    host.begin_to_leave();
                    Ok(HostOutput::Leaving)
                }
            },
            SessionHostRequest::Ping => {
                let sessions = match self {
                    Self::Server(sessions) => sessions.open_sessions().len(),
                    Self::Background(host) => host.open_sessions(),
                };
                Ok(HostOutput::Status(HostStatus { sessions }))
            }
        }
    }

    async fn open(&self, id: SessionId, agent: &AgentLaunch) -> Result<(), HostFailure> {
        let opened = match self {
            Self::Server(sessions) => sessions.open(id).await,
            Self::Background(host) if host.is_leaving() => return Err(HostFailure::Leaving),
            Self::Background(host) => host.open(id, agent).await,
        };
        match opened {
            Ok(_) => Ok(()),
            Err(error) => Err(HostFailure::of(&error)),
        }
    }
}

async fn accept(listener: UnixListener, host: SessionHost) {
    // Dropped with this task, which ends the connections too.
    let mut clients = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                let host = host.clone();
                clients.spawn(async move {
                    if let Err(error) = serve(socket, &host).await {
                        debug!(%error, "a client of the session host is gone");
                    }
                });
            }
            Err(error) => {
                // For example too many open files: clients that exit free some.
                warn!(%error, "could not accept a connection to the session host");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
        while clients.try_join_next().is_some() {}
    }
}

/// Serves one client until it disconnects. Its requests are answered in order.
async fn serve(socket: UnixStream, host: &SessionHost) -> io::Result<()> {
    let uid = socket.peer_cred()?.uid();
    if uid != rustix::process::geteuid().as_raw() {
        warn!(uid, "refused a connection of another user to the session host");
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let (read, mut write) = socket.into_split();
    let greeting = HostGreeting { version: VERSION, pid: std::process::id(), kind: host.kind() };
    write.write_all(&to_line(&greeting)).await?;
    let mut reader = BufReader::new(read);
    loop {
        let mut line = Vec::new();
        read_line(&mut reader, &mut line).await?;
        let NumberedHostRequest { number, request } = serde_json::from_slice(&line)?;
        let result = match serde_json::from_str(request.get()) {
            Ok(request) => host.answer(request).await,
            Err(error) => {
                let reason = format!("the host does not know this request ({error})");
                Err(HostFailure::Failed(reason))
            }
        };
        write.write_all(&to_line(&NumberedHostResult { number, result })).await?;
    }
}
