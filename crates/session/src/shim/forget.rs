//! Removing what a run left, once it is kept elsewhere.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::place::Place;
use super::plan::Run;

/// How long a shim whose agent has ended may take to leave.
const LEAVING: Duration = Duration::from_secs(3);

/// Removes the files of a run: its spool, its exit, its complaints. Only after its
/// [`remains`](super::remains()) are kept elsewhere; while its own shim lives, or one that has not yet
/// said whose it is, they stay. Blocking.
pub fn forget(directory: &Path, run: Run) -> io::Result<()> {
    let place = Place::at(directory);
    let deadline = Instant::now() + LEAVING;
    loop {
        let lock = place.lock_shim()?;
        if lock.is_some() || place.register()?.is_some_and(|register| register.run != run) {
            return place.remove(run);
        }
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a shim lives in the session's live directory, one that is still starting included.
pub fn lives(directory: &Path) -> bool {
    directory.is_dir() && Place::at(directory).lock_shim().is_ok_and(|lock| lock.is_none())
}
