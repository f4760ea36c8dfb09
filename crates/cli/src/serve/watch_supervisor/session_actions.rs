//! The actions for one watch configuration of a session.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use ::watch::{Actions, EventQueue, LogLine, RecordWatcher, StreamEvent};
use tokio::sync::watch::{Receiver, channel};
use tokio::task::JoinSet;

use super::session_log::SessionLog;
use super::setup::{WatchSetup, WatchedSession};

/// The actions for one configuration. Dropping them cancels them.
pub(super) struct SessionActions {
    pub(super) watcher: RecordWatcher,
    queue: Arc<EventQueue>,
    checkpoint: Receiver<u64>,
    task: JoinSet<()>,
}

impl SessionActions {
    /// Starts the actions. They act on events after the replay.
    pub(super) async fn start(session: WatchedSession, since: u64, log: &SessionLog) -> Self {
        let since = UNIX_EPOCH.checked_add(Duration::from_millis(since));
        let setup = tokio::task::spawn_blocking(move || WatchSetup::new(session, since));
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
