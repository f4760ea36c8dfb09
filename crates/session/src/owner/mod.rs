//! The task that owns a session.
//!
//! It alone talks to the session's shim, its machine and its part of the journal. Everything that
//! happens becomes an [`Input`]; the machine's decisions are written in one batch, and only then
//! does anything leave: lines to the agent, replies, the start of a process.
//!
//! The agent's output waits for the journal and for nothing else. Clients follow the journal.

mod batch;
pub(crate) mod process;

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use journal::{Grant, Journal, Seq, SessionId, SessionStatus};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};
use uuid::Uuid;
use wire::{PieceEnd, Splitter};

use crate::agent_event::AgentEvent;
use crate::command::{CommandOutput, SessionCommand};
use crate::config::SessionsConfig;
use crate::machine::{AgentExit, CommandId, Input, Machine};
use crate::session::Error;
use crate::shim::{
    AgentSignal, Ownership, RunId, ShimCommand, ShimCommandSender, ShimConnection, ShimEvent,
};
use batch::{Outgoing, PendingBatch};

/// How long to wait before a full disk is tried again.
const FULL_DISK_RETRY: Duration = Duration::from_secs(1);

/// How long to wait before a journal that another process has locked is tried again.
const BUSY_RETRY: Duration = Duration::from_millis(100);

/// How much of the agent's stderr is kept to explain its exit.
const STDERR_LIMIT: usize = 4 << 10;

/// What the handles of a session send to its owner.
#[derive(Debug)]
pub(crate) enum OwnerCommand {
    Session {
        command: Box<SessionCommand>,
        reply: CommandReply,
    },
    /// Stop driving the session. Its agent finishes its turn under its shim.
    Release {
        done: oneshot::Sender<()>,
    },
    /// Kill the agent and stop driving the session, which is about to be deleted.
    Destroy {
        done: oneshot::Sender<()>,
    },
    #[cfg(test)]
    Panic,
}

type CommandReply = oneshot::Sender<Result<CommandOutput, Error>>;

/// Why an owner ended or could not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OwnerError {
    #[error("the session could not be written to the journal")]
    Journal(#[from] journal::Error),
    #[error("the session's shim could not be reached")]
    Shim(#[from] crate::shim::AttachError),
    #[error("the output of the last agent could not be read")]
    Leftovers(#[from] std::io::Error),
}

/// A process that is being started: a connection to its shim, none if it has exited already, or why
/// it could not be started.
type StartTask = JoinHandle<Result<Option<ShimConnection>, String>>;

/// One session and everything that belongs to it alone.
pub(crate) struct Owner {
    id: SessionId,
    config: SessionsConfig,
    journal: Journal,
    commands: mpsc::Receiver<OwnerCommand>,
    machine: Machine,
    connection: Option<ShimConnection>,
    shim: Option<ShimCommandSender>,
    starting: Option<StartTask>,
    /// The number of the current process in the session.
    run: u64,
    /// How much of its output is in the journal: whole lines.
    offset: u64,
    /// How many lines were written to it.
    writes: u64,
    splitter: Splitter,
    stderr: Vec<u8>,
    /// The CLI's ids of the conversation, oldest first.
    conversations: Vec<String>,
    titled: bool,
    status: SessionStatus,
    last_command: u64,
    replies: HashMap<CommandId, CommandReply>,
    batch: PendingBatch,
    compaction: Option<JoinHandle<()>>,
    /// Declared last: the next owner must not start before the connection is closed.
    _ownership: Ownership,
}

impl Owner {
    /// Drives the session until it is released. Returns the channel of the
    /// client that released it, which may be notified only after the ownership is released too.
    pub(crate) async fn run(mut self) -> Result<Option<oneshot::Sender<()>>, OwnerError> {
        loop {
            let pause = self.machine.deadline().map(|at| at.saturating_sub(now()));
            tokio::select! {
                biased;
                command = self.commands.recv() => match command {
                    Some(OwnerCommand::Session { command, reply }) => {
                        self.command(*command, reply).await?;
                    }
                    Some(OwnerCommand::Release { done }) => {
                        self.release().await;
                        return Ok(Some(done));
                    }
                    Some(OwnerCommand::Destroy { done }) => {
                        self.destroy().await;
                        return Ok(Some(done));
                    }
                    #[cfg(test)]
                    Some(OwnerCommand::Panic) => panic!("a test asked for it"),
                    None => {
                        self.release().await;
                        return Ok(None);
                    }
                },
                event = next_event(&mut self.connection) => self.shim_event(event).await?,
                started = next_start(&mut self.starting) => self.started(started).await?,
                () = sleep(pause) => self.step(Input::Tick).await?,
            }
        }
    }

    async fn command(
        &mut self,
        command: SessionCommand,
        reply: CommandReply,
    ) -> Result<(), OwnerError> {
        self.last_command += 1;
        let id = CommandId(self.last_command);
        self.replies.insert(id, reply);
        self.step(Input::Command { id, command }).await
    }

    /// Takes in one input, and lets its effects out once they are written.
    async fn step(&mut self, input: Input) -> Result<(), OwnerError> {
        self.input(input);
        self.commit().await
    }

    fn input(&mut self, input: Input) {
        for effect in self.machine.on(now(), input) {
            if let crate::machine::Effect::Write(_) = effect {
                self.writes += 1;
            }
            self.batch.add_effect(effect, self.writes, &mut self.titled);
        }
    }

    async fn shim_event(&mut self, event: Option<ShimEvent>) -> Result<(), OwnerError> {
        match event {
            Some(ShimEvent::Output { offset, bytes }) => {
                debug_assert!(offset >= self.offset, "output comes in order");
                self.output(&bytes).await?;
            }
            Some(ShimEvent::Stderr(bytes)) => {
                self.stderr.extend_from_slice(&bytes);
                let surplus = self.stderr.len().saturating_sub(STDERR_LIMIT);
                self.stderr.drain(..surplus);
            }
            Some(ShimEvent::Written(number)) => self.batch.set_delivered(number),
            Some(ShimEvent::WriteRefused { number, .. }) => {
                // Its stdin is closed, so it is about to exit; the exit decides about the line.
                debug!(session = %self.id, number, "a line could not be written to the agent");
            }
            Some(ShimEvent::Exited { status, .. }) => {
                self.finish_output();
                let exit = process::agent_exit(status, &self.stderr_tail());
                self.agent_gone(exit).await?;
            }
            Some(ShimEvent::SpoolFailed(failure)) => {
                warn!(session = %self.id, spool = failure.spool, "the agent's output cannot be stored");
            }
            Some(ShimEvent::SpoolRecovered) => {
                info!(session = %self.id, "the agent's output is stored again");
            }
            None => self.shim_gone().await?,
        }
        Ok(())
    }

    /// Takes in a piece of the agent's output: all lines that it completes, in one batch.
    async fn output(&mut self, bytes: &[u8]) -> Result<(), OwnerError> {
        let mut splitter = std::mem::take(&mut self.splitter);
        let mut pieces = splitter.feed(bytes);
        while let Some(piece) = pieces.next() {
            let newline = usize::from(piece.end == PieceEnd::Newline);
            self.offset += (piece.bytes.len() + newline) as u64;
            self.line(piece.bytes, piece.is_whole()).await?;
        }
        self.splitter = splitter;
        self.commit().await
    }

    /// Stores what a dead agent printed behind the last newline.
    fn finish_output(&mut self) {
        let mut splitter = std::mem::take(&mut self.splitter);
        if let Some(piece) = splitter.finish() {
            self.offset += piece.bytes.len() as u64;
            self.batch.add_line(piece.bytes, false);
        }
    }

    async fn line(&mut self, bytes: &[u8], whole: bool) -> Result<(), OwnerError> {
        if !whole {
            self.batch.add_line(bytes, false);
            return Ok(());
        }
        let mut transient = true;
        let mut events = Vec::new();
        for line in wire::read(bytes) {
            transient &=
                line.event().is_some_and(|it| matches!(it.body, wire::event::Body::Stream(_)));
            events.push(AgentEvent::of(&line));
        }
        self.batch.add_line(bytes, transient && !events.is_empty());
        for event in events {
            match &event {
                AgentEvent::TurnStarted { conversation: Some(id) } => self.add_conversation(id),
                AgentEvent::RequestOpened(_) => self.load_grants().await?,
                _ => {}
            }
            self.input(Input::Agent(event));
        }
        Ok(())
    }

    /// Records the CLI's id of the conversation, which changes with `/clear`.
    fn add_conversation(&mut self, id: &str) {
        if self.conversations.last().is_none_or(|last| last != id) {
            self.conversations.retain(|known| known != id);
            self.conversations.push(id.to_owned());
            self.batch.set_conversation(id);
        }
    }

    /// Gives the machine the current grants, which other sessions may have added.
    async fn load_grants(&mut self) -> Result<(), OwnerError> {
        let mut grants = self.journal.grants(now()).await?;
        let directory = self.machine.options().directory.clone();
        grants.retain(|grant| {
            grant.session.is_none_or(|session| session == self.id)
                && grant.directory.as_ref().is_none_or(|it| *it == directory)
        });
        self.input(Input::Grants(grants));
        Ok(())
    }

    /// The connection ended and the shim reported no exit: either the shim is dead, or only the
    /// connection is.
    async fn shim_gone(&mut self) -> Result<(), OwnerError> {
        self.connection = None;
        self.shim = None;
        self.splitter = Splitter::new();
        let directory = self.config.live_directory(self.id);
        let attached = process::attach(&directory, RunId(self.run), self.offset).await?;
        if let Some((hello, connection)) = attached {
            return self.attached(&hello, connection).await;
        }
        let exit = self.read_leftovers().await?;
        self.agent_gone(exit).await
    }

    async fn agent_gone(&mut self, exit: AgentExit) -> Result<(), OwnerError> {
        self.shim = None;
        if let Some(connection) = self.connection.take() {
            // The shim ends by itself once its owner knows how the agent exited.
            connection.close().await;
        }
        self.stderr.clear();
        self.splitter = Splitter::new();
        // The effects may include the start of the next run.
        let run = self.run;
        self.input(Input::AgentGone(exit));
        self.commit().await?;
        self.remove_run(run).await;
        Ok(())
    }

    /// Writes the pending batch, then lets out what waited for it.
    async fn commit(&mut self) -> Result<(), OwnerError> {
        let status = self.machine.status();
        self.batch.set_status((status != self.status).then_some(status));
        self.status = status;
        let mut last = None;
        if let Some((batch, grants)) = self.batch.take_batch(now(), self.mark(), self.writes) {
            last = Some(loop {
                match self.journal.write(self.id, batch.clone()).await {
                    Ok(last) => break last,
                    Err(journal::Error::Full) => self.wait_for_disk_space().await,
                    Err(journal::Error::Busy) => tokio::time::sleep(BUSY_RETRY).await,
                    Err(error) => return Err(error.into()),
                }
            });
            for grant in grants {
                self.journal.add_grant(Grant { id: Uuid::new_v4(), ..grant }).await?;
            }
            if let Some(shim) = &self.shim {
                // A dead shim is noticed when its connection ends.
                let _ = shim.send(ShimCommand::Acknowledge(self.offset)).await;
            }
        }
        for outgoing in self.batch.take_outgoing() {
            self.let_out(outgoing, last).await;
        }
        Ok(())
    }

    /// Refuses all commands while the disk is full, except that an interrupt still reaches the
    /// agent.
    async fn wait_for_disk_space(&mut self) {
        warn!(session = %self.id, "the disk is full; the session waits for free space");
        let pause = tokio::time::sleep(FULL_DISK_RETRY);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => return,
                Some(command) = self.commands.recv() => match command {
                    OwnerCommand::Session { command, reply } => {
                        let result = match (*command, &self.shim) {
                            (SessionCommand::Capabilities, _) => {
                                let capabilities = self.machine.capabilities().map(str::to_owned);
                                Ok(CommandOutput::Payload(capabilities))
                            }
                            (SessionCommand::Interrupt { .. }, Some(shim)) => {
                                let interrupt = ShimCommand::Signal(AgentSignal::Interrupt);
                                let _ = shim.send(interrupt).await;
                                Err(Error::NotStored)
                            }
                            _ => Err(Error::NotStored),
                        };
                        let _ = reply.send(result);
                    }
                    OwnerCommand::Release { done } | OwnerCommand::Destroy { done } => drop(done),
                    #[cfg(test)]
                    OwnerCommand::Panic => panic!("a test asked for it"),
                },
            }
        }
    }

    async fn let_out(&mut self, outgoing: Outgoing, last: Option<Seq>) {
        match outgoing {
            Outgoing::Shim(command) => self.send(command).await,
            Outgoing::Reply(id, result) => {
                if let Some(reply) = self.replies.remove(&id) {
                    // The client may have gone.
                    let _ = reply.send(result.map_err(Error::Refused));
                }
            }
            Outgoing::Start(mode) => self.start(mode).await,
            Outgoing::Compact => {
                if let Some(last) = last {
                    self.compact(last);
                }
            }
        }
    }

    async fn send(&mut self, command: ShimCommand) {
        if let Some(shim) = &self.shim
            && let Err(error) = shim.send(command).await
        {
            debug!(session = %self.id, %error, "a command did not reach the shim");
        }
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

    /// Kills the agent and waits until it is gone.
    async fn destroy(&mut self) {
        self.shim = None;
        self.finish_start().await;
        if let Some(connection) = self.connection.take() {
            process::kill(connection).await;
        }
        self.release().await;
    }

    /// Waits for a process that is being started. A shim that nobody waits for would start its agent
    /// all the same.
    async fn finish_start(&mut self) {
        if self.starting.is_some()
            && let Ok(Some(connection)) = next_start(&mut self.starting).await
        {
            self.connection = Some(connection);
        }
    }

    /// Detaches from the shim. The agent finishes its turn, and the next owner reads its output.
    async fn release(&mut self) {
        self.shim = None;
        self.finish_start().await;
        if let Some(connection) = self.connection.take() {
            let _ = connection.send(ShimCommand::Detach).await;
            connection.close().await;
        }
        if let Some(compaction) = self.compaction.take() {
            let _ = compaction.await;
        }
    }
}

async fn next_event(connection: &mut Option<ShimConnection>) -> Option<ShimEvent> {
    match connection {
        Some(connection) => connection.next().await,
        None => std::future::pending().await,
    }
}

async fn next_start(starting: &mut Option<StartTask>) -> Result<Option<ShimConnection>, String> {
    let Some(task) = starting else { return std::future::pending().await };
    let started = task.await;
    *starting = None;
    started.unwrap_or_else(|error| Err(error.to_string()))
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
