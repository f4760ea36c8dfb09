//! Where sessions are, if other machines drive them: what a client may see of a worker, and ask for.

use std::path::PathBuf;
use std::time::Duration;

/// A machine that drives sessions for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSummary {
    pub name: String,
    /// The name of a group of workers that are alike.
    pub pool: Option<String>,
    /// How many agents may work at the same time, and how many do.
    pub slots: u32,
    pub used: u32,
    /// The directories below which its sessions may work.
    pub roots: Vec<PathBuf>,
    /// The version of Towpath; none if it was away since this process started.
    pub version: Option<String>,
    pub presence: WorkerPresence,
    /// How many sessions it owns.
    pub sessions: usize,
}

/// Whether a worker is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerPresence {
    Connected,
    /// Since a time in milliseconds since 1970; none if it was away before this process started.
    Away {
        since: Option<u64>,
    },
}

/// The connection of this process to the machines that drive its sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetConnection {
    /// Since when there is no connection, or the copy of the sessions is behind.
    pub lost: Option<LostConnection>,
    /// How many sessions cannot be copied any further.
    pub problems: usize,
}

/// Since when a connection is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostConnection {
    /// In milliseconds since 1970.
    pub since: u64,
    pub lasted: Duration,
}

/// The worker of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwningWorker {
    pub name: String,
    pub presence: WorkerPresence,
}

/// Where a new session is wanted. Without a wish, any worker with its directory will do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The name of a worker.
    pub worker: Option<String>,
    /// The name of a pool.
    pub pool: Option<String>,
    /// In a new working tree of its directory's repository, with a branch of its own that is named after this
    /// text.
    pub new_worktree: Option<String>,
}

impl Placement {
    /// Whether any worker will do.
    pub fn is_free(&self) -> bool {
        self.worker.is_none() && self.pool.is_none()
    }
}
