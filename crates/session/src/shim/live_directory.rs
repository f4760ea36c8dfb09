//! A session's live directory: its files, its locks and its permissions.
//!
//! Everything in it is private: the directory and the socket's directory have mode 0700, files have
//! mode 0600. Existing directories are checked, because another program may have created them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::launch::{ProcessMarker, RunEnd, RunId};
use super::process_tree::{InheritedMarks, StartTime};

/// A session's live directory.
#[derive(Clone, Debug)]
pub(super) struct LiveDirectory {
    path: PathBuf,
}

/// The content of `shim.json`: which processes run. The next owner finds the socket in it, and what
/// a dead shim left can be told from other processes with the same ids.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ShimRecord {
    pub(super) run: RunId,
    #[serde(with = "super::launch::path")]
    pub(super) socket: PathBuf,
    pub(super) shim: i32,
    pub(super) agent: i32,
    /// Missing in records of earlier versions.
    #[serde(default)]
    pub(super) shim_started: Option<StartTime>,
    #[serde(rename = "agent_born")]
    pub(super) agent_started: Option<StartTime>,
    pub(super) marker: ProcessMarker,
    /// The limit that everything the agent starts inherits. Missing in records of earlier versions.
    #[serde(default)]
    pub(super) limit: Option<u64>,
}

impl ShimRecord {
    pub(super) fn marks(&self) -> InheritedMarks {
        InheritedMarks { marker: self.marker.clone(), limit: self.limit }
    }
}

impl LiveDirectory {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn spool(&self, run: RunId, base: u64) -> PathBuf {
        self.file(&format!("spool.{run}.{base}"))
    }

    fn exit(&self, run: RunId) -> PathBuf {
        self.file(&format!("exit.{run}.json"))
    }

    fn stderr(&self, run: RunId) -> PathBuf {
        self.file(&format!("stderr.{run}.tail"))
    }

    /// The offsets at which the spool files of a run start.
    pub(super) fn spools(&self, run: RunId) -> io::Result<Vec<u64>> {
        let prefix = format!("spool.{run}.");
        let mut bases = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let base: Option<u64> =
                name.to_str().and_then(|name| name.strip_prefix(&prefix)?.parse().ok());
            bases.extend(base);
        }
        bases.sort_unstable();
        Ok(bases)
    }

    /// Whether there is any file of this run.
    pub(super) fn has_run(&self, run: RunId) -> bool {
        self.exit(run).exists() || self.spools(run).is_ok_and(|bases| !bases.is_empty())
    }

    /// Takes the lock that a shim holds while it runs, unless another process has it.
    pub(super) fn lock_shim(&self) -> io::Result<Option<File>> {
        let path = self.file("shim.lock");
        let file = private_file().create(true).truncate(false).write(true).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes that lock, and waits for another shim that is about to exit.
    pub(super) fn lock_shim_within(&self, timeout: Duration) -> io::Result<Option<File>> {
        let deadline = Instant::now() + timeout;
        loop {
            let lock = self.lock_shim()?;
            if lock.is_some() || Instant::now() >= deadline {
                return Ok(lock);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The record of the current or last shim, if there ever was one.
    pub(super) fn shim_record(&self) -> io::Result<Option<ShimRecord>> {
        read_json(&self.file("shim.json"))
    }

    /// Sets a record aside that cannot be read, so that a new one can be written.
    pub(super) fn set_record_aside(&self) -> io::Result<()> {
        fs::rename(self.file("shim.json"), self.file("shim.json.damaged"))
    }

    /// Where a shim listens unless the path would be too long.
    pub(super) fn default_socket(&self) -> PathBuf {
        self.file("shim.sock")
    }

    pub(super) fn write_shim_record(&self, record: &ShimRecord) -> io::Result<()> {
        self.write("shim.json", &serde_json::to_vec(record)?)
    }

    /// How a run ended, if that was recorded.
    pub(super) fn run_end(&self, run: RunId) -> io::Result<Option<RunEnd>> {
        read_json(&self.exit(run))
    }

    pub(super) fn write_run_end(&self, run: RunId, end: &RunEnd) -> io::Result<()> {
        self.write(&format!("exit.{run}.json"), &serde_json::to_vec(end)?)
    }

    /// The end of the agent's stderr; empty if it was not recorded.
    pub(super) fn stderr_tail(&self, run: RunId) -> io::Result<Vec<u8>> {
        match fs::read(self.stderr(run)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other,
        }
    }

    pub(super) fn write_stderr_tail(&self, run: RunId, tail: &[u8]) -> io::Result<()> {
        self.write(&format!("stderr.{run}.tail"), tail)
    }

    /// Removes the files of a run.
    pub(super) fn remove_run(&self, run: RunId) -> io::Result<()> {
        for base in self.spools(run)? {
            remove_file(&self.spool(run, base))?;
        }
        remove_file(&self.stderr(run))?;
        remove_file(&self.exit(run))
    }

    /// Writes a file atomically and durably.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let draft = self.file(&format!("{name}.draft"));
        let mut file = private_file().create(true).truncate(true).write(true).open(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, self.file(name))?;
        File::open(&self.path)?.sync_all()
    }
}

/// The right to drive a session: a kernel lock on the file `lock`. The kernel releases it when the
/// value is dropped or the process ends in any way. The file holds the owner's process id.
#[derive(Debug)]
pub struct Ownership {
    /// Closed on exec, so that no started process inherits the lock.
    _lock: File,
}

/// Why a session cannot be owned.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OwnershipError {
    #[error("another towpath drives this session{}", pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Owned { pid: Option<i32> },
    #[error("could not lock the session")]
    Io(#[source] Arc<io::Error>),
}

impl From<io::Error> for OwnershipError {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

impl Ownership {
    /// Takes the right to drive the session with this live directory, which is created if
    /// necessary.
    pub fn take(directory: &Path) -> Result<Self, OwnershipError> {
        let unusable = |error: io::Error| {
            io::Error::new(error.kind(), format!("`{}`: {error}", directory.display()))
        };
        private_directory(directory).map_err(unusable)?;
        let path = directory.join("lock");
        let mut file =
            private_file().create(true).truncate(false).read(true).write(true).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid)?;
                return Err(OwnershipError::Owned { pid: pid.trim().parse().ok() });
            }
            Err(error) => return Err(io::Error::from(error).into()),
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Self { _lock: file })
    }
}

/// Options for a file that only this user can read.
pub(super) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Creates a directory that only this user can use, or checks that an existing one is private.
pub(crate) fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let found = fs::metadata(path)?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("the directory belongs to another user"));
    }
    if found.mode() & 0o077 != 0 {
        return Err(io::Error::other("the directory is open to others; its mode must be 0700"));
    }
    Ok(())
}

/// Removes a file that may not exist.
pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                let text = format!("could not read `{}`: {error}", path.display());
                Err(io::Error::new(io::ErrorKind::InvalidData, text))
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::{Ownership, OwnershipError};

    #[test]
    fn a_second_owner_learns_who_the_first_is_until_it_releases() {
        let directory = tempfile::tempdir().unwrap();
        let live = directory.path().join("live");
        let first = Ownership::take(&live).unwrap();
        let ours = i32::try_from(std::process::id()).ok();
        assert!(
            matches!(Ownership::take(&live), Err(OwnershipError::Owned { pid }) if pid == ours)
        );
        drop(first);
        Ownership::take(&live).unwrap();
    }
}
