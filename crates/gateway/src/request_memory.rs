//! The memory of a request's body, from its first bytes until the request is answered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::gateway::Gateway;
use crate::limits::{LARGE_REQUEST_BYTES, MIN_RECEIVED_BYTES, REQUEST_WAIT, SMALL_BYTES};
use crate::memory_pool::{MemoryLease, MemoryPool};

/// The memory of one request's body. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct RequestMemory(Arc<RequestMemoryState>);

#[derive(Debug)]
struct RequestMemoryState {
    pool: MemoryPool,
    large_requests: Arc<Semaphore>,
    revoked: Arc<Notify>,
    held: Mutex<HeldMemory>,
}

#[derive(Debug, Default)]
struct HeldMemory {
    leases: Vec<MemoryLease>,
    /// How many bytes came since the leases were told of it.
    unreported: usize,
    permit: Option<OwnedSemaphorePermit>,
}

/// There is not enough memory for a body.
#[derive(Debug)]
pub(crate) struct NoMemory;

/// Gives a request memory for its body, and frees it once there is a response.
pub(crate) async fn hold(
    State(gateway): State<Gateway>,
    mut request: Request,
    next: Next,
) -> Response {
    let memory = RequestMemory::new(gateway.memory.clone(), Arc::clone(&gateway.large_requests));
    request.extensions_mut().insert(memory.clone());
    let response = next.run(request).await;
    drop(memory);
    response
}

impl RequestMemory {
    fn new(pool: MemoryPool, large_requests: Arc<Semaphore>) -> Self {
        let (revoked, held) = (Arc::default(), Mutex::default());
        Self(Arc::new(RequestMemoryState { pool, large_requests, revoked, held }))
    }

    fn held(&self) -> MutexGuard<'_, HeldMemory> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes space for `more` bytes in a body. What is small is free.
    pub(crate) fn reserve(
        &self,
        body: &mut Vec<u8>,
        more: usize,
        max_bytes: usize,
    ) -> Result<(), NoMemory> {
        let needed = body.len() + more;
        if needed <= body.capacity() {
            return Ok(());
        }
        // Doubled, so that a long body is not moved often.
        let capacity = needed.max(2 * body.capacity()).max(SMALL_BYTES).min(max_bytes.max(needed));
        if capacity > SMALL_BYTES {
            let lease = self.0.pool.try_receive(capacity - body.capacity(), &self.0.revoked);
            self.held().leases.push(lease.ok_or(NoMemory)?);
        }
        body.reserve_exact(capacity - body.len());
        Ok(())
    }

    /// Records that the client has sent some bytes.
    pub(crate) fn advance(&self, bytes: usize) {
        let mut held = self.held();
        held.unreported += bytes;
        if held.unreported >= MIN_RECEIVED_BYTES {
            held.unreported = 0;
            held.leases.iter().for_each(MemoryLease::advance);
        }
    }

    /// Waits until the memory is taken away.
    pub(crate) async fn revoked(&self) {
        self.0.revoked.notified().await;
    }

    /// Keeps the memory of a complete body until there is a response, and waits for other large
    /// requests.
    pub(crate) async fn complete(&self, bytes: usize) -> Result<(), NoMemory> {
        if !self.held().leases.iter().all(MemoryLease::complete) {
            return Err(NoMemory);
        }
        if bytes > LARGE_REQUEST_BYTES {
            let permit = Arc::clone(&self.0.large_requests).acquire_owned();
            let permit = timeout(REQUEST_WAIT, permit).await.map_err(|_| NoMemory)?;
            self.held().permit = permit.ok();
        }
        Ok(())
    }

    /// Frees the memory of a body that is too large.
    pub(crate) fn free(&self) {
        *self.held() = HeldMemory::default();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::Semaphore;
    use tokio::time::{advance, timeout};

    use super::RequestMemory;
    use crate::limits::{MAX_BODY_BYTES, MAX_RECEIVED_BYTES, SMALL_BYTES, STALLED_AFTER};
    use crate::memory_pool::MemoryPool;

    fn request(pool: &MemoryPool) -> RequestMemory {
        RequestMemory::new(pool.clone(), Arc::new(Semaphore::new(1)))
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_take_only_their_part_of_the_pool_and_what_is_small_is_free() {
        let pool = MemoryPool::new(2 * MAX_RECEIVED_BYTES);
        let mut requests = Vec::new();
        let mut refused = 0;
        for _ in 0..100 {
            let (memory, mut body) = (request(&pool), Vec::new());
            memory.reserve(&mut body, SMALL_BYTES, MAX_BODY_BYTES).unwrap();
            if memory.reserve(&mut body, 4 << 20, MAX_BODY_BYTES).is_err() {
                refused += 1;
            }
            requests.push((memory, body));
        }
        assert!((90..100).contains(&refused), "{refused}");
        pool.try_lease(MAX_RECEIVED_BYTES).expect("responses have theirs");
        drop(requests);
        let mut body = Vec::new();
        request(&pool).reserve(&mut body, MAX_BODY_BYTES, MAX_BODY_BYTES).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_arrives_too_slowly_makes_space_for_another() {
        let pool = MemoryPool::new(2 * MAX_RECEIVED_BYTES);
        let (slow, mut body) = (request(&pool), Vec::new());
        slow.reserve(&mut body, MAX_BODY_BYTES, MAX_BODY_BYTES).unwrap();
        let (quick, mut other) = (request(&pool), Vec::new());
        for _ in 0..4 {
            // A trickle does not count.
            slow.advance(1);
            advance(STALLED_AFTER / 4).await;
        }
        quick.reserve(&mut other, MAX_BODY_BYTES, MAX_BODY_BYTES).unwrap();
        timeout(Duration::from_secs(1), slow.revoked()).await.unwrap();
        slow.complete(1).await.unwrap_err();
        quick.complete(MAX_BODY_BYTES).await.unwrap();
        advance(10 * STALLED_AFTER).await;
        let (third, mut more) = (request(&pool), Vec::new());
        third.reserve(&mut more, MAX_BODY_BYTES, MAX_BODY_BYTES).unwrap_err();
        drop(quick);
        third.reserve(&mut more, MAX_BODY_BYTES, MAX_BODY_BYTES).unwrap();
    }
}
