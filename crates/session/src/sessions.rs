//! All sessions of one journal, as far as this process drives them.
//!
//! Each has an owner, a task of its own: what goes wrong in one, a panic included, ends that one's
//! task and nothing else, and whoever opens the session again takes over from its shim.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use journal::{Journal, NewSession, SessionId, SessionRecord};
use thiserror::Error;
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tracing::{error, warn};
use uuid::Uuid;

use crate::handle::Session;
use crate::home::Home;
use crate::options::Options;
use crate::owner::process::end_all;
use crate::owner::{Owner, OwnerError, now};
use crate::shim::{Held, Ownership};

/// How many commands may wait for an owner. When it is full, whoever asks waits.
const MAILBOX: usize = 64;

/// All sessions of one journal.
#[derive(Clone, Debug)]
pub struct Sessions {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    home: Home,
    journal: Journal,
    /// Held while one is opened, so that two who want the same do not race for its lock.
    opening: AsyncMutex<()>,
    open: Mutex<HashMap<SessionId, Session>>,
}

/// Why a session could not be had.
#[derive(Debug, Error)]
pub enum OpenError {
    /// There is no such session.
    #[error("there is no session `{0}`")]
    NoSuchSession(SessionId),
    /// Another Towpath drives it.
    #[error(transparent)]
    Held(#[from] Held),
    /// Its working directory is not there.
    #[error("the working directory `{path}` cannot be used")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// What the last process left could not be taken over.
    #[error("the session could not be taken over")]
    TakeOver(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A session to be.
#[derive(Clone, Debug, Default)]
pub struct Creation {
    /// Its id; a random one where nothing is said.
    pub id: Option<SessionId>,
    /// Its name.
    pub title: Option<String>,
    /// What is wanted of the agent.
    pub options: Options,
    /// The conversation it takes up, by the CLI's id.
    pub resume: Option<String>,
}

impl Sessions {
    /// The sessions of a journal; none is driven yet.
    pub fn new(home: Home, journal: Journal) -> Self {
        let opening = AsyncMutex::new(());
        let open = Mutex::new(HashMap::new());
        Self { inner: Arc::new(Inner { home, journal, opening, open }) }
    }

    /// The journal.
    pub fn journal(&self) -> &Journal {
        &self.inner.journal
    }

    /// Where they live.
    pub fn home(&self) -> &Home {
        &self.inner.home
    }

    /// Creates a session and opens it. No process is started before it is needed.
    pub async fn create(&self, creation: Creation) -> Result<Session, OpenError> {
        let Creation { id, title, mut options, resume } = creation;
        let unusable = |source| OpenError::Directory { path: options.directory.clone(), source };
        let directory = tokio::fs::canonicalize(&options.directory).await.map_err(unusable)?;
        if !directory.is_dir() {
            return Err(unusable(io::ErrorKind::NotADirectory.into()));
        }
        options.directory.clone_from(&directory);
        let id = id.unwrap_or_else(|| SessionId(Uuid::new_v4()));
        let json = options.to_json();
        let new = NewSession { id, directory, title, options: json, at: now() };
        self.inner.journal.create(new).await?;
        if let Some(resume) = resume {
            let mut batch = journal::Batch { at: now(), ..journal::Batch::default() };
            batch.change.agent_id = Some(resume);
            self.inner.journal.write(id, batch).await?;
        }
        self.open(id).await
    }

    /// Takes hold of a session, taking it over from whoever drove it last if need be.
    pub async fn open(&self, id: SessionId) -> Result<Session, OpenError> {
        let _one_at_a_time = self.inner.opening.lock().await;
        if let Some(session) = self.driven(id) {
            return Ok(session);
        }
        let Inner { home, journal, .. } = &*self.inner;
        if journal.session(id).await?.is_none() {
            return Err(OpenError::NoSuchSession(id));
        }
        let ownership = Ownership::take(&home.live_directory(id))?;
        let (mailbox, mail) = mpsc::channel(MAILBOX);
        let owner = Owner::arrive(id, home.clone(), journal.clone(), ownership, mail).await;
        let owner = owner.map_err(|error| match error {
            OwnerError::Journal(error) => OpenError::Journal(error),
            error => OpenError::TakeOver(Box::new(error)),
        })?;
        let session = Session { id, journal: journal.clone(), mailbox };
        self.map().insert(id, session.clone());
        let this = self.clone();
        let work = tokio::spawn(owner.run());
        tokio::spawn(async move {
            let ended = work.await;
            this.forget(id);
            match ended {
                Ok(Ok(left)) => {
                    if let Some(left) = left {
                        // Whoever wanted it may have gone.
                        let _ = left.send(());
                    }
                }
                Ok(Err(problem)) => {
                    error!(session = %id, error = %with_cause(&problem), "a session ended");
                }
                Err(panic) => error!(session = %id, %panic, "a session's owner fell over"),
            }
        });
        Ok(session)
    }

    /// Opens every session that has something running or left over. Says which could not be.
    pub async fn recover(&self) -> Result<Vec<(SessionId, OpenError)>, OpenError> {
        let mut failed = Vec::new();
        for record in self.inner.journal.sessions().await? {
            if self.has_remains(&record)
                && let Err(problem) = self.open(record.id).await
            {
                warn!(session = %record.id, error = %with_cause(&problem), "could not take over a session");
                failed.push((record.id, problem));
            }
        }
        Ok(failed)
    }

    /// Whether an agent of the session runs, or left something that is not in the journal yet.
    pub fn has_remains(&self, record: &SessionRecord) -> bool {
        let live = self.inner.home.live_directory(record.id);
        matches!(record.status, journal::Status::Running | journal::Status::Waiting)
            || record.spool.run > 0
                && crate::shim::leaves(&live, crate::shim::Run(record.spool.run))
    }

    /// The sessions this process drives.
    pub fn open_sessions(&self) -> Vec<Session> {
        self.map().values().cloned().collect()
    }

    /// Deletes a session for good: its agent is ended first. None is started for it, whatever waits.
    pub async fn delete(&self, id: SessionId) -> Result<(), OpenError> {
        let _one_at_a_time = self.inner.opening.lock().await;
        let live = self.inner.home.live_directory(id);
        let mut undriven = None;
        if let Some(session) = self.driven(id) {
            session.abandon().await;
        } else {
            if self.inner.journal.session(id).await?.is_none() {
                return Err(OpenError::NoSuchSession(id));
            }
            undriven = Some(Ownership::take(&live)?);
            let ended = end_all(&live).await;
            ended.map_err(|error| OpenError::TakeOver(Box::new(error)))?;
        }
        self.inner.journal.delete(id).await?;
        let _ = tokio::fs::remove_dir_all(live).await;
        // Nobody may take it up before it is gone.
        drop(undriven);
        Ok(())
    }

    /// Lets go of every session; their agents finish alone.
    pub async fn leave(&self) {
        for session in self.open_sessions() {
            session.leave().await;
        }
    }

    fn driven(&self, id: SessionId) -> Option<Session> {
        self.map().get(&id).filter(|session| !session.mailbox.is_closed()).cloned()
    }

    /// An owner is gone. Somebody may have found another meanwhile, who stays.
    fn forget(&self, id: SessionId) {
        let mut open = self.map();
        if open.get(&id).is_some_and(|session| session.mailbox.is_closed()) {
            open.remove(&id);
        }
    }

    fn map(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Session>> {
        self.inner.open.lock().unwrap_or_else(PoisonError::into_inner)
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
    use journal::Journal;
    use wire::note::{Actor, Setting};

    use super::{Creation, Sessions};
    use crate::handle::Error;
    use crate::home::{AgentProgram, Alone, Home};
    use crate::machine::Limits;
    use crate::options::Options;
    use crate::owner::Mail;

    #[tokio::test]
    async fn a_session_that_falls_over_ends_alone_and_can_be_taken_up_again() {
        let place = tempfile::tempdir().unwrap();
        let home = Home {
            data: place.path().to_owned(),
            runtime: place.path().to_owned(),
            towpath: "nowhere".into(),
            agent: AgentProgram { program: "nothing".into(), arguments: Vec::new() },
            environment: Vec::new(),
            limits: Limits::default(),
            alone: Alone::BRIEF,
        };
        let journal = Journal::open(&place.path().join("journal.db")).unwrap().journal;
        let sessions = Sessions::new(home, journal);
        let options = Options { directory: place.path().to_owned(), ..Options::default() };
        let creation = Creation { options, ..Creation::default() };
        let one = sessions.create(creation.clone()).await.unwrap();
        let other = sessions.create(creation).await.unwrap();
        let ann = || Actor { name: "ann".to_owned(), via: "terminal".to_owned() };
        let setting = || Setting::Model(Some("opus".to_owned()));
        for _ in 0..20 {
            let falling = sessions.open(one.id()).await.unwrap();
            falling.set(setting(), ann()).await.unwrap();
            falling.mailbox.send(Mail::FallOver).await.unwrap();
            falling.closed().await;
            assert!(matches!(falling.set(setting(), ann()).await, Err(Error::Closed)));
            other.set(setting(), ann()).await.unwrap();
            let again = sessions.open(one.id()).await.unwrap();
            // Whoever looked after the one that fell must leave this one alone.
            tokio::task::yield_now().await;
            assert_eq!(sessions.open_sessions().len(), 2);
            again.set(setting(), ann()).await.unwrap();
        }
    }
}
