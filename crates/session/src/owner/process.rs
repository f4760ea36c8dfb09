//! The agent process of an owner: attaching to it, starting it, and what a dead one left.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tracing::warn;

use super::{LeftoversTask, Owner};
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

impl Owner {
    pub(super) fn shim_config(&self, run: RunId, conversation: &CliConversation) -> ShimConfig {
        let options = self.core.machine().options();
        let mut arguments = self.config.agent.arguments.clone();
        arguments.extend(options.arguments(conversation));
        let mut environment = self.config.environment.clone();
        let own = options.environment().map(|(name, value)| (name.into(), value.into()));
        environment.extend(own);
        let directory = self.config.live_directory(self.id);
        let name = self.id.0.simple().to_string();
        ShimConfig {
            program: self.config.agent.program.clone(),
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

/// Starts a shim with its agent and attaches to it. There is no connection if both have exited
/// already.
pub(super) async fn start(
    towpath: PathBuf,
    config: ShimConfig,
) -> Result<Option<ShimConnection>, String> {
    let mut started = shim::start_shim(&towpath, &config).await;
    if let Err(ShimStartError::Refused(LaunchError::Occupied { .. })) = started {
        // A Towpath that was killed while it started an agent may have left its shim here.
        attach(&config.directory, config.run, 0).await.map_err(|error| with_causes(&error))?;
        started = shim::start_shim(&towpath, &config).await;
    }
    started.map_err(|error| with_causes(&error))?;
    let attached = attach(&config.directory, config.run, 0).await;
    let attached = attached.map_err(|error| with_causes(&error))?;
    Ok(attached.map(|(_, connection)| connection))
}

/// Attaches to the shim of a run, if it runs. A shim of another run in its place is a stray of
/// which the journal does not know: it is killed.
///
/// The caller owns the session, so another owner that the shim still has is about to go away.
pub(super) async fn attach(
    directory: &Path,
    run: RunId,
    from: u64,
) -> Result<Option<(ShimHello, ShimConnection)>, AttachError> {
    let deadline = Instant::now() + ATTACH_TIMEOUT;
    let (hello, connection) = loop {
        match ShimConnection::attach(directory, from).await {
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
