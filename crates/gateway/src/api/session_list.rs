//! The list of all sessions, kept up to date for the clients that follow it.
//!
//! One task serves all of them. It waits for the journal's change counter, and only while there is
//! a client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use journal::{Journal, SessionId, SessionRecord};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tracing::warn;
use view::wording;

use super::sessions::SessionResponse;

/// The least time between two updates, however much is committed.
const UPDATE_INTERVAL: Duration = Duration::from_millis(300);

/// The list of all sessions. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct SessionList {
    journal: Journal,
    list: Arc<watch::Sender<Arc<Vec<SessionResponse>>>>,
    watched: Arc<Notify>,
    /// The first words of sessions without a title; they do not change.
    first_words: Arc<Mutex<HashMap<SessionId, String>>>,
}

impl SessionList {
    pub(crate) fn new(journal: Journal) -> Self {
        let list = Arc::new(watch::Sender::new(Arc::default()));
        Self { journal, list, watched: Arc::default(), first_words: Arc::default() }
    }

    /// Reads all sessions, the most recently active first.
    pub(crate) async fn load(&self) -> Result<Vec<SessionResponse>, journal::Error> {
        let records = self.journal.sessions().await?;
        let mut requests: HashMap<SessionId, usize> = HashMap::new();
        for (session, _) in self.journal.open_requests(None).await? {
            *requests.entry(session).or_default() += 1;
        }
        let mut sessions = Vec::with_capacity(records.len());
        for record in &records {
            let requests = requests.get(&record.id).copied().unwrap_or(0);
            sessions.push(self.response(record, requests).await?);
        }
        Ok(sessions)
    }

    pub(crate) async fn load_one(
        &self,
        id: SessionId,
    ) -> Result<Option<SessionResponse>, journal::Error> {
        let Some(record) = self.journal.session(id).await? else { return Ok(None) };
        let requests = self.journal.open_requests(Some(id)).await?.len();
        Ok(Some(self.response(&record, requests).await?))
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
            let mut commits = self.journal.changes();
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
                    () = self.list.closed() => {}
                }
            }
        }
    }

    async fn response(
        &self,
        record: &SessionRecord,
        requests: usize,
    ) -> Result<SessionResponse, journal::Error> {
        let words = match record.title {
            Some(_) => None,
            None => self.first_words(record.id).await?,
        };
        Ok(SessionResponse::new(record, words.as_deref(), requests))
    }

    async fn first_words(&self, id: SessionId) -> Result<Option<String>, journal::Error> {
        let known = self.known_words().get(&id).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let prompts = self.journal.prompts(id).await?;
        let first = prompts.into_iter().min_by_key(|it| it.created);
        let Some(words) = first.and_then(|it| wording::title(&it.text)) else { return Ok(None) };
        self.known_words().insert(id, words.clone());
        Ok(Some(words))
    }

    fn known_words(&self) -> MutexGuard<'_, HashMap<SessionId, String>> {
        self.first_words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
