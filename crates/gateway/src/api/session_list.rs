//! The list of all sessions, kept up to date for the clients that follow it.
//!
//! One task serves all of them. It waits for the journal's change counter, and only while there is
//! a client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use journal::{SessionId, SessionRecord};
use session::{OwningWorker, Sessions, WorkerPresence};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tracing::warn;
use view::wording;

use super::session_marks::SessionMarks;
use super::sessions::SessionResponse;

/// The least time between two updates, however much is committed.
const UPDATE_INTERVAL: Duration = Duration::from_millis(300);

/// How much of a first prompt is read for a title.
const TITLE_BYTES: usize = 4 << 10;

/// The list of all sessions. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct SessionList {
    sessions: Sessions,
    list: Arc<watch::Sender<Arc<Vec<SessionResponse>>>>,
    watched: Arc<Notify>,
    /// The first words of sessions without a title; they do not change.
    first_words: Arc<Mutex<HashMap<SessionId, String>>>,
}

impl SessionList {
    pub(crate) fn new(sessions: Sessions) -> Self {
        let list = Arc::new(watch::Sender::new(Arc::default()));
        Self { sessions, list, watched: Arc::default(), first_words: Arc::default() }
    }

    /// Reads all sessions, the most recently active first.
    pub(crate) async fn load(&self) -> Result<Vec<SessionResponse>, journal::Error> {
        let records = self.sessions.journal().sessions().await?;
        let requests = self.sessions.journal().open_request_counts().await?;
        let marks = SessionMarks::load(self.sessions.journal()).await?;
        let mut sessions = Vec::with_capacity(records.len());
        for record in &records {
            let requests = requests.get(&record.id).copied().unwrap_or(0);
            let marks = marks.get(&record.id).copied().unwrap_or_default();
            sessions.push(self.response(record, requests, marks).await?);
        }
        Ok(sessions)
    }

    pub(crate) async fn load_one(
        &self,
        id: SessionId,
    ) -> Result<Option<SessionResponse>, journal::Error> {
        let Some(record) = self.sessions.journal().session(id).await? else { return Ok(None) };
        let requests = self.sessions.journal().open_request_counts().await?;
        let requests = requests.get(&id).copied().unwrap_or(0);
        let marks = SessionMarks::load(self.sessions.journal()).await?;
        let marks = marks.get(&id).copied().unwrap_or_default();
        Ok(Some(self.response(&record, requests, marks).await?))
    }

    /// Follows the list.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<Vec<SessionResponse>>> {
        let list = self.list.subscribe();
        self.watched.notify_one();
        list
    }

    /// Keeps the list up to date while it is followed. Ends with the journal.
    pub(crate) async fn run(self) {
        loop {
            self.watched.notified().await;
            let mut commits = self.sessions.journal().changes();
            let mut problems = self.sessions.problem_changes();
            while self.list.receiver_count() > 0 {
                match self.load().await {
                    Ok(list) => drop(self.list.send_if_modified(|known| {
                        let changed = **known != list;
                        if changed {
                            *known = Arc::new(list);
                        }
                        changed
                    })),
                    Err(journal::Error::Closed) => return,
                    Err(error) => warn!(%error, "the list of sessions could not be read"),
                }
                sleep(UPDATE_INTERVAL).await;
                tokio::select! {
                    commit = commits.changed() => if commit.is_err() { return },
                    Ok(()) = problems.changed() => {}
                    () = self.list.closed() => {}
                }
            }
        }
    }

    async fn response(
        &self,
        record: &SessionRecord,
        requests: usize,
        marks: SessionMarks,
    ) -> Result<SessionResponse, journal::Error> {
        let words = match record.title {
            Some(_) => None,
            None if record.damage.is_some() => None,
            None => self.first_words(record.id).await?,
        };
        let damage = record.damage.as_ref().map(|damage| {
            format!(
                "its data is damaged ({damage}): `towpath sessions export` saves its lines, and \
                 `towpath sessions delete` removes it"
            )
        });
        let problem = damage.or_else(|| self.sessions.problem(record.id));
        let agents = &self.sessions.config().agents;
        let mut response =
            SessionResponse::new(record, words.as_deref(), requests, problem, agents);
        (response.pinned, response.archived) = (marks.pinned, marks.archived);
        if let Some(OwningWorker { name, presence }) = self.sessions.worker(record.id) {
            response.worker = Some(name);
            if let WorkerPresence::Away { since } = presence {
                (response.worker_away, response.worker_away_since) = (true, since);
            }
        }
        Ok(response)
    }

    async fn first_words(&self, id: SessionId) -> Result<Option<String>, journal::Error> {
        let known = self.known_words().get(&id).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let first = self.sessions.journal().first_prompt_text(id, TITLE_BYTES).await?;
        let Some(words) = first.and_then(|it| wording::title(&it)) else { return Ok(None) };
        self.known_words().insert(id, words.clone());
        Ok(Some(words))
    }

    fn known_words(&self) -> MutexGuard<'_, HashMap<SessionId, String>> {
        self.first_words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
