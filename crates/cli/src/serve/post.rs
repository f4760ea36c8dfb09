//! The post of a data directory: one server holds it, and others can find who.
//!
//! The lock says whether somebody serves, the file says who. A process id alone could be anybody's
//! by now.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use super::Failure;

/// How long a server that was told to stop may take.
const PATIENCE: Duration = Duration::from_secs(40);

/// Held for as long as a server serves.
#[derive(Debug)]
pub(crate) struct Post {
    _held: File,
}

/// Somebody else serves this data directory.
#[derive(Debug, thiserror::Error)]
#[error("another towpath serves `{}` already", .0.display())]
pub(crate) struct Taken(PathBuf);

impl Post {
    /// Takes the post, if it is free.
    pub(crate) fn take(data: &Path) -> Result<Self, Failure> {
        let (path, mut file) = open(data)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Taken(data.to_owned()).into()),
            Err(TryLockError::Error(source)) => return Err(Failure::Post { path, source }),
        }
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(|source| Failure::Post { path, source })?;
        Ok(Self { _held: file })
    }

    /// Has whoever holds the post end with its agents. Says whether there was somebody.
    pub(crate) async fn dismiss(data: &Path) -> Result<bool, Failure> {
        let (path, mut file) = open(data)?;
        let failed = |source| Failure::Post { path: path.clone(), source };
        if is_free(&file).map_err(failed)? {
            return Ok(false);
        }
        let mut text = String::new();
        file.rewind().and_then(|()| file.read_to_string(&mut text)).map_err(failed)?;
        let pid = text.trim().parse().ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::InvalidData).map_err(|it| failed(it.into()))?;
        kill_process(pid, Signal::USR1).map_err(|it| failed(it.into()))?;
        let until = Instant::now() + PATIENCE;
        while !is_free(&file).map_err(failed)? {
            if Instant::now() > until {
                return Err(failed(io::ErrorKind::TimedOut.into()));
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(true)
    }
}

fn open(data: &Path) -> Result<(PathBuf, File), Failure> {
    let path = data.join("serve.lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    match options.open(&path) {
        Ok(file) => Ok((path, file)),
        Err(source) => Err(Failure::Post { path, source }),
    }
}

/// Whether nobody holds the lock; it is not held afterwards either.
fn is_free(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => file.unlock().map(|()| true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
