//! The agent process of an owner: taking it over, starting it, and reading what a dead one left.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use journal::{Journal, SessionId, SessionStatus, SpoolPosition};
use tokio::sync::mpsc;
use tracing::{info, warn};
use uuid::Uuid;
use wire::Splitter;

use super::batch::PendingBatch;
use super::{Owner, OwnerCommand, OwnerError, now};
use crate::config::SessionsConfig;
use crate::machine::{AgentExit, Input, Machine, MachineSnapshot, StartMode};
use crate::options::{CliConversation, SessionOptions};
use crate::shim::{
    self, AgentSignal, AttachError, ExitStatus, LaunchError, Ownership, ProcessMarker, RunId,
    ShimCommand, ShimConfig, ShimConnection, ShimEvent, ShimHello, ShimStartError,
};

/// How long a shim that is running may take until it accepts connections, or until it notices that
/// its last owner is gone.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);
const ATTACH_RETRY: Duration = Duration::from_millis(20);

/// How long a killed agent may take to be gone.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of a dead agent's output is read at once.
const CHUNK: usize = 256 << 10;

impl Owner {
    /// Takes over a session: from the journal, from a shim that runs, or from what a dead shim
    /// left.
    pub(crate) async fn take_over(
        id: SessionId,
        config: SessionsConfig,
        journal: Journal,
        ownership: Ownership,
        commands: mpsc::Receiver<OwnerCommand>,
    ) -> Result<Self, OwnerError> {
        let record = journal.session(id).await?.ok_or(journal::Error::NoSuchSession(id))?;
        let options: SessionOptions = serde_json::from_str(&record.options).unwrap_or_default();
        let options = SessionOptions { directory: record.directory.clone(), ..options };
        let requests = journal.open_requests(Some(id)).await?;
        let was_active = matches!(record.status, SessionStatus::Running | SessionStatus::Waiting);
        let live = config.live_directory(id);
        let run = RunId(record.spool.run);
        let attached = match run.0 {
            0 => None,
            _ => attach(&live, run, record.spool.offset).await?,
        };
        let has_leftovers = run.0 > 0 && shim::has_leftovers(&live, run);
        let machine = Machine::new(MachineSnapshot {
            now: now(),
            session: id,
            limits: config.limits,
            options,
            prompts: journal.prompts(id).await?,
            requests: requests.into_iter().map(|(_, request)| request).collect(),
            turns: record.turn,
            turn_is_open: record.turn > record.turn_ended,
            agent_may_run: attached.is_some() || has_leftovers || was_active,
            resumable: !record.agent_ids.is_empty(),
        });
        let mut owner = Self {
            id,
            config,
            journal,
            commands,
            machine,
            connection: None,
            shim: None,
            starting: None,
            run: record.spool.run,
            offset: record.spool.offset,
            writes: record.writes,
            splitter: Splitter::new(),
            stderr: Vec::new(),
            conversations: record.agent_ids,
            titled: record.title.is_some(),
            status: record.status,
            last_command: 0,
            replies: HashMap::new(),
            batch: PendingBatch::default(),
            compaction: None,
            _ownership: ownership,
        };
        match attached {
            Some((hello, connection)) => {
                info!(session = %id, run = owner.run, from = owner.offset, "attached to a running agent");
                owner.attached(&hello, connection).await?;
                owner.step(Input::AgentAttached).await?;
            }
            None if has_leftovers || was_active => {
                let exit = owner.read_leftovers().await?;
                owner.agent_gone(exit).await?;
            }
            None => owner.step(Input::Tick).await?,
        }
        Ok(owner)
    }

    /// Uses a connection, and sends the stored lines that did not reach the shim.
    pub(super) async fn attached(
        &mut self,
        hello: &ShimHello,
        connection: ShimConnection,
    ) -> Result<(), OwnerError> {
        self.shim = Some(connection.sender());
        self.connection = Some(connection);
        for outbound in self.journal.outbound(self.id).await? {
            if outbound.number > hello.last_write {
                let bytes = outbound.bytes.to_vec();
                self.send(ShimCommand::Write { number: outbound.number, bytes }).await;
            }
        }
        Ok(())
    }

    /// Starts a new process. Its run number is stored first: after a crash, the next owner must
    /// know which process the output belongs to.
    pub(super) async fn start(&mut self, mode: StartMode) {
        let conversation = self.choose_conversation(mode);
        self.run += 1;
        self.offset = 0;
        self.writes = 0;
        self.batch.start_run();
        if let Some((batch, _)) = self.batch.take_batch(now(), self.mark(), 0)
            && let Err(error) = self.journal.write(self.id, batch).await
        {
            let message = error.to_string();
            self.starting = Some(tokio::spawn(async move { Err(message) }));
            return;
        }
        let config = self.shim_config(&conversation);
        let towpath = self.config.towpath.clone();
        info!(session = %self.id, run = self.run, "starting an agent");
        self.starting = Some(tokio::spawn(async move {
            let mut started = shim::start_shim(&towpath, &config).await;
            if let Err(ShimStartError::Refused(LaunchError::Occupied { .. })) = started {
                // A Towpath that was killed while it started an agent may have left its shim here.
                attach(&config.directory, config.run, 0)
                    .await
                    .map_err(|error| with_causes(&error))?;
                started = shim::start_shim(&towpath, &config).await;
            }
            started.map_err(|error| with_causes(&error))?;
            // If there is no shim, the agent has exited at once and the shim with it.
            let attached = attach(&config.directory, config.run, 0).await;
            let attached = attached.map_err(|error| with_causes(&error))?;
            Ok(attached.map(|(_, connection)| connection))
        }));
    }

    pub(super) fn mark(&self) -> SpoolPosition {
        SpoolPosition { run: self.run, offset: self.offset }
    }

    fn choose_conversation(&self, mode: StartMode) -> CliConversation {
        let own = self.id.to_string();
        let last = self.conversations.last().cloned();
        match mode {
            StartMode::Resume if self.run == 0 && self.machine.options().fork => {
                CliConversation::Forked(last.unwrap_or(own))
            }
            StartMode::Resume => CliConversation::Resumed(last.unwrap_or(own)),
            StartMode::NewConversation if self.run == 0 => CliConversation::New(own),
            // The CLI refuses an id it has seen, even if that conversation is empty.
            StartMode::NewConversation => CliConversation::New(Uuid::new_v4().to_string()),
        }
    }

    fn shim_config(&self, conversation: &CliConversation) -> ShimConfig {
        let options = self.machine.options();
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
            run: RunId(self.run),
            marker: ProcessMarker::random(),
            unattended: self.config.unattended,
        }
    }

    pub(super) async fn started(
        &mut self,
        started: Result<Option<ShimConnection>, String>,
    ) -> Result<(), OwnerError> {
        match started {
            Ok(Some(connection)) => {
                self.shim = Some(connection.sender());
                self.connection = Some(connection);
                self.step(Input::AgentStarted).await
            }
            Ok(None) => {
                self.step(Input::AgentStarted).await?;
                let exit = self.read_leftovers().await?;
                self.agent_gone(exit).await
            }
            Err(message) => self.agent_gone(AgentExit::NotStarted(message)).await,
        }
    }

    /// Reads the output of an agent whose shim is gone too, and returns how it exited.
    pub(super) async fn read_leftovers(&mut self) -> Result<AgentExit, OwnerError> {
        let directory = self.config.live_directory(self.id);
        let (run, from) = (RunId(self.run), self.offset);
        let reaped = {
            let directory = directory.clone();
            tokio::task::spawn_blocking(move || shim::reap(&directory)).await
        };
        if let Ok(Ok(report)) = reaped
            && report.killed > 0
        {
            warn!(session = %self.id, killed = report.killed, "killed processes that a dead shim left");
        }
        let mut leftovers = shim::read_leftovers(&directory, run, from)?;
        // The journal ends with a whole line, so a half-read line is read again.
        self.splitter = Splitter::new();
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = leftovers.read(&mut chunk)?;
            if read == 0 {
                break;
            }
            self.output(&chunk[..read]).await?;
        }
        self.finish_output();
        Ok(leftovers.exit.map_or(AgentExit::Unknown, |exit| agent_exit(exit, &leftovers.stderr)))
    }

    /// The end of the agent's stderr. An owner that attached too late reads it from the disk.
    pub(super) fn stderr_tail(&self) -> Vec<u8> {
        if !self.stderr.is_empty() {
            return self.stderr.clone();
        }
        let directory = self.config.live_directory(self.id);
        let leftovers = shim::read_leftovers(&directory, RunId(self.run), self.offset);
        leftovers.map(|leftovers| leftovers.stderr).unwrap_or_default()
    }

    /// Removes the files of a process, now that all its output is in the journal.
    pub(super) async fn remove_run(&self, run: u64) {
        let directory = self.config.live_directory(self.id);
        let remove = move || shim::remove_run(&directory, RunId(run));
        let removed = tokio::task::spawn_blocking(remove).await;
        if let Ok(Err(error)) = removed {
            warn!(session = %self.id, %error, "could not remove the files of the agent");
        }
    }
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

pub(super) fn agent_exit(status: ExitStatus, stderr: &[u8]) -> AgentExit {
    match status {
        ExitStatus::Code(code) => {
            let stderr = String::from_utf8_lossy(stderr).trim().to_owned();
            AgentExit::Exited { code, stderr }
        }
        ExitStatus::Signal(signal) => AgentExit::Killed(signal),
        ExitStatus::Unknown => AgentExit::Unknown,
    }
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
