//! The actions for one watch configuration of a session, and their log.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use ::watch::{Actions, EventQueue, LogLine, RecordWatcher, StreamEvent, Verbosity};
use anstream::eprintln;
use gateway::Roots;
use gateway::watch_state::WatchLogLine;
use journal::SessionId;
use tokio::sync::watch::{Receiver, channel};
use tokio::task::JoinSet;
use wire::note::WatchConfig;

use super::setup::WatchSetup;
use crate::clock::now;

/// How many log lines are kept.
const MAX_LINES: usize = 20;

/// The maximum length of a log line, in bytes.
const MAX_LENGTH: usize = 400;

/// The actions for one configuration. Dropping them cancels them.
pub(super) struct SessionActions {
    pub(super) watcher: RecordWatcher,
    queue: Arc<EventQueue>,
    checkpoint: Receiver<u64>,
    task: JoinSet<()>,
}

impl SessionActions {
    /// Starts the actions. They act on events after the replay.
    pub(super) async fn start(
        config: &WatchConfig,
        directory: PathBuf,
        roots: Roots,
        since: u64,
        log: &SessionLog,
    ) -> Self {
        let config = config.clone();
        let since = UNIX_EPOCH.checked_add(Duration::from_millis(since));
        let setup =
            tokio::task::spawn_blocking(move || WatchSetup::new(&config, directory, &roots, since));
        let WatchSetup { settings, problems } =
            setup.await.unwrap_or_else(|_| WatchSetup::without_actions());
        for problem in problems {
            log.add(&LogLine::Problem(problem));
        }
        let queue = Arc::new(EventQueue::default());
        let (options, acts_per_turn) = (settings.observer_options(), settings.acts_per_turn());
        let watcher = RecordWatcher::new(options, acts_per_turn, Arc::clone(&queue));
        let (sender, checkpoint) = channel(0);
        let (events, log) = (Arc::clone(&queue), log.clone());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let log = |line: &LogLine| match line {
                LogLine::Checkpoint(position) => drop(sender.send_replace(*position)),
                line => log.add(line),
            };
            Actions::replaying(settings).run(&events, log, std::future::pending()).await;
        });
        Self { watcher, queue, checkpoint, task }
    }

    /// Waits for the next checkpoint; `None` if the actions have ended.
    pub(super) async fn checkpoint(&mut self) -> Option<u64> {
        self.checkpoint.changed().await.ok()?;
        Some(*self.checkpoint.borrow_and_update())
    }

    pub(super) fn replay_positions(&self) -> Vec<u64> {
        self.watcher.replay_positions()
    }

    /// Waits until all actions are done or their time is up.
    pub(super) async fn finish(mut self) {
        self.queue.push(StreamEvent::EndOfStream { unfinished: Vec::new() });
        while self.task.join_next().await.is_some() {}
    }
}

/// The last log lines of a session, for clients. Errors are also printed. Clones share the lines.
#[derive(Clone, Debug)]
pub(super) struct SessionLog {
    session: SessionId,
    lines: Arc<Mutex<VecDeque<WatchLogLine>>>,
}

impl SessionLog {
    pub(super) fn new(session: SessionId, lines: Vec<WatchLogLine>) -> Self {
        Self { session, lines: Arc::new(Mutex::new(lines.into())) }
    }

    fn add(&self, line: &LogLine) {
        let is_progress = matches!(line, LogLine::Progress { .. });
        if is_progress || line.verbosity() > Verbosity::Normal {
            return;
        }
        let error = line.verbosity() == Verbosity::Quiet;
        let mut text = line.to_string();
        text.truncate(text.floor_char_boundary(MAX_LENGTH));
        if error {
            eprintln!("note: session {}: {text}", crate::sessions::short_id(self.session));
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(WatchLogLine { at: now(), error, text });
    }

    pub(super) fn lines(&self) -> Vec<WatchLogLine> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().cloned().collect()
    }
}
