//! The lock that makes a process the only session host of its data directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::live_root;
use crate::shim::private_directory;

/// The right to be the session host of a data directory. The kernel releases it when the process ends
/// in any way.
#[derive(Debug)]
pub struct HostLock {
    data: PathBuf,
    /// Closed on exec, so that no started process inherits the lock.
    _file: File,
}

impl HostLock {
    /// Takes the lock. None if another process has it.
    pub fn try_acquire(data: &Path) -> io::Result<Option<Self>> {
        private_directory(&live_root(data))?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(lock_path(data))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Some(Self { data: data.to_owned(), _file: file }))
    }

    /// The process that has the lock, if one has: its id, if that can be read.
    pub fn holder(data: &Path) -> Option<Option<u32>> {
        let mut file = File::open(lock_path(data)).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => {}
            // Closing the file releases the lock again.
            Ok(()) | Err(TryLockError::Error(_)) => return None,
        }
        let mut text = String::new();
        let _ = file.read_to_string(&mut text);
        Some(text.trim().parse().ok())
    }

    pub(super) fn data(&self) -> &Path {
        &self.data
    }
}

fn lock_path(data: &Path) -> PathBuf {
    live_root(data).join("host.lock")
}
