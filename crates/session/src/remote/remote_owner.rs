//! The task behind a [`Session`](crate::Session) that another process drives.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use journal::{Journal, SessionId, SessionStatus};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::{debug, info};
use wire::note::Outcome;

use super::connection::RemoteConnection;
use super::host_search::{HostSearch, HostingState};
use super::protocol::{NumberedResult, OutgoingOwnerRequest, OwnerRequest, RemoteFailure, to_line};
use crate::command::{CommandError, CommandOutput, RequestAnswer, SessionCommand};
use crate::host::HostLauncher;
use crate::owner::{CommandReply, OwnerCommand};
use crate::session::{Error, LeaveOutcome};
use crate::shim::{Ownership, OwnershipError};

/// The time between two attempts to reach the next owner.
const RETRY: Duration = Duration::from_millis(50);

/// How long an owner may take to delete a session after it has disconnected its clients.
const DELETION_TIMEOUT: Duration = Duration::from_secs(5);

/// Passes the commands of this process on to the process that drives the session.
#[derive(Debug)]
pub(crate) struct RemoteOwner {
    id: SessionId,
    journal: Journal,
    live: PathBuf,
    runtime: PathBuf,
    /// How long the session may have no owner until this process takes it over.
    takeover_delay: Duration,
    /// What is to drive the session instead of this process.
    host: Option<HostLauncher>,
    commands: mpsc::Receiver<OwnerCommand>,
    /// Commands without a result, by their number.
    pending: BTreeMap<u64, Unanswered>,
    last_number: u64,
}

/// A command whose result is not known.
#[derive(Debug)]
struct Unanswered {
    request: OwnerRequest<'static>,
    reply: Reply,
    /// Whether it was sent over a connection that was lost: it may have been carried out.
    is_repeated: bool,
}

#[derive(Debug)]
enum Reply {
    Command(CommandReply),
    Deletion(oneshot::Sender<LeaveOutcome>),
}

/// How the work of a [`RemoteOwner`] ended.
pub(crate) enum RemoteEnd {
    /// This process released the session.
    Released(Option<oneshot::Sender<LeaveOutcome>>),
    /// No other process drives the session any more. It belongs to this one now, which has to carry
    /// out the commands that have no result.
    Inherited {
        ownership: Ownership,
        commands: mpsc::Receiver<OwnerCommand>,
        unanswered: Vec<OwnerCommand>,
    },
}

/// Why a connection was left.
enum RelayEnd {
    Released(Option<oneshot::Sender<LeaveOutcome>>),
    Disconnected,
}

/// What was found while waiting for the next owner.
enum NextOwner {
    Connected(RemoteConnection),
    None(Ownership),
    Released(Option<oneshot::Sender<LeaveOutcome>>),
}

impl RemoteOwner {
    pub(crate) fn new(
        id: SessionId,
        journal: Journal,
        config: &crate::config::SessionsConfig,
        host: Option<HostLauncher>,
        commands: mpsc::Receiver<OwnerCommand>,
    ) -> Self {
        Self {
            id,
            journal,
            live: config.live_directory(id),
            runtime: config.runtime.clone(),
            takeover_delay: config.takeover_delay,
            host,
            commands,
            pending: BTreeMap::new(),
            last_number: 0,
        }
    }

    /// Passes commands on until the session is released or has no other owner.
    pub(crate) async fn run(mut self, mut connection: RemoteConnection) -> RemoteEnd {
        loop {
            self.bind_pending().await;
            match self.relay(connection).await {
                RelayEnd::Released(done) => return RemoteEnd::Released(done),
                RelayEnd::Disconnected => {}
            }
            debug!(session = %self.id, "the owner of a session is gone; waiting for the next one");
            for unanswered in self.pending.values_mut() {
                unanswered.is_repeated = true;
            }
            connection = match self.next_owner().await {
                NextOwner::Connected(connection) => connection,
                NextOwner::Released(done) => return RemoteEnd::Released(done),
                NextOwner::None(ownership) => {
                    info!(session = %self.id, "taking over a session whose owner is gone");
                    let unanswered = self.unanswered();
                    return RemoteEnd::Inherited { ownership, commands: self.commands, unanswered };
                }
            };
        }
    }

    /// Passes commands on over one connection.
    async fn relay(&mut self, mut connection: RemoteConnection) -> RelayEnd {
        for (number, unanswered) in &self.pending {
            connection.send(request_line(*number, &unanswered.request));
        }
        loop {
            tokio::select! {
                command = self.commands.recv() => {
                    let (request, reply) = match command {
                        Some(OwnerCommand::Session { command, reply }) => {
                            let command = self.bind_to_turn(*command).await;
                            (OwnerRequest::Command(Cow::Owned(command)), Reply::Command(reply))
                        }
                        Some(OwnerCommand::Destroy { done }) => {
                            (OwnerRequest::Delete, Reply::Deletion(done))
                        }
                        Some(OwnerCommand::Release { done }) => return RelayEnd::Released(Some(done)),
                        None => return RelayEnd::Released(None),
                        #[cfg(test)]
                        Some(OwnerCommand::Panic | OwnerCommand::Fail) => panic!("a test asked for it"),
                    };
                    self.last_number += 1;
                    connection.send(request_line(self.last_number, &request));
                    let unanswered = Unanswered { request, reply, is_repeated: false };
                    self.pending.insert(self.last_number, unanswered);
                }
                result = connection.next_result() => match result {
                    // The next owner carries it out.
                    Ok(NumberedResult { result: Err(RemoteFailure::Closed), .. }) | Err(_) => {
                        return RelayEnd::Disconnected;
                    }
                    Ok(NumberedResult { number, result }) => self.finish(number, result).await,
                },
            }
        }
    }

    /// Gives a client the result of its command.
    async fn finish(&mut self, number: u64, result: Result<CommandOutput, RemoteFailure>) {
        let Some(unanswered) = self.pending.remove(&number) else { return };
        let Unanswered { request, reply, is_repeated } = unanswered;
        let result = result.map_err(Error::from);
        match reply {
            Reply::Command(reply) => {
                let OwnerRequest::Command(command) = request else { return };
                let result = if is_repeated {
                    settle_repeated(&self.journal, self.id, &command, result).await
                } else {
                    result
                };
                // The client may have gone.
                let _ = reply.send(result);
            }
            Reply::Deletion(done) => {
                // The caller goes on to delete what is left, which fails if the session is not free.
                let _ = done.send(LeaveOutcome::Stored);
            }
        }
    }

    /// Prepares the commands that arrived without a connection to be sent.
    async fn bind_pending(&mut self) {
        for (number, mut unanswered) in std::mem::take(&mut self.pending) {
            if let OwnerRequest::Command(command) = &mut unanswered.request {
                let bound = self.bind_to_turn(command.clone().into_owned()).await;
                *command = Cow::Owned(bound);
            }
            self.pending.insert(number, unanswered);
        }
    }

    /// An interrupt that arrives twice must not stop a later turn.
    async fn bind_to_turn(&self, command: SessionCommand) -> SessionCommand {
        match command {
            SessionCommand::Interrupt { queue, by, turn: None } => {
                let record = self.journal.session(self.id).await.ok().flatten();
                let runs =
                    |status| matches!(status, SessionStatus::Running | SessionStatus::Waiting);
                let turn = record.filter(|it| runs(it.status)).map(|it| it.turn);
                SessionCommand::Interrupt { queue, by, turn }
            }
            command => command,
        }
    }

    /// Waits until another process drives the session again, or until this one must.
    async fn next_owner(&mut self) -> NextOwner {
        let start = Instant::now();
        let mut free_since = None;
        let mut hosting = HostSearch::new(self.host.clone(), self.id);
        let mut retries = tokio::time::interval(RETRY);
        loop {
            tokio::select! {
                _ = retries.tick() => {}
                // Other commands wait in the channel.
                done = next_release(&mut self.commands, &mut self.pending, &mut self.last_number) => {
                    return NextOwner::Released(done);
                }
            }
            if let Ok(connection) = RemoteConnection::open(&self.live, &self.runtime).await {
                return NextOwner::Connected(connection);
            }
            if let Ok(None) = self.journal.session(self.id).await {
                self.finish_deletions();
                return NextOwner::Released(None);
            }
            if self.is_deleting() && start.elapsed() < DELETION_TIMEOUT {
                // The owner disconnects first and deletes the session then.
                continue;
            }
            let live = self.live.clone();
            let taken = tokio::task::spawn_blocking(move || Ownership::take(&live)).await;
            match taken {
                Ok(Ok(ownership)) => {
                    let since = *free_since.get_or_insert_with(Instant::now);
                    match hosting.advance(since.elapsed()).await {
                        HostingState::Failed => return NextOwner::None(ownership),
                        // A server that is being restarted should find the session free.
                        HostingState::None if since.elapsed() >= self.takeover_delay => {
                            return NextOwner::None(ownership);
                        }
                        HostingState::None | HostingState::Searching => {}
                    }
                }
                Ok(Err(OwnershipError::Owned { .. })) => free_since = None,
                Ok(Err(OwnershipError::Io(_))) | Err(_) => {}
            }
        }
    }

    fn is_deleting(&self) -> bool {
        self.pending.values().any(|it| matches!(it.reply, Reply::Deletion(_)))
    }

    /// Reports to the clients that deleted the session that it is deleted.
    fn finish_deletions(&mut self) {
        for (_, unanswered) in std::mem::take(&mut self.pending) {
            if let Reply::Deletion(done) = unanswered.reply {
                let _ = done.send(LeaveOutcome::Stored);
            }
        }
    }

    /// The commands without a result, for the owner in this process.
    fn unanswered(&mut self) -> Vec<OwnerCommand> {
        let pending = std::mem::take(&mut self.pending);
        let commands = pending.into_values().filter_map(|unanswered| {
            let Unanswered { request, reply, is_repeated } = unanswered;
            match (request, reply) {
                (OwnerRequest::Command(command), Reply::Command(reply)) => {
                    let command = Box::new(command.into_owned());
                    let reply =
                        if is_repeated { self.settling_reply(&command, reply) } else { reply };
                    Some(OwnerCommand::Session { command, reply })
                }
                (_, Reply::Deletion(done)) => Some(OwnerCommand::Destroy { done }),
                _ => None,
            }
        });
        commands.collect()
    }

    /// A reply for a command that may have been carried out by an owner that is gone.
    fn settling_reply(&self, command: &SessionCommand, reply: CommandReply) -> CommandReply {
        let (sender, receiver) = oneshot::channel();
        let (journal, id, command) = (self.journal.clone(), self.id, command.clone());
        tokio::spawn(async move {
            let result = receiver.await.unwrap_or(Err(Error::Closed));
            let _ = reply.send(settle_repeated(&journal, id, &command, result).await);
        });
        sender
    }
}

/// Waits for the command that releases the session. Commands that arrive before it are kept.
async fn next_release(
    commands: &mut mpsc::Receiver<OwnerCommand>,
    pending: &mut BTreeMap<u64, Unanswered>,
    last_number: &mut u64,
) -> Option<oneshot::Sender<LeaveOutcome>> {
    loop {
        let (request, reply) = match commands.recv().await {
            Some(OwnerCommand::Session { command, reply }) => {
                (OwnerRequest::Command(Cow::Owned(*command)), Reply::Command(reply))
            }
            Some(OwnerCommand::Destroy { done }) => (OwnerRequest::Delete, Reply::Deletion(done)),
            Some(OwnerCommand::Release { done }) => return Some(done),
            None => return None,
            #[cfg(test)]
            Some(OwnerCommand::Panic | OwnerCommand::Fail) => panic!("a test asked for it"),
        };
        *last_number += 1;
        pending.insert(*last_number, Unanswered { request, reply, is_repeated: false });
    }
}

/// The result of a command that was sent twice: an answer that was already carried out the first
/// time was not refused.
async fn settle_repeated(
    journal: &Journal,
    id: SessionId,
    command: &SessionCommand,
    result: Result<CommandOutput, Error>,
) -> Result<CommandOutput, Error> {
    let SessionCommand::Answer { request, answer, by } = command else { return result };
    let Err(Error::Refused(CommandError::NoSuchRequest | CommandError::AlreadyResolved(_))) =
        result
    else {
        return result;
    };
    let record = journal.request(id, request).await.ok().flatten();
    let Some(resolution) = record.and_then(|record| record.resolution) else { return result };
    let fits = match answer {
        RequestAnswer::Deny { .. } => resolution.outcome == Outcome::Denied,
        RequestAnswer::Allow { .. } | RequestAnswer::Answers(_) => {
            matches!(resolution.outcome, Outcome::Allowed | Outcome::AllowedAndRemembered)
        }
        // The resolution does not say which choice it was, but the same client made it.
        RequestAnswer::Choose { .. } => true,
    };
    if fits && resolution.by.as_ref() == Some(by) { Ok(CommandOutput::None) } else { result }
}

fn request_line(number: u64, request: &OwnerRequest<'_>) -> Vec<u8> {
    let request = match request {
        OwnerRequest::Command(command) => OwnerRequest::Command(Cow::Borrowed(command.as_ref())),
        OwnerRequest::Delete => OwnerRequest::Delete,
    };
    to_line(&OutgoingOwnerRequest { number, request })
}
