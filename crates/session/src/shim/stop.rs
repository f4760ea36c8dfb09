//! Stopping the agent of a session that no owner drives, whatever state its shim is in.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use tracing::warn;

use super::connection::ShimConnection;
use super::leftovers::{ReapError, is_running, reap};
use super::live_directory::LiveDirectory;
use super::process_tree;
use super::protocol::{AgentSignal, ShimCommand, ShimEvent};

/// How long a shim may take to answer before it is killed.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a killed agent may take to be gone.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long all attempts together may take, after the time that the agent has to finish.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

const RETRY: Duration = Duration::from_millis(20);

/// Stops the agent of a session and everything it started, with or without a shim. The agent has
/// `patience` to exit by itself. The caller owns the session. Returns whether anything ran.
pub async fn stop_everything(directory: &Path, patience: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + patience + STOP_TIMEOUT;
    let mut found = false;
    loop {
        let ran = is_running(directory);
        found |= ran;
        if ran {
            match timeout(ANSWER_TIMEOUT, ShimConnection::attach(directory, u64::MAX)).await {
                Ok(Ok((_, connection))) => stop_agent(connection, patience).await,
                // It is about to exit, or has not started its agent yet.
                Ok(Err(super::AttachError::NotRunning)) => {}
                Ok(Err(error)) => {
                    warn!(%error, "could not attach to a shim that is to stop; killing it");
                    kill_shim(directory)?;
                }
                Err(_) => {
                    warn!("a shim that is to stop does not answer; killing it");
                    kill_shim(directory)?;
                }
            }
        }
        let live = directory.to_owned();
        match tokio::task::spawn_blocking(move || reap(&live)).await.map_err(io::Error::other)? {
            Ok(report) => return Ok(found || report.killed > 0),
            Err(ReapError::ShimAlive) if Instant::now() < deadline => {}
            Err(ReapError::ShimAlive) => {
                return Err(io::Error::other("its shim runs and cannot be stopped"));
            }
            Err(ReapError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(found);
            }
            Err(ReapError::Io(error)) => return Err(error),
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Lets the agent finish or kills it, and waits until it is gone.
async fn stop_agent(mut connection: ShimConnection, patience: Duration) {
    let command = if patience.is_zero() {
        ShimCommand::Signal(AgentSignal::Kill)
    } else {
        ShimCommand::Stop { timeout: patience }
    };
    let _ = connection.send(command).await;
    let exited = async {
        while !matches!(connection.next().await, Some(ShimEvent::Exited { .. }) | None) {}
    };
    if timeout(patience + KILL_TIMEOUT, exited).await.is_ok() {
        let _ = timeout(ANSWER_TIMEOUT, connection.close()).await;
    }
}

/// Kills the shim by its process id. What it leaves is [reaped](reap) afterwards.
fn kill_shim(directory: &Path) -> io::Result<()> {
    let Some(record) = LiveDirectory::new(directory).shim_record()? else { return Ok(()) };
    process_tree::kill_one(record.shim, record.shim_started.as_ref());
    Ok(())
}
