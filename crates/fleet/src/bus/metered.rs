//! A bus that counts what is appended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use journal::SessionId;
use tokio::sync::mpsc;

use super::{
    Bus, BusError, BusFuture, BusQuestion, Expected, KeyChange, KeyGuard, KeyRevision, KeyTable,
    LogMessage, LogPosition, Reconnected,
};

/// What a machine has appended since it started.
#[derive(Debug)]
pub struct AppendCounts {
    appended: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    /// When the servers last confirmed an append, or nothing waited for one.
    confirmed: Mutex<Instant>,
}

/// Passes everything on, and counts appends.
#[derive(Debug)]
pub struct MeteredBus {
    bus: Arc<dyn Bus>,
    counts: Arc<AppendCounts>,
}

impl AppendCounts {
    fn new() -> Self {
        let zero = AtomicU64::default;
        let confirmed = Mutex::new(Instant::now());
        Self { appended: zero(), bytes: zero(), refused: zero(), failed: zero(), confirmed }
    }

    /// Messages that the servers confirmed, and their bytes.
    pub fn appended(&self) -> (u64, u64) {
        (self.appended.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Messages that the servers refused, because another message came before them.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Messages that were not confirmed for any other reason, such as a lost connection. They are sent again.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// How long the servers have confirmed nothing although something waits.
    pub fn lag(&self, is_waiting: bool) -> Duration {
        let mut confirmed = self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_waiting {
            *confirmed = Instant::now();
        }
        confirmed.elapsed()
    }

    fn count(&self, size: usize, result: &Result<LogPosition, BusError>) {
        let add = |counter: &AtomicU64, number| counter.fetch_add(number, Ordering::Relaxed);
        match result {
            Ok(_) => {
                add(&self.appended, 1);
                add(&self.bytes, size as u64);
                *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            }
            Err(BusError::Conflict) => drop(add(&self.refused, 1)),
            Err(_) => drop(add(&self.failed, 1)),
        }
    }
}

impl MeteredBus {
    /// A bus, and what is counted.
    pub fn new(bus: Arc<dyn Bus>) -> (Self, Arc<AppendCounts>) {
        let counts = Arc::new(AppendCounts::new());
        (Self { bus, counts: Arc::clone(&counts) }, counts)
    }
}

impl Bus for MeteredBus {
    fn reconnected(&self) -> Reconnected {
        self.bus.reconnected()
    }

    fn append(
        &self,
        session: SessionId,
        expected: LogPosition,
        payload: Bytes,
    ) -> BusFuture<'_, LogPosition> {
        Box::pin(async move {
            let size = payload.len();
            let result = self.bus.append(session, expected, payload).await;
            self.counts.count(size, &result);
            result
        })
    }

    fn last(&self, session: SessionId) -> BusFuture<'_, Option<LogMessage>> {
        self.bus.last(session)
    }

    fn read(&self, session: SessionId, after: LogPosition) -> BusFuture<'_, Vec<LogMessage>> {
        self.bus.read(session, after)
    }

    fn logs(&self) -> BusFuture<'_, Vec<(SessionId, LogPosition)>> {
        self.bus.logs()
    }

    fn follow(&self) -> BusFuture<'_, mpsc::Receiver<LogMessage>> {
        self.bus.follow()
    }

    fn put(
        &self,
        table: KeyTable,
        key: &str,
        value: Bytes,
        expected: Expected,
        lifetime: Option<Duration>,
    ) -> BusFuture<'_, KeyRevision> {
        self.bus.put(table, key, value, expected, lifetime)
    }

    fn put_guarded(
        &self,
        table: KeyTable,
        key: &str,
        value: Option<Bytes>,
        guard: &KeyGuard,
    ) -> BusFuture<'_, ()> {
        self.bus.put_guarded(table, key, value, guard)
    }

    fn get(&self, table: KeyTable, key: &str) -> BusFuture<'_, Option<(KeyRevision, Bytes)>> {
        self.bus.get(table, key)
    }

    fn remove(&self, table: KeyTable, key: &str, expected: Expected) -> BusFuture<'_, ()> {
        self.bus.remove(table, key, expected)
    }

    fn watch(&self, table: KeyTable) -> BusFuture<'_, mpsc::Receiver<Option<KeyChange>>> {
        self.bus.watch(table)
    }

    fn ask(&self, worker: &str, payload: Bytes, timeout: Duration) -> BusFuture<'_, Bytes> {
        self.bus.ask(worker, payload, timeout)
    }

    fn questions(&self, worker: &str) -> BusFuture<'_, mpsc::Receiver<BusQuestion>> {
        self.bus.questions(worker)
    }

    fn put_object(&self, name: &str, content: Bytes) -> BusFuture<'_, ()> {
        self.bus.put_object(name, content)
    }

    fn get_object(&self, name: &str) -> BusFuture<'_, Option<Bytes>> {
        self.bus.get_object(name)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::MeteredBus;
    use crate::bus::memory::MemoryServers;
    use crate::bus::{Bus as _, LogPosition};
    use crate::mirror::tests::id;

    #[tokio::test]
    async fn appends_and_refusals_are_counted_and_lag_grows_only_while_something_waits() {
        let servers = MemoryServers::default();
        let (bus, counts) = MeteredBus::new(Arc::new(servers.connect()));
        bus.append(id(1), LogPosition(0), "four".into()).await.unwrap();
        bus.append(id(1), LogPosition(0), "again".into()).await.unwrap_err();
        assert_eq!((counts.appended(), counts.refused(), counts.failed()), ((1, 4), 1, 0));
        std::thread::sleep(Duration::from_millis(5));
        assert!(counts.lag(true) >= Duration::from_millis(5));
        assert!(counts.lag(false) < Duration::from_millis(5));
    }
}
