//! Sessions that another machine drives: everything that changes them goes through a relay.
//!
//! The journal of this process is a copy that something else keeps up to date. This process reads it and
//! drives nothing.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use journal::SessionId;
use tokio::sync::{mpsc, watch};
use uuid::Uuid;

use crate::command::{CommandOutput, SessionCommand};
use crate::owner::OwnerCommand;
use crate::placement::{FleetConnection, OwningWorker, Placement, WorkerSummary};
use crate::project_request::{ProjectAnswer, ProjectBody, ProjectRequest};
use crate::session::{Error, LeaveOutcome, Session};
use crate::sessions::{OpenError, SessionSlot, SessionSpec, Sessions};
use crate::worktree_service::WorktreeRemoval;

/// How many commands may wait for a relay. When the channel is full, the sender waits.
const COMMAND_QUEUE: usize = 64;

/// What an operation of a relay returns.
pub type RelayFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The way to the machines that drive sessions.
pub trait CommandRelay: fmt::Debug + Send + Sync {
    /// Creates a session where it is wanted. It is in the journal of this process when this returns.
    fn create(
        &self,
        spec: SessionSpec,
        placement: Placement,
    ) -> RelayFuture<'_, Result<SessionId, OpenError>>;

    /// Has the owner of a session carry out a command. Returns when its effects are stored for good.
    fn command(
        &self,
        session: SessionId,
        command: SessionCommand,
    ) -> RelayFuture<'_, Result<CommandOutput, Error>>;

    /// Has the owner of a session change its title.
    fn rename(&self, session: SessionId, title: String) -> RelayFuture<'_, Result<(), OpenError>>;

    /// Has the owner of a session delete it, and with it perhaps the working tree that was made for it.
    fn delete(
        &self,
        session: SessionId,
        worktree: Option<WorktreeRemoval>,
    ) -> RelayFuture<'_, Result<(), OpenError>>;

    /// Has another machine, by its name, take a session over. The journal of this process says so when this
    /// returns.
    fn move_to(&self, session: SessionId, to: String) -> RelayFuture<'_, Result<(), OpenError>>;

    /// Has the owner of a session answer a request about its project.
    fn project(
        &self,
        session: SessionId,
        request: ProjectRequest,
        body: ProjectBody,
    ) -> RelayFuture<'_, Result<(ProjectAnswer, ProjectBody), Error>>;

    /// Has all machines revoke a grant.
    fn revoke_grant(&self, grant: Uuid) -> RelayFuture<'_, Result<(), OpenError>>;

    /// Why a session cannot be used now, for a person.
    fn problem(&self, session: SessionId) -> Option<String>;

    /// The machines, by name.
    fn workers(&self) -> RelayFuture<'_, Vec<WorkerSummary>>;

    /// The machine that drives a session.
    fn worker(&self, session: SessionId) -> Option<OwningWorker>;

    /// Whether the machines can be reached, and how current the journal of this process is.
    fn connection(&self) -> FleetConnection;

    /// Changes whenever a problem or a machine appears, changes or disappears.
    fn problem_changes(&self) -> watch::Receiver<u64>;
}

impl Sessions {
    /// A handle whose commands go through the relay.
    pub(crate) async fn open_relayed(
        &self,
        relay: &Arc<dyn CommandRelay>,
        id: SessionId,
    ) -> Result<Session, OpenError> {
        let record = self.journal().session(id).await?.ok_or(OpenError::NoSuchSession(id))?;
        if let Some(reason) = record.damage {
            return Err(OpenError::Damaged { id, reason });
        }
        let mut slots = self.slots();
        if let Some(SessionSlot::Remote(session)) = slots.get(&id)
            && !session.commands.is_closed()
        {
            return Ok(session.clone());
        }
        let (commands, receiver) = mpsc::channel(COMMAND_QUEUE);
        // The machine that drives it knows whether its shim answers.
        let (_, silence) = watch::channel(false);
        let session = Session { id, journal: self.journal().clone(), commands, silence };
        slots.insert(id, SessionSlot::Remote(session.clone()));
        tokio::spawn(pass_on(Arc::clone(relay), id, receiver));
        Ok(session)
    }
}

/// Passes commands on until the session is released.
async fn pass_on(
    relay: Arc<dyn CommandRelay>,
    id: SessionId,
    mut commands: mpsc::Receiver<OwnerCommand>,
) {
    let mut running = FuturesUnordered::new();
    loop {
        let command = tokio::select! {
            // Each command is on its way before the next one is received, so they keep their order.
            biased;
            Some(()) = running.next(), if !running.is_empty() => continue,
            command = commands.recv() => command,
        };
        match command {
            Some(OwnerCommand::Session { command, reply }) => {
                let relay = Arc::clone(&relay);
                running.push(async move {
                    // The client may have gone.
                    let _ = reply.send(relay.command(id, *command).await);
                });
            }
            Some(OwnerCommand::Destroy { done } | OwnerCommand::Release { done }) => {
                while running.next().await.is_some() {}
                let _ = done.send(LeaveOutcome::Stored);
                return;
            }
            None => {
                while running.next().await.is_some() {}
                return;
            }
            #[cfg(test)]
            Some(OwnerCommand::Panic | OwnerCommand::Fail) => panic!("a test asked for it"),
        }
    }
}
