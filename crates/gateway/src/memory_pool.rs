//! The memory that large bodies, frames and lines are received, made and sent in, shared by all
//! clients.
//!
//! A response that needs more than a little first takes a [lease](MemoryPool::lease) of the bytes, and waits
//! in turn if there are not enough. A client that does not read would keep its bytes for ever, so
//! they are taken away when another one waits. Its stream then reads them again, or ends.
//!
//! A request's body does not wait, because all that wait could have all of the memory together:
//! it is refused, and so is one that arrives too slowly while another one needs memory.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio::time::{Instant, sleep};

use crate::limits::{MAX_RECEIVED_BYTES, STALLED_AFTER};

/// The memory of all large bodies. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct MemoryPool(Arc<PoolShared>);

#[derive(Debug)]
struct PoolShared {
    size: usize,
    state: Mutex<PoolState>,
    /// The response that waits for memory holds it, so that each has its turn.
    turn: AsyncMutex<()>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct PoolState {
    used: usize,
    /// How much of that is for bodies of requests.
    received: usize,
    leases: Vec<Arc<LeaseSlot>>,
}

struct LeaseSlot {
    bytes: usize,
    /// It is for the body of a request.
    is_request: bool,
    state: Mutex<LeaseState>,
    revoked: Arc<Notify>,
}

enum LeaseState {
    /// In use by the server, which will be done soon.
    Working,
    /// A client is being sent the content.
    Sending {
        content: Box<dyn Any + Send>,
        /// When the client last took something.
        since: Instant,
    },
    /// A client is sending a body, and its last step forward was then.
    Receiving {
        since: Instant,
    },
    Revoked,
}

/// A part of the pool, free again when this is dropped.
#[derive(Debug)]
pub(crate) struct MemoryLease {
    pool: MemoryPool,
    slot: Arc<LeaseSlot>,
}

/// Content in leased memory that a client is being sent. It is gone if the lease is revoked.
#[derive(Debug)]
pub(crate) struct Leased<T> {
    lease: MemoryLease,
    content: PhantomData<fn() -> T>,
}

impl MemoryPool {
    pub(crate) fn new(size: usize) -> Self {
        let (state, turn, freed) = (Mutex::default(), AsyncMutex::default(), Notify::new());
        Self(Arc::new(PoolShared { size, state, turn, freed }))
    }

    /// Takes some bytes of the pool, and waits until there are enough. More than the pool has means
    /// all of it.
    pub(crate) async fn lease(&self, bytes: usize) -> MemoryLease {
        let bytes = bytes.min(self.0.size);
        if let Ok(_turn) = self.0.turn.try_lock()
            && let Some(lease) = self.try_lease(bytes)
        {
            return lease;
        }
        let _turn = self.0.turn.lock().await;
        loop {
            let mut freed = std::pin::pin!(self.0.freed.notified());
            freed.as_mut().enable();
            if let Some(lease) = self.try_lease(bytes) {
                return lease;
            }
            tokio::select! {
                () = freed => {}
                // A client may have stalled for long enough by then.
                () = sleep(STALLED_AFTER / 4) => {}
            }
        }
    }

    /// Takes some bytes if there are enough at once.
    pub(crate) fn try_lease(&self, bytes: usize) -> Option<MemoryLease> {
        let mut state = self.state();
        if state.used + bytes > self.0.size {
            let wanted = state.used + bytes - self.0.size;
            state.revoke_stalled(wanted);
        }
        if state.used + bytes > self.0.size {
            return None;
        }
        Some(self.add_lease(&mut state, bytes, LeaseState::Working, Arc::default()))
    }

    /// Takes some bytes for more of a request's body, if there are enough at once. `revoked` is
    /// notified if they are taken away.
    pub(crate) fn try_receive(&self, bytes: usize, revoked: &Arc<Notify>) -> Option<MemoryLease> {
        let mut state = self.state();
        let missing = |state: &PoolState| {
            let pool = (state.used + bytes).saturating_sub(self.0.size);
            pool.max((state.received + bytes).saturating_sub(MAX_RECEIVED_BYTES))
        };
        let wanted = missing(&state);
        if wanted > 0 {
            state.revoke_stalled(wanted);
        }
        if missing(&state) > 0 {
            return None;
        }
        state.received += bytes;
        let receiving = LeaseState::Receiving { since: Instant::now() };
        Some(self.add_lease(&mut state, bytes, receiving, Arc::clone(revoked)))
    }

    fn add_lease(
        &self,
        pool: &mut PoolState,
        bytes: usize,
        state: LeaseState,
        revoked: Arc<Notify>,
    ) -> MemoryLease {
        let is_request = matches!(state, LeaseState::Receiving { .. });
        let slot = LeaseSlot { bytes, is_request, state: Mutex::new(state), revoked };
        let slot = Arc::new(slot);
        pool.used += bytes;
        pool.leases.push(Arc::clone(&slot));
        MemoryLease { pool: self.clone(), slot }
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PoolState {
    /// Revokes leases of stalled clients, the longest stalled first, until enough is free.
    fn revoke_stalled(&mut self, wanted: usize) {
        let mut stalled: Vec<_> = self.leases.iter().filter_map(LeaseSlot::stalled_since).collect();
        stalled.sort_by_key(|(since, _)| *since);
        let mut freed = 0;
        for (_, slot) in stalled {
            if freed >= wanted {
                break;
            }
            freed += slot.bytes;
            self.remove(&slot);
            *slot.state() = LeaseState::Revoked;
            slot.revoked.notify_one();
        }
    }

    fn remove(&mut self, slot: &Arc<LeaseSlot>) {
        if let Some(at) = self.leases.iter().position(|it| Arc::ptr_eq(it, slot)) {
            self.leases.swap_remove(at);
            self.used -= slot.bytes;
            if slot.is_request {
                self.received -= slot.bytes;
            }
        }
    }
}

impl LeaseSlot {
    fn state(&self) -> MutexGuard<'_, LeaseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stalled_since(slot: &Arc<Self>) -> Option<(Instant, Arc<Self>)> {
        match *slot.state() {
            LeaseState::Sending { since, .. } | LeaseState::Receiving { since }
                if since.elapsed() >= STALLED_AFTER =>
            {
                Some((since, Arc::clone(slot)))
            }
            _ => None,
        }
    }
}

impl fmt::Debug for LeaseSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseSlot").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl MemoryLease {
    /// Stores what a client is sent from now on.
    pub(crate) fn send<T: Send + 'static>(self, content: T) -> Leased<T> {
        *self.slot.state() =
            LeaseState::Sending { content: Box::new(content), since: Instant::now() };
        Leased { lease: self, content: PhantomData }
    }
}

impl MemoryLease {
    /// Records that the client has sent more of its body.
    pub(crate) fn advance(&self) {
        if let LeaseState::Receiving { since } = &mut *self.slot.state() {
            *since = Instant::now();
        }
    }

    /// Records that the body is complete, so that it is not taken away any more. `false` if it was.
    pub(crate) fn complete(&self) -> bool {
        let mut state = self.slot.state();
        let complete = !matches!(*state, LeaseState::Revoked);
        if complete {
            *state = LeaseState::Working;
        }
        complete
    }
}

impl Drop for MemoryLease {
    fn drop(&mut self) {
        self.pool.state().remove(&self.slot);
        // The content is dropped with the slot.
        self.pool.0.freed.notify_waiters();
    }
}

impl<T: 'static> Leased<T> {
    /// Gives access to the content for a client that takes more; `None` if the lease was revoked.
    pub(crate) fn with<R>(&self, access: impl FnOnce(&mut T) -> R) -> Option<R> {
        match &mut *self.lease.slot.state() {
            LeaseState::Sending { content, since } => {
                *since = Instant::now();
                content.downcast_mut().map(access)
            }
            LeaseState::Working | LeaseState::Receiving { .. } | LeaseState::Revoked => None,
        }
    }

    /// Waits until the lease is revoked.
    pub(crate) async fn revoked(&self) {
        self.lease.slot.revoked.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::MemoryPool;
    use crate::limits::STALLED_AFTER;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_keeps_its_bytes_and_one_that_stalls_loses_them() {
        let pool = MemoryPool::new(100);
        let reading = pool.lease(40).await.send("a".to_owned());
        let stalled = pool.lease(40).await.send("b".to_owned());
        tokio::time::advance(STALLED_AFTER).await;
        assert_eq!(reading.with(|it| it.len()), Some(1));
        let small = pool.lease(20).await;
        assert!(stalled.with(|_| ()).is_some(), "no other response needed its bytes");
        tokio::time::advance(STALLED_AFTER).await;
        assert_eq!(reading.with(|it| it.len()), Some(1));
        let next = pool.lease(40).await;
        timeout(Duration::from_secs(1), stalled.revoked()).await.unwrap();
        assert!(stalled.with(|_| ()).is_none() && reading.with(|_| ()).is_some());
        drop((stalled, small, next, reading));
        assert_eq!(pool.state().used, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_gets_bytes_when_they_are_freed_and_work_is_never_revoked() {
        let pool = MemoryPool::new(100);
        let working = pool.lease(1000).await;
        let waiting = {
            let pool = pool.clone();
            tokio::spawn(async move { pool.lease(10).await.slot.bytes })
        };
        tokio::time::sleep(10 * STALLED_AFTER).await;
        assert!(!waiting.is_finished());
        drop(working);
        assert_eq!(waiting.await.unwrap(), 10);
    }
}
