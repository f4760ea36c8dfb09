//! Ending what the agent of a dead shim left behind.
//!
//! While a shim lives this is its own work. A shim that was killed could not do it: its agent may
//! still run, without anybody to read what it says, and so may whatever the agent started.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::kin::Kin;
use super::order::Signal;
use super::place::{Place, remove_file};
use super::plan::Run;

/// How long what was killed may take to be gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a shim that no longer answers may take to leave.
const LEAVING: Duration = Duration::from_secs(3);

/// What came of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// The run whose shim is dead; nothing if there never was one.
    pub run: Option<Run>,
    /// How many processes were ended.
    pub ended: usize,
    /// How many would not end.
    pub left: usize,
}

/// Why nothing was swept.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The shim lives: attach to it.
    #[error("the shim still lives")]
    Alive,
    /// What lies there could not be read.
    #[error("could not read the live directory")]
    Io(#[from] io::Error),
}

/// Ends whatever the agent of a dead shim left behind, and removes the dead shim's socket. It waits
/// for processes: not for an async task, but for a thread of its own.
pub fn sweep(directory: &Path) -> Result<Swept, SweepError> {
    let place = Place::at(directory);
    let Some(register) = place.register()? else {
        return Ok(Swept { run: None, ended: 0, left: 0 });
    };
    // Held to the end, so that no new shim begins between the look and the kill.
    let Some(_lock) = place.lock_shim_within(LEAVING)? else { return Err(SweepError::Alive) };
    let kin = Kin::of_orphan(&register.marker, register.agent, register.agent_born.as_ref());
    let mut ended = 0;
    let deadline = Instant::now() + PATIENCE;
    let left = loop {
        let living = kin.living();
        if living.is_empty() || Instant::now() >= deadline {
            break living.len();
        }
        ended = ended.max(kin.signal(Signal::Kill).len());
        // Nobody tells us when somebody else's child is gone.
        std::thread::sleep(Duration::from_millis(5));
    };
    remove_file(&register.socket)?;
    Ok(Swept { run: Some(register.run), ended, left })
}
