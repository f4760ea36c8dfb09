//! The task that owns a session.
//!
//! It alone talks to the session's shim and its part of the journal. All decisions are in the pure
//! [`OwnerCore`]: the task performs the core's effects, one after the other, and feeds back their
//! results and whatever else happens. It adds nothing to the order of things, so that a simulation
//! of the core covers it.
//!
//! The agent's output waits for the journal and for nothing else. Clients follow the journal.

mod core;
mod leaving;
mod links;
mod next;
mod outbox;
pub(crate) mod process;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use journal::{Batch, Journal, Origin, Seq, SessionId, SessionRecord};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tracing::{info, warn};
use uuid::Uuid;

pub use self::core::{
    AttachOutcome, OwnerCore, OwnerEffect, OwnerInput, OwnerSnapshot, StartOutcome, WriteFailure,
};
use crate::catalog::{AgentProtocol, AgentSpec};
use crate::command::{CommandOutput, SessionCommand};
use crate::config::{HookRequest, SessionsConfig};
use crate::machine::{ClockReading, CommandId};
use crate::options::SessionOptions;
use crate::remote::OwnerSocket;
use crate::session::{Error, LeaveOutcome, Session};
use crate::sessions::Sessions;
use crate::shim::{
    self, AttachError, Leftovers, Ownership, RunId, ShimConnection, ShimEvent, ShimHello,
};
use leaving::Leaving;
pub(crate) use leaving::{LeaveNotice, OwnerEnd};
use next::{next_command, next_event, next_leftover, next_result, next_write, sleep};
use outbox::ShimOutbox;
pub(crate) use process::ShimQuestion;

/// How many entries are read at a time when the last line of the agent is looked for.
const TAIL_ENTRIES: u64 = 16;

/// How much of it is read.
const LINE_START: usize = 64 << 10;

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
    /// Ends the owner as an error of the journal does.
    #[cfg(test)]
    Fail,
}

pub(crate) type CommandReply = oneshot::Sender<Result<CommandOutput, Error>>;

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
type StartTask = JoinHandle<Result<Option<(ShimHello, ShimConnection)>, String>>;

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
    /// Commands that come before those in the channel.
    backlog: VecDeque<OwnerCommand>,
    core: OwnerCore,
    /// The start of the monotonic clock.
    epoch: Instant,
    connection: Option<ShimConnection>,
    outbox: Option<ShimOutbox>,
    starting: Option<StartTask>,
    attaching: Option<AttachTask>,
    /// Whether the shim that is attached to has answered.
    question: ShimQuestion,
    /// The run that is attached to, and the offset of its first output.
    attach_target: (RunId, u64),
    /// Whether the session was taken over.
    settled: bool,
    /// Whether the shim does not answer.
    silence: watch::Sender<bool>,
    leftovers: Option<LeftoversTask>,
    writing: Option<WriteTask>,
    last_command: u64,
    replies: HashMap<CommandId, CommandReply>,
    compaction: Option<JoinHandle<()>>,
    leaving: Option<Leaving>,
    left: Option<LeaveOutcome>,
    /// Removed before the ownership is released: after that, its file belongs to the next owner.
    socket: Option<OwnerSocket>,
    /// Declared last: the next owner must not start before the connection is closed.
    _ownership: Ownership,
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
        question: ShimQuestion,
    ) -> Result<Self, OwnerError> {
        let record = journal.session(id).await?.ok_or(journal::Error::NoSuchSession(id))?;
        let requests = journal.open_requests(Some(id)).await?.into_iter().map(|it| it.1);
        let hooks = journal.open_hook_requests(id).await?;
        let live = config.live_directory(id);
        let has_process =
            shim::is_running(&live) || shim::has_leftovers(&live, RunId(record.spool.run));
        let (protocol, agent) = find_agent(&config, &record);
        let unfinished_line =
            if has_process { read_unfinished_line(&journal, &record).await? } else { None };
        let epoch = Instant::now();
        let core = OwnerCore::new(OwnerSnapshot {
            now: ClockReading { wall: now(), monotonic: 0 },
            seed: Uuid::new_v4().as_u128(),
            limits: config.limits,
            prompts: journal.prompts(id).await?,
            requests: requests.chain(hooks).collect(),
            record,
            has_process,
            watch: config.watch.clone(),
            protocol,
            agent,
            unfinished_line,
        });
        let mut owner = Self {
            id,
            config,
            journal,
            commands,
            backlog: VecDeque::new(),
            core,
            epoch,
            connection: None,
            outbox: None,
            starting: None,
            attaching: None,
            question,
            attach_target: (RunId(0), 0),
            settled: false,
            silence: watch::Sender::new(false),
            leftovers: None,
            writing: None,
            last_command: 0,
            replies: HashMap::new(),
            compaction: None,
            leaving: None,
            left: None,
            socket: None,
            _ownership: ownership,
        };
        owner.take(OwnerInput::TakeOver).await?;
        while !owner.core.is_settled() {
            owner.advance(false).await?;
        }
        owner.settled = true;
        Ok(owner)
    }

    /// Listens for commands of other processes.
    pub(crate) fn listen(&mut self, sessions: Sessions, session: Session) {
        let live = self.config.live_directory(self.id);
        match OwnerSocket::listen(&live, &self.config.runtime, sessions, session) {
            Ok(socket) => self.socket = Some(socket),
            Err(error) => {
                let id = self.id;
                warn!(session = %id, %error, "other processes cannot send commands to a session");
            }
        }
    }

    /// Carries out commands that an earlier owner may not have carried out, before any other.
    pub(crate) fn repeat(&mut self, commands: Vec<OwnerCommand>) {
        self.backlog.extend(commands);
    }

    /// Tells whether the shim of the session's agent does not answer.
    pub(crate) fn silence(&self) -> watch::Receiver<bool> {
        self.silence.subscribe()
    }

    /// Drives the session until it is released or has ended.
    pub(crate) async fn run(mut self) -> Result<OwnerEnd, OwnerError> {
        let mut delete = false;
        while self.left.is_none() && !delete {
            self.advance(self.leaving.is_none()).await?;
            delete = self.core.is_ready() && self.core.machine().has_ended();
        }
        let outcome = self.left.take().unwrap_or(LeaveOutcome::Stored);
        let leaving = self.leaving.take();
        let kills = leaving.as_ref().is_some_and(|leaving| leaving.kills);
        self.leave(kills).await;
        let done = leaving.and_then(|leaving| leaving.done);
        Ok(OwnerEnd { notice: done.map(|done| LeaveNotice { done, outcome }), delete })
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
            command = next_command(&mut self.backlog, &mut self.commands), if commands => {
                #[cfg(test)]
                if matches!(command, Some(OwnerCommand::Fail)) {
                    return Err(journal::Error::TooLarge.into());
                }
                self.receive(command)
            }
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
        let silent = self.core.is_silent();
        self.silence.send_if_modified(|known| std::mem::replace(known, silent) != silent);
        Ok(())
    }

    /// Performs an effect. Returns its result, unless that comes later.
    async fn perform(&mut self, effect: OwnerEffect) -> Result<Option<OwnerInput>, OwnerError> {
        match effect {
            OwnerEffect::Write(batch) => self.write(*batch),
            OwnerEffect::LoadGrants { edited } => {
                let directory = &self.core.machine().options().directory;
                let linked = links::find_linked(directory, edited).await;
                let grants = self.journal.grants(now()).await.unwrap_or_else(|error| {
                    // Without them, a person is asked.
                    warn!(session = %self.id, %error, "the grants could not be read");
                    Vec::new()
                });
                return Ok(Some(OwnerInput::Grants { grants, linked }));
            }
            OwnerEffect::LoadDayCost { day } => {
                return Ok(Some(OwnerInput::DayCost(self.journal.cost_of_day(day).await?)));
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
                let (agent, inherited) = (self.chosen_agent(), self.config.environment.clone());
                let start = process::start(towpath, config, agent, inherited, self.mode_source());
                self.starting = Some(tokio::spawn(start));
            }
            OwnerEffect::Attach { run, from } => {
                self.attach_target = (RunId(run), from);
                self.attach();
            }
            OwnerEffect::ReadLeftovers { run, from } => self.read_leftovers(RunId(run), from),
            OwnerEffect::Disconnect => self.disconnect().await,
            OwnerEffect::RemoveRun(run) => self.remove_run(RunId(run)).await,
            OwnerEffect::Compact(upto) => self.compact(upto),
            OwnerEffect::RunHook(hook) => return Ok(self.run_hook(*hook)),
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
            Some(OwnerCommand::Panic | OwnerCommand::Fail) => panic!("a test asked for it"),
            None => (None, false),
        };
        self.leaving = Some(Leaving { done, kills });
        OwnerInput::Leave
    }

    /// Passes a hook on. If nothing runs hooks any longer, the call goes on without it.
    fn run_hook(&mut self, hook: HookRequest) -> Option<OwnerInput> {
        let request = hook.request.clone();
        if self.config.watch.hooks.as_ref().is_some_and(|hooks| hooks.send(hook).is_ok()) {
            return None;
        }
        self.last_command += 1;
        let command = Box::new(SessionCommand::AnswerHook { request, output: None });
        Some(OwnerInput::Command { id: CommandId(self.last_command), command })
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
        let gate = self.config.prompt_gate.clone();
        self.outbox = Some(ShimOutbox::new(connection.sender(), self.id, gate));
        self.connection = Some(connection);
    }

    fn started(
        &mut self,
        started: Result<Option<(ShimHello, ShimConnection)>, String>,
    ) -> OwnerInput {
        OwnerInput::Started(match started {
            Ok(Some((hello, connection))) => {
                self.use_connection(connection);
                StartOutcome::Running { pings: hello.answers_pings() }
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
                let pings = hello.answers_pings();
                AttachOutcome::Attached { last_write: hello.last_write, pings }
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
        let question = self.question.clone();
        let attach = async move { process::attach(&directory, run, from, &question).await };
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
}

/// The beginning of the agent's last line, if the journal has only a part of it: an owner ended while the
/// agent printed a line that is too long to be held.
async fn read_unfinished_line(
    journal: &Journal,
    record: &SessionRecord,
) -> Result<Option<Bytes>, journal::Error> {
    let mut start = None;
    let mut end = record.last.0;
    while end > 0 {
        let after = end.saturating_sub(TAIL_ENTRIES);
        let most = usize::try_from(TAIL_ENTRIES).unwrap_or(usize::MAX);
        let tail = journal.read_within(record.id, Seq(after), most, usize::MAX, LINE_START);
        let entries = tail.await?.into_iter().filter(|it| it.origin == Origin::Agent);
        for entry in entries.rev().filter(|it| it.seq.0 <= end) {
            if !entry.continues {
                return Ok(start);
            }
            start = Some(entry.bytes);
        }
        end = after;
    }
    Ok(start)
}

/// How the agent of a session is spoken with, and its entry in the catalog. A catalog may lose an agent: only
/// the CLI has none in its options, so another one is not taken for it.
fn find_agent(
    config: &SessionsConfig,
    record: &SessionRecord,
) -> (AgentProtocol, Option<AgentSpec>) {
    let options = SessionOptions::from_json(&record.options, record.directory.clone());
    let Some(name) = options.ok().and_then(|options| options.agent) else {
        return (AgentProtocol::StreamJson, None);
    };
    let spec = config.agents.find(&name).cloned();
    (spec.as_ref().map_or(AgentProtocol::Acp, |spec| spec.protocol), spec)
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
