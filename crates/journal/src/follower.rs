//! Followers of a session, and how the writer wakes them.
//!
//! Each followed session has one feed: a watch channel and its last entries in memory, bounded by
//! bytes. There is no queue per follower. A follower that lags behind the tail reads the file from
//! its cursor: a slow phone costs disk reads, never memory, and the writer waits for no one.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::connection::ReadPool;
use crate::entries::{self, ReadLimit};
use crate::error::Error;
use crate::id::{Seq, SessionId};
use crate::large::LargeEntries;
use crate::records::Entry;

/// How much a follower gets at once.
const READ_LIMIT: ReadLimit = ReadLimit { entries: 1024, bytes: 1 << 20, longest: usize::MAX };

/// How many bytes of a session's last entries stay in memory.
const TAIL_BYTES: usize = 256 << 10;

/// What an entry in the tail costs beside its bytes.
const ENTRY_COST: usize = 64;

/// What followers and the writer share. It does not keep the journal open.
#[derive(Debug)]
pub(crate) struct JournalShared {
    pub(crate) feeds: SessionFeeds,
    pub(crate) readers: Arc<ReadPool>,
    pub(crate) large: LargeEntries,
    /// Counts the commits of all processes.
    pub(crate) changes: watch::Sender<u64>,
    /// Counts the commits that may have put something into the outbox.
    pub(crate) outbox: watch::Sender<u64>,
    /// Counts those of them that may have put in more than transient changes.
    pub(crate) urgent_outbox: watch::Sender<u64>,
}

/// Reads a session from an entry on and waits for new entries.
///
/// Every entry comes once and in order. Entries that compaction removed before the follower reached
/// them do not come; their numbers are then missing.
#[derive(Debug)]
pub struct Follower {
    session: SessionId,
    cursor: Seq,
    shared: Arc<JournalShared>,
    feed: Arc<SessionFeed>,
    state: watch::Receiver<FeedState>,
    /// How many commits of other processes were noticed when the file was last read to its end.
    /// Until another one is noticed, the feed has everything that comes after.
    read_to_end: Option<u64>,
    limit: ReadLimit,
}

impl Follower {
    pub(crate) fn new(session: SessionId, after: Seq, shared: Arc<JournalShared>) -> Self {
        // Subscribed before the file is read: what is committed in between comes by the feed.
        let feed = shared.feeds.subscribe(session);
        let state = feed.state.subscribe();
        Self { session, cursor: after, shared, feed, state, read_to_end: None, limit: READ_LIMIT }
    }

    /// Gives only the beginning of entries that are longer than so many bytes. See
    /// [`Entry::omitted`].
    #[must_use]
    pub fn omit_longer_than(mut self, bytes: usize) -> Self {
        self.limit.longest = bytes;
        self
    }

    /// The next entries, at least one; waits for them.
    ///
    /// Cancel safe: entries that were not returned come again.
    pub async fn next(&mut self) -> Result<Vec<Entry>, Error> {
        loop {
            let entries = self.ready().await?;
            if !entries.is_empty() {
                return Ok(entries);
            }
            self.state.changed().await.map_err(|_| Error::Gone)?;
        }
    }

    /// The entries that are available now; none if the follower has caught up. There may be more.
    /// Their bytes are limited, except that one entry may be larger.
    pub async fn ready(&mut self) -> Result<Vec<Entry>, Error> {
        let state = *self.state.borrow_and_update();
        if state.gone {
            return Err(Error::Gone);
        }
        let tail = self.feed.after(self.cursor, self.limit);
        let entries = match tail {
            Some(entries) if !entries.is_empty() => entries,
            _ if self.has_caught_up(state) => Vec::new(),
            _ => self.read(state).await.map_err(gone)?,
        };
        if let Some(last) = entries.last() {
            self.cursor = last.seq;
        }
        Ok(entries)
    }

    /// Whether nothing can have come after the cursor, neither by the feed nor in the file.
    fn has_caught_up(&self, state: FeedState) -> bool {
        self.cursor >= state.last && self.read_to_end == Some(state.external_commits)
    }

    /// The number of the last entry that was returned.
    pub fn cursor(&self) -> Seq {
        self.cursor
    }

    async fn read(&mut self, state: FeedState) -> Result<Vec<Entry>, Error> {
        let (session, cursor, limit) = (self.session, self.cursor, self.limit);
        let JournalShared { readers, large, .. } = &*self.shared;
        let page = readers.read(move |it| entries::page(it, session, cursor, limit)).await?;
        let entries = match page.large {
            Some(head) => vec![large.read(readers, session, page.key, head).await?],
            None => page.entries,
        };
        let end = entries.last().map(|entry| entry.seq);
        if end.is_none() {
            // Compaction removed everything in between.
            self.cursor = self.cursor.max(page.last);
        }
        if end.is_none_or(|end| end >= page.last) {
            self.read_to_end = Some(state.external_commits);
        }
        Ok(entries)
    }
}

/// A follower of a deleted session or a closed journal ends.
fn gone(error: Error) -> Error {
    match error {
        Error::NoSuchSession(_) | Error::Closed => Error::Gone,
        error => error,
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.feeds.unsubscribe(self.session, &self.feed);
    }
}

/// The feeds of all followed sessions.
#[derive(Debug, Default)]
pub(crate) struct SessionFeeds {
    table: Mutex<FeedTable>,
    /// Counts the changes of which sessions are followed.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct FeedTable {
    /// Each feed with the number of its followers.
    feeds: HashMap<SessionId, (Arc<SessionFeed>, usize)>,
    closed: bool,
}

/// One session's watch channel and tail.
#[derive(Debug)]
pub(crate) struct SessionFeed {
    state: watch::Sender<FeedState>,
    tail: Mutex<EntryTail>,
}

/// What wakes a follower when it changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeedState {
    /// The last entry that this process wrote while the session was followed.
    last: Seq,
    /// How many commits of other processes were noticed.
    external_commits: u64,
    /// The session is deleted or the journal closed.
    gone: bool,
}

#[derive(Debug, Default)]
struct EntryTail {
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl SessionFeeds {
    /// Every call is matched by one of [`unsubscribe`](Self::unsubscribe).
    fn subscribe(&self, session: SessionId) -> Arc<SessionFeed> {
        let mut table = locked(&self.table);
        let gone = table.closed;
        let (feed, followers) = table.feeds.entry(session).or_insert_with(|| {
            let state = watch::Sender::new(FeedState { gone, ..FeedState::default() });
            (Arc::new(SessionFeed { state, tail: Mutex::default() }), 0)
        });
        *followers += 1;
        if *followers == 1 {
            self.changes.send_modify(|count| *count += 1);
        }
        Arc::clone(feed)
    }

    /// The tail is freed with the last follower.
    fn unsubscribe(&self, session: SessionId, feed: &Arc<SessionFeed>) {
        let mut table = locked(&self.table);
        // The session may have been deleted, and another feed opened for the same id since.
        if let Some((known, followers)) = table.feeds.get_mut(&session)
            && Arc::ptr_eq(known, feed)
        {
            *followers -= 1;
            if *followers == 0 {
                table.feeds.remove(&session);
                self.changes.send_modify(|count| *count += 1);
            }
        }
    }

    /// The sessions that have a follower.
    pub(crate) fn followed(&self) -> Vec<SessionId> {
        locked(&self.table).feeds.keys().copied().collect()
    }

    /// Changes when [`followed`](Self::followed) does.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Publishes committed entries.
    pub(crate) fn publish(&self, session: SessionId, entries: Vec<Entry>) {
        let Some(last) = entries.last().map(|entry| entry.seq) else { return };
        let feed = locked(&self.table).feeds.get(&session).map(|(feed, _)| Arc::clone(feed));
        if let Some(feed) = feed {
            locked(&feed.tail).extend(entries);
            feed.state.send_modify(|state| state.last = last);
        }
    }

    /// Wakes all followers after another process has changed the file.
    pub(crate) fn external_commit(&self) {
        for (feed, _) in locked(&self.table).feeds.values() {
            feed.state.send_modify(|state| state.external_commits += 1);
        }
    }

    /// Ends the followers of a deleted session.
    pub(crate) fn delete(&self, session: SessionId) {
        if let Some((feed, _)) = locked(&self.table).feeds.remove(&session) {
            feed.state.send_modify(|state| state.gone = true);
            self.changes.send_modify(|count| *count += 1);
        }
    }

    /// Ends all followers.
    pub(crate) fn close(&self) {
        let mut table = locked(&self.table);
        table.closed = true;
        for (feed, _) in table.feeds.values() {
            feed.state.send_modify(|state| state.gone = true);
        }
    }
}

impl SessionFeed {
    /// Entries after `seq`; `None` if the tail does not reach back that far, or if the next entry is
    /// too long for the reader.
    fn after(&self, seq: Seq, limit: ReadLimit) -> Option<Vec<Entry>> {
        let tail = locked(&self.tail);
        let first = tail.entries.front()?.seq;
        if first > seq.next() {
            return None;
        }
        // Entries of a tail have consecutive numbers.
        let known = usize::try_from(seq.next().0 - first.0).unwrap_or(usize::MAX);
        let mut next = tail.entries.iter().skip(known).take(limit.entries).peekable();
        if next.peek().is_some_and(|entry| entry.bytes.len() > limit.longest()) {
            return None;
        }
        Some(next.take_while(|entry| entry.bytes.len() <= limit.longest()).cloned().collect())
    }
}

impl EntryTail {
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

/// A lock that stays usable after a panic: every critical section leaves the data consistent.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
