//! Where sessions are stored on this machine, how their agents are started, and their time limits.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use journal::SessionId;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use transcripts::TranscriptDirectory;
use wire::note::WatchConfig;

use crate::catalog::AgentCatalog;
use crate::options::SessionOptions;
use crate::prompt_gate::PromptGate;
use crate::shim::MAX_WRITE;

/// Where sessions are stored, and how their agents are started.
#[derive(Clone, Debug)]
pub struct SessionsConfig {
    /// The directory of the journal. Each driven session has a directory of its own below it.
    pub data: PathBuf,
    /// A private directory with a short path, for sockets whose path would be too long elsewhere.
    pub runtime: PathBuf,
    /// The `towpath` program, which is started as the shim.
    pub towpath: PathBuf,
    /// What sessions for which no agent is chosen are driven with.
    pub agent: AgentProgram,
    /// The agents that can be chosen.
    pub agents: AgentCatalog,
    /// The environment that agents inherit.
    pub environment: Vec<(OsString, OsString)>,
    /// Whether sessions may be given the mode in which the agent asks for nothing.
    pub allow_bypass: bool,
    /// The user's configuration file with profiles, whether or not it exists.
    pub config_file: Option<PathBuf>,
    pub limits: SessionLimits,
    pub unattended: UnattendedLimits,
    /// How long a session whose owner was another process may have none until this process takes
    /// it over. A server that is being restarted should find its sessions free.
    pub takeover_delay: Duration,
    /// What prompts wait for before the agent gets them.
    pub prompt_gate: PromptGate,
    pub watch: WatchPolicy,
}

/// What this process does about files that agents change, for all sessions.
#[derive(Clone, Debug, Default)]
pub struct WatchPolicy {
    /// The configuration of sessions that have none of their own.
    pub default: Option<Arc<WatchConfig>>,
    /// Takes the hooks to run. Without it no hook is registered with an agent.
    pub hooks: Option<mpsc::UnboundedSender<HookRequest>>,
}

/// A hook to run. The answer is a [`SessionCommand::AnswerHook`](crate::SessionCommand::AnswerHook).
///
/// After a restart the same request comes again: a hook that was cut off runs once more.
#[derive(Clone, Debug)]
pub struct HookRequest {
    pub session: SessionId,
    /// The agent's id of the request.
    pub request: String,
    /// What a hook program receives on stdin.
    pub input: String,
    /// The working directory of the session.
    pub directory: PathBuf,
    pub config: Arc<WatchConfig>,
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

/// The timeouts of a session, in milliseconds, how often its agent is restarted, and how long lines may
/// be.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// Until a new process must have answered `initialize`. A loaded machine needs seconds.
    pub initialize: u64,
    /// Until the agent must have answered any other request of ours. Up to 2.1.37 it does not
    /// answer requests that it does not know.
    pub control: u64,
    /// Until a hook must have answered. Then the call goes on without it. It is longer than the
    /// timeout of the program that the hook runs.
    pub hook: u64,
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
    /// Whether prompts are sent at their scheduled time. A process that only reads what agents left
    /// sends none.
    pub sends_scheduled: bool,
    /// How many dollars all sessions may cost on a day (in UTC) before queued prompts wait for a person.
    pub budget_per_day: Option<f64>,
    /// The longest line for the agent in bytes, with its newline. Shims refuse longer ones than the
    /// default.
    pub longest_write: usize,
    /// The longest line of the agent in bytes that is read. A longer one is stored in parts.
    pub longest_line: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        const SECOND: u64 = 1000;
        const MINUTE: u64 = 60 * SECOND;
        Self {
            initialize: MINUTE,
            control: 20 * SECOND,
            hook: 75 * SECOND,
            interrupt: 5 * SECOND,
            stop: 5 * SECOND,
            request: Some(24 * 60 * MINUTE),
            park: Some(30 * MINUTE),
            stall: 2 * MINUTE,
            carry: 30 * SECOND,
            idle: 2 * SECOND,
            restarts: 3,
            sends_scheduled: true,
            budget_per_day: None,
            longest_write: MAX_WRITE,
            longest_line: wire::DEFAULT_CAP,
        }
    }
}

impl SessionsConfig {
    /// The directory with the shim's files and the ownership lock of a session.
    pub fn live_directory(&self, session: SessionId) -> PathBuf {
        self.data.join("live").join(session.to_string())
    }

    /// Where agents with these options keep their session files. `None` if they have no home.
    pub fn transcripts(&self, options: &SessionOptions) -> Option<TranscriptDirectory> {
        let agent = options.agent.as_deref().and_then(|name| self.agents.find(name));
        TranscriptDirectory::of_environment(|name| {
            let own = options.environment.get(name).map(OsString::from);
            let inherited = || self.environment.iter().rev().find(|(known, _)| known == name);
            own.or_else(|| agent.and_then(|it| it.environment.get(name)).map(OsString::from))
                .or_else(|| inherited().map(|(_, value)| value.clone()))
        })
    }

    /// The journal's file in a data directory.
    pub fn journal_path(data: &Path) -> PathBuf {
        data.join("journal.db")
    }
}
