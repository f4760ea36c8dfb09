//! What is done for a place, away from the desk: one errand of a place at a time, in order.

use std::path::{Path, PathBuf};

use journal::{SessionId, Status};
use session::machine::Answer;
use session::{Creation, OpenError, Options, Roots, Session, Sessions};
use tracing::warn;
use uuid::Uuid;
use view::{Conversation, phrase};
use wire::note::{Actor, QueueFate};

use super::clock::Clock;
use crate::bot::Bot;
use crate::call::Call;
use crate::deed::{Draft, reworded};
use crate::front::Command;
use crate::place::{MessageId, Place};
use crate::replies::{self, Said};

/// What the agent of a session that was begun in Telegram is told.
const ABOUT: &str = "The person you work for reads and writes in Telegram, often on a phone: keep \
    answers short. To send them a file, such as a picture, a document or an archive, put it or a \
    copy of it into the directory `.towpath/outbox` below your working directory before your turn \
    ends; it is sent to them then. Pictures may have up to 10 MB, other files up to 50 MB.";

/// What errands are done with.
#[derive(Clone, Debug)]
pub(super) struct Means {
    pub(super) bot: Bot,
    pub(super) sessions: Sessions,
    pub(super) roots: Roots,
    pub(super) clock: Clock,
    /// Ids of what is begun here are made below it, so that no two bots make the same.
    pub(super) namespace: Uuid,
}

/// Something to be done for a place.
#[derive(Debug)]
pub(super) struct Errand {
    pub(super) what: What,
    pub(super) place: Place,
    /// The message that asked for it.
    pub(super) message: Option<MessageId>,
    pub(super) by: Actor,
    /// The updates it came by, which are forgotten once it is done.
    pub(super) updates: Vec<i64>,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum What {
    /// A prompt goes to the agent.
    Prompt(Box<Draft>),
    /// One that waits gets other words.
    Reword { prompt: Uuid, text: String },
    /// One that waits is taken back.
    Unqueue(Uuid),
    /// A command.
    Command(Command),
    /// A request is answered.
    Answer { request: String, answer: Answer },
    /// The running turn stops.
    Stop,
    /// The changes of a turn are shown; of the last where none is named.
    Diff { turn: Option<u64> },
    /// The place shows another session.
    Resume(SessionId),
}

/// What came of an errand.
#[derive(Debug, Default)]
pub(super) struct Came {
    /// What is said to whoever asked.
    pub(super) says: Vec<Said>,
    /// What is sent beside that.
    pub(super) sends: Vec<Call>,
    /// What the place shows from here on.
    pub(super) shows: Option<Showing>,
    /// Whether the place shows nothing from here on: the session is deleted.
    pub(super) cleared: bool,
    /// How much is told from here on.
    pub(super) verbosity: Option<u8>,
    /// What has to be done next, before anything else at that place.
    pub(super) next: Option<Errand>,
}

/// A session that a place begins to show.
#[derive(Debug)]
pub(super) enum Showing {
    /// All of it.
    Whole(SessionId),
    /// What comes after what it says now.
    FromHere(SessionId, Box<Conversation>),
}

impl Came {
    pub(super) fn saying(said: impl Into<Said>) -> Self {
        Self { says: vec![said.into()], ..Self::default() }
    }

    /// What whoever tapped is told.
    pub(super) fn word(&self) -> Option<String> {
        self.says.first().map(|said| said.words().to_owned())
    }
}

impl Errand {
    /// Whether nothing is different if it is done twice.
    pub(super) fn is_repeatable(&self) -> bool {
        match &self.what {
            What::Prompt(_)
            | What::Reword { .. }
            | What::Unqueue(_)
            | What::Answer { .. }
            | What::Diff { .. }
            | What::Resume(_) => true,
            What::Stop => false,
            What::Command(command) => match command {
                Command::Stop | Command::Model(Some(_)) | Command::Mode(Some(_)) => false,
                // A new session has the id of the message that asked for it, and so has the prompt
                // `/compact`.
                Command::New(_)
                | Command::Compact(_)
                | Command::Sessions
                | Command::Resume(_)
                | Command::Status
                | Command::Cost
                | Command::Model(None)
                | Command::Mode(None)
                | Command::Queue
                | Command::Verbose(_)
                | Command::Diff
                | Command::Help
                | Command::Unknown(_) => true,
            },
        }
    }

    /// Does it, for a place that shows that session.
    pub(super) async fn run(self, means: &Means, shown: Option<SessionId>) -> Came {
        let Self { what, place, message, by, updates } = self;
        match what {
            What::Prompt(draft) => {
                let again = |draft| Self { what: What::Prompt(draft), place, message, by, updates };
                means.prompt(draft, shown, again).await
            }
            What::Command(command) => {
                let errand = super::command::Asked { command, place, message, by, shown };
                errand.run(means).await
            }
            What::Resume(session) => means.resume(session).await,
            What::Reword { prompt, text } => {
                let Some(shown) = shown else { return Came::default() };
                let change = async |session: Session| {
                    let before = session.journal().prompt(shown, prompt).await?;
                    let before = before.map(|it| it.text).unwrap_or_default();
                    let after = reworded(&before, &text);
                    if after == before {
                        return Ok(false);
                    }
                    session.edit_prompt(prompt, after).await.map(|()| true)
                };
                match means.with(shown, change).await {
                    Ok(true) => Came::saying(replies::reworded()),
                    Ok(false) => Came::default(),
                    Err(Undone::Asked(session::Error::Refused(_))) => {
                        Came::saying(replies::too_late_to_reword())
                    }
                    Err(undone) => undone.into(),
                }
            }
            What::Unqueue(prompt) => {
                let Some(shown) = shown else { return Came::saying(replies::no_session()) };
                let removed = async |session: Session| session.remove_prompt(prompt).await;
                match means.with(shown, removed).await {
                    Ok(()) => Came::saying(replies::unqueued()),
                    Err(undone) => undone.into(),
                }
            }
            What::Answer { request, answer } => {
                let Some(shown) = shown else { return Came::saying(replies::no_session()) };
                let word = replies::answered(&answer);
                let given = async |session: Session| session.answer(&request, answer, by).await;
                match means.with(shown, given).await {
                    Ok(()) => Came::saying(word),
                    Err(undone) => undone.into(),
                }
            }
            What::Stop => means.stop(shown, by).await,
            What::Diff { turn } => super::changes::of(means, place, shown, turn).await,
        }
    }
}

/// Why a session did not do something.
#[derive(Debug)]
pub(super) enum Undone {
    Opening(OpenError),
    Asked(session::Error),
}

impl From<Undone> for Came {
    fn from(undone: Undone) -> Self {
        match undone {
            Undone::Opening(error) => {
                warn!(%error, "a session could not be had");
                Self::saying(replies::not_opened(&error))
            }
            Undone::Asked(error) => Self::saying(replies::not_done(&error)),
        }
    }
}

impl Means {
    /// Asks something of a session.
    pub(super) async fn with<T>(
        &self,
        session: SessionId,
        ask: impl AsyncFnOnce(Session) -> Result<T, session::Error>,
    ) -> Result<T, Undone> {
        let session = self.sessions.open(session).await.map_err(Undone::Opening)?;
        ask(session).await.map_err(Undone::Asked)
    }

    /// Begins a session. One that was begun under the same id before is the same.
    pub(super) async fn begin(
        &self,
        id: SessionId,
        directory: PathBuf,
        title: Option<String>,
    ) -> Result<Showing, OpenError> {
        let options = Options {
            directory,
            append_system_prompt: Some(ABOUT.to_owned()),
            ..Options::default()
        };
        let creation = Creation { id: Some(id), title, options, resume: None };
        match self.sessions.create(creation).await {
            Ok(_) | Err(OpenError::Journal(journal::Error::SessionExists(_))) => {
                Ok(Showing::Whole(id))
            }
            Err(error) => Err(error),
        }
    }

    /// The place shows another session, from here on.
    pub(super) async fn resume(&self, id: SessionId) -> Came {
        let journal = self.sessions.journal();
        let record = match journal.session(id).await {
            Ok(Some(record)) if self.roots.have(&record.directory) => record,
            Ok(_) => return Came::saying(replies::not_opened(&OpenError::NoSuchSession(id))),
            Err(error) => return Came::saying(replies::not_opened(&error.into())),
        };
        let document = match super::following::folded(journal, id).await {
            Ok(document) => document,
            Err(error) => return Came::saying(replies::not_opened(&error.into())),
        };
        let shows = Some(Showing::FromHere(id, Box::new(document)));
        Came { shows, ..Came::saying(replies::resumed(&record, &self.roots)) }
    }

    /// Stops the running turn.
    pub(super) async fn stop(&self, shown: Option<SessionId>, by: Actor) -> Came {
        let Some(id) = shown else { return Came::saying(replies::no_session()) };
        let record = self.sessions.journal().session(id).await;
        let busy = |status| matches!(status, Status::Running | Status::Waiting);
        if record.is_ok_and(|it| it.is_some_and(|it| !busy(it.status))) {
            return Came::saying(replies::nothing_to_stop());
        }
        let stopped = async |session: Session| {
            session.interrupt(QueueFate::Keep, by).await?;
            Ok(session.journal().open_prompts(id).await?)
        };
        match self.with(id, stopped).await {
            Ok(open) => {
                let queued = |state| state == wire::note::PromptState::Queued;
                Came::saying(replies::stopping(open.iter().filter(|it| queued(it.state)).count()))
            }
            Err(undone) => undone.into(),
        }
    }

    /// Where a session is begun where nothing is said.
    pub(super) fn first_root(&self) -> &Path {
        self.roots.directories().first().map_or(Path::new("/"), PathBuf::as_path)
    }
}

/// A name for a session, from the first words that are the sender's own.
pub(super) fn title(words: &str) -> Option<String> {
    words.lines().filter(|line| !line.starts_with('>')).find_map(phrase::title)
}

#[cfg(test)]
mod tests {
    use super::title;

    #[test]
    fn a_session_is_called_by_its_first_own_words() {
        assert_eq!(title("> what you said\n\n do it \nnow").as_deref(), Some("do it"));
        assert_eq!(title("\n"), None);
    }
}
