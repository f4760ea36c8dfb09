//! The handle of a session, which clients use to send it commands.

use journal::{Follower, Journal, Seq, SessionId};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;
use wire::note::{Actor, PromptState, QueuePolicy, Rewind, Setting};

use crate::command::{
    AgentQuery, CommandError, CommandOutput, NewPrompt, PromptChange, RequestAnswer, SessionCommand,
};
use crate::options::{OptionChanges, SessionOptions};
use crate::owner::OwnerCommand;
use crate::schedule::NewSchedule;
use crate::sessions::OpenError;

/// A handle of a session. It can be cloned. The session is driven until it is
/// [released](Session::release).
#[derive(Clone, Debug)]
pub struct Session {
    pub(crate) id: SessionId,
    pub(crate) journal: Journal,
    pub(crate) commands: mpsc::Sender<OwnerCommand>,
    /// Whether the shim of the agent does not answer.
    pub(crate) silence: watch::Receiver<bool>,
}

/// Why a command had no effect.
#[derive(Debug, Error)]
pub enum Error {
    #[error(transparent)]
    Refused(#[from] CommandError),
    #[error("the disk is full: the command was not carried out")]
    NotStored,
    /// This process no longer drives the session.
    #[error("the session is closed")]
    Closed,
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// Another process drives the session and could not carry out the command, for this reason.
    #[error("{0}")]
    Remote(String),
}

/// A command whose result has not arrived.
#[derive(Debug)]
pub(crate) struct PendingCommand {
    result: oneshot::Receiver<Result<CommandOutput, Error>>,
}

impl PendingCommand {
    pub(crate) async fn result(self) -> Result<CommandOutput, Error> {
        self.result.await.map_err(|_| Error::Closed)?
    }
}

/// What became of the last changes of a session that was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveOutcome {
    Stored,
    /// The disk is full or the journal does not answer. Commands that were not confirmed had no
    /// effect; what the agent printed is still in its spool.
    NotStored,
}

impl Session {
    pub fn id(&self) -> SessionId {
        self.id
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Why nothing happens in the session now, for a person; none if nothing is known to be wrong.
    pub fn problem(&self) -> Option<String> {
        self.silence.borrow().then(|| OpenError::NotResponding.to_string())
    }

    /// Follows the session's journal from behind an entry.
    pub fn follow(&self, after: Seq) -> Follower {
        self.journal.follow(self.id, after)
    }

    /// Carries out a command. Returns once its effects are on disk, and for a command that needs
    /// the agent's answer, once the agent has answered.
    pub async fn command(&self, command: SessionCommand) -> Result<CommandOutput, Error> {
        self.start_command(command).await.result().await
    }

    /// Hands a command to the owner and does not wait for its result. Commands are carried out in
    /// the order in which they are started.
    pub(crate) async fn start_command(&self, command: SessionCommand) -> PendingCommand {
        let (reply, result) = oneshot::channel();
        let command = OwnerCommand::Session { command: Box::new(command), reply };
        // If the owner has gone, the reply has gone with the command.
        let _ = self.commands.send(command).await;
        PendingCommand { result }
    }

    /// Queues a prompt. The same id again is the same prompt.
    pub async fn prompt(&self, prompt: NewPrompt) -> Result<PromptState, Error> {
        match self.command(SessionCommand::Prompt(prompt)).await? {
            CommandOutput::Prompt(state) => Ok(state),
            CommandOutput::None | CommandOutput::Payload(_) => Ok(PromptState::Queued),
        }
    }

    /// Changes a prompt that waits in the queue: everything that is asked for, or nothing.
    pub async fn change_prompt(&self, prompt: Uuid, change: PromptChange) -> Result<(), Error> {
        self.command(SessionCommand::ChangePrompt { prompt, change }).await.map(drop)
    }

    /// Changes the text of a prompt that waits in the queue.
    pub async fn edit_prompt(&self, prompt: Uuid, text: String) -> Result<(), Error> {
        let change = PromptChange { text: Some(text), ..PromptChange::default() };
        self.change_prompt(prompt, change).await
    }

    /// Cancels a prompt, unless the agent has started with it.
    pub async fn remove_prompt(&self, prompt: Uuid) -> Result<(), Error> {
        self.command(SessionCommand::RemovePrompt { prompt }).await.map(drop)
    }

    /// Moves a waiting prompt in front of another one, or to the end of the queue.
    pub async fn move_prompt(&self, prompt: Uuid, before: Option<Uuid>) -> Result<(), Error> {
        self.command(SessionCommand::MovePrompt { prompt, before }).await.map(drop)
    }

    /// Answers a request of the agent. The first answer counts; a later one gets the resolution as
    /// its error.
    pub async fn answer(
        &self,
        request: &str,
        answer: RequestAnswer,
        by: Actor,
    ) -> Result<(), Error> {
        let command = SessionCommand::Answer { request: request.to_owned(), answer, by };
        match self.command(command).await {
            Err(Error::Refused(CommandError::NoSuchRequest)) => {
                let record = self.journal.request(self.id, request).await?;
                let resolution = record.and_then(|record| record.resolution);
                Err(Error::Refused(match resolution {
                    Some(resolution) => CommandError::AlreadyResolved(Box::new(resolution)),
                    None => CommandError::NoSuchRequest,
                }))
            }
            result => result.map(drop),
        }
    }

    /// Stops the running turn. Returns as soon as the request is stored and on its way.
    pub async fn interrupt(&self, queue: QueuePolicy, by: Actor) -> Result<(), Error> {
        self.command(SessionCommand::Interrupt { queue, by, turn: None }).await.map(drop)
    }

    /// Sends queued prompts again that are held.
    pub async fn resume_queue(&self, by: Actor) -> Result<(), Error> {
        self.command(SessionCommand::ResumeQueue { by, limit: None }).await.map(drop)
    }

    /// Sends queued prompts again that a budget holds, and allows the same amount again. Does nothing if
    /// the limit is no longer the one that the person saw.
    pub async fn raise_budget(&self, limit: f64, by: Actor) -> Result<(), Error> {
        self.command(SessionCommand::ResumeQueue { by, limit: Some(limit) }).await.map(drop)
    }

    /// Has a prompt sent later. The same id again is the same schedule.
    pub async fn schedule(&self, schedule: NewSchedule) -> Result<(), Error> {
        self.command(SessionCommand::Schedule(schedule)).await.map(drop)
    }

    /// Has a scheduled prompt not be sent any more.
    pub async fn remove_schedule(&self, schedule: Uuid, by: Actor) -> Result<(), Error> {
        self.command(SessionCommand::RemoveSchedule { schedule, by }).await.map(drop)
    }

    /// Changes a setting for this process and later ones.
    pub async fn set(&self, setting: Setting, by: Actor) -> Result<(), Error> {
        self.command(SessionCommand::Set { setting, by }).await.map(drop)
    }

    /// Changes options. Those the agent cannot be told take effect when it is restarted, before its
    /// next turn.
    pub async fn change_options(&self, changes: &OptionChanges, by: &Actor) -> Result<(), Error> {
        let record = self.journal.session(self.id).await?;
        let record = record.ok_or(journal::Error::NoSuchSession(self.id))?;
        let options = SessionOptions::from_json(&record.options, record.directory)
            .map_err(|it| CommandError::UnreadableOptions(it.reason))?;
        let settings = changes.settings(&options).map_err(CommandError::InvalidOption)?;
        for setting in settings {
            self.set(setting, by.clone()).await?;
        }
        Ok(())
    }

    /// Goes back to before a prompt.
    pub async fn rewind(&self, prompt: Uuid, what: Rewind, by: Actor) -> Result<(), Error> {
        self.command(SessionCommand::Rewind { prompt, what, by }).await.map(drop)
    }

    /// Asks the agent about itself. The answer is JSON. Refused if no agent is running.
    pub async fn query(&self, query: AgentQuery) -> Result<Option<String>, Error> {
        self.payload(SessionCommand::Query(query)).await
    }

    /// Starts an agent if none runs and waits until it is ready. Returns its capabilities as JSON.
    pub async fn wake(&self) -> Result<Option<String>, Error> {
        self.payload(SessionCommand::Wake).await
    }

    /// The capabilities of the agent as JSON, if one was ready since this process drives the
    /// session. Starts no agent.
    pub async fn capabilities(&self) -> Result<Option<String>, Error> {
        self.payload(SessionCommand::Capabilities).await
    }

    /// Stops the agent process. The session stays, and the next prompt starts another process.
    pub async fn close(&self) -> Result<(), Error> {
        self.command(SessionCommand::Close).await.map(drop)
    }

    /// Waits until this process no longer drives the session.
    pub async fn closed(&self) {
        self.commands.closed().await;
    }

    /// Stops driving the session in this process. Its agent finishes the turn under its shim.
    pub async fn release(&self) -> LeaveOutcome {
        let (done, released) = oneshot::channel();
        self.leave(OwnerCommand::Release { done }, released).await
    }

    /// Kills the agent and stops driving the session.
    pub(crate) async fn destroy(&self) -> LeaveOutcome {
        let (done, released) = oneshot::channel();
        self.leave(OwnerCommand::Destroy { done }, released).await
    }

    async fn leave(
        &self,
        command: OwnerCommand,
        released: oneshot::Receiver<LeaveOutcome>,
    ) -> LeaveOutcome {
        if self.commands.send(command).await.is_err() {
            return LeaveOutcome::Stored;
        }
        // If the owner failed or another client released the session, it is released too.
        released.await.unwrap_or(LeaveOutcome::Stored)
    }

    async fn payload(&self, command: SessionCommand) -> Result<Option<String>, Error> {
        match self.command(command).await? {
            CommandOutput::Payload(payload) => Ok(payload),
            CommandOutput::None | CommandOutput::Prompt(_) => Ok(None),
        }
    }
}
