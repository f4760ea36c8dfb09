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

mod hook_runner;
mod session_actions;
mod session_log;
mod session_watch;
mod setup;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use anstream::eprintln;
use gateway::Roots;
use gateway::watch_state::{WATCH_STATE, WatchState};
use journal::{Journal, SessionId, SessionRecord, StateChange};
use serde::{Deserialize, Serialize};
use session::{HookRequest, Sessions};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::task::{Id, JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use wire::note::{WatchChoice, WatchConfig};

use crate::clock::now;
use session_log::{SessionLogs, removal};
use session_watch::{SessionWatch, WatchEnd};

/// The minimum time between two checks of all sessions. A busy session commits many times a second.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The key of the [`DefaultRecord`] in the watcher's state.
const DEFAULT_KEY: &str = "default";

/// That the server has a default configuration. As long as it is stored, sessions that inherit it are
/// watched from their first entry on, even if this process was killed before it stored their state.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct DefaultRecord {
    /// Since when there has been a default, in milliseconds since 1970. Earlier sessions are watched
    /// from the entry on that was their last at that time: what was done before is the user's.
    since: u64,
}

/// What all tasks of the supervisor use.
#[derive(Clone)]
struct WatchContext {
    journal: Journal,
    roots: Roots,
    /// The configuration of sessions that have none of their own.
    default: Option<Arc<WatchConfig>>,
    logs: Arc<SessionLogs>,
}

/// Acts on changes until it is stopped.
#[derive(Debug)]
pub(crate) struct WatchSupervisor {
    stop: Sender<bool>,
    task: JoinHandle<()>,
}

impl WatchSupervisor {
    pub(crate) fn start(
        sessions: Sessions,
        hooks: UnboundedReceiver<HookRequest>,
        roots: Roots,
    ) -> Self {
        let (stop, stopping) = channel(false);
        let task = supervise(sessions, hooks, roots, stopping);
        Self { stop, task: tokio::spawn(task) }
    }

    /// Starts nothing new and waits for the work in progress. If the caller does not wait until the
    /// end, nothing is lost: the next server does again what was not finished.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        if let Err(panic) = self.task.await {
            eprintln!("note: acting on changed files crashed: {panic}");
        }
    }
}

async fn supervise(
    sessions: Sessions,
    hooks: UnboundedReceiver<HookRequest>,
    roots: Roots,
    stopping: Receiver<bool>,
) {
    let journal = sessions.journal().clone();
    let stored = match journal.read_state(WATCH_STATE).await {
        Ok(stored) => stored,
        Err(error) => {
            eprintln!("note: cannot act on changed files: {error}");
            Vec::new()
        }
    };
    let logs = Arc::new(SessionLogs::restore(&stored));
    let default = sessions.config().watch.default.clone();
    // Hooks run even if nothing else does: agents wait for them.
    tokio::spawn(hook_runner::run(hooks, sessions, Arc::clone(&logs), stopping.clone()));
    let task = SupervisorTask {
        changes: journal.changes(),
        context: WatchContext { journal, roots, default, logs },
        default_since: u64::MAX,
        stopping,
        idle: HashMap::new(),
        tasks: JoinSet::new(),
        running: HashMap::new(),
        failed: HashSet::new(),
    };
    task.run(&stored).await;
}

struct SupervisorTask {
    context: WatchContext,
    changes: Receiver<u64>,
    /// Since when there has been a default.
    default_since: u64,
    stopping: Receiver<bool>,
    /// The states of sessions without a running task.
    idle: HashMap<SessionId, WatchState>,
    tasks: JoinSet<WatchEnd>,
    running: HashMap<Id, SessionId>,
    /// Sessions whose task failed. They are not tried again by this process.
    failed: HashSet<SessionId>,
}

impl SupervisorTask {
    async fn run(mut self, stored: &[(String, Vec<u8>)]) {
        if let Err(error) = self.load_states(stored).await {
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

    async fn load_states(&mut self, stored: &[(String, Vec<u8>)]) -> Result<(), journal::Error> {
        let mut default_record: Option<DefaultRecord> = None;
        for (key, value) in stored {
            if let (Ok(id), Ok(state)) = (key.parse(), serde_json::from_slice(value)) {
                self.idle.insert(SessionId(id), state);
            } else if key == DEFAULT_KEY {
                default_record = serde_json::from_slice(value).ok();
            }
        }
        match (&self.context.default, default_record) {
            (Some(_), Some(record)) => self.default_since = record.since,
            (Some(_), None) => self.start_default().await?,
            (None, Some(_)) => {
                let remove = StateChange { key: DEFAULT_KEY.to_owned(), value: None };
                self.context.journal.write_state(WATCH_STATE, vec![remove]).await?;
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// There is a default from now on: what is in the journal already is not acted on.
    async fn start_default(&mut self) -> Result<(), journal::Error> {
        self.default_since = now();
        let record = DefaultRecord { since: self.default_since };
        let mut changes = vec![state_change(DEFAULT_KEY, &record)];
        for record in self.context.journal.sessions().await? {
            let own = self.idle.get(&record.id).filter(|it| it.created == record.created);
            let inherits = own.is_none_or(|it| it.config.is_inherit());
            if inherits && choice_of(&record).is_inherit() {
                let state = state_from_now_on(&record, self.default_since);
                changes.push(state_change(&record.id.to_string(), &state));
                self.idle.insert(record.id, state);
            }
        }
        self.context.journal.write_state(WATCH_STATE, changes).await
    }

    /// Starts a task for every configured session with new entries.
    async fn check_sessions(&mut self) -> Result<(), journal::Error> {
        let records = self.context.journal.sessions().await?;
        self.remove_deleted(&records).await?;
        for record in &records {
            let SessionRecord { id, last, .. } = record;
            if self.failed.contains(id) || self.running.values().any(|it| it == id) {
                continue;
            }
            let default = self.context.default.as_deref();
            let state = self.idle.get(id).filter(|it| it.created == record.created);
            let configured = state.is_some_and(|it| it.config.resolve(default).is_some())
                || choice_of(record).resolve(default).is_some();
            if configured && state.is_none_or(|it| it.after < last.0) {
                let state = state.cloned().unwrap_or_else(|| self.new_state(record));
                self.idle.remove(id);
                self.start_task(record, state);
            }
        }
        Ok(())
    }

    /// The state of a session that nothing is known of.
    fn new_state(&self, record: &SessionRecord) -> WatchState {
        let (choice, created) = (choice_of(record), record.created);
        let is_old = created < self.default_since;
        if choice.is_inherit() && is_old {
            return state_from_now_on(record, now());
        }
        // Its journal says from which entry on it has a configuration of its own.
        let config = if is_old { WatchChoice::Off } else { WatchChoice::Inherit };
        WatchState { created, config, since: created, ..WatchState::default() }
    }

    fn start_task(&mut self, record: &SessionRecord, state: WatchState) {
        let (context, stopping) = (self.context.clone(), self.stopping.clone());
        let watch = SessionWatch::new(context, record, state, stopping);
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
            let changes = deleted.iter().copied().flat_map(removal).collect();
            self.context.journal.write_state(WATCH_STATE, changes).await?;
            for id in &deleted {
                self.context.logs.remove(*id);
            }
            self.idle.retain(|id, _| existing.contains(id));
        }
        Ok(())
    }
}

/// What a session says about its watch configuration. The text is searched first, because most sessions
/// say nothing and parsing their options on every check would be a waste.
fn choice_of(record: &SessionRecord) -> WatchChoice {
    if !record.options.contains("\"watch\"") {
        return WatchChoice::Inherit;
    }
    // Unreadable options may be the ones that switch it off.
    let options = serde_json::from_str::<session::SessionOptions>(&record.options);
    options.map_or(WatchChoice::Off, |options| options.watch)
}

/// The state of a session whose entries so far are not acted on.
fn state_from_now_on(record: &SessionRecord, since: u64) -> WatchState {
    WatchState { created: record.created, after: record.last.0, since, ..WatchState::default() }
}

fn state_change(key: &str, value: &impl Serialize) -> StateChange {
    // Numbers and texts serialise.
    let value = serde_json::to_vec(value).unwrap_or_default();
    StateChange { key: key.to_owned(), value: Some(value) }
}
