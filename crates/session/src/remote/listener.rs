//! The socket on which a session's owner receives commands of other processes.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tracing::{debug, warn};

use super::connection::read_line;
use super::owner_socket_path;
use super::protocol::{
    NumberedRequest, NumberedResult, OwnerGreeting, OwnerRequest, RemoteFailure, VERSION, to_line,
};
use crate::session::{PendingCommand, Session};
use crate::sessions::Sessions;

/// The socket of a session that this process owns. Dropping it closes all connections.
#[derive(Debug)]
pub(crate) struct OwnerSocket {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl OwnerSocket {
    /// Listens for commands to a session. The caller owns the session, so a socket that is already
    /// there belongs to an owner that is gone.
    pub(crate) fn listen(
        live: &Path,
        runtime: &Path,
        sessions: Sessions,
        session: Session,
    ) -> io::Result<Self> {
        let path = owner_socket_path(live, runtime);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        let task = tokio::spawn(accept(listener, sessions, session));
        Ok(Self { path, task })
    }
}

impl Drop for OwnerSocket {
    fn drop(&mut self) {
        self.task.abort();
        // Without the file the next client sees at once that nothing listens.
        let _ = fs::remove_file(&self.path);
    }
}

async fn accept(listener: UnixListener, sessions: Sessions, session: Session) {
    // Dropped with this task, which ends the connections too.
    let mut clients = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                let (sessions, session) = (sessions.clone(), session.clone());
                clients.spawn(async move {
                    if let Err(error) = serve(socket, sessions, session).await {
                        debug!(%error, "a client of a session's socket is gone");
                    }
                });
            }
            Err(error) => {
                // For example too many open files: clients that exit free some.
                warn!(%error, "could not accept a connection to a session's socket");
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
        }
        while clients.try_join_next().is_some() {}
    }
}

/// Serves one client until it disconnects.
async fn serve(socket: UnixStream, sessions: Sessions, session: Session) -> io::Result<()> {
    if socket.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let _counted = sessions.clients().enter();
    let (read, mut write) = socket.into_split();
    let greeting = OwnerGreeting { version: VERSION, pid: std::process::id() };
    write.write_all(&to_line(&greeting)).await?;
    let (results, queue) = mpsc::unbounded_channel();
    let mut writer = tokio::spawn(write_results(write, queue));
    let mut reader = BufReader::new(read);
    let mut line = Vec::new();
    loop {
        tokio::select! {
            read = read_line(&mut reader, &mut line) => read?,
            _ = &mut writer => return Ok(()),
        }
        let pending = receive(&line, &sessions, &session).await?;
        // The next command must not wait for the result of this one.
        let results = results.clone();
        tokio::spawn(async move {
            let _ = results.send(pending.await);
        });
        line = Vec::new();
    }
}

/// Hands a request to the owner. Returns a future of its result. Requests reach the owner in the
/// order in which they were sent.
async fn receive(
    line: &[u8],
    sessions: &Sessions,
    session: &Session,
) -> io::Result<impl Future<Output = NumberedResult> + Send + use<>> {
    enum Pending {
        Command(PendingCommand),
        Delete(Sessions, Session),
        Failed(String),
    }
    let NumberedRequest { number, request } = serde_json::from_slice(line)?;
    let pending = match serde_json::from_str(request.get()) {
        Ok(OwnerRequest::Command(command)) => {
            Pending::Command(session.start_command(command.into_owned()).await)
        }
        Ok(OwnerRequest::Delete) => Pending::Delete(sessions.clone(), session.clone()),
        Err(error) => Pending::Failed(format!("the owner does not know this command ({error})")),
    };
    Ok(async move {
        let result = match pending {
            Pending::Command(pending) => pending.result().await.map_err(RemoteFailure::from),
            Pending::Delete(sessions, session) => {
                let deleted = sessions.delete(session.id()).await;
                let done = deleted.map(|()| crate::command::CommandOutput::None);
                done.map_err(|error| RemoteFailure::Failed(error.to_string()))
            }
            Pending::Failed(reason) => Err(RemoteFailure::Failed(reason)),
        };
        NumberedResult { number, result }
    })
}

async fn write_results(
    mut write: OwnedWriteHalf,
    mut queue: mpsc::UnboundedReceiver<NumberedResult>,
) {
    while let Some(result) = queue.recv().await {
        if write.write_all(&to_line(&result)).await.is_err() {
            return;
        }
    }
}
