//! All sessions at a glance, for those who look at the list.
//!
//! The journal tells of each session by itself, so somebody has to look: one task for all, and only
//! while somebody watches.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use journal::{Journal, SessionId};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::warn;
use view::phrase;

use crate::api::ShownSession;

/// How often somebody looks.
const EVERY: Duration = Duration::from_millis(300);

/// All sessions.
pub(crate) type List = Arc<Vec<ShownSession>>;

/// All sessions at a glance. Clones are the same lobby.
#[derive(Clone, Debug)]
pub(crate) struct Lobby {
    journal: Journal,
    list: Arc<watch::Sender<List>>,
    /// The first words of sessions without a name; they do not change.
    first_words: Arc<Mutex<HashMap<SessionId, String>>>,
}

impl Lobby {
    pub(crate) fn new(journal: Journal) -> Self {
        let list = Arc::new(watch::Sender::new(List::default()));
        Self { journal, list, first_words: Arc::default() }
    }

    /// All sessions as they are now, the last active first.
    pub(crate) async fn look(&self) -> Result<Vec<ShownSession>, journal::Error> {
        let records = self.journal.sessions().await?;
        let mut requests: HashMap<SessionId, usize> = HashMap::new();
        for (session, _) in self.journal.open_requests(None).await? {
            *requests.entry(session).or_default() += 1;
        }
        let mut shown = Vec::with_capacity(records.len());
        for record in &records {
            let words = match record.title {
                Some(_) => None,
                None => self.first_words(record.id).await?,
            };
            let requests = requests.get(&record.id).copied().unwrap_or(0);
            shown.push(ShownSession::new(record, words.as_deref(), requests));
        }
        Ok(shown)
    }

    /// A session as it is now.
    pub(crate) async fn look_at(
        &self,
        id: SessionId,
    ) -> Result<Option<ShownSession>, journal::Error> {
        let Some(record) = self.journal.session(id).await? else { return Ok(None) };
        let requests = self.journal.open_requests(Some(id)).await?.len();
        let words = match record.title {
            Some(_) => None,
            None => self.first_words(id).await?,
        };
        Ok(Some(ShownSession::new(&record, words.as_deref(), requests)))
    }

    /// The list as it changes.
    pub(crate) fn watch(&self) -> watch::Receiver<List> {
        self.list.subscribe()
    }

    /// Keeps the list up to date while somebody watches. Ends never.
    pub(crate) async fn keep(self) {
        loop {
            if self.list.receiver_count() > 0 {
                match self.look().await {
                    Ok(list) => {
                        self.list.send_if_modified(|known| {
                            let changed = **known != list;
                            if changed {
                                *known = Arc::new(list);
                            }
                            changed
                        });
                    }
                    Err(journal::Error::Closed) => return,
                    Err(error) => warn!(%error, "the list of sessions could not be had"),
                }
            }
            sleep(EVERY).await;
        }
    }

    async fn first_words(&self, id: SessionId) -> Result<Option<String>, journal::Error> {
        let known = self.words().get(&id).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let prompts = self.journal.prompts(id).await?;
        let first = prompts.into_iter().min_by_key(|it| it.created);
        let Some(words) = first.and_then(|it| phrase::title(&it.text)) else { return Ok(None) };
        self.words().insert(id, words.clone());
        Ok(Some(words))
    }

    fn words(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, String>> {
        self.first_words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
