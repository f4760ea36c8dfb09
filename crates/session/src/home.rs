//! Where sessions live on this machine, and how their agents are started.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use journal::SessionId;

use crate::machine::Limits;

/// Where sessions live, and how their agents are started.
#[derive(Clone, Debug)]
pub struct Home {
    /// The directory with the journal; each session has one of its own in it while it is driven.
    pub data: PathBuf,
    /// A directory with a short path, of this user alone, for sockets that would not fit elsewhere.
    pub runtime: PathBuf,
    /// Towpath itself, to be started as a shim.
    pub towpath: PathBuf,
    /// The agent.
    pub agent: AgentProgram,
    /// The environment agents inherit.
    pub environment: Vec<(OsString, OsString)>,
    /// How patient sessions are.
    pub limits: Limits,
    /// How patient shims are when Towpath is gone.
    pub alone: Alone,
}

/// What is started as an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentProgram {
    /// The program.
    pub program: OsString,
    /// Arguments before those of the CLI.
    pub arguments: Vec<OsString>,
}

/// How long an agent lives without anybody to follow it.
#[derive(Clone, Copy, Debug)]
pub struct Alone {
    /// Once its turn is over.
    pub idle: Duration,
    /// While it waits for a person.
    pub asking: Duration,
    /// At all.
    pub at_all: Duration,
}

impl Alone {
    /// Long enough for Towpath to be restarted, or for somebody to notice that it was not.
    pub const PATIENT: Self = Self {
        idle: Duration::from_mins(15),
        asking: Duration::from_hours(12),
        at_all: Duration::from_hours(24),
    };

    /// The turn is finished and the agent ends: nobody is expected to come back for it.
    pub const BRIEF: Self = Self {
        idle: Duration::ZERO,
        asking: Duration::from_mins(10),
        at_all: Duration::from_hours(2),
    };
}

impl Home {
    /// Where the shim and the lock of a session are.
    pub fn live_directory(&self, session: SessionId) -> PathBuf {
        self.live_directories().join(session.to_string())
    }

    /// Where the live directories of all sessions are.
    pub(crate) fn live_directories(&self) -> PathBuf {
        self.data.join("live")
    }

    /// The journal's file.
    pub fn journal(data: &Path) -> PathBuf {
        data.join("journal.db")
    }
}
