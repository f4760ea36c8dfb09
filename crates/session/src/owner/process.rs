//! The agent process of an owner: attaching to it, starting it, and what a dead one left.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;

use super::{LeftoversTask, Owner};
use crate::catalog::{AgentProtocol, AgentSpec, UnknownAgent};
use crate::cli_settings::default_mode;
use crate::config::AgentProgram;
use crate::options::CliConversation;
use crate::shim::{
    self, AgentSignal, AttachError, LaunchError, ProcessMarker, RunId, ShimCommand, ShimConfig,
    ShimConnection, ShimEvent, ShimHello, ShimStartError,
};

/// How long a shim that is running may take until it accepts connections, or until it notices that
/// its last owner is gone.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);
const ATTACH_RETRY: Duration = Duration::from_millis(20);

/// How long a killed agent may take to be gone.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Since when a shim was asked without an answer. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShimQuestion {
    since: Arc<Mutex<Option<Instant>>>,
}

impl ShimQuestion {
    /// How long the shim has not answered. Zero if nothing was asked, or all was answered.
    pub(crate) fn unanswered(&self) -> Duration {
        self.lock().map(|since| since.elapsed()).unwrap_or_default()
    }

    fn ask(&self) {
        *self.lock() = Some(Instant::now());
    }

    fn answer(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Owner {
    /// How the shim is to start the agent: what the session adds. The [program](complete_config) and the
    /// inherited environment come in front.
    pub(super) fn shim_config(&self, run: RunId, conversation: &CliConversation) -> ShimConfig {
        let options = self.core.machine().options();
        let mut arguments = Vec::new();
        let mut environment = Vec::new();
        if self.core.protocol() == AgentProtocol::StreamJson {
            arguments.extend(options.arguments(conversation));
            let own = options.environment().map(|(name, value)| (name.into(), value.into()));
            environment.extend(own);
        } else {
            let own = options.environment.iter();
            environment.extend(own.map(|(name, value)| (name.into(), value.into())));
        }
        let directory = self.config.live_directory(self.id);
        let name = self.id.0.simple().to_string();
        ShimConfig {
            program: OsString::new(),
            arguments,
            environment,
            working_directory: options.directory.clone(),
            socket: shim::socket_path(&directory, &self.config.runtime, &name),
            directory,
            run,
            marker: ProcessMarker::random(),
            unattended: self.config.unattended,
        }
    }

    /// Where the permission mode of the agent comes from.
    pub(super) fn mode_source(&self) -> ModeSource {
        let is_chosen = self.core.machine().options().permission_mode.is_some();
        if is_chosen || self.core.protocol() != AgentProtocol::StreamJson {
            return ModeSource::Session;
        }
        ModeSource::CliSettings { allow_bypass: self.config.allow_bypass }
    }

    pub(super) fn chosen_agent(&self) -> ChosenAgent {
        match self.core.machine().options().agent.as_deref() {
            None => ChosenAgent::Own(self.config.agent.clone()),
            Some(name) => match self.config.agents.get(name) {
                Ok(spec) => ChosenAgent::Listed(Box::new(spec.clone())),
                Err(error) => ChosenAgent::Unknown(error),
            },
        }
    }

    /// Opens the output of an agent whose shim is gone too, after it has killed what is left of it.
    pub(super) fn read_leftovers(&mut self, run: RunId, from: u64) {
        let directory = self.config.live_directory(self.id);
        let session = self.id;
        self.leftovers = Some(LeftoversTask::Opening(tokio::task::spawn_blocking(move || {
            if let Ok(report) = shim::reap(&directory)
                && report.killed > 0
            {
                warn!(%session, killed = report.killed, "killed processes that a dead shim left");
            }
            shim::read_leftovers(&directory, run, from)
        })));
    }

    /// The end of the agent's stderr, from the disk.
    pub(super) fn stored_stderr(&self) -> Vec<u8> {
        let directory = self.config.live_directory(self.id);
        let run = RunId(self.core.run());
        let leftovers = shim::read_leftovers(&directory, run, u64::MAX);
        leftovers.map(|leftovers| leftovers.stderr).unwrap_or_default()
    }

    /// Removes the files of a process, now that all its output is in the journal.
    pub(super) async fn remove_run(&mut self, run: RunId) {
        let directory = self.config.live_directory(self.id);
        let remove = move || shim::remove_run(&directory, run);
        let removed = tokio::task::spawn_blocking(remove).await;
        if let Ok(Err(error)) = removed {
            warn!(session = %self.id, %error, "could not remove the files of the agent");
        }
    }

    pub(super) async fn kill_agent(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.outbox = None;
            return kill(connection).await;
        }
        let directory = self.config.live_directory(self.id);
        let stopped = shim::stop_everything(&directory, Duration::ZERO).await;
        if let Err(error) = stopped {
            warn!(session = %self.id, %error, "the agent could not be killed");
        }
    }
}

/// Where the permission mode of an agent comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModeSource {
    /// It is among the arguments, or the agent is told over its protocol.
    Session,
    /// The session has none, so that the [settings of the CLI](crate::cli_settings) choose.
    CliSettings { allow_bypass: bool },
}

/// The agent of a session: the server's own program, or one of the catalog.
#[derive(Debug)]
pub(super) enum ChosenAgent {
    Own(AgentProgram),
    Listed(Box<AgentSpec>),
    /// The catalog no longer has it.
    Unknown(UnknownAgent),
}

/// Completes the configuration of a shim with the program of the agent and the mode of the session. Blocks.
fn complete_config(
    mut config: ShimConfig,
    agent: ChosenAgent,
    inherited: Vec<(OsString, OsString)>,
    mode: ModeSource,
) -> Result<ShimConfig, String> {
    let mut environment = inherited;
    let (program, mut arguments) = match agent {
        ChosenAgent::Own(AgentProgram { program, arguments }) => (program, arguments),
        ChosenAgent::Listed(spec) => {
            let found = spec.locate(&environment).map_err(|error| with_causes(&error))?;
            environment.extend(found.environment);
            (found.program.into(), found.arguments)
        }
        ChosenAgent::Unknown(error) => return Err(with_causes(&error)),
    };
    arguments.append(&mut config.arguments);
    environment.append(&mut config.environment);
    if let ModeSource::CliSettings { allow_bypass } = mode {
        let mode = default_mode(&environment, &config.working_directory, allow_bypass);
        arguments.extend(["--permission-mode", mode.name()].map(OsString::from));
    }
    Ok(ShimConfig { program, arguments, environment, ..config })
}

/// Starts a shim with its agent and attaches to it. There is no connection if both have exited
/// already.
pub(super) async fn start(
    towpath: PathBuf,
    config: ShimConfig,
    agent: ChosenAgent,
    inherited: Vec<(OsString, OsString)>,
    mode: ModeSource,
) -> Result<Option<(ShimHello, ShimConnection)>, String> {
    let complete = move || complete_config(config, agent, inherited, mode);
    let completed = tokio::task::spawn_blocking(complete).await;
    let config = completed.map_err(|error| with_causes(&error))??;
    let question = ShimQuestion::default();
    let mut started = shim::start_shim(&towpath, &config).await;
    if let Err(ShimStartError::Refused(LaunchError::Occupied { .. })) = started {
        // A Towpath that was killed while it started an agent may have left its shim here.
        let attached = attach(&config.directory, config.run, 0, &question).await;
        attached.map_err(|error| with_causes(&error))?;
        started = shim::start_shim(&towpath, &config).await;
    }
    started.map_err(|error| with_causes(&error))?;
    let attached = attach(&config.directory, config.run, 0, &question).await;
    attached.map_err(|error| with_causes(&error))
}

/// Attaches to the shim of a run, if it runs. A shim of another run in its place is a stray of
/// which the journal does not know: it is killed.
///
/// The caller owns the session, so another owner that the shim still has is about to go away.
pub(super) async fn attach(
    directory: &Path,
    run: RunId,
    from: u64,
    question: &ShimQuestion,
) -> Result<Option<(ShimHello, ShimConnection)>, AttachError> {
    let deadline = Instant::now() + ATTACH_TIMEOUT;
    let (hello, connection) = loop {
        question.ask();
        let attached = ShimConnection::attach(directory, from).await;
        if !matches!(&attached, Err(AttachError::Io(_))) {
            // A shim that still has its last owner has answered too.
            question.answer();
        }
        match attached {
            Ok(attached) => break attached,
            Err(AttachError::NotRunning)
                if shim::is_running(directory) && Instant::now() < deadline => {}
            Err(AttachError::NotRunning) => return Ok(None),
            Err(AttachError::Owned { .. }) if Instant::now() < deadline => {}
            Err(error) => return Err(error),
        }
        tokio::time::sleep(ATTACH_RETRY).await;
    };
    if hello.run.is_none_or(|other| other == run) {
        return Ok(Some((hello, connection)));
    }
    warn!(stray = ?hello.run, %run, "found the shim of another run; killing its agent");
    kill(connection).await;
    if let Some(stray) = hello.run {
        let directory = directory.to_owned();
        // Its files are useless, but they do no harm if they cannot be removed.
        let _ = tokio::task::spawn_blocking(move || shim::remove_run(&directory, stray)).await;
    }
    Ok(None)
}

/// Kills a shim's agent and waits until it is gone.
pub(super) async fn kill(mut connection: ShimConnection) {
    let _ = connection.send(ShimCommand::Signal(AgentSignal::Kill)).await;
    let exited = async {
        while !matches!(connection.next().await, Some(ShimEvent::Exited { .. }) | None) {}
    };
    let _ = tokio::time::timeout(KILL_TIMEOUT, exited).await;
    connection.close().await;
}

/// An error with its causes on one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
