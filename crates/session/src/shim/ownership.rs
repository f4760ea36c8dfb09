//! One owner per session.
//!
//! A lock of the kernel's on `lock` in the live directory, released by the kernel however its holder
//! ends. The holder's process id is written inside, for whoever is turned away.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::place::{Place, private_directory, private_file};

/// The right to drive a session; given back when dropped, or when the process ends.
#[derive(Debug)]
pub struct Ownership {
    /// Held for its lock. It is closed on exec, so nothing that is started inherits it.
    _lock: File,
}

/// Why a session cannot be owned.
#[derive(Debug, thiserror::Error)]
pub enum Held {
    /// Somebody else drives it.
    #[error("another towpath drives this session{}", pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    By {
        /// Its process, where known.
        pid: Option<i32>,
    },
    /// The lock cannot be taken at all.
    #[error("could not lock the session")]
    Io(#[from] io::Error),
}

impl Ownership {
    /// Takes the right to drive the session with this live directory, which is made if need be.
    pub fn take(directory: &Path) -> Result<Self, Held> {
        private_directory(directory)?;
        let path = Place::at(directory).owner_lock();
        let mut file =
            private_file().create(true).truncate(false).read(true).write(true).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid)?;
                return Err(Held::By { pid: pid.trim().parse().ok() });
            }
            Err(error) => return Err(Held::Io(error.into())),
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Self { _lock: file })
    }
}

#[cfg(test)]
mod tests {
    use super::{Held, Ownership};

    #[test]
    fn a_second_owner_is_told_who_the_first_is_until_it_lets_go() {
        let directory = tempfile::tempdir().unwrap();
        let live = directory.path().join("live");
        let first = Ownership::take(&live).unwrap();
        let ours = i32::try_from(std::process::id()).ok();
        assert!(matches!(Ownership::take(&live), Err(Held::By { pid }) if pid == ours));
        drop(first);
        Ownership::take(&live).unwrap();
    }
}
