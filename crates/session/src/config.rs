//! Where sessions are stored on this machine, how their agents are started, and their time limits.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use journal::SessionId;
use serde::{Deserialize, Serialize};

/// Where sessions are stored, and how their agents are started.
#[derive(Clone, Debug)]
pub struct SessionsConfig {
    /// The directory of the journal. Each driven session has a directory of its own below it.
    pub data: PathBuf,
    /// A private directory with a short path, for sockets whose path would be too long elsewhere.
    pub runtime: PathBuf,
    /// The `towpath` program, which is started as the shim.
    pub towpath: PathBuf,
    pub agent: AgentProgram,
    /// The environment that agents inherit.
    pub environment: Vec<(OsString, OsString)>,
    pub limits: SessionLimits,
    pub unattended: UnattendedLimits,
}

/// The program that is started as an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentProgram {
    pub program: OsString,
    /// Arguments in front of those of the CLI.
    pub arguments: Vec<OsString>,
}

/// How long an agent runs after the last Towpath has disconnected from its shim.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct UnattendedLimits {
    /// After its turn has ended.
    #[serde(alias = "grace")]
    pub idle: Duration,
    /// While it waits for an answer from a person.
    #[serde(alias = "ask_grace")]
    pub waiting: Duration,
    /// In any case.
    #[serde(alias = "unowned_limit")]
    pub total: Duration,
}

impl UnattendedLimits {
    /// For servers: long enough to restart Towpath, or to notice that it does not run.
    pub const LONG: Self = Self {
        idle: Duration::from_mins(15),
        waiting: Duration::from_hours(12),
        total: Duration::from_hours(24),
    };

    /// For commands in a terminal: the agent finishes its turn and exits.
    pub const SHORT: Self = Self {
        idle: Duration::ZERO,
        waiting: Duration::from_mins(10),
        total: Duration::from_hours(2),
    };
}

/// The timeouts of a session, in milliseconds, and how often its agent is restarted.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// Until a new process must have answered `initialize`. A loaded machine needs seconds.
    pub initialize: u64,
    /// Until the agent must have answered any other request of ours. Up to 2.1.37 it does not
    /// answer requests that it does not know.
    pub control: u64,
    /// From an interrupt until the process is stopped. The CLI usually obeys within 200 ms.
    pub interrupt: u64,
    /// The length of each step when a process is stopped: close stdin, terminate, kill.
    pub stop: u64,
    /// Until a request to a person is denied because no answer came; never if there is none.
    pub request: Option<u64>,
    /// Until an agent without work is stopped; never if there is none.
    pub park: Option<u64>,
    /// Until a silent turn is reported as stalled.
    pub stall: u64,
    /// Until the agent must have started with a prompt that it took during the previous turn.
    pub carry: u64,
    /// From a reported idle state until a turn without a result counts as ended.
    pub idle: u64,
    /// Exits in a row after which no further process is started until a client asks for one.
    pub restarts: u32,
}

impl Default for SessionLimits {
    fn default() -> Self {
        const SECOND: u64 = 1000;
        const MINUTE: u64 = 60 * SECOND;
        Self {
            initialize: MINUTE,
            control: 20 * SECOND,
            interrupt: 5 * SECOND,
            stop: 5 * SECOND,
            request: Some(24 * 60 * MINUTE),
            park: Some(30 * MINUTE),
            stall: 2 * MINUTE,
            carry: 30 * SECOND,
            idle: 2 * SECOND,
            restarts: 3,
        }
    }
}

impl SessionsConfig {
    /// The directory with the shim's files and the ownership lock of a session.
    pub fn live_directory(&self, session: SessionId) -> PathBuf {
        self.data.join("live").join(session.to_string())
    }

    /// The journal's file in a data directory.
    pub fn journal_path(data: &Path) -> PathBuf {
        data.join("journal.db")
    }
}
