//! The memory of all live sessions together.
//!
//! A document is bounded by itself, but a client may open any number of them. Above the budget, what
//! can be made again goes first: sessions that no client has open any more, then caches and the old
//! and long parts of the largest documents. What is still there then is needed, so no further session
//! is opened until some are closed.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{LiveSession, LiveSessions};

/// What a document is shrunk to.
const SHRUNK_BYTES: usize = 64 << 10;

/// A document is shrunk only if it takes more than this, and more than this was added since it was
/// last shrunk: what remained then cannot be dropped, such as the beginnings of the newest items.
const WORTH_SHRINKING: usize = 2 * SHRUNK_BYTES;

/// What this module has to know about the cache beside a document.
pub(crate) struct CacheMemory<C> {
    /// How much memory it takes.
    pub(crate) bytes: fn(&C) -> usize,
    /// Removes what can be made again.
    pub(crate) clear: fn(&mut C),
}

/// The memory of all live sessions.
#[derive(Debug)]
pub(super) struct LiveMemory<C> {
    cache: CacheMemory<C>,
    budget: usize,
    used: Arc<AtomicUsize>,
}

/// The memory of one of them.
#[derive(Debug)]
pub(super) struct MemoryShare {
    bytes: AtomicUsize,
    /// What remained when it was last shrunk.
    remainder: AtomicUsize,
    used: Arc<AtomicUsize>,
}

impl<C> LiveMemory<C> {
    pub(super) fn new(cache: CacheMemory<C>, budget: usize) -> Self {
        Self { cache, budget, used: Arc::default() }
    }

    pub(super) fn share(&self) -> MemoryShare {
        let (bytes, remainder) = (AtomicUsize::new(0), AtomicUsize::new(0));
        MemoryShare { bytes, remainder, used: Arc::clone(&self.used) }
    }

    fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl MemoryShare {
    fn set(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.used.fetch_sub(before, Ordering::Relaxed);
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn is_worth_shrinking(&self) -> bool {
        self.bytes() > WORTH_SHRINKING + self.remainder.load(Ordering::Relaxed)
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl<C: Default + Send + 'static> LiveSessions<C> {
    /// Counts the memory of a session again after its document or cache has changed.
    pub(super) fn account(&self, live: &LiveSession<C>) {
        self.measure(live);
        self.make_room();
    }

    /// Frees memory if all sessions together take too much. Returns whether there is some for
    /// another session.
    pub(super) fn make_room(&self) -> bool {
        let memory = &self.0.memory;
        if memory.used() < memory.budget {
            return true;
        }
        // Some more, so that this is not done again for the next line.
        let enough = memory.budget - memory.budget / 8;
        let mut large = Vec::new();
        self.open().retain(|_, live| {
            let is_open = live.state.receiver_count() > 0;
            if !is_open {
                live.evicted.notify_one();
                live.share.set(0);
            } else if live.share.is_worth_shrinking() {
                large.push(Arc::clone(live));
            }
            is_open
        });
        large.sort_by_key(|live| Reverse(live.share.bytes()));
        for live in large {
            if memory.used() < enough {
                break;
            }
            let mut document = live.document();
            document.rendered = None;
            (memory.cache.clear)(&mut document.cache);
            document.fold.shrink(SHRUNK_BYTES);
            drop(document);
            self.measure(&live);
            live.share.remainder.store(live.share.bytes(), Ordering::Relaxed);
        }
        memory.used() < memory.budget
    }

    /// How much memory all of them take.
    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.0.memory.used()
    }

    fn measure(&self, live: &LiveSession<C>) {
        let document = live.document();
        let rendered = document.rendered.as_ref().map_or(0, Vec::len);
        let cache = (self.0.memory.cache.bytes)(&document.cache);
        live.share.set(document.fold.memory() + rendered + cache);
    }
}

impl<C> fmt::Debug for CacheMemory<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheMemory").finish_non_exhaustive()
    }
}
