//! When streamed text is shipped: at once while someone looks at the session, and otherwise once in a while.
//!
//! The complete message behind it repeats streamed text, so a client that comes later misses nothing, and a message
//! in a log costs the servers about the same whatever its size. Everything else is shipped at once and takes
//! the text before it along.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use journal::{JournalChange, OutboxPage, OutboxRow, SessionId};
use tokio::sync::watch;
use tokio::time::Instant;

/// How often streamed text is shipped of sessions that no client follows. It is what a worker that dies for good takes along.
pub const UNWATCHED_INTERVAL: Duration = Duration::from_secs(1);

/// Which sessions are looked at, and what is waited for.
#[derive(Debug)]
pub(super) struct ShipPace {
    unwatched_interval: Duration,
    sessions: Mutex<HashMap<SessionId, SessionPace>>,
    /// Counts the changes that let text be shipped earlier.
    wakes: watch::Sender<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SessionPace {
    watched_until: Option<Instant>,
    /// Changes up to this number are waited for.
    wanted: u64,
    appended: Option<Instant>,
}

impl ShipPace {
    pub(super) fn new(unwatched_interval: Duration) -> Self {
        let (sessions, wakes) = (Mutex::default(), watch::Sender::new(0));
        Self { unwatched_interval, sessions, wakes }
    }

    /// Changes when [`held_until`](Self::held_until) may be earlier.
    pub(super) fn wakes(&self) -> watch::Receiver<u64> {
        self.wakes.subscribe()
    }

    /// Someone looks at a session.
    pub(super) fn watch(&self, session: SessionId, lifetime: Duration) {
        let now = Instant::now();
        let mut sessions = self.sessions();
        let until = &mut sessions.entry(session).or_default().watched_until;
        let was_watched = until.replace(now + lifetime).is_some_and(|until| until > now);
        drop(sessions);
        if !was_watched {
            self.wake();
        }
    }

    /// Something waits until the changes up to a number are shipped.
    pub(super) fn want(&self, session: SessionId, number: u64) {
        let mut sessions = self.sessions();
        let wanted = &mut sessions.entry(session).or_default().wanted;
        let is_more = number > *wanted;
        *wanted = number.max(*wanted);
        drop(sessions);
        if is_more {
            self.wake();
        }
    }

    /// Changes of a session were shipped.
    pub(super) fn appended(&self, session: SessionId) {
        self.sessions().entry(session).or_default().appended = Some(Instant::now());
    }

    pub(super) fn forget(&self, session: SessionId) {
        self.sessions().remove(&session);
        self.wake();
    }

    /// Until when a part of the outbox waits for more; none if it is shipped now.
    pub(super) fn held_until(&self, session: SessionId, outbox: &OutboxPage) -> Option<Instant> {
        let pace = self.sessions().get(&session).copied().unwrap_or_default();
        let now = Instant::now();
        let first = outbox.rows.first()?.number;
        let is_watched = pace.watched_until.is_some_and(|until| until > now);
        if is_watched || first <= pace.wanted {
            return None;
        }
        let due = pace.appended? + self.unwatched_interval;
        let waits = due > now && outbox.rows.iter().all(is_transient);
        waits.then_some(due)
    }

    fn wake(&self) {
        self.wakes.send_modify(|count| *count += 1);
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, SessionPace>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_transient(row: &OutboxRow) -> bool {
    JournalChange::decode(row.bytes.clone()).is_ok_and(|change| change.is_transient())
}
