//! Jobs: what the dispatcher has done for a chat in a task of its own.
//!
//! Prompts and commands of a chat run one at a time, in order. Answers, stops and removals start at
//! once.

use std::path::PathBuf;

use journal::{SessionId, SessionStatus};
use session::{
    OpenError, OptionRole, RequestAnswer, Roots, Session, SessionOptions, SessionSpec, Sessions,
    WorkerPresence, WorkerSummary,
};
use tracing::warn;
use uuid::Uuid;
use view::{Conversation, wording};
use wire::note::{Actor, PromptState, QueuePolicy};

use super::BridgeClock;
use super::command_job::{CommandJob, diff};
use super::outbox;
use crate::address::{ChatAddress, MessageId};
use crate::bot::{Bot, BotCall};
use crate::inbound::{ChatCommand, CommitArgument, PromptDraft, SetArguments, edited_prompt};
use crate::replies::{self, BotReply};

/// What jobs need.
#[derive(Clone, Debug)]
pub(crate) struct JobContext {
    pub(crate) bot: Bot,
    pub(crate) sessions: Sessions,
    pub(crate) roots: Roots,
    pub(crate) clock: BridgeClock,
    /// The time zone in which users mean times, unless they name another.
    pub(crate) zone: String,
    /// The namespace of the ids that jobs create, so that no two bots create the same.
    pub(crate) namespace: Uuid,
}

#[derive(Debug)]
pub(super) struct ChatJob {
    pub(super) kind: JobKind,
    pub(super) address: ChatAddress,
    /// The message that asked for it.
    pub(super) message: Option<MessageId>,
    pub(super) by: Actor,
    pub(super) role: OptionRole,
    /// The updates it results from, which are deleted when it is done.
    pub(super) updates: Vec<i64>,
}

#[derive(Debug)]
pub(super) enum JobKind {
    Prompt(Box<PromptDraft>),
    /// Changes the text of a queued prompt.
    EditPrompt {
        prompt: Uuid,
        text: String,
    },
    /// Removes a queued prompt.
    RemovePrompt(Uuid),
    Command(ChatCommand),
    /// Answers a request.
    Answer {
        request: String,
        answer: RequestAnswer,
    },
    /// Stops the running turn.
    Stop,
    /// Sends the changes of a turn, or of the last turn that changed files.
    Diff {
        turn: Option<u64>,
    },
    /// Shows another session in the chat.
    Resume(SessionId),
}

#[derive(Debug, Default)]
pub(super) struct JobResult {
    /// Replies to the user who asked for the job.
    pub(super) replies: Vec<BotReply>,
    pub(super) calls: Vec<BotCall>,
    /// The session that the chat shows next.
    pub(super) switch: Option<SessionSwitch>,
    /// Whether the chat's session was found to be deleted.
    pub(super) session_deleted: bool,
    pub(super) verbosity: Option<u8>,
    /// A job that comes before all others of the chat.
    pub(super) next: Option<ChatJob>,
}

/// A session that a chat starts to show.
#[derive(Debug)]
pub(super) enum SessionSwitch {
    FromStart(SessionId),
    /// Only what comes after the present document.
    FromNow(SessionId, Box<Conversation>),
}

impl JobResult {
    pub(super) fn reply(reply: impl Into<BotReply>) -> Self {
        Self { replies: vec![reply.into()], ..Self::default() }
    }

    /// Takes the text that answers a tap instead of a message.
    pub(super) fn take_tap_answer(&mut self) -> Option<String> {
        let text = self.replies.first().map(|reply| reply.plain_text().to_owned());
        self.replies.clear();
        text
    }
}

impl ChatJob {
    /// Whether the result is the same if it runs twice.
    pub(super) fn is_repeatable(&self) -> bool {
        match &self.kind {
            JobKind::Prompt(_)
            | JobKind::EditPrompt { .. }
            | JobKind::RemovePrompt(_)
            | JobKind::Answer { .. }
            | JobKind::Diff { .. }
            | JobKind::Resume(_) => true,
            JobKind::Stop => false,
            JobKind::Command(command) => match command {
                ChatCommand::Stop
                | ChatCommand::Model(Some(_))
                | ChatCommand::Mode(Some(_))
                | ChatCommand::Set(SetArguments::Set { .. })
                | ChatCommand::Commit(CommitArgument::On | CommitArgument::Off) => false,
                ChatCommand::AgentOptions(text) => text.is_empty(),
                // The ids of a new session, of the prompt `/compact` and of a schedule are derived from
                // the message.
                ChatCommand::New(_)
                | ChatCommand::Compact(_)
                | ChatCommand::Sessions
                | ChatCommand::Resume(_)
                | ChatCommand::Search(_)
                | ChatCommand::Status
                | ChatCommand::Cost
                | ChatCommand::Model(None)
                | ChatCommand::Mode(None)
                | ChatCommand::Set(SetArguments::List | SetArguments::Show(_))
                | ChatCommand::Profiles
                | ChatCommand::Commit(CommitArgument::Status)
                | ChatCommand::Invalid(_)
                | ChatCommand::Queue
                | ChatCommand::Schedule(_)
                | ChatCommand::Rules(_)
                | ChatCommand::Verbose(_)
                | ChatCommand::Diff
                | ChatCommand::Help
                | ChatCommand::Unknown(_) => true,
            },
        }
    }

    /// Runs it for a chat that shows `session`.
    pub(super) async fn run(self, context: &JobContext, session: Option<SessionId>) -> JobResult {
        let Self { kind, address, message, by, role, updates } = self;
        match kind {
            JobKind::Prompt(draft) => {
                let again = |draft| {
                    let kind = JobKind::Prompt(draft);
                    Self { kind, address, message, by, role, updates }
                };
                context.prompt(draft, session, again).await
            }
            JobKind::Command(command) => {
                let update = updates.first().copied().unwrap_or_default();
                let job = CommandJob { command, address, message, update, by, role, session };
                job.run(context).await
            }
            JobKind::Resume(session) => context.resume(session, by).await,
            JobKind::EditPrompt { prompt, text } => {
                let Some(id) = session else { return JobResult::default() };
                let edit = async |session: Session| {
                    let before = session.journal().prompt(id, prompt).await?;
                    let before = before.map(|it| it.text).unwrap_or_default();
                    let after = edited_prompt(&before, &text);
                    if after == before {
                        return Ok(false);
                    }
                    session.edit_prompt(prompt, after).await.map(|()| true)
                };
                match context.with_session(id, edit).await {
                    Ok(true) => JobResult::reply(replies::prompt_edited()),
                    Ok(false) => JobResult::default(),
                    Err(SessionCallError::Call(session::Error::Refused(_))) => {
                        JobResult::reply(replies::too_late_to_edit())
                    }
                    Err(error) => error.into(),
                }
            }
            JobKind::RemovePrompt(prompt) => {
                let Some(id) = session else { return JobResult::reply(replies::no_session()) };
                let remove = async |session: Session| session.remove_prompt(prompt).await;
                match context.with_session(id, remove).await {
                    Ok(()) => JobResult::reply(replies::prompt_removed()),
                    Err(error) => error.into(),
                }
            }
            JobKind::Answer { request, answer } => {
                let Some(id) = session else { return JobResult::reply(replies::no_session()) };
                let reply = replies::answer_accepted(&answer);
                let send = async |session: Session| session.answer(&request, answer, by).await;
                match context.with_session(id, send).await {
                    Ok(()) => JobResult::reply(reply),
                    Err(error) => error.into(),
                }
            }
            JobKind::Stop => context.stop(session, by).await,
            JobKind::Diff { turn } => diff(context, address, session, turn).await,
        }
    }
}

/// Why a session did not do what a job asked for.
#[derive(Debug)]
pub(super) enum SessionCallError {
    Open(OpenError),
    Call(session::Error),
}

impl From<SessionCallError> for JobResult {
    fn from(error: SessionCallError) -> Self {
        match error {
            SessionCallError::Open(error) => {
                warn!(%error, "could not open a session");
                Self::reply(replies::open_failed(&error))
            }
            SessionCallError::Call(error) => Self::reply(replies::call_failed(&error)),
        }
    }
}

impl JobContext {
    pub(super) async fn with_session<T>(
        &self,
        session: SessionId,
        call: impl AsyncFnOnce(Session) -> Result<T, session::Error>,
    ) -> Result<T, SessionCallError> {
        let session = self.sessions.open(session).await.map_err(SessionCallError::Open)?;
        call(session).await.map_err(SessionCallError::Call)
    }

    /// Creates a session. If a session with this id exists, an earlier run of the job created it.
    pub(super) async fn create_session(
        &self,
        id: SessionId,
        options: SessionOptions,
        title: Option<String>,
        resume: Option<String>,
        by: Actor,
    ) -> Result<SessionSwitch, OpenError> {
        let creation = SessionSpec { id: Some(id), title, options, resume };
        match self.sessions.create(creation).await {
            Ok(_) | Err(OpenError::Journal(journal::Error::SessionExists(_))) => {
                self.allow_outbox(id, by).await?;
                Ok(SessionSwitch::FromStart(id))
            }
            Err(error) => Err(error),
        }
    }

    /// Lets the agent of a session that a chat shows put files into its outbox without asking.
    pub(super) async fn allow_outbox(
        &self,
        session: SessionId,
        by: Actor,
    ) -> Result<(), journal::Error> {
        if self.sessions.is_relayed() {
            // Rules are given where the agent is. It asks before it writes there.
            return Ok(());
        }
        let journal = self.sessions.journal();
        let Some(record) = journal.session(session).await? else { return Ok(()) };
        let grant = outbox::grant(&record, by, self.clock.unix_millis());
        match grant {
            Some(grant) => journal.add_grant(grant).await,
            None => Ok(()),
        }
    }

    /// Stops the running turn.
    pub(super) async fn stop(&self, session: Option<SessionId>, by: Actor) -> JobResult {
        let Some(id) = session else { return JobResult::reply(replies::no_session()) };
        let record = self.sessions.journal().session(id).await;
        let busy = |status| matches!(status, SessionStatus::Running | SessionStatus::Waiting);
        if record.is_ok_and(|it| it.is_some_and(|it| !busy(it.status))) {
            return JobResult::reply(replies::nothing_to_stop());
        }
        let interrupt = async |session: Session| {
            session.interrupt(QueuePolicy::Hold, by).await?;
            Ok(session.journal().open_prompts(id).await?)
        };
        match self.with_session(id, interrupt).await {
            Ok(open) => {
                let queued = open.iter().filter(|it| it.state == PromptState::Queued).count();
                JobResult::reply(replies::stopping(queued))
            }
            Err(error) => error.into(),
        }
    }

    /// Sends the queued messages of a session again; none if they were not held.
    pub(super) async fn resume_queue(
        &self,
        session: Option<SessionId>,
        by: Actor,
    ) -> Option<JobResult> {
        let id = session?;
        let record = self.sessions.journal().session(id).await.ok().flatten()?;
        let options = SessionOptions::from_json(&record.options, record.directory).ok()?;
        options.queue_hold?;
        let resume = async |session: Session| Ok(session.resume_queue(by).await?);
        Some(match self.with_session(id, resume).await {
            Ok(()) => JobResult::reply(replies::queue_resumed()),
            Err(error) => error.into(),
        })
    }

    /// The directory of a new session if the user names none: the first root of this machine, or of the
    /// connected worker with the most free slots.
    pub(super) async fn default_directory(&self) -> PathBuf {
        if let Some(root) = self.roots.directories().first() {
            return root.clone();
        }
        let mut workers = self.sessions.workers().await;
        workers.retain(|it| it.presence == WorkerPresence::Connected && !it.roots.is_empty());
        let free = |it: &WorkerSummary| it.slots.saturating_sub(it.used);
        // The last of several is the maximum, so the first by name comes last.
        let best = workers.into_iter().rev().max_by_key(free);
        best.and_then(|it| it.roots.into_iter().next()).unwrap_or_else(|| PathBuf::from("/"))
    }

    /// The directory that a user means: an absolute path, or one relative to any of the roots. Workers check
    /// theirs when the session is created.
    pub(super) async fn resolve_directory(&self, name: &str) -> Option<PathBuf> {
        let (roots, mut path) = (self.roots.clone(), PathBuf::from(name));
        if self.sessions.is_relayed() && !path.is_absolute() {
            path = self.default_directory().await.join(path);
        }
        let resolve = move || {
            if path.is_absolute() {
                return roots.resolve(&path);
            }
            roots.directories().iter().find_map(|root| roots.resolve(&root.join(&path)))
        };
        tokio::task::spawn_blocking(resolve).await.unwrap_or_default()
    }
}

/// A title for a session, from the first line that is not a quote.
pub(super) fn title(text: &str) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('>')).find_map(wording::title)
}

#[cfg(test)]
mod tests {
    use super::title;

    #[test]
    fn a_session_is_named_after_the_first_line_that_is_not_a_quote() {
        assert_eq!(title("> what you said\n\n do it \nnow").as_deref(), Some("do it"));
        assert_eq!(title("\n"), None);
    }
}
