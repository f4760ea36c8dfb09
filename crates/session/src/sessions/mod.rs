//! All sessions of one journal.
//!
//! Each session that this process drives has an owner, a task of its own. A failure in one, even a
//! panic, ends that task and nothing else, and the next `open` takes the session over from its
//! shim. Sessions are opened independently of each other: one whose shim does not answer, or whose
//! files cannot be read, has a [problem](Sessions::problem), and all others work.

mod collect;
mod opening;
mod stop;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use journal::{Batch, Journal, NewSession, SessionId, SessionRecord, SessionStatus};
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::warn;
use uuid::Uuid;

use crate::config::SessionsConfig;
use crate::options::SessionOptions;
use crate::owner::{OwnerError, now};
use crate::session::{LeaveOutcome, Session};
use crate::shim::{self, OwnershipError, RunId};
use opening::Opening;
pub use stop::StoppedSession;

/// How long `recover` waits. What takes longer continues in the background.
const RECOVER_TIMEOUT: Duration = Duration::from_secs(1);

/// All sessions of one journal.
#[derive(Clone, Debug)]
pub struct Sessions {
    shared: Arc<SharedSessions>,
}

#[derive(Debug)]
struct SharedSessions {
    config: SessionsConfig,
    journal: Journal,
    slots: Mutex<HashMap<SessionId, SessionSlot>>,
    /// Counts the changes of problems.
    problem_changes: watch::Sender<u64>,
}

/// What this process does with a session. A session without a slot is left alone.
#[derive(Debug)]
enum SessionSlot {
    Opening(Opening),
    Driven(Session),
    /// It could not be opened, for this reason. The next `open` tries again.
    Failed(String),
    Deleting,
}

/// Why a session could not be opened, created or deleted.
#[derive(Clone, Debug, Error)]
pub enum OpenError {
    #[error("there is no session `{0}`")]
    NoSuchSession(SessionId),
    /// Another process drives it.
    #[error(transparent)]
    Owned(#[from] OwnershipError),
    #[error("the working directory `{path}` cannot be used")]
    Directory { path: PathBuf, source: Arc<io::Error> },
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// What the journal has of the session is damaged. It can still be exported and deleted.
    #[error(
        "session `{id}` is damaged ({reason}); export it with `towpath sessions export`, then \
         delete it"
    )]
    Damaged { id: SessionId, reason: String },
    /// The shim runs and does not answer. The session is opened as soon as it does.
    #[error(
        "the process that runs this session's agent does not answer; the session can be used as \
         soon as it does"
    )]
    NotResponding,
    /// The agent that an earlier Towpath left could not be attached or its output not be read.
    #[error("the session could not be taken over")]
    Takeover(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

/// A session to be created.
#[derive(Clone, Debug, Default)]
pub struct SessionSpec {
    /// A random id if there is none.
    pub id: Option<SessionId>,
    pub title: Option<String>,
    pub options: SessionOptions,
    /// The conversation to resume, by the CLI's id.
    pub resume: Option<String>,
}

impl Sessions {
    /// The sessions of a journal. None is driven yet.
    pub fn new(config: SessionsConfig, journal: Journal) -> Self {
        let slots = Mutex::new(HashMap::new());
        let problem_changes = watch::Sender::new(0);
        Self { shared: Arc::new(SharedSessions { config, journal, slots, problem_changes }) }
    }

    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    pub fn config(&self) -> &SessionsConfig {
        &self.shared.config
    }

    /// Creates a session and opens it. The agent is started when it is first needed.
    pub async fn create(&self, spec: SessionSpec) -> Result<Session, OpenError> {
        let SessionSpec { id, title, mut options, resume } = spec;
        let unusable = |source: io::Error| OpenError::Directory {
            path: options.directory.clone(),
            source: Arc::new(source),
        };
        let directory = tokio::fs::canonicalize(&options.directory).await.map_err(unusable)?;
        if !directory.is_dir() {
            return Err(unusable(io::ErrorKind::NotADirectory.into()));
        }
        options.directory.clone_from(&directory);
        let id = id.unwrap_or_else(|| SessionId(Uuid::new_v4()));
        let json = options.to_json();
        let new = NewSession { id, directory, title, options: json, at: now() };
        self.shared.journal.create(new).await?;
        if let Some(resume) = resume {
            let mut batch = Batch { at: now(), ..Batch::default() };
            batch.change.agent_id = Some(resume);
            self.shared.journal.write(id, batch).await?;
        }
        self.open(id).await
    }

    /// Opens a session, and takes it over if an earlier Towpath left it with a running agent or
    /// with unread output. Waits a few seconds for another process that is about to release it.
    ///
    /// The session is opened in the background even if the caller stops waiting.
    pub async fn open(&self, id: SessionId) -> Result<Session, OpenError> {
        let opening = {
            let mut slots = self.slots();
            match slots.get(&id) {
                Some(SessionSlot::Driven(session)) if !session.commands.is_closed() => {
                    return Ok(session.clone());
                }
                Some(SessionSlot::Opening(opening)) if !opening.is_over() => opening.waiter(),
                Some(SessionSlot::Deleting) => return Err(OpenError::NoSuchSession(id)),
                _ => {
                    let opening = Opening::start(self, id);
                    let waiter = opening.waiter();
                    slots.insert(id, SessionSlot::Opening(opening));
                    waiter
                }
            }
        };
        opening.wait().await
    }

    /// Opens every session that has a running agent or unread output, all at once. Returns the
    /// failures. Sessions that take longer than a second are opened in the background.
    pub async fn recover(&self) -> Result<Vec<(SessionId, OpenError)>, OpenError> {
        let mut openings = JoinSet::new();
        for record in self.shared.journal.sessions().await? {
            let this = self.clone();
            openings.spawn(async move {
                let id = record.id;
                if this.check_takeover(record).await {
                    this.open(id).await.map(drop).map_err(|error| (id, error))
                } else {
                    Ok(())
                }
            });
        }
        let mut failed = Vec::new();
        let all = async {
            while let Some(opened) = openings.join_next().await {
                if let Ok(Err((id, error))) = opened {
                    failed.push((id, error));
                }
            }
        };
        let _ = tokio::time::timeout(RECOVER_TIMEOUT, all).await;
        // The tasks only wait; each opening has a task of its own.
        openings.detach_all();
        Ok(failed)
    }

    /// Why a session cannot be used now, for a person; none if nothing is known to be wrong.
    pub fn problem(&self, id: SessionId) -> Option<String> {
        match self.slots().get(&id)? {
            SessionSlot::Opening(opening) => {
                opening.is_silent().then(|| OpenError::NotResponding.to_string())
            }
            SessionSlot::Failed(reason) => Some(reason.clone()),
            SessionSlot::Driven(_) | SessionSlot::Deleting => None,
        }
    }

    /// Changes whenever a [problem](Self::problem) appears or disappears.
    pub fn problem_changes(&self) -> watch::Receiver<u64> {
        self.shared.problem_changes.subscribe()
    }

    /// Whether an agent of the session runs, or left output that is not in the journal yet. Reads a
    /// directory.
    pub fn needs_takeover(&self, record: &SessionRecord) -> bool {
        let live = self.shared.config.live_directory(record.id);
        matches!(record.status, SessionStatus::Running | SessionStatus::Waiting)
            || record.spool.run > 0 && shim::has_leftovers(&live, RunId(record.spool.run))
    }

    /// The same in a thread of its own: a disk that hangs must not hold up other sessions.
    async fn check_takeover(&self, record: SessionRecord) -> bool {
        let this = self.clone();
        let check = tokio::task::spawn_blocking(move || this.needs_takeover(&record));
        check.await.unwrap_or(false)
    }

    /// The sessions this process drives.
    pub fn open_sessions(&self) -> Vec<Session> {
        let slots = self.slots();
        let driven = slots.values().filter_map(|slot| match slot {
            SessionSlot::Driven(session) => Some(session.clone()),
            _ => None,
        });
        driven.collect()
    }

    /// Deletes a session. Its agent is killed first, and none is started for waiting prompts.
    pub async fn delete(&self, id: SessionId) -> Result<(), OpenError> {
        let before = self.slots().insert(id, SessionSlot::Deleting);
        let deleted = self.delete_slot(id, before).await;
        self.slots().remove(&id);
        self.change_problems();
        deleted
    }

    async fn delete_slot(&self, id: SessionId, slot: Option<SessionSlot>) -> Result<(), OpenError> {
        match slot {
            Some(SessionSlot::Driven(session)) => drop(session.destroy().await),
            Some(SessionSlot::Opening(opening)) => opening.cancel().await,
            Some(SessionSlot::Failed(_) | SessionSlot::Deleting) | None => {}
        }
        let live = self.shared.config.live_directory(id);
        let ownership = match self.acquire(id).await {
            Ok(ownership) => {
                let stopped = shim::stop_everything(&live, Duration::ZERO).await;
                stopped.map_err(|error| OpenError::Takeover(Arc::new(error)))?;
                Some(ownership)
            }
            Err(OpenError::Owned(OwnershipError::Io(error))) => {
                // Nothing can run in a directory that no shim would accept.
                warn!(session = %id, %error, "deleting a session whose directory is unusable");
                None
            }
            Err(error) => return Err(error),
        };
        self.shared.journal.delete(id).await?;
        let _ = tokio::fs::remove_dir_all(live).await;
        // The ownership lasts until the directory is gone.
        drop(ownership);
        Ok(())
    }

    /// Stops driving all sessions. Their agents finish their turns under their shims.
    pub async fn release(&self) {
        let mut releases = JoinSet::new();
        for (_, slot) in self.slots().drain() {
            match slot {
                SessionSlot::Driven(session) => {
                    releases.spawn(async move {
                        if session.release().await == LeaveOutcome::NotStored {
                            let id = session.id();
                            warn!(session = %id, "the last changes of a session were not stored");
                        }
                    });
                }
                SessionSlot::Opening(opening) => {
                    releases.spawn(opening.cancel());
                }
                SessionSlot::Failed(_) | SessionSlot::Deleting => {}
            }
        }
        while releases.join_next().await.is_some() {}
    }

    /// Removes a session whose owner has ended, unless it was opened again in the meantime.
    fn remove_closed(&self, id: SessionId) {
        let mut slots = self.slots();
        if let Some(SessionSlot::Driven(session)) = slots.get(&id)
            && session.commands.is_closed()
        {
            slots.remove(&id);
        }
    }

    fn change_problems(&self) {
        self.shared.problem_changes.send_modify(|count| *count += 1);
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, SessionSlot>> {
        self.shared.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<OwnerError> for OpenError {
    fn from(error: OwnerError) -> Self {
        match error {
            OwnerError::Journal(error) => Self::Journal(error),
            error => Self::Takeover(Arc::new(error)),
        }
    }
}

/// An error with its causes on one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // A wrapper that is transparent repeats what it wraps.
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}
