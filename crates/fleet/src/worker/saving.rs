//! Saving the files of sessions at the end of every turn.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Duration;

use journal::{Batch, SessionId, StateChange};
use tracing::{debug, warn};
use wire::note::Note;

use super::takeover::{entry, now};
use super::{FOLLOWER, SharedWorker};
use crate::files;

/// Ends of turns are looked for no more often.
const INTERVAL: Duration = Duration::from_millis(500);

/// The keys of turns whose files are saved, before the ids of sessions.
const SAVED: &str = "saved/";

/// The last turn whose files were saved, and what was said about that.
pub(super) type SavedTurns = HashMap<SessionId, SavedTurn>;

#[derive(Debug, Default)]
pub(super) struct SavedTurn {
    turn: u64,
    problems: Vec<String>,
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
            for record in self.sessions.journal().sessions().await.unwrap_or_default() {
                let saved = {
                    let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
                    saved.get(&record.id).map_or(0, |it| it.turn)
                };
                if record.turn_ended <= saved || self.shipper.stop_reason(record.id).is_some() {
                    continue;
                }
                // A session that is being taken over or given away is left alone.
                let lock = self.session_lock(record.id);
                if let Ok(_lock) = lock.try_lock() {
                    self.save_files(record.id).await;
                }
            }
            tokio::time::sleep(INTERVAL).await;
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    async fn load_saved(&self) -> Result<(), journal::Error> {
        let state = self.sessions.journal().read_state(FOLLOWER).await?;
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, value) in state {
            let session = key.strip_prefix(SAVED).and_then(|id| id.parse::<SessionId>().ok());
            let turn = String::from_utf8(value).ok().and_then(|it| it.parse().ok());
            if let (Some(session), Some(turn)) = (session, turn) {
                saved.entry(session).or_default().turn = turn;
            }
        }
        Ok(())
    }

    /// Records that the files of a turn are saved, also for the next process.
    pub(super) async fn mark_saved(&self, session: SessionId, turn: u64) {
        self.saved
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(session)
            .or_default()
            .turn = turn;
        let value = Some(turn.to_string().into_bytes());
        let change = StateChange { key: format!("{SAVED}{session}"), value };
        if let Err(error) = self.sessions.journal().write_state(FOLLOWER, vec![change]).await {
            debug!(%session, %error, "it could not be recorded that files are saved");
        }
    }

    /// Saves the files of a session. What could not be saved is said in the conversation, once.
    pub(super) async fn save_files(&self, session: SessionId) {
        let Some(session_files) = &self.config.files else { return };
        let Ok(Some(record)) = self.sessions.journal().session(session).await else { return };
        let turn = record.turn_ended;
        let mut saved = session_files.save(record).await;
        saved.problems.extend(files::store(&*self.bus, session, saved.parts).await);
        let is_news = {
            let mut all = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
            let known = all.entry(session).or_default();
            let is_news = known.problems != saved.problems;
            known.problems.clone_from(&saved.problems);
            is_news
        };
        self.mark_saved(session, turn).await;
        if is_news && !saved.problems.is_empty() {
            let notes = saved.problems.into_iter().map(|text| Note::Problem { text });
            let entries = notes.map(|note| entry(&note)).collect();
            let batch = Batch { at: now(), entries, ..Batch::default() };
            if let Err(error) = self.sessions.journal().write(session, batch).await {
                warn!(%session, %error, "a problem with the files of a session could not be recorded");
            }
        }
    }
}
