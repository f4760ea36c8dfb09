//! The checkpoint task: keeps the checkpoint of every session close to the session's end.
//!
//! Live sessions only fold what a client has open. Without this task a session that ran unwatched
//! for weeks would be folded from its start when it is opened. The task waits for commits, folds
//! what has fallen behind one session at a time with pauses, and is the only writer of checkpoints.
//!
//! A checkpoint ends with an entry that survives compaction wherever possible. An entry that only
//! served streaming may be gone when the checkpoint is read, and then nothing proves that the
//! checkpoint belongs to this journal.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use journal::{
    Entry, Error, Journal, Origin, Seq, SessionId, SessionRecord, SessionStatus, SpoolPosition,
};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::{Instant, sleep};
use tracing::{debug, error};
use view::highlight::highlight;
use wire::Kind;

use super::checkpoint::{
    Checkpoint, CheckpointPosition, CheckpointStore, EntryFingerprint, Replay,
};
use super::{Prerender, push};

/// The least time between two rounds, however much is committed.
const ROUND_INTERVAL: Duration = Duration::from_secs(3);

/// Time to rest per time worked: the task uses at most a quarter of one core.
const REST_FACTOR: u32 = 3;

/// How far a session may be ahead of its checkpoint while its agent works.
const WORKING_LAG: Lag = Lag { entries: 4_000, bytes: 4 << 20 };

/// How far a session may be ahead of its checkpoint while its agent is idle.
const IDLE_LAG: Lag = Lag { entries: 500, bytes: 512 << 10 };

/// Folding a shorter session is faster than reading a checkpoint.
const SHORT_SESSION: Lag = Lag { entries: 1_000, bytes: 1 << 20 };

/// How many entries of one streamed message to wait through for its end.
pub(super) const MAX_STREAMED_ENTRIES: usize = 2_000;

/// How many bytes of it.
const MAX_STREAMED_BYTES: usize = 4 << 20;

/// A checkpoint is saved after this many entries even if there are more to fold.
const SAVE_EVERY: u64 = 50_000;

#[derive(Debug)]
pub(super) struct CheckpointTask {
    journal: Journal,
    checkpoints: Arc<CheckpointStore>,
    prerender: Prerender,
    attempts: HashMap<SessionId, CheckpointAttempt>,
}

/// How far a session is ahead of its checkpoint.
#[derive(Clone, Copy, Debug)]
struct Lag {
    entries: u64,
    bytes: u64,
}

/// The state of a session when its checkpoint was last brought up to date.
#[derive(Clone, Copy, Debug)]
struct CheckpointAttempt {
    last: Seq,
    spool: SpoolPosition,
    saved: bool,
}

/// Why a session got no checkpoint.
#[derive(Debug, thiserror::Error)]
pub(super) enum CheckpointError {
    #[error(transparent)]
    Journal(#[from] Error),
    /// Folding or rendering the session panicked.
    #[error("the session cannot be folded")]
    Panicked(#[from] JoinError),
}

impl Lag {
    fn reaches(self, limit: Self) -> bool {
        self.entries >= limit.entries || self.bytes >= limit.bytes
    }
}

impl CheckpointTask {
    pub(super) fn new(
        journal: Journal,
        checkpoints: Arc<CheckpointStore>,
        prerender: Prerender,
    ) -> Self {
        Self { journal, checkpoints, prerender, attempts: HashMap::new() }
    }

    /// Runs until the journal is closed.
    pub(super) async fn run(mut self) {
        let mut changes = self.journal.changes();
        self.checkpoints.scan().await;
        // Loading the grammars takes a while, and the first client should not wait for it.
        let _ = spawn_blocking(|| highlight("", "rust", |_, _| {})).await;
        loop {
            changes.mark_unchanged();
            match self.round().await {
                Ok(()) => {}
                Err(Error::Closed) => return,
                Err(error) => debug!(%error, "checkpoints could not be updated"),
            }
            if changes.changed().await.is_err() {
                return;
            }
            sleep(ROUND_INTERVAL).await;
        }
    }

    /// Brings all checkpoints up to date, those of the most recently active sessions first.
    pub(super) async fn round(&mut self) -> Result<(), Error> {
        'again: loop {
            let started = Instant::now();
            let records = self.journal.sessions().await?;
            self.remove_deleted(&records).await;
            for record in records {
                if !self.is_due(&record) {
                    continue;
                }
                match self.catch_up(&record).await {
                    Ok(()) | Err(CheckpointError::Journal(Error::Gone)) => {}
                    Err(CheckpointError::Journal(Error::Closed)) => return Err(Error::Closed),
                    Err(CheckpointError::Panicked(panic)) => {
                        error!(session = %record.id, %panic, "a session cannot be folded");
                    }
                    Err(error) => debug!(session = %record.id, %error, "no checkpoint was saved"),
                }
                // A session that failed is tried again when it has new entries.
                let saved = self.checkpoints.position(record.id).is_some();
                let attempt = CheckpointAttempt { last: record.last, spool: record.spool, saved };
                self.attempts.insert(record.id, attempt);
                if started.elapsed() >= ROUND_INTERVAL {
                    // Other sessions may have become active meanwhile.
                    continue 'again;
                }
            }
            return Ok(());
        }
    }

    async fn remove_deleted(&mut self, records: &[SessionRecord]) {
        let existing: HashSet<_> = records.iter().map(|it| it.id).collect();
        self.attempts.retain(|id, _| existing.contains(id));
        for id in self.checkpoints.sessions() {
            if !existing.contains(&id) {
                self.checkpoints.remove(id).await;
            }
        }
    }

    fn is_due(&self, record: &SessionRecord) -> bool {
        let whole = Lag { entries: record.last.0, bytes: record.spool.offset };
        if !whole.reaches(SHORT_SESSION) {
            return false;
        }
        let attempt = self.attempts.get(&record.id);
        let (last, spool) = match (self.checkpoints.position(record.id), attempt) {
            (Some(position), Some(attempt)) if position.last_entry.seq < attempt.last.0 => {
                (attempt.last, attempt.spool)
            }
            (Some(position), _) => (Seq(position.last_entry.seq), position.spool),
            (None, Some(CheckpointAttempt { last, spool, saved: false })) => (*last, *spool),
            // It never had a checkpoint, or the checkpoint turned out to be unusable.
            (None, _) => (Seq(0), SpoolPosition::default()),
        };
        if last > record.last {
            // The checkpoint belongs to a longer journal than this one.
            return true;
        }
        let bytes = if spool.run == record.spool.run {
            record.spool.offset.saturating_sub(spool.offset)
        } else {
            record.spool.offset
        };
        let lag = Lag { entries: record.last.0 - last.0, bytes };
        lag.reaches(match record.status {
            SessionStatus::Running | SessionStatus::Waiting => WORKING_LAG,
            SessionStatus::Idle | SessionStatus::Dead | SessionStatus::Failed => IDLE_LAG,
        })
    }

    /// Folds the entries after a session's checkpoint and saves a new one.
    pub(super) async fn catch_up(&self, record: &SessionRecord) -> Result<(), CheckpointError> {
        let session = record.id;
        let Replay { mut fold, mut rendered, position, mut entries, mut follower } =
            Replay::start(&self.journal, &self.checkpoints, session).await?;
        let mut saved = position.map_or(0, |it| it.last_entry.seq);
        let mut last = None;
        loop {
            let started = Instant::now();
            let more = follower.ready().await?;
            let at_end = more.is_empty();
            entries.extend(more);
            let lasting = entries.iter().rposition(survives_compaction).map(|at| at + 1);
            let bytes: usize = entries.iter().map(|it| it.bytes.len()).sum();
            let overdue = entries.len() >= MAX_STREAMED_ENTRIES || bytes >= MAX_STREAMED_BYTES;
            let overdue = overdue.then_some(entries.len());
            if let Some(ready) = lasting.or(overdue) {
                let now: Vec<Entry> = entries.drain(..ready).collect();
                last = now.last().map(EntryFingerprint::of).or(last);
                let folded = spawn_blocking(move || {
                    for entry in &now {
                        push(&mut fold, entry);
                    }
                    fold
                });
                fold = folded.await?;
            }
            if let Some(last_entry) = last
                && (at_end || last_entry.seq >= saved + SAVE_EVERY)
            {
                let position = CheckpointPosition { last_entry, spool: record.spool };
                let prerender = self.prerender;
                let made = spawn_blocking(move || {
                    let rendered = prerender(&fold, rendered.as_deref());
                    Checkpoint { fold, rendered, position }
                });
                let checkpoint = made.await?;
                let Some(checkpoint) = self.checkpoints.save(session, checkpoint).await else {
                    return Ok(());
                };
                (fold, rendered) = (checkpoint.fold, Some(checkpoint.rendered));
                (saved, last) = (last_entry.seq, None);
            }
            if at_end {
                break;
            }
            sleep(started.elapsed() * REST_FACTOR).await;
        }
        // A session that was deleted meanwhile must not leave a checkpoint.
        if self.journal.session(session).await?.is_none() {
            self.checkpoints.remove(session).await;
        }
        Ok(())
    }
}

fn survives_compaction(entry: &Entry) -> bool {
    entry.origin == Origin::Towpath
        || Kind::find(&entry.bytes).is_none_or(|kind| kind.name != "stream_event")
}
