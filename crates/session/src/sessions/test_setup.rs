//! Sessions in a temporary directory that can start no agent, for tests.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use journal::{Journal, SessionId};
use tempfile::TempDir;
use wire::note::Actor;

use super::{SessionSpec, Sessions};
use crate::config::{AgentProgram, SessionLimits, SessionsConfig, UnattendedLimits};
use crate::options::SessionOptions;

/// Sessions without agents, and their directory.
pub(crate) struct AgentlessSessions {
    pub(crate) directory: TempDir,
    pub(crate) sessions: Sessions,
}

impl AgentlessSessions {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let sessions = open_sessions(directory.path());
        Self { directory, sessions }
    }

    /// A session that works in the directory.
    pub(crate) fn spec(&self) -> SessionSpec {
        let directory = self.directory.path().to_owned();
        let options = SessionOptions { directory, ..SessionOptions::default() };
        SessionSpec { options, ..SessionSpec::default() }
    }
}

/// The sessions of one process in a directory.
pub(crate) fn open_sessions(directory: &Path) -> Sessions {
    let config = SessionsConfig {
        data: directory.to_owned(),
        runtime: directory.to_owned(),
        towpath: "no-such-program".into(),
        agent: AgentProgram { program: "no-such-agent".into(), arguments: Vec::new() },
        agents: crate::catalog::AgentCatalog::default(),
        environment: Vec::new(),
        limits: SessionLimits::default(),
        unattended: UnattendedLimits::SHORT,
        takeover_delay: Duration::ZERO,
        prompt_gate: crate::prompt_gate::PromptGate::default(),
        allow_bypass: false,
        config_file: None,
        watch: crate::config::WatchPolicy::default(),
    };
    let journal = Journal::open(&directory.join("journal.db")).unwrap().journal;
    Sessions::new(config, journal)
}

pub(crate) fn ann() -> Actor {
    Actor { name: "ann".to_owned(), via: "terminal".to_owned() }
}

/// The sessions whose opening panics.
static PANICKING: Mutex<Vec<SessionId>> = Mutex::new(Vec::new());

/// Sets whether opening a session panics.
pub(crate) fn set_panicking(id: SessionId, panics: bool) {
    let mut panicking = PANICKING.lock().unwrap_or_else(PoisonError::into_inner);
    panicking.retain(|it| *it != id);
    panicking.extend(panics.then_some(id));
}

/// Panics if a test has asked for it.
pub(super) fn panic_if_asked(id: SessionId) {
    let asked = PANICKING.lock().unwrap_or_else(PoisonError::into_inner).contains(&id);
    assert!(!asked, "a test asked for it");
}
