//! Saving the files of sessions at the end of every turn.
//!
//! What could not be saved because the servers are away is saved when they are back. The versions that the servers
//! have are recorded here, after they have them: what the machine itself has recorded of a working tree says nothing
//! about that.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use journal::{Batch, SessionId, StateChange};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tracing::{debug, warn};
use wire::note::Note;

use super::takeover::{entry, now};
use super::{FOLLOWER, SharedWorker};
use crate::files;

/// Ends of turns are looked for no more often.
const INTERVAL: Duration = Duration::from_millis(500);

/// When what could not be saved is tried again, unless the connection is restored before.
const RETRY: Duration = Duration::from_secs(10);

/// How often files are saved before a session is given away, and the pause before each further attempt.
const RELEASE_ATTEMPTS: u32 = 3;
const RELEASE_PAUSE: Duration = Duration::from_secs(1);

/// The keys of turns whose files are saved, before the ids of sessions.
const SAVED: &str = "saved/";

/// What the servers have of the files of sessions.
pub(super) type SavedTurns = HashMap<SessionId, KnownTurn>;

/// The last turn whose files the servers have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedTurn {
    turn: u64,
    /// The version of the working tree; none if it is not known.
    tree: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct KnownTurn {
    saved: SavedTurn,
    /// What was said in the conversation.
    problems: Vec<String>,
    /// The servers could not be reached, and before this time it is not tried again.
    retry_at: Option<Instant>,
}

impl SavedTurn {
    pub(super) fn new(turn: u64) -> Self {
        Self { turn, tree: None }
    }

    /// Reads what is stored. Earlier versions stored the turn alone.
    fn read(value: &[u8]) -> Option<Self> {
        let turn = || std::str::from_utf8(value).ok()?.parse().ok();
        serde_json::from_slice(value).ok().or_else(|| turn().map(Self::new))
    }
}

impl SharedWorker {
    /// Saves the files of each session whose turn has ended, until it is dropped.
    pub(super) async fn save_ended_turns(&self) {
        if self.config.files.is_none() {
            return;
        }
        if let Err(error) = self.load_saved().await {
            warn!(%error, "it is not known which files are saved");
        }
        let mut changes = self.sessions.journal().outbox_changes();
        loop {
            changes.borrow_and_update();
            let reconnected = self.bus.reconnected();
            let mut is_left = false;
            for record in self.sessions.journal().sessions().await.unwrap_or_default() {
                let (turn, retry_at) = {
                    let saved = self.saved_turns();
                    let known = saved.get(&record.id);
                    known.map_or((0, None), |it| (it.saved.turn, it.retry_at))
                };
                if record.turn_ended <= turn || self.shipper.stop_reason(record.id).is_some() {
                    continue;
                }
                is_left = true;
                if retry_at.is_some_and(|at| at > Instant::now()) {
                    continue;
                }
                // A session that is being taken over or given away is left alone.
                let lock = self.session_lock(record.id);
                if let Ok(_lock) = lock.try_lock() {
                    self.save_files(record.id).await;
                }
            }
            tokio::time::sleep(INTERVAL).await;
            tokio::select! {
                filled = changes.changed() => if filled.is_err() { return },
                () = tokio::time::sleep(RETRY), if is_left => {}
                () = reconnected, if is_left => {
                    for known in self.saved_turns().values_mut() {
                        known.retry_at = None;
                    }
                }
            }
        }
    }

    async fn load_saved(&self) -> Result<(), journal::Error> {
        let state = self.sessions.journal().read_state(FOLLOWER).await?;
        let mut all = self.saved_turns();
        for (key, value) in state {
            let session = key.strip_prefix(SAVED).and_then(|id| id.parse::<SessionId>().ok());
            if let (Some(session), Some(saved)) = (session, SavedTurn::read(&value)) {
                all.entry(session).or_default().saved = saved;
            }
        }
        Ok(())
    }

    /// Records that the servers have the files of a turn, also for the next process.
    pub(super) async fn mark_saved(&self, session: SessionId, saved: SavedTurn) {
        let value = serde_json::to_vec(&saved).ok();
        self.saved_turns().entry(session).or_default().saved = saved;
        let change = StateChange { key: format!("{SAVED}{session}"), value };
        if let Err(error) = self.sessions.journal().write_state(FOLLOWER, vec![change]).await {
            debug!(%session, %error, "it could not be recorded that files are saved");
        }
    }

    /// Forgets what the servers have of a session that is being given up. Returns the change of the state.
    pub(super) fn forget_saved(&self, session: SessionId) -> StateChange {
        self.saved_turns().remove(&session);
        StateChange { key: format!("{SAVED}{session}"), value: None }
    }

    /// Saves the files of a session before it is given away. What cannot be saved is said in the conversation, since
    /// the next owner has an older state.
    pub(super) async fn save_before_release(&self, session: SessionId) {
        for attempt in 1..=RELEASE_ATTEMPTS {
            let unreachable = self.save_files(session).await;
            if unreachable.is_empty() {
                return;
            }
            if attempt == RELEASE_ATTEMPTS {
                self.report(session, unreachable).await;
                return;
            }
            tokio::time::sleep(RELEASE_PAUSE).await;
        }
    }

    /// Saves the files of a session. What cannot be saved is said in the conversation, once. Returns what was not
    /// saved because the servers cannot be reached, which is to be tried again.
    async fn save_files(&self, session: SessionId) -> Vec<String> {
        let Some(session_files) = &self.config.files else { return Vec::new() };
        let Ok(Some(record)) = self.sessions.journal().session(session).await else {
            return Vec::new();
        };
        let turn = record.turn_ended;
        let before = self.saved_turns().get(&session).and_then(|it| it.saved.tree.clone());
        let saved = session_files.save(record, before.clone()).await;
        let tried_tree = saved.parts.tree.is_some();
        let mut outcome = files::store(&*self.bus, session, turn, saved.parts).await;
        let is_stored = outcome.problems.is_empty() && outcome.unreachable.is_empty();
        outcome.problems.extend(saved.problems);
        let is_news = {
            let mut all = self.saved_turns();
            let known = all.entry(session).or_default();
            known.retry_at = (!outcome.unreachable.is_empty()).then(|| Instant::now() + RETRY);
            let is_news = known.problems != outcome.problems;
            known.problems.clone_from(&outcome.problems);
            is_news
        };
        if outcome.unreachable.is_empty() {
            // A tree that could not be stored is sent again at the end of the next turn.
            let tree = if is_stored { saved.tree_version } else { before.filter(|_| !tried_tree) };
            self.mark_saved(session, SavedTurn { turn, tree }).await;
        } else {
            debug!(%session, reasons = ?outcome.unreachable, "files are not saved yet");
        }
        if is_news && !outcome.problems.is_empty() {
            self.report(session, outcome.problems).await;
        }
        outcome.unreachable
    }

    async fn report(&self, session: SessionId, problems: Vec<String>) {
        let notes = problems.into_iter().map(|text| Note::Problem { text });
        let entries = notes.map(|note| entry(&note)).collect();
        let batch = Batch { at: now(), entries, ..Batch::default() };
        if let Err(error) = self.sessions.journal().write(session, batch).await {
            warn!(%session, %error, "a problem with the files of a session could not be recorded");
        }
    }

    fn saved_turns(&self) -> MutexGuard<'_, SavedTurns> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
