//! Those who act for one config, and the line to them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use ::watch::{Actions, EventQueue, RecordWatcher, StreamEvent, LogLine};
use gateway::Roots;
use tokio::sync::watch::{Receiver, channel};
use tokio::task::JoinSet;
use wire::note::WatchConfig;

use super::plan::{Plan, plan};
use super::said::LogLines;

/// Those who act for one config. Dropped, they stop where they are.
pub(super) struct Work {
    pub(super) listener: RecordWatcher,
    feed: Arc<EventQueue>,
    passed: Receiver<u64>,
    acting: JoinSet<()>,
}

impl Work {
    /// Sets them up. They begin once they were told what was before.
    pub(super) async fn begin(
        config: &WatchConfig,
        directory: PathBuf,
        roots: Roots,
        since: u64,
        log: &LogLines,
    ) -> Self {
        let config = config.clone();
        let since = UNIX_EPOCH.checked_add(Duration::from_millis(since));
        let planned = tokio::task::spawn_blocking(move || plan(&config, directory, &roots, since));
        let Plan { settings, problems } = planned.await.unwrap_or_else(|_| Plan::nothing());
        for problem in problems {
            log.note(&LogLine::Trouble(problem));
        }
        let feed = Arc::new(EventQueue::default());
        let (wants, by_turn) = (settings.wants(), settings.waits_for_turn());
        let listener = RecordWatcher::new(wants, by_turn, Arc::clone(&feed));
        let (far, passed) = channel(0);
        let (heard, log) = (Arc::clone(&feed), log.clone());
        let mut acting = JoinSet::new();
        acting.spawn(async move {
            let tell = |line: &LogLine| match line {
                LogLine::Passed(place) => drop(far.send_replace(*place)),
                line => log.note(line),
            };
            Actions::recalling(settings).run(&heard, tell, std::future::pending()).await;
        });
        Self { listener, feed, passed, acting }
    }

    /// How far everything is done, once that is further than when last asked; nothing if nobody acts
    /// any more.
    pub(super) async fn passed(&mut self) -> Option<u64> {
        self.passed.changed().await.ok()?;
        Some(*self.passed.borrow_and_update())
    }

    pub(super) fn to_recall(&self) -> Vec<u64> {
        self.listener.to_recall()
    }

    /// Waits until all they were told is done, as long as they are patient.
    pub(super) async fn finish(mut self) {
        self.feed.tell(StreamEvent::EndOfStream { unfinished: Vec::new() });
        while self.acting.join_next().await.is_some() {}
    }
}
