//! The server lock of a data directory: at most one server holds it, and others can signal that
//! server.
//!
//! The lock decides whether a server is running; the file contains its process id. An id alone could
//! belong to another process by now.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use journal::SessionId;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::time::{Instant, sleep};

use super::ServeError;

/// How long a server may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(40);

/// How long the lock of a server that was killed may stay taken: a program that it was just starting
/// has the file open until the kernel has loaded the program.
const KILLED_TIMEOUT: Duration = Duration::from_secs(10);

const LOCK_RETRY: Duration = Duration::from_millis(20);

/// The lock's file in the data directory.
const LOCK_FILE: &str = "serve.lock";

/// Held for as long as a server runs.
#[derive(Debug)]
pub(crate) struct ServerLock {
    file: File,
}

/// Another server uses the data directory.
#[derive(Debug, thiserror::Error)]
#[error("another towpath server is running on `{}`", .0.display())]
pub(crate) struct ServerRunning(PathBuf);

impl ServerLock {
    /// Takes the lock. Waits for a server that was killed, but not for one that runs.
    pub(crate) async fn acquire(data: &Path) -> Result<Self, ServeError> {
        let (path, mut file) = open(data)?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock)
                    if start.elapsed() < KILLED_TIMEOUT && is_holder_gone(&mut file) =>
                {
                    sleep(LOCK_RETRY).await;
                }
                Err(TryLockError::WouldBlock) => return Err(ServerRunning(data.to_owned()).into()),
                Err(TryLockError::Error(source)) => return Err(ServeError::Lock { path, source }),
            }
        }
        let emptied = file.set_len(0).and_then(|()| file.rewind());
        let written = emptied.and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(|source| ServeError::Lock { path, source })?;
        Ok(Self { file })
    }

    /// Writes the sessions whose agents were stopped into the file, behind the process id. The process
    /// that asked for it reads them once the lock is free.
    pub(super) fn record_stopped(&self, sessions: &[SessionId]) {
        for id in sessions {
            // Nothing depends on it but a message.
            let _ = writeln!(&self.file, "{id}");
        }
    }

    /// Stops the running server and its agents. Returns the sessions whose agents it stopped; none
    /// if no server is running.
    pub(super) async fn stop_server(data: &Path) -> Result<Option<Vec<SessionId>>, ServeError> {
        let (path, mut file) = open(data)?;
        let failed = |source| ServeError::Lock { path: path.clone(), source };
        if !signal_holder(&mut file, Signal::USR1).map_err(failed)? {
            return Ok(None);
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        while !is_free(&file).map_err(failed)? {
            if Instant::now() > deadline {
                return Err(failed(io::ErrorKind::TimedOut.into()));
            }
            sleep(Duration::from_millis(50)).await;
        }
        let mut text = String::new();
        file.rewind().and_then(|()| file.read_to_string(&mut text)).map_err(failed)?;
        let stopped = text.lines().skip(1).filter_map(|line| line.parse().ok().map(SessionId));
        Ok(Some(stopped.collect()))
    }

    /// Whether a server runs on a data directory.
    pub(crate) fn is_held(data: &Path) -> bool {
        let path = data.join(LOCK_FILE);
        File::open(path).is_ok_and(|file| is_free(&file).is_ok_and(|free| !free))
    }

    /// Tells a running server that the access tokens changed, so that it ends the streams of revoked
    /// ones. Does nothing if no server is running.
    pub(super) fn notify_tokens_changed(data: &Path) -> Result<(), ServeError> {
        let (path, mut file) = open(data)?;
        let signalled = signal_holder(&mut file, Signal::USR2);
        signalled.map(drop).map_err(|source| ServeError::Lock { path, source })
    }
}

fn open(data: &Path) -> Result<(PathBuf, File), ServeError> {
    let path = data.join(LOCK_FILE);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    match options.open(&path) {
        Ok(file) => Ok((path, file)),
        Err(source) => Err(ServeError::Lock { path, source }),
    }
}

/// Signals the process that holds the lock. Returns whether there is one.
fn signal_holder(file: &mut File, signal: Signal) -> io::Result<bool> {
    if is_free(file)? {
        return Ok(false);
    }
    kill_process(holder(file)?.ok_or(io::ErrorKind::InvalidData)?, signal)?;
    Ok(true)
}

/// The process that took the lock last.
fn holder(file: &mut File) -> io::Result<Option<Pid>> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    let id = text.lines().next().and_then(|line| line.trim().parse().ok());
    Ok(id.and_then(Pid::from_raw))
}

/// Whether the process that took the lock has exited.
fn is_holder_gone(file: &mut File) -> bool {
    let holder = holder(file).ok().flatten();
    holder.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

/// Whether no process holds the lock. This one does not hold it afterwards either.
fn is_free(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => file.unlock().map(|()| true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
