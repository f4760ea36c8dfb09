//! What followers of a session are woken by, and what they are usually fed from.
//!
//! Per session that is followed: a pulse, and the last entries in memory, bounded by bytes. There
//! is no queue per follower. A follower that lags behind the tail reads the file from its cursor: a
//! slow phone costs disk reads, never the session's memory, and the writer waits for nobody.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::entry::Entry;
use crate::id::{Seq, SessionId};

/// How many bytes of a session's last entries are kept.
const TAIL_BYTES: usize = 256 << 10;

/// What an entry costs beside its bytes.
const ENTRY_COST: usize = 64;

/// The feeds of all sessions that are followed.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    followed: Mutex<Followed>,
}

#[derive(Debug, Default)]
struct Followed {
    feeds: HashMap<SessionId, (Arc<Feed>, usize)>,
    closed: bool,
}

/// One session's pulse and tail.
#[derive(Debug)]
pub(crate) struct Feed {
    pulse: watch::Sender<Pulse>,
    tail: Mutex<Tail>,
}

/// What a follower is woken by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pulse {
    /// The last entry that was written while somebody followed.
    pub(crate) last: Seq,
    /// How often another process has changed the file.
    pub(crate) strangers: u64,
    /// The session is deleted or the journal closed.
    pub(crate) gone: bool,
}

#[derive(Debug, Default)]
struct Tail {
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl Feeds {
    /// Begins to follow. Every call is matched by one of [`leave`](Self::leave).
    pub(crate) fn join(&self, session: SessionId) -> Arc<Feed> {
        let mut followed = locked(&self.followed);
        let gone = followed.closed;
        let (feed, followers) = followed.feeds.entry(session).or_insert_with(|| {
            let pulse = watch::Sender::new(Pulse { gone, ..Pulse::default() });
            (Arc::new(Feed { pulse, tail: Mutex::default() }), 0)
        });
        *followers += 1;
        Arc::clone(feed)
    }

    /// Ends to follow; with the last follower the tail goes.
    pub(crate) fn leave(&self, session: SessionId, feed: &Arc<Feed>) {
        let mut followed = locked(&self.followed);
        // A session may have been deleted, and one of the same name be followed since.
        if let Some((known, followers)) = followed.feeds.get_mut(&session)
            && Arc::ptr_eq(known, feed)
        {
            *followers -= 1;
            if *followers == 0 {
                followed.feeds.remove(&session);
            }
        }
    }

    /// Tells of entries that are committed.
    pub(crate) fn publish(&self, session: SessionId, entries: Vec<Entry>) {
        let Some(last) = entries.last().map(|entry| entry.seq) else { return };
        let feed = locked(&self.followed).feeds.get(&session).map(|(feed, _)| Arc::clone(feed));
        if let Some(feed) = feed {
            locked(&feed.tail).extend(entries);
            feed.pulse.send_modify(|pulse| pulse.last = last);
        }
    }

    /// Tells that another process has changed the file.
    pub(crate) fn strangers_wrote(&self) {
        for (feed, _) in locked(&self.followed).feeds.values() {
            feed.pulse.send_modify(|pulse| pulse.strangers += 1);
        }
    }

    /// Tells that a session is deleted.
    pub(crate) fn delete(&self, session: SessionId) {
        if let Some((feed, _)) = locked(&self.followed).feeds.remove(&session) {
            feed.pulse.send_modify(|pulse| pulse.gone = true);
        }
    }

    /// Tells that the journal is closed.
    pub(crate) fn close(&self) {
        let mut followed = locked(&self.followed);
        followed.closed = true;
        for (feed, _) in followed.feeds.values() {
            feed.pulse.send_modify(|pulse| pulse.gone = true);
        }
    }

    #[cfg(test)]
    pub(crate) fn sessions(&self) -> usize {
        locked(&self.followed).feeds.len()
    }
}

impl Feed {
    pub(crate) fn pulse(&self) -> watch::Receiver<Pulse> {
        self.pulse.subscribe()
    }

    /// At most so many entries after one; nothing where the tail does not reach back to it.
    pub(crate) fn after(&self, seq: Seq, most: usize) -> Option<Vec<Entry>> {
        let tail = locked(&self.tail);
        let first = tail.entries.front()?.seq;
        if first > seq.next() {
            return None;
        }
        // Entries of a tail have consecutive numbers.
        let known = usize::try_from(seq.next().0 - first.0).unwrap_or(usize::MAX);
        Some(tail.entries.iter().skip(known).take(most).cloned().collect())
    }
}

impl Tail {
    fn extend(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            // Another process wrote in between.
            if self.entries.back().is_some_and(|last| last.seq.next() != entry.seq) {
                self.entries.clear();
                self.bytes = 0;
            }
            self.bytes += entry.bytes.len() + ENTRY_COST;
            self.entries.push_back(entry);
            while self.bytes > TAIL_BYTES
                && let Some(oldest) = self.entries.pop_front()
            {
                self.bytes -= oldest.bytes.len() + ENTRY_COST;
            }
        }
    }
}

/// A lock that a panicking thread leaves usable: every section here leaves the data whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
