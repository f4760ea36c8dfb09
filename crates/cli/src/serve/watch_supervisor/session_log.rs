//! The log of what was done with the files of a session, for clients.
//!
//! Two tasks write to it: the actions on changed files, and the hooks that run before a change. It is
//! stored in the journal's file with the progress of the actions, or alone.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use ::watch::{LogLine, Verbosity};
use anstream::eprintln;
use gateway::watch_state::{WATCH_STATE, WatchLogKind, WatchLogLine, WatchState, log_key};
use journal::{Journal, SessionId, StateChange};

use crate::clock::now;

/// How many log lines are kept.
const MAX_LINES: usize = 50;

/// The maximum length of a log line, in bytes.
const MAX_LENGTH: usize = 400;

/// The logs of all sessions that have one.
#[derive(Debug, Default)]
pub(super) struct SessionLogs {
    logs: Mutex<HashMap<SessionId, SessionLog>>,
}

impl SessionLogs {
    /// Takes over the logs in the stored state of the watcher.
    pub(super) fn restore(stored: &[(String, Vec<u8>)]) -> Self {
        let mut logs: HashMap<SessionId, Vec<WatchLogLine>> = HashMap::new();
        for (key, value) in stored {
            let id = key.parse().map(SessionId);
            if let (Ok(id), Ok(state)) = (id, serde_json::from_slice::<WatchState>(value)) {
                logs.insert(id, state.log);
            }
        }
        // A log in the place of earlier versions must not replace a later one.
        for (key, value) in stored {
            let id = key.strip_prefix("log:").and_then(|id| id.parse().ok()).map(SessionId);
            if let (Some(id), Ok(lines)) = (id, serde_json::from_slice(value)) {
                logs.insert(id, lines);
            }
        }
        let logs = logs.into_iter().map(|(id, lines)| (id, SessionLog::new(id, lines)));
        Self { logs: Mutex::new(logs.collect()) }
    }

    /// The log of a session, which is empty at first.
    pub(super) fn of(&self, session: SessionId) -> SessionLog {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        logs.entry(session).or_insert_with(|| SessionLog::new(session, Vec::new())).clone()
    }

    /// Forgets the log of a session that was deleted.
    pub(super) fn remove(&self, session: SessionId) {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner).remove(&session);
    }
}

/// The last log lines of a session, for clients. Errors are also printed. Clones share the lines.
#[derive(Clone, Debug)]
pub(super) struct SessionLog {
    session: SessionId,
    lines: Arc<Mutex<VecDeque<WatchLogLine>>>,
    /// Held while the log is stored, so that an earlier state does not replace a later one.
    storing: Arc<tokio::sync::Mutex<()>>,
}

impl SessionLog {
    fn new(session: SessionId, lines: Vec<WatchLogLine>) -> Self {
        let storing = Arc::new(tokio::sync::Mutex::new(()));
        Self { session, lines: Arc::new(Mutex::new(lines.into())), storing }
    }

    pub(super) fn add(&self, line: &LogLine) {
        let (kind, path, commit) = match line {
            LogLine::Progress { .. } => return,
            LogLine::Hook { path, .. } => (WatchLogKind::Hook, path.clone(), None),
            line if line.verbosity() > Verbosity::Normal => return,
            LogLine::Note(_) => (WatchLogKind::Hook, None, None),
            LogLine::Committed { commit, .. } => (WatchLogKind::Commit, None, Some(commit.clone())),
            LogLine::Pushed { path, .. } => {
                (WatchLogKind::Sync, Some(path.to_string_lossy().into_owned()), None)
            }
            LogLine::Skipped { path, .. }
            | LogLine::Failed { path, .. }
            | LogLine::Unfinished { path, .. } => (WatchLogKind::Sync, Some(path.clone()), None),
            _ => (WatchLogKind::Sync, None, None),
        };
        let error = line.verbosity() == Verbosity::Quiet;
        let text = shorten(line.to_string());
        if error {
            eprintln!("note: session {}: {text}", crate::sessions::short_id(self.session));
        }
        let path = path.map(shorten);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        while lines.len() >= MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(WatchLogLine { at: now(), error, kind, text, path, commit });
    }

    /// Stores the log, together with other changes of the watcher's state.
    pub(super) async fn store(
        &self,
        journal: &Journal,
        mut changes: Vec<StateChange>,
    ) -> Result<(), journal::Error> {
        let _storing = self.storing.lock().await;
        let lines: Vec<WatchLogLine> = {
            let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.iter().cloned().collect()
        };
        if !lines.is_empty() {
            // Numbers and texts serialise.
            let value = serde_json::to_vec(&lines).unwrap_or_default();
            changes.push(StateChange { key: log_key(self.session), value: Some(value) });
        }
        journal.write_state(WATCH_STATE, changes).await
    }
}

fn shorten(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_LENGTH));
    text
}

/// The changes that remove everything about a session from the watcher's state.
pub(super) fn removal(session: SessionId) -> [StateChange; 2] {
    [session.to_string(), log_key(session)].map(|key| StateChange { key, value: None })
}
