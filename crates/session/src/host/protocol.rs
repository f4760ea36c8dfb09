//! What goes over a host's socket: one JSON object per line.
//!
//! The host first sends a [`HostGreeting`]. Then the client sends requests, each with a number, and
//! the host answers each with the same number. The greeting and the requests `ping` and `leave` are
//! the same in all versions, so that a later version can replace a background host.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;

use journal::SessionId;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::catalog::AgentCatalog;
use crate::config::{AgentProgram, SessionsConfig};

/// The version of this protocol.
pub(super) const VERSION: u32 = 1;

/// The first line of a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HostGreeting {
    pub(super) version: u32,
    pub(super) pid: u32,
    pub(super) kind: HostKind,
}

/// What kind of process is the session host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostKind {
    /// `towpath serve` or `towpath telegram`, which a person started and stops.
    Server,
    /// A process that a client started and that exits by itself.
    Background,
}

/// How the agents of a client are started: as if the client did it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentLaunch {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    allow_bypass: bool,
    #[serde(default)]
    agents: AgentCatalog,
}

/// Leaves out the arguments and the environment, which may hold secrets.
impl fmt::Debug for AgentLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentLaunch").field("program", &self.program).finish_non_exhaustive()
    }
}

impl AgentLaunch {
    pub(super) fn of(config: &SessionsConfig) -> Self {
        Self {
            program: config.agent.program.clone(),
            arguments: config.agent.arguments.clone(),
            environment: config.environment.clone(),
            allow_bypass: config.allow_bypass,
            agents: config.agents.clone(),
        }
    }

    /// The variables with these names.
    pub(super) fn variables<'a>(
        &'a self,
        names: &'a [&str],
    ) -> impl Iterator<Item = &'a (OsString, OsString)> {
        self.environment.iter().filter(|(name, _)| names.iter().any(|it| name == it))
    }

    /// A configuration whose agents are started like this.
    pub(super) fn applied_to(&self, config: &SessionsConfig) -> SessionsConfig {
        let agent =
            AgentProgram { program: self.program.clone(), arguments: self.arguments.clone() };
        SessionsConfig {
            agent,
            environment: self.environment.clone(),
            allow_bypass: self.allow_bypass,
            agents: self.agents.clone(),
            ..config.clone()
        }
    }
}

/// A request as it is read. What it asks for is read separately, so that an unknown request can be
/// answered by its number.
#[derive(Deserialize)]
pub(super) struct NumberedHostRequest<'a> {
    pub(super) number: u64,
    #[serde(borrow)]
    pub(super) request: &'a RawValue,
}

/// A request as it is written.
#[derive(Serialize)]
pub(super) struct OutgoingHostRequest<'a> {
    pub(super) number: u64,
    pub(super) request: SessionHostRequest<'a>,
}

/// What a client asks of the session host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SessionHostRequest<'a> {
    /// Open a session, and drive it unless another process does. A server starts agents in its own
    /// way, a background host like the client.
    Open { session: Uuid, agent: Cow<'a, AgentLaunch> },
    /// Release all sessions and exit: a server starts. Only a background host does that.
    Leave,
    /// Tell what you are doing.
    Ping,
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NumberedHostResult {
    pub(super) number: u64,
    pub(super) result: Result<HostOutput, HostFailure>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HostOutput {
    Opened,
    Leaving,
    Status(HostStatus),
}

/// What a session host is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStatus {
    /// How many sessions it has open.
    pub sessions: usize,
}

/// Why a host did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HostFailure {
    NoSuchSession(Uuid),
    /// The session's shim does not answer. The host opens the session as soon as it does.
    NotResponding,
    /// The host is exiting. The next one opens the session.
    Leaving,
    /// Anything else, in words.
    Failed(String),
}

impl HostFailure {
    pub(super) fn of(error: &crate::sessions::OpenError) -> Self {
        use crate::sessions::OpenError;
        match error {
            OpenError::NoSuchSession(SessionId(id)) => Self::NoSuchSession(*id),
            OpenError::NotResponding => Self::NotResponding,
            error => Self::Failed(error.to_string()),
        }
    }
}
