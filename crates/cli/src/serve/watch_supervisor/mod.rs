//! Acts on the files that agents change, for sessions with a watch configuration.
//!
//! ```text
//!  supervisor ── configured session with new entries ──► session watch ──► watcher ──► actions
//!      ▲                                                   │     ▲                       │
//!      └───────────────── ends when idle ──────────────────┘     └────── checkpoint ─────┘
//! ```
//!
//! One supervisor serves all sessions; a session has tasks of its own only while something happens in
//! it. The work to do and the progress are both in the journal, the progress as follower state. So it
//! does not matter when this process ends, or which process runs the session meanwhile.

mod session_actions;
mod session_watch;
mod setup;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use anstream::eprintln;
use gateway::Roots;
use gateway::watch_state::{WATCH_STATE, WatchState};
use journal::{Journal, SessionId, SessionRecord, StateChange};
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::task::{Id, JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use session_watch::{SessionWatch, WatchEnd};

/// The minimum time between two checks of all sessions. A busy session commits many times a second.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Acts on changes until it is stopped.
#[derive(Debug)]
pub(super) struct WatchSupervisor {
    stop: Sender<bool>,
    task: JoinHandle<()>,
}

impl WatchSupervisor {
    pub(super) fn start(journal: Journal, roots: Roots) -> Self {
        let (stop, stopping) = channel(false);
        let task = SupervisorTask {
            changes: journal.changes(),
            journal,
            roots,
            stopping,
            idle: HashMap::new(),
            tasks: JoinSet::new(),
            running: HashMap::new(),
            failed: HashSet::new(),
        };
        Self { stop, task: tokio::spawn(task.run()) }
    }

    /// Starts nothing new and waits for the work in progress. If the caller does not wait until the
    /// end, nothing is lost: the next server does again what was not finished.
    pub(super) async fn stop(self) {
        self.stop.send_replace(true);
        if let Err(panic) = self.task.await {
            eprintln!("note: acting on changed files crashed: {panic}");
        }
    }
}

struct SupervisorTask {
    journal: Journal,
    changes: Receiver<u64>,
    roots: Roots,
    stopping: Receiver<bool>,
    /// The states of sessions without a running task.
    idle: HashMap<SessionId, WatchState>,
    tasks: JoinSet<WatchEnd>,
    running: HashMap<Id, SessionId>,
    /// Sessions whose task failed. They are not tried again by this process.
    failed: HashSet<SessionId>,
}

impl SupervisorTask {
    async fn run(mut self) {
        if let Err(error) = self.load_states().await {
            eprintln!("note: cannot act on changed files: {error}");
            return;
        }
        while !*self.stopping.borrow() {
            self.changes.mark_unchanged();
            let checked = self.check_sessions().await;
            if let Err(journal::Error::Closed) = checked {
                return;
            }
            if let Err(error) = &checked {
                eprintln!("note: could not check the sessions for changed files: {error}");
            }
            let next_check = Instant::now() + MIN_INTERVAL;
            let Self { tasks, stopping, changes, .. } = &mut self;
            let wake = async {
                sleep_until(next_check).await;
                // A failed check is repeated even if nothing has changed.
                if checked.is_ok() {
                    // This cannot fail: the journal, which holds the sender, is open.
                    let _ = changes.changed().await;
                }
            };
            tokio::select! {
                Some(end) = tasks.join_next_with_id() => self.task_ended(end),
                _ = stopping.changed() => {}
                () = wake => {}
            }
        }
        while self.tasks.join_next().await.is_some() {}
    }

    async fn load_states(&mut self) -> Result<(), journal::Error> {
        for (key, value) in self.journal.read_state(WATCH_STATE).await? {
            if let (Ok(id), Ok(state)) = (key.parse(), serde_json::from_slice(&value)) {
                self.idle.insert(SessionId(id), state);
            }
        }
        Ok(())
    }

    /// Starts a task for every configured session with new entries.
    async fn check_sessions(&mut self) -> Result<(), journal::Error> {
        let records = self.journal.sessions().await?;
        self.remove_deleted(&records).await?;
        for record in &records {
            let SessionRecord { id, last, .. } = record;
            if self.failed.contains(id) || self.running.values().any(|it| it == id) {
                continue;
            }
            let state = self.idle.get(id);
            let configured = state.is_some_and(|it| it.config.is_some()) || has_config(record);
            let same = |it: &WatchState| it.created == record.created;
            if configured && state.is_none_or(|it| !same(it) || it.after < last.0) {
                let state = self.idle.remove(id).filter(same);
                let new = || WatchState { created: record.created, ..WatchState::default() };
                self.start_task(record, state.unwrap_or_else(new));
            }
        }
        Ok(())
    }

    fn start_task(&mut self, record: &SessionRecord, state: WatchState) {
        let watch = SessionWatch::new(
            self.journal.clone(),
            self.roots.clone(),
            record,
            state,
            self.stopping.clone(),
        );
        let task = self.tasks.spawn(watch.run());
        self.running.insert(task.id(), record.id);
    }

    fn task_ended(&mut self, end: Result<(Id, WatchEnd), tokio::task::JoinError>) {
        let (task, end) = match end {
            Ok((task, end)) => (task, Some(end)),
            Err(panic) => (panic.id(), None),
        };
        let Some(session) = self.running.remove(&task) else { return };
        match end {
            Some(WatchEnd::Idle(state)) => drop(self.idle.insert(session, *state)),
            Some(WatchEnd::SessionDeleted) => {}
            Some(WatchEnd::Failed(error)) => self.task_failed(session, &error.to_string()),
            None => self.task_failed(session, "the task crashed"),
        }
    }

    fn task_failed(&mut self, session: SessionId, reason: &str) {
        let id = crate::sessions::short_id(session);
        eprintln!("note: session {id}: no longer acting on changed files: {reason}");
        self.failed.insert(session);
    }

    /// Removes the states of sessions that were deleted while they had no task.
    async fn remove_deleted(&mut self, records: &[SessionRecord]) -> Result<(), journal::Error> {
        let existing: HashSet<SessionId> = records.iter().map(|it| it.id).collect();
        let deleted: Vec<SessionId> =
            self.idle.keys().filter(|id| !existing.contains(id)).copied().collect();
        if !deleted.is_empty() {
            let remove = |id: &SessionId| StateChange { key: id.to_string(), value: None };
            self.journal.write_state(WATCH_STATE, deleted.iter().map(remove).collect()).await?;
            self.idle.retain(|id, _| existing.contains(id));
        }
        Ok(())
    }
}

/// Whether a session has a watch configuration. The text is searched first, because most sessions have
/// none and parsing their options on every check would be a waste.
fn has_config(record: &SessionRecord) -> bool {
    record.options.contains("\"watch\"")
        && serde_json::from_str::<session::SessionOptions>(&record.options)
            .is_ok_and(|options| options.watch.is_some())
}
