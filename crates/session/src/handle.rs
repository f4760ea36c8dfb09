//! A hold on a session: what anybody may ask of it.

use journal::{Follower, Journal, Seq, SessionId};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;
use wire::note::{Actor, PromptState, QueueFate, Rewind, Setting};

use crate::machine::{Answer, Command, Done, NewPrompt, Query, Refusal};
use crate::owner::{Mail, Undone};

/// A hold on a session; as many as wanted. The session is driven until it is
/// [let go of](Session::leave).
#[derive(Clone, Debug)]
pub struct Session {
    pub(crate) id: SessionId,
    pub(crate) journal: Journal,
    pub(crate) mailbox: mpsc::Sender<Mail>,
}

/// Why something asked of a session did not happen.
#[derive(Debug, Error)]
pub enum Error {
    /// The session said no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It could not be written down, so it did not happen.
    #[error("the disk is full: nothing new can be taken")]
    NotStored,
    /// Nobody drives the session any more.
    #[error("the session is closed")]
    Closed,
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] journal::Error),
}

impl Session {
    /// Its id.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// The journal it is written down in.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Everything in its journal after an entry, and then what comes.
    pub fn follow(&self, after: Seq) -> Follower {
        self.journal.follow(self.id, after)
    }

    /// Takes a prompt; answered once it is on the disk. The same id again is the same prompt.
    pub async fn prompt(&self, prompt: NewPrompt) -> Result<PromptState, Error> {
        match self.ask(Command::Prompt(prompt)).await? {
            Done::Prompt(state) => Ok(state),
            Done::Well | Done::Payload(_) => Ok(PromptState::Queued),
        }
    }

    /// Changes the words of a prompt that waits.
    pub async fn edit_prompt(&self, prompt: Uuid, text: String) -> Result<(), Error> {
        self.ask(Command::EditPrompt { prompt, text }).await.map(drop)
    }

    /// Takes a prompt back, unless the agent has begun with it.
    pub async fn remove_prompt(&self, prompt: Uuid) -> Result<(), Error> {
        self.ask(Command::RemovePrompt { prompt }).await.map(drop)
    }

    /// Puts a prompt that waits in front of another, or at the end.
    pub async fn move_prompt(&self, prompt: Uuid, before: Option<Uuid>) -> Result<(), Error> {
        self.ask(Command::MovePrompt { prompt, before }).await.map(drop)
    }

    /// Answers a request of the agent; the first answer counts, later ones are told of it.
    pub async fn answer(&self, request: &str, answer: Answer, by: Actor) -> Result<(), Error> {
        let command = Command::Answer { request: request.to_owned(), answer, by };
        match self.ask(command).await {
            Err(Error::Refused(Refusal::NoSuchRequest)) => {
                let record = self.journal.request(self.id, request).await?;
                let resolution = record.and_then(|record| record.resolution);
                Err(Error::Refused(match resolution {
                    Some(resolution) => Refusal::AlreadyResolved(Box::new(resolution)),
                    None => Refusal::NoSuchRequest,
                }))
            }
            answered => answered.map(drop),
        }
    }

    /// Stops the running turn; answered as soon as that is written down and on its way.
    pub async fn interrupt(&self, queue: QueueFate, by: Actor) -> Result<(), Error> {
        self.ask(Command::Interrupt { queue, by }).await.map(drop)
    }

    /// Changes a setting, for this process and those after it.
    pub async fn set(&self, setting: Setting, by: Actor) -> Result<(), Error> {
        self.ask(Command::Set { setting, by }).await.map(drop)
    }

    /// Goes back to before a prompt.
    pub async fn rewind(&self, prompt: Uuid, what: Rewind, by: Actor) -> Result<(), Error> {
        self.ask(Command::Rewind { prompt, what, by }).await.map(drop)
    }

    /// Asks the agent something about itself; the answer is JSON.
    pub async fn query(&self, query: Query) -> Result<Option<String>, Error> {
        match self.ask(Command::Query(query)).await? {
            Done::Payload(payload) => Ok(payload),
            Done::Well | Done::Prompt(_) => Ok(None),
        }
    }

    /// Has an agent ready; what it can do, as JSON.
    pub async fn wake(&self) -> Result<Option<String>, Error> {
        match self.ask(Command::Wake).await? {
            Done::Payload(abilities) => Ok(abilities),
            Done::Well | Done::Prompt(_) => Ok(None),
        }
    }

    /// What the agent said it can do, if one was ready since Towpath drives the session.
    pub async fn abilities(&self) -> Result<Option<String>, Error> {
        let (reply, answer) = oneshot::channel();
        self.mailbox.send(Mail::Abilities(reply)).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)
    }

    /// Ends the agent's process; the session stays, and the next prompt starts another.
    pub async fn close(&self) -> Result<(), Error> {
        self.ask(Command::Close).await.map(drop)
    }

    /// Waits until nobody in this process drives the session any more.
    pub async fn closed(&self) {
        self.mailbox.closed().await;
    }

    /// Lets go of the session for everybody in this process: its agent finishes the turn alone.
    pub async fn leave(&self) {
        let (left, gone) = oneshot::channel();
        if self.mailbox.send(Mail::Leave(left)).await.is_ok() {
            // Either way nobody drives it any more.
            let _ = gone.await;
        }
    }

    /// Ends the agent by force and lets go of the session.
    pub(crate) async fn abandon(&self) {
        let (left, gone) = oneshot::channel();
        if self.mailbox.send(Mail::Abandon(left)).await.is_ok() {
            let _ = gone.await;
        }
    }

    async fn ask(&self, command: Command) -> Result<Done, Error> {
        let (reply, answer) = oneshot::channel();
        let mail = Mail::Command(Box::new(command), reply);
        self.mailbox.send(mail).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?.map_err(|undone| match undone {
            Undone::Refused(refusal) => Error::Refused(refusal),
            Undone::NotStored => Error::NotStored,
        })
    }
}
