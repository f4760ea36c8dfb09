//! The task that owns a session.
//!
//! It alone talks to the session's shim and its part of the journal. All decisions are in the pure
//! [`OwnerCore`]: the task performs the core's effects, one after the other, and feeds back their
//! results and whatever else happens. It adds nothing to the order of things, so that a simulation
//! of the core covers it.
//!
//! The agent's output waits for the journal and for nothing else. Clients follow the journal.

mod core;
mod outbox;
pub(crate) mod process;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read as _};
use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use journal::{Batch, Journal, Seq, SessionId};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::{info, warn};
use uuid::Uuid;

pub use self::core::{
    AttachOutcome, OwnerCore, OwnerEffect, OwnerInput, OwnerSnapshot, StartOutcome, WriteFailure,
};
use crate::command::{CommandOutput, SessionCommand};
use crate::config::SessionsConfig;
use crate::machine::{AgentExit, ClockReading, CommandId};
use crate::session::{Error, LeaveOutcome};
use crate::shim::{
    self, AttachError, Leftovers, Ownership, RunId, ShimCommand, ShimConnection, ShimEvent,
    ShimHello,
};
use outbox::ShimOutbox;

/// How long a connection may take to send what is queued when it is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How much of a dead agent's output is read at once.
const CHUNK: usize = 256 << 10;

/// What the handles of a session send to its owner.
#[derive(Debug)]
pub(crate) enum OwnerCommand {
    Session {
        command: Box<SessionCommand>,
        reply: CommandReply,
    },
    /// Stop driving the session. Its agent finishes its turn under its shim.
    Release {
        done: oneshot::Sender<LeaveOutcome>,
    },
    /// Kill the agent and stop driving the session, which is about to be deleted.
    Destroy {
        done: oneshot::Sender<LeaveOutcome>,
    },
    #[cfg(test)]
    Panic,
}

type CommandReply = oneshot::Sender<Result<CommandOutput, Error>>;

/// Tells the client that released the session that it is released, once the ownership is too.
#[derive(Debug)]
pub(crate) struct LeaveNotice {
    done: oneshot::Sender<LeaveOutcome>,
    outcome: LeaveOutcome,
}

impl LeaveNotice {
    pub(crate) fn send(self) {
        // The client that asked for it may have gone.
        let _ = self.done.send(self.outcome);
    }
}

/// Why an owner ended or could not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OwnerError {
    #[error("the session could not be written to the journal")]
    Journal(#[from] journal::Error),
    #[error("the session's shim could not be reached")]
    Shim(#[from] AttachError),
    #[error("the output of the last agent could not be read")]
    Leftovers(#[from] io::Error),
}

/// A process that is being started: a connection to its shim, none if it has exited already, or why
/// it could not be started.
type StartTask = JoinHandle<Result<Option<ShimConnection>, String>>;

/// A shim that is being attached to; none if it is gone.
type AttachTask = JoinHandle<Result<Option<(ShimHello, ShimConnection)>, AttachError>>;

type WriteTask = Pin<Box<dyn Future<Output = Result<Seq, journal::Error>> + Send>>;

/// The output of a dead agent.
#[derive(Debug)]
enum LeftoversTask {
    Opening(JoinHandle<io::Result<Leftovers>>),
    Reading { leftovers: Leftovers, offset: u64 },
}

/// One session and everything that belongs to it alone.
pub(crate) struct Owner {
    id: SessionId,
    config: SessionsConfig,
    journal: Journal,
    commands: mpsc::Receiver<OwnerCommand>,
    core: OwnerCore,
    /// The start of the monotonic clock.
    epoch: Instant,
    connection: Option<ShimConnection>,
    outbox: Option<ShimOutbox>,
    starting: Option<StartTask>,
    attaching: Option<AttachTask>,
    /// The run that is attached to, and the offset of its first output.
    attach_target: (RunId, u64),
    /// Whether the session was taken over.
    settled: bool,
    leftovers: Option<LeftoversTask>,
    writing: Option<WriteTask>,
    last_command: u64,
    replies: HashMap<CommandId, CommandReply>,
    compaction: Option<JoinHandle<()>>,
    leaving: Option<Leaving>,
    left: Option<LeaveOutcome>,
    /// Declared last: the next owner must not start before the connection is closed.
    _ownership: Ownership,
}

/// Who asked the owner to leave, and whether the agent is killed.
#[derive(Debug)]
struct Leaving {
    done: Option<oneshot::Sender<LeaveOutcome>>,
    kills: bool,
}

impl Owner {
    /// Takes over a session: from the journal, from a shim that runs, or from what a dead shim
    /// left. Fails if the shim does not answer.
    pub(crate) async fn take_over(
        id: SessionId,
        config: SessionsConfig,
        journal: Journal,
        ownership: Ownership,
        commands: mpsc::Receiver<OwnerCommand>,
    ) -> Result<Self, OwnerError> {
        let record = journal.session(id).await?.ok_or(journal::Error::NoSuchSession(id))?;
        let requests = journal.open_requests(Some(id)).await?;
        let live = config.live_directory(id);
        let has_process =
            shim::is_running(&live) || shim::has_leftovers(&live, RunId(record.spool.run));
        let epoch = Instant::now();
        let core = OwnerCore::new(OwnerSnapshot {
            now: ClockReading { wall: now(), monotonic: 0 },
            seed: Uuid::new_v4().as_u128(),
            limits: config.limits,
            prompts: journal.prompts(id).await?,
            requests: requests.into_iter().map(|(_, request)| request).collect(),
            record,
            has_process,
        });
        let mut owner = Self {
            id,
            config,
            journal,
            commands,
            core,
            epoch,
            connection: None,
            outbox: None,
            starting: None,
            attaching: None,
            attach_target: (RunId(0), 0),
            settled: false,
            leftovers: None,
            writing: None,
            last_command: 0,
            replies: HashMap::new(),
            compaction: None,
            leaving: None,
            left: None,
            _ownership: ownership,
        };
        owner.take(OwnerInput::TakeOver).await?;
        while !owner.core.is_settled() {
            owner.advance(false).await?;
        }
        owner.settled = true;
        Ok(owner)
    }

    /// Drives the session until it is released. The notice for the client that released it may be
    /// sent only after the ownership is released too.
    pub(crate) async fn run(mut self) -> Result<Option<LeaveNotice>, OwnerError> {
        while self.left.is_none() {
            self.advance(self.leaving.is_none()).await?;
        }
        let outcome = self.left.take().unwrap_or(LeaveOutcome::Stored);
        let leaving = self.leaving.take();
        let kills = leaving.as_ref().is_some_and(|leaving| leaving.kills);
        self.leave(kills).await;
        Ok(leaving.and_then(|leaving| leaving.done).map(|done| LeaveNotice { done, outcome }))
    }

    /// Waits for the next thing to happen, and performs what it leads to.
    async fn advance(&mut self, commands: bool) -> Result<(), OwnerError> {
        let ready = self.core.is_ready();
        let pause = self.core.pause(self.clock());
        let input = tokio::select! {
            biased;
            result = next_write(&mut self.writing) => match result {
                Ok(last) => OwnerInput::Written(Ok(last)),
                Err(journal::Error::Full) => {
                    warn!(session = %self.id, "the disk is full; the session waits for free space");
                    OwnerInput::Written(Err(WriteFailure::Full))
                }
                Err(journal::Error::Busy) => OwnerInput::Written(Err(WriteFailure::Busy)),
                Err(error) => return Err(error.into()),
            },
            command = self.commands.recv(), if commands => self.receive(command),
            input = next_leftover(&mut self.leftovers), if ready => input?,
            event = next_event(&mut self.connection), if ready => match event {
                Some(event) => self.shim_event(event).await?,
                None => OwnerInput::Disconnected,
            },
            started = next_result(&mut self.starting), if ready => self.started(started),
            attached = next_result(&mut self.attaching), if ready => self.attached(attached)?,
            () = sleep(pause) => OwnerInput::Tick,
        };
        self.take(input).await
    }

    /// Shows the core what happened and performs the effects, and those of their results.
    async fn take(&mut self, input: OwnerInput) -> Result<(), OwnerError> {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for effect in self.core.on(self.clock(), input) {
                inputs.extend(self.perform(effect).await?);
            }
        }
        Ok(())
    }

    /// Performs an effect. Returns its result, unless that comes later.
    async fn perform(&mut self, effect: OwnerEffect) -> Result<Option<OwnerInput>, OwnerError> {
        match effect {
            OwnerEffect::Write(batch) => self.write(*batch),
            OwnerEffect::LoadGrants => {
                let grants = self.journal.grants(now()).await.unwrap_or_else(|error| {
                    // Without them, a person is asked.
                    warn!(session = %self.id, %error, "the grants could not be read");
                    Vec::new()
                });
                return Ok(Some(OwnerInput::Grants(grants)));
            }
            OwnerEffect::LoadOutbound => {
                return Ok(Some(OwnerInput::Outbound(self.journal.outbound(self.id).await?)));
            }
            OwnerEffect::Send(command) => {
                if let Some(outbox) = &self.outbox {
                    outbox.send(command);
                }
            }
            OwnerEffect::Reply(id, result) => {
                if let Some(reply) = self.replies.remove(&id) {
                    // The client may have gone.
                    let _ = reply.send(result);
                }
            }
            OwnerEffect::Start { run, conversation } => {
                info!(session = %self.id, run, "starting an agent");
                let config = self.shim_config(RunId(run), &conversation);
                let towpath = self.config.towpath.clone();
                self.starting = Some(tokio::spawn(process::start(towpath, config)));
            }
            OwnerEffect::Attach { run, from } => {
                self.attach_target = (RunId(run), from);
                self.attach();
            }
            OwnerEffect::ReadLeftovers { run, from } => self.read_leftovers(RunId(run), from),
            OwnerEffect::Disconnect => self.disconnect().await,
            OwnerEffect::RemoveRun(run) => self.remove_run(RunId(run)).await,
            OwnerEffect::Compact(upto) => self.compact(upto),
            OwnerEffect::Leave(outcome) => self.left = Some(outcome),
        }
        Ok(None)
    }

    /// The time of both clocks. `Instant` never goes back and does not count suspended time.
    fn clock(&self) -> ClockReading {
        let monotonic = u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
        ClockReading { wall: now(), monotonic }
    }

    fn write(&mut self, batch: Batch) {
        let (journal, id) = (self.journal.clone(), self.id);
        self.writing = Some(Box::pin(async move { journal.write(id, batch).await }));
    }

    fn receive(&mut self, command: Option<OwnerCommand>) -> OwnerInput {
        let (done, kills) = match command {
            Some(OwnerCommand::Session { command, reply }) => {
                self.last_command += 1;
                let id = CommandId(self.last_command);
                self.replies.insert(id, reply);
                return OwnerInput::Command { id, command };
            }
            Some(OwnerCommand::Release { done }) => (Some(done), false),
            Some(OwnerCommand::Destroy { done }) => (Some(done), true),
            #[cfg(test)]
            Some(OwnerCommand::Panic) => panic!("a test asked for it"),
            None => (None, false),
        };
        self.leaving = Some(Leaving { done, kills });
        OwnerInput::Leave
    }

    async fn shim_event(&mut self, event: ShimEvent) -> Result<OwnerInput, OwnerError> {
        if let ShimEvent::Exited { .. } = event
            && self.core.lacks_stderr()
        {
            // An owner that attached too late reads it from the disk.
            let stderr = self.stored_stderr();
            self.take(OwnerInput::Shim(ShimEvent::Stderr(stderr))).await?;
        }
        Ok(OwnerInput::Shim(event))
    }

    fn use_connection(&mut self, connection: ShimConnection) {
        self.outbox = Some(ShimOutbox::new(connection.sender()));
        self.connection = Some(connection);
    }

    fn started(&mut self, started: Result<Option<ShimConnection>, String>) -> OwnerInput {
        OwnerInput::Started(match started {
            Ok(Some(connection)) => {
                self.use_connection(connection);
                StartOutcome::Running
            }
            Ok(None) => StartOutcome::Exited,
            Err(message) => StartOutcome::Failed(message),
        })
    }

    fn attached(
        &mut self,
        attached: Result<Option<(ShimHello, ShimConnection)>, AttachError>,
    ) -> Result<OwnerInput, OwnerError> {
        let outcome = match attached {
            Ok(Some((hello, connection))) => {
                info!(session = %self.id, "attached to a running agent");
                self.use_connection(connection);
                AttachOutcome::Attached { last_write: hello.last_write }
            }
            Ok(None) => AttachOutcome::Gone,
            Err(AttachError::Io(error))
                if self.settled && error.kind() == io::ErrorKind::TimedOut =>
            {
                // It is stopped. The core has reported that, and goes on when it answers.
                self.attach();
                return Ok(OwnerInput::Tick);
            }
            Err(error) => return Err(error.into()),
        };
        Ok(OwnerInput::Attached(outcome))
    }

    fn attach(&mut self) {
        let directory = self.config.live_directory(self.id);
        let (run, from) = self.attach_target;
        let attach = async move { process::attach(&directory, run, from).await };
        self.attaching = Some(tokio::spawn(attach));
    }

    /// Has the journal drop what only served streaming, in the background. If a compaction still
    /// runs, the next one covers this turn too.
    fn compact(&mut self, upto: Seq) {
        if self.compaction.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let (journal, id) = (self.journal.clone(), self.id);
        self.compaction = Some(tokio::spawn(async move {
            if let Err(error) = journal.compact(id, upto).await {
                warn!(session = %id, %error, "the journal could not be compacted");
            }
        }));
    }

    /// Closes the connection, once what is queued has gone out. A shim that is stopped is not
    /// waited for.
    async fn disconnect(&mut self) {
        self.outbox = None;
        if let Some(connection) = self.connection.take() {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, connection.close()).await;
        }
    }

    /// Detaches from the shim: the agent finishes its turn, and the next owner reads its output. Or
    /// kills the agent and waits until it is gone.
    async fn leave(&mut self, kills: bool) {
        if let Some(starting) = self.starting.take() {
            // A shim that is being started would start its agent unseen.
            if let Ok(Ok(Some(connection))) = starting.await {
                self.use_connection(connection);
            }
        }
        if let Some(attaching) = self.attaching.take() {
            attaching.abort();
            let _ = attaching.await;
        }
        if kills {
            self.kill_agent().await;
        } else if let Some(outbox) = &self.outbox {
            outbox.send(ShimCommand::Detach);
        }
        self.disconnect().await;
        if let Some(compaction) = self.compaction.take() {
            let _ = compaction.await;
        }
    }
}

async fn next_write(writing: &mut Option<WriteTask>) -> Result<Seq, journal::Error> {
    let Some(task) = writing else { return std::future::pending().await };
    let result = task.await;
    *writing = None;
    result
}

async fn next_event(connection: &mut Option<ShimConnection>) -> Option<ShimEvent> {
    match connection {
        Some(connection) => connection.next().await,
        None => std::future::pending().await,
    }
}

/// The result of a task. A panic in it continues here: it ends this session and no other.
async fn next_result<T>(task: &mut Option<JoinHandle<T>>) -> T {
    let Some(running) = task else { return std::future::pending().await };
    let result = running.await;
    *task = None;
    match result {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only its owner aborts a task, and does not wait for it here.
            Err(_) => std::future::pending().await,
        },
    }
}

async fn next_leftover(leftovers: &mut Option<LeftoversTask>) -> Result<OwnerInput, OwnerError> {
    loop {
        match leftovers {
            None => return std::future::pending().await,
            Some(LeftoversTask::Opening(task)) => {
                let opened = task.await.map_err(io::Error::other)??;
                let offset = opened.start;
                *leftovers = Some(LeftoversTask::Reading { leftovers: opened, offset });
            }
            Some(LeftoversTask::Reading { leftovers: reader, offset }) => {
                let mut bytes = vec![0; CHUNK];
                let read = reader.read(&mut bytes)?;
                if read > 0 {
                    bytes.truncate(read);
                    let at = *offset;
                    *offset += read as u64;
                    return Ok(OwnerInput::Leftover { offset: at, bytes });
                }
                let exit = reader.exit.map(|exit| AgentExit::of(exit, &reader.stderr));
                *leftovers = None;
                return Ok(OwnerInput::LeftoversEnd(exit.unwrap_or(AgentExit::Unknown)));
            }
        }
    }
}

async fn sleep(pause: Option<u64>) {
    match pause {
        Some(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
        None => std::future::pending().await,
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
