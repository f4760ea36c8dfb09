//! All sessions of one journal.
//!
//! Each session that this process drives has an owner, a task of its own. A failure in one, even a
//! panic, ends that task and nothing else, and the next `open` takes the session over from its
//! shim.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use journal::{Batch, Journal, NewSession, SessionId, SessionRecord, SessionStatus};
use thiserror::Error;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard, mpsc};
use tokio::time::Instant;
use tracing::{error, warn};
use uuid::Uuid;

use crate::config::{SessionLimits, SessionsConfig};
use crate::options::SessionOptions;
use crate::owner::process::stop_everything;
use crate::owner::{Owner, OwnerError, now};
use crate::session::{LeaveOutcome, Session};
use crate::shim::{AttachError, Ownership, OwnershipError, RunId, ShimConnection, has_leftovers};

/// How many commands may wait for an owner. When the channel is full, the sender waits.
const COMMAND_QUEUE: usize = 64;

/// How long `open` and `delete` wait for another process that is about to release the session. A
/// Towpath that is being restarted takes a moment to go away.
const OWNERSHIP_TIMEOUT: Duration = Duration::from_secs(3);
const OWNERSHIP_RETRY: Duration = Duration::from_millis(20);

/// All sessions of one journal.
#[derive(Clone, Debug)]
pub struct Sessions {
    shared: Arc<SharedSessions>,
}

#[derive(Debug)]
struct SharedSessions {
    config: SessionsConfig,
    journal: Journal,
    /// Held while a session is opened, so that two callers do not race for its lock.
    opening: AsyncMutex<()>,
    open: Mutex<HashMap<SessionId, Session>>,
}

/// Why a session could not be opened, created or deleted.
#[derive(Debug, Error)]
pub enum OpenError {
    #[error("there is no session `{0}`")]
    NoSuchSession(SessionId),
    /// Another process drives it.
    #[error(transparent)]
    Owned(#[from] OwnershipError),
    #[error("the working directory `{path}` cannot be used")]
    Directory { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// The agent that an earlier Towpath left could not be attached or its output not be read.
    #[error("the session could not be taken over")]
    Takeover(#[source] Box<dyn std::error::Error + Send + Sync>),
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
        let opening = AsyncMutex::new(());
        let open = Mutex::new(HashMap::new());
        Self { shared: Arc::new(SharedSessions { config, journal, opening, open }) }
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
        let unusable = |source| OpenError::Directory { path: options.directory.clone(), source };
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
    pub async fn open(&self, id: SessionId) -> Result<Session, OpenError> {
        let live = self.shared.config.live_directory(id);
        let (_opening, acquired) = self.acquire(id, &live).await?;
        let ownership = match acquired {
            Acquired::Driven(session) => return Ok(session),
            Acquired::Ownership(ownership) => ownership,
        };
        let SharedSessions { config, journal, .. } = &*self.shared;
        let (commands, receiver) = mpsc::channel(COMMAND_QUEUE);
        let owner =
            Owner::take_over(id, config.clone(), journal.clone(), ownership, receiver).await?;
        let session = Session { id, journal: journal.clone(), commands };
        self.map().insert(id, session.clone());
        let this = self.clone();
        let task = tokio::spawn(owner.run());
        tokio::spawn(async move {
            let ended = task.await;
            this.remove_closed(id);
            match ended {
                Ok(Ok(None)) => {}
                Ok(Ok(Some(notice))) => notice.send(),
                Ok(Err(problem)) => {
                    error!(session = %id, error = %with_cause(&problem), "a session failed");
                }
                Err(panic) => error!(session = %id, %panic, "a session's owner panicked"),
            }
        });
        Ok(session)
    }

    /// Opens every session that has a running agent or unread output. Returns the failures.
    pub async fn recover(&self) -> Result<Vec<(SessionId, OpenError)>, OpenError> {
        let mut failed = Vec::new();
        for record in self.shared.journal.sessions().await? {
            if self.needs_takeover(&record)
                && let Err(problem) = self.open(record.id).await
            {
                warn!(session = %record.id, error = %with_cause(&problem), "could not take over a session");
                failed.push((record.id, problem));
            }
        }
        Ok(failed)
    }

    /// Reads the output of dead agents into the journal, for every session that no process drives.
    /// Starts no agent, leaves running agents alone, and returns the failures.
    ///
    /// A command that only lists sessions must show how their last turns ended, but it must not
    /// start an agent for prompts that wait.
    pub async fn collect(&self) -> Result<Vec<(SessionId, OpenError)>, OpenError> {
        let mut failed = Vec::new();
        for record in self.journal().sessions().await? {
            if !self.needs_takeover(&record) {
                continue;
            }
            match self.collect_one(&record).await {
                Ok(()) | Err(OpenError::Owned(OwnershipError::Owned { .. })) => {}
                Err(problem) => {
                    warn!(session = %record.id, error = %problem, "could not read the output of an agent");
                    failed.push((record.id, problem));
                }
            }
        }
        Ok(failed)
    }

    async fn collect_one(&self, record: &SessionRecord) -> Result<(), OpenError> {
        let id = record.id;
        let live = self.config().live_directory(id);
        let ownership = Ownership::take(&live)?;
        if record.spool.run > 0 {
            let attached = ShimConnection::attach(&live, record.spool.offset).await;
            if !matches!(attached, Err(AttachError::NotRunning)) {
                return Ok(());
            }
        }
        // A machine without restarts records the exit and starts no new process.
        let limits = SessionLimits { restarts: 0, ..self.config().limits };
        let config = SessionsConfig { limits, ..self.config().clone() };
        let (_commands, receiver) = mpsc::channel(1);
        Owner::take_over(id, config, self.journal().clone(), ownership, receiver).await?;
        let status = self.journal().session(id).await?.map(|it| it.status);
        if status == Some(SessionStatus::Failed) && record.status != SessionStatus::Failed {
            // It did not use up its restarts: none was allowed here.
            let mut batch = Batch { at: now(), ..Batch::default() };
            batch.change.status = Some(SessionStatus::Dead);
            self.journal().write(id, batch).await?;
        }
        Ok(())
    }

    /// Whether an agent of the session runs, or left output that is not in the journal yet.
    pub fn needs_takeover(&self, record: &SessionRecord) -> bool {
        let live = self.shared.config.live_directory(record.id);
        matches!(record.status, SessionStatus::Running | SessionStatus::Waiting)
            || record.spool.run > 0 && has_leftovers(&live, RunId(record.spool.run))
    }

    /// The sessions this process drives.
    pub fn open_sessions(&self) -> Vec<Session> {
        self.map().values().cloned().collect()
    }

    /// Deletes a session. Its agent is killed first, and none is started for waiting prompts.
    pub async fn delete(&self, id: SessionId) -> Result<(), OpenError> {
        let live = self.shared.config.live_directory(id);
        let (_opening, acquired) = self.acquire(id, &live).await?;
        match &acquired {
            Acquired::Driven(session) => drop(session.destroy().await),
            Acquired::Ownership(_) => stop_everything(&live).await.map_err(OwnerError::from)?,
        }
        self.shared.journal.delete(id).await?;
        let _ = tokio::fs::remove_dir_all(live).await;
        // The ownership lasts until the directory is gone.
        drop(acquired);
        Ok(())
    }

    /// Stops driving all sessions. Their agents finish their turns under their shims.
    pub async fn release(&self) {
        for session in self.open_sessions() {
            if session.release().await == LeaveOutcome::NotStored {
                warn!(session = %session.id(), "the last changes of a session could not be stored");
            }
        }
    }

    /// The session if this process drives it, else the right to drive it. No other session of this
    /// process is opened while the guard is held.
    async fn acquire(
        &self,
        id: SessionId,
        live: &Path,
    ) -> Result<(MutexGuard<'_, ()>, Acquired), OpenError> {
        let deadline = Instant::now() + OWNERSHIP_TIMEOUT;
        loop {
            let opening = self.shared.opening.lock().await;
            if let Some(session) = self.driven(id) {
                return Ok((opening, Acquired::Driven(session)));
            }
            if self.shared.journal.session(id).await?.is_none() {
                return Err(OpenError::NoSuchSession(id));
            }
            match Ownership::take(live) {
                Ok(ownership) => return Ok((opening, Acquired::Ownership(ownership))),
                Err(OwnershipError::Owned { .. }) if Instant::now() < deadline => {}
                Err(error) => return Err(error.into()),
            }
            drop(opening);
            tokio::time::sleep(OWNERSHIP_RETRY).await;
        }
    }

    fn driven(&self, id: SessionId) -> Option<Session> {
        self.map().get(&id).filter(|session| !session.commands.is_closed()).cloned()
    }

    /// Removes a session whose owner has ended, unless it was opened again in the meantime.
    fn remove_closed(&self, id: SessionId) {
        let mut open = self.map();
        if open.get(&id).is_some_and(|session| session.commands.is_closed()) {
            open.remove(&id);
        }
    }

    fn map(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Session>> {
        self.shared.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What [`Sessions::acquire`] found.
enum Acquired {
    Driven(Session),
    Ownership(Ownership),
}

impl From<OwnerError> for OpenError {
    fn from(error: OwnerError) -> Self {
        match error {
            OwnerError::Journal(error) => Self::Journal(error),
            error => Self::Takeover(Box::new(error)),
        }
    }
}

fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use journal::Journal;
    use wire::note::{Actor, Setting};

    use super::{OpenError, SessionSpec, Sessions};
    use crate::config::{AgentProgram, SessionLimits, SessionsConfig, UnattendedLimits};
    use crate::options::SessionOptions;
    use crate::owner::OwnerCommand;
    use crate::session::Error;
    use crate::shim::Ownership;

    fn sessions(directory: &Path) -> Sessions {
        let config = SessionsConfig {
            data: directory.to_owned(),
            runtime: directory.to_owned(),
            towpath: "no-such-program".into(),
            agent: AgentProgram { program: "no-such-agent".into(), arguments: Vec::new() },
            environment: Vec::new(),
            limits: SessionLimits::default(),
            unattended: UnattendedLimits::SHORT,
        };
        let journal = Journal::open(&directory.join("journal.db")).unwrap().journal;
        Sessions::new(config, journal)
    }

    fn spec(directory: &Path) -> SessionSpec {
        let options =
            SessionOptions { directory: directory.to_owned(), ..SessionOptions::default() };
        SessionSpec { options, ..SessionSpec::default() }
    }

    #[tokio::test]
    async fn a_session_that_panics_ends_alone_and_can_be_opened_again() {
        let directory = tempfile::tempdir().unwrap();
        let sessions = sessions(directory.path());
        let one = sessions.create(spec(directory.path())).await.unwrap();
        let other = sessions.create(spec(directory.path())).await.unwrap();
        let ann = || Actor { name: "ann".to_owned(), via: "terminal".to_owned() };
        let setting = || Setting::Model(Some("opus".to_owned()));
        for _ in 0..20 {
            let failing = sessions.open(one.id()).await.unwrap();
            failing.set(setting(), ann()).await.unwrap();
            failing.commands.send(OwnerCommand::Panic).await.unwrap();
            failing.closed().await;
            assert!(matches!(failing.set(setting(), ann()).await, Err(Error::Closed)));
            other.set(setting(), ann()).await.unwrap();
            let again = sessions.open(one.id()).await.unwrap();
            // The task that watched the failed owner must not remove the new one.
            tokio::task::yield_now().await;
            assert_eq!(sessions.open_sessions().len(), 2);
            again.set(setting(), ann()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_session_whose_owner_is_going_away_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let sessions = sessions(directory.path());
        let session = sessions.create(spec(directory.path())).await.unwrap();
        session.release().await;
        let live = sessions.config().live_directory(session.id());
        let ownership = Ownership::take(&live).unwrap();
        let releasing = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            drop(ownership);
        });
        sessions.open(session.id()).await.unwrap().release().await;
        releasing.await.unwrap();
        let _ownership = Ownership::take(&live).unwrap();
        let refused = sessions.open(session.id()).await;
        assert!(matches!(refused, Err(OpenError::Owned(_))), "{refused:?}");
    }
}
