//! Mirroring: the logs of sessions are replayed into a journal of this machine.
//!
//! The bus reports messages as they are stored. Whenever one is missing, the log is read from where the
//! mirror ends. How far each log is mirrored is stored in the transaction that replays it, so the mirror can
//! be stopped at any time. It can also be removed: it is read again from the logs then.

mod cursor;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use journal::{ChangeFormatError, Journal, JournalChange, SessionId, StateChange};
use thiserror::Error;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, warn};

pub use self::cursor::{MessageSource, MirrorCursor, MirrorStep};
use crate::bus::{Bus, BusError, LogMessage};
use crate::pack::{Pack, PackError};

/// The follower state with the cursors.
const FOLLOWER: &str = "fleet-mirror";

/// How many logs are read at the same time.
const CONCURRENT_LOGS: usize = 8;

/// The pauses until a lost connection is tried again: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// How often all logs are compared with the mirror: a message that was dropped on the way is noticed by the
/// next one of its log, which may come late.
const COMPARISON: Duration = Duration::from_mins(1);

/// When they are compared first: the servers may not report everything before they have told each other
/// about the new follower.
const FIRST_COMPARISON: Duration = Duration::from_secs(3);

/// A journal with the sessions of all workers. Clones are the same mirror.
#[derive(Clone, Debug)]
pub struct Mirror {
    shared: Arc<SharedMirror>,
}

#[derive(Debug)]
struct SharedMirror {
    bus: Arc<dyn Bus>,
    journal: Journal,
    logs: Mutex<HashMap<SessionId, MirroredLog>>,
    /// Counts the changes of `logs`.
    progress: watch::Sender<u64>,
    /// Whether everything that was in the logs at the start is mirrored.
    complete: watch::Sender<bool>,
    /// Since when the logs are not followed; none while they are.
    behind: watch::Sender<Option<BehindSince>>,
}

/// When a mirror stopped to follow the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BehindSince {
    pub instant: Instant,
    /// The same for people.
    pub time: SystemTime,
}

/// What is known about a log.
#[derive(Clone, Debug, Default)]
struct MirroredLog {
    cursor: MirrorCursor,
    /// Why it is not mirrored any further.
    problem: Option<String>,
    /// Only one task at a time reads it.
    reading: Arc<tokio::sync::Mutex<()>>,
}

/// Why a log could not be mirrored.
#[derive(Debug, Error)]
pub enum MirrorError {
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error(transparent)]
    Journal(#[from] journal::Error),
    #[error("a message cannot be read: {0}")]
    Pack(#[from] PackError),
    #[error("a change cannot be read: {0}")]
    Change(#[from] ChangeFormatError),
}

impl BehindSince {
    fn now() -> Self {
        Self { instant: Instant::now(), time: SystemTime::now() }
    }
}

impl Mirror {
    /// A mirror in a journal that nothing else writes sessions to.
    pub async fn open(bus: Arc<dyn Bus>, journal: Journal) -> Result<Self, journal::Error> {
        let mut logs = HashMap::new();
        for (key, value) in journal.read_state(FOLLOWER).await? {
            // What cannot be read is mirrored from the beginning.
            let cursor = serde_json::from_slice(&value);
            if let (Ok(session), Ok(cursor)) = (key.parse::<SessionId>(), cursor) {
                logs.insert(session, MirroredLog { cursor, ..MirroredLog::default() });
            }
        }
        let shared = SharedMirror {
            bus,
            journal,
            logs: Mutex::new(logs),
            progress: watch::Sender::new(0),
            complete: watch::Sender::new(false),
            behind: watch::Sender::new(Some(BehindSince::now())),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// Mirrors until it is dropped, also after the connection was lost.
    pub async fn run(self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let reconnected = self.shared.bus.reconnected();
            let followed = self.follow().await;
            self.shared.behind.send_if_modified(|behind| {
                let was_followed = behind.is_none();
                behind.get_or_insert_with(BehindSince::now);
                was_followed
            });
            match followed {
                Ok(()) => pause = FIRST_PAUSE,
                Err(MirrorError::Journal(journal::Error::Closed)) => return,
                Err(error) => {
                    debug!(%error, "the logs cannot be followed; trying again");
                    pause = (pause * 2).min(LAST_PAUSE);
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = reconnected => pause = FIRST_PAUSE,
            }
        }
    }

    /// How far a log is mirrored.
    pub fn cursor(&self, session: SessionId) -> Option<MirrorCursor> {
        self.logs().get(&session).map(|log| log.cursor.clone())
    }

    /// Why a session is not mirrored any further, for a person.
    pub fn problem(&self, session: SessionId) -> Option<String> {
        self.logs().get(&session).and_then(|log| log.problem.clone())
    }

    /// How many sessions are not mirrored any further.
    pub fn problems(&self) -> usize {
        self.logs().values().filter(|log| log.problem.is_some()).count()
    }

    /// Since when the logs are not followed, as at the start and while there is no connection; none while they
    /// are.
    pub fn behind(&self) -> watch::Receiver<Option<BehindSince>> {
        self.shared.behind.subscribe()
    }

    /// Changes with every message.
    pub fn progress(&self) -> watch::Receiver<u64> {
        self.shared.progress.subscribe()
    }

    /// Waits until everything that was in the logs at the start is mirrored.
    pub async fn complete(&self) {
        // The sender is in `self`.
        let _ = self.shared.complete.subscribe().wait_for(|complete| *complete).await;
    }

    /// Mirrors what is stored, then what is reported, until the connection is lost.
    async fn follow(&self) -> Result<(), MirrorError> {
        // Before the logs are read, so that nothing is missed in between.
        let mut messages = self.shared.bus.follow().await?;
        // Dropped, and with them what they read, at the end.
        let mut retries = JoinSet::new();
        self.compare(&mut retries).await?;
        self.shared.complete.send_replace(true);
        self.shared.behind.send_replace(None);
        let first = Instant::now() + FIRST_COMPARISON;
        let mut comparison = tokio::time::interval_at(first, COMPARISON);
        loop {
            tokio::select! {
                message = messages.recv() => match message {
                    Some(message) => self.receive(message).await?,
                    None => return Ok(()),
                },
                _ = comparison.tick() => self.compare(&mut retries).await?,
                Some(read) = retries.join_next() => read.unwrap_or(Ok(()))?,
            }
        }
    }

    /// Reads all logs that are longer than what is mirrored of them. Those that could not be mirrored before
    /// are read in `retries`, because that may take long, and the others go on meanwhile.
    async fn compare(
        &self,
        retries: &mut JoinSet<Result<(), MirrorError>>,
    ) -> Result<(), MirrorError> {
        let permits = Arc::new(Semaphore::new(CONCURRENT_LOGS));
        let mut readings = JoinSet::new();
        let is_retrying = !retries.is_empty();
        for (session, last) in self.shared.bus.logs().await? {
            if self.cursor(session).unwrap_or_default().position() < last {
                let (this, permits) = (self.clone(), Arc::clone(&permits));
                let has_problem = self.problem(session).is_some();
                if has_problem && is_retrying {
                    continue;
                }
                let readings = if has_problem { &mut *retries } else { &mut readings };
                readings.spawn(async move {
                    let _permit = permits.acquire_owned().await;
                    this.catch_up_or_report(session).await
                });
            }
        }
        while let Some(read) = readings.join_next().await {
            read.unwrap_or(Ok(()))?;
        }
        Ok(())
    }

    /// Handles a message that the bus reports.
    async fn receive(&self, message: LogMessage) -> Result<(), MirrorError> {
        let session = message.session;
        if self.problem(session).is_some() {
            // It is tried again with the next comparison.
            return Ok(());
        }
        match self.take(&message, MessageSource::Follow).await {
            Ok(true) => Ok(()),
            Ok(false)
            | Err(
                MirrorError::Pack(_)
                | MirrorError::Change(_)
                | MirrorError::Bus(BusError::Damaged(_))
                | MirrorError::Journal(journal::Error::OutOfOrder { .. }),
            ) => self.catch_up_or_report(session).await,
            Err(error) => Err(error),
        }
    }

    /// Reads a log to its end. What is wrong with this log alone is remembered, and the others go on.
    async fn catch_up_or_report(&self, session: SessionId) -> Result<(), MirrorError> {
        let caught_up = match self.catch_up(session).await {
            Err(MirrorError::Journal(journal::Error::OutOfOrder { .. })) => {
                warn!(%session, "the mirror of a session does not fit its log; reading it again");
                self.restart(session).await?;
                self.catch_up(session).await
            }
            result => result,
        };
        match caught_up {
            Ok(()) => {
                self.update(session, |log| log.problem = None);
                Ok(())
            }
            Err(
                error @ (MirrorError::Pack(_)
                | MirrorError::Change(_)
                | MirrorError::Bus(BusError::Damaged(_))),
            ) => {
                warn!(%session, %error, "a session cannot be mirrored");
                self.update(session, |log| log.problem = Some(error.to_string()));
                Ok(())
            }
            Err(MirrorError::Journal(error @ journal::Error::OutOfOrder { .. })) => {
                warn!(%session, %error, "a session cannot be mirrored");
                self.update(session, |log| log.problem = Some(error.to_string()));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Reads a log from where its mirror ends.
    pub async fn catch_up(&self, session: SessionId) -> Result<(), MirrorError> {
        let reading = self.reading(session);
        let _reading = reading.lock().await;
        loop {
            let after = self.cursor(session).unwrap_or_default().position();
            let messages = self.shared.bus.read(session, after).await?;
            if messages.is_empty() {
                return Ok(());
            }
            for message in messages {
                self.replay(&message, MessageSource::Read).await?;
            }
        }
    }

    /// Removes what is mirrored of a session.
    pub(crate) async fn restart(&self, session: SessionId) -> Result<(), MirrorError> {
        let reading = self.reading(session);
        let _reading = reading.lock().await;
        let state = vec![StateChange { key: session.to_string(), value: None }];
        self.shared.journal.discard_replayed(session, FOLLOWER, state).await?;
        self.update(session, |log| log.cursor = MirrorCursor::default());
        Ok(())
    }

    /// Replays a message if it is the next one. False if the log must be read.
    async fn take(&self, message: &LogMessage, source: MessageSource) -> Result<bool, MirrorError> {
        let reading = self.reading(message.session);
        let _reading = reading.lock().await;
        self.replay(message, source).await
    }

    async fn replay(
        &self,
        message: &LogMessage,
        source: MessageSource,
    ) -> Result<bool, MirrorError> {
        let SharedMirror { bus, journal, .. } = &*self.shared;
        let (session, position) = (message.session, message.position);
        let cursor = self.cursor(session).unwrap_or_default();
        let pack = Pack::decode(message.payload.clone())?;
        let next = match cursor.on(position, &pack.header, source) {
            MirrorStep::Apply(next) => next,
            MirrorStep::Skip => return Ok(true),
            MirrorStep::ReadLog => return Ok(false),
            MirrorStep::Ignore => {
                warn!(%session, position = position.0, "a message is not of the session's owner");
                self.update(session, |log| log.cursor = cursor.behind(position));
                return Ok(true);
            }
        };
        let object = match pack.object() {
            Some(object) => bus.get_object(&object.name).await?,
            None => None,
        };
        let decode = |bytes: Bytes| JournalChange::decode(bytes);
        let changes = pack.changes(object.as_ref())?.into_iter().map(decode);
        let changes: Vec<JournalChange<'static>> = changes.collect::<Result<_, _>>()?;
        let turn_ended = changes.iter().any(JournalChange::ends_turn);
        let value = serde_json::to_vec(&next).ok();
        let state = vec![StateChange { key: session.to_string(), value }];
        let last = journal.apply(session, pack.header.first, changes, FOLLOWER, state).await?;
        self.update(session, |log| log.cursor = next);
        if turn_ended {
            // As its owner does, which says nothing about it.
            let journal = journal.clone();
            tokio::spawn(async move {
                if let Err(error) = journal.compact(session, last).await {
                    debug!(%session, %error, "a mirrored session could not be compacted");
                }
            });
        }
        Ok(true)
    }

    fn reading(&self, session: SessionId) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(&self.logs().entry(session).or_default().reading)
    }

    fn update(&self, session: SessionId, change: impl FnOnce(&mut MirroredLog)) {
        change(self.logs().entry(session).or_default());
        self.shared.progress.send_modify(|count| *count += 1);
    }

    fn logs(&self) -> MutexGuard<'_, HashMap<SessionId, MirroredLog>> {
        self.shared.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
