//! The state of what one gateway does for all, on the servers: keys and values that only the gateway which
//! took the state over last can write.
//!
//! A machine that takes it over writes a key of its own first, the *guard*. Every other write is stored only if the
//! guard is still that one, which the servers check, so a gateway that was paused and believes that it is still
//! elected changes nothing.
//!
//! Keys of one state are `NAME.KEY` in the table, and the guard is `NAME`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tokio::sync::{Mutex, watch};
use tokio::time::{sleep, timeout};
use tracing::debug;

use crate::bus::{Bus, BusError, Expected, KeyGuard, KeyRevision, KeyTable};

/// How long a write may take. The servers may elect a leader meanwhile.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a reading may take.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The pause until a write is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// A state that this process has taken over.
#[derive(Debug)]
pub struct FencedState {
    bus: Arc<dyn Bus>,
    name: String,
    guard: KeyGuard,
    /// Of two writes on their way the servers may refuse one.
    writing: Mutex<()>,
    fenced: watch::Sender<bool>,
}

/// Why a state could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StateError {
    /// Another gateway has taken it over.
    #[error("another gateway has taken over")]
    Fenced,
    #[error(transparent)]
    Bus(#[from] BusError),
}

impl FencedState {
    /// Takes a state over. What others write from now on is refused.
    pub async fn take(bus: Arc<dyn Bus>, name: &str, gateway: &str) -> Result<Self, BusError> {
        let value = Bytes::from(gateway.to_owned());
        let put = bus.put(KeyTable::Bridges, name, value, Expected::Anything, None);
        let revision = put.await?;
        let guard = KeyGuard { key: name.to_owned(), revision };
        let (writing, fenced) = (Mutex::default(), watch::Sender::new(false));
        Ok(Self { bus, name: name.to_owned(), guard, writing, fenced })
    }

    /// Waits until another gateway is known to have taken the state over.
    pub async fn fenced(&self) {
        // The sender lives as long as this.
        let _ = self.fenced.subscribe().wait_for(|fenced| *fenced).await;
    }

    /// All keys and values.
    pub async fn read(&self) -> Result<BTreeMap<String, Vec<u8>>, StateError> {
        let reading = async {
            loop {
                if let Some(found) = self.read_once().await? {
                    return Ok(found);
                }
                sleep(RETRY).await;
            }
        };
        let late = |_| BusError::Unavailable("the state did not arrive in time".to_owned());
        timeout(READ_TIMEOUT, reading).await.map_err(late)?
    }

    /// The same; none if the connection is lost meanwhile.
    ///
    /// A server that lags behind may list less than there is. It has everything that the owners before have
    /// written when it has the guard, because the guard was written after that.
    async fn read_once(&self) -> Result<Option<BTreeMap<String, Vec<u8>>>, StateError> {
        let mut changes = self.bus.watch(KeyTable::Bridges).await?;
        let mut found = BTreeMap::new();
        let (mut is_listed, mut guard) = (false, KeyRevision(0));
        while !(is_listed && guard >= self.guard.revision) {
            let Some(change) = changes.recv().await else { return Ok(None) };
            let Some(change) = change else {
                is_listed = true;
                continue;
            };
            if change.key == self.guard.key {
                guard = change.revision;
            }
            let key = change.key.strip_prefix(&self.name).and_then(|it| it.strip_prefix('.'));
            let Some(key) = key else { continue };
            match change.value {
                Some(value) => drop(found.insert(key.to_owned(), value.to_vec())),
                None => drop(found.remove(key)),
            }
        }
        if guard > self.guard.revision {
            self.fenced.send_replace(true);
            return Err(StateError::Fenced);
        }
        Ok(Some(found))
    }

    /// Writes keys, in order; those without a value are removed. Some may be written if it fails.
    pub async fn write(&self, changes: Vec<(String, Option<Vec<u8>>)>) -> Result<(), StateError> {
        let _writing = self.writing.lock().await;
        for (key, value) in changes {
            let key = format!("{}.{key}", self.name);
            let value = value.map(Bytes::from);
            let write = self.write_one(&key, value.as_ref());
            let late = |_| BusError::Unavailable("the servers did not confirm in time".to_owned());
            timeout(WRITE_TIMEOUT, write).await.map_err(late)??;
        }
        Ok(())
    }

    /// Writing the same again does no harm, so it is done until the servers say something certain.
    async fn write_one(&self, key: &str, value: Option<&Bytes>) -> Result<(), StateError> {
        loop {
            let put = self.bus.put_guarded(KeyTable::Bridges, key, value.cloned(), &self.guard);
            match put.await {
                Ok(()) => return Ok(()),
                Err(BusError::Conflict) => {
                    self.fenced.send_replace(true);
                    return Err(StateError::Fenced);
                }
                Err(BusError::Unsure(reason) | BusError::Unavailable(reason)) => {
                    debug!(reason, key, "a part of the state is written again");
                    sleep(RETRY).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::{FencedState, StateError};
    use crate::bus::memory::MemoryServers;

    fn change(key: &str, value: &str) -> (String, Option<Vec<u8>>) {
        (key.to_owned(), Some(value.as_bytes().to_vec()))
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_a_state_over_has_all_of_it_and_nobody_else_writes_it() {
        let servers = MemoryServers::default();
        let connect = || Arc::new(servers.connect());
        let first = FencedState::take(connect(), "telegram.1", "g1").await.unwrap();
        assert!(first.read().await.unwrap().is_empty());
        first.write(vec![change("offset", "5"), change("update/4", "x")]).await.unwrap();
        first.write(vec![change("offset", "6"), ("update/4".to_owned(), None)]).await.unwrap();
        let other = FencedState::take(connect(), "telegram.11", "g1").await.unwrap();
        other.write(vec![change("offset", "99")]).await.unwrap();

        let second = FencedState::take(connect(), "telegram.1", "g2").await.unwrap();
        let read: Vec<_> = second.read().await.unwrap().into_iter().collect();
        assert_eq!(read, [("offset".to_owned(), b"6".to_vec())]);
        for stale in [change("offset", "7"), change("place/1", "new"), ("offset".to_owned(), None)]
        {
            assert_eq!(first.write(vec![stale]).await, Err(StateError::Fenced));
        }
        timeout(Duration::from_secs(1), first.fenced()).await.unwrap();
        assert_eq!(first.read().await, Err(StateError::Fenced));
        assert_eq!(second.read().await.unwrap()["offset"], b"6");
        second.write(vec![change("offset", "7")]).await.unwrap();
        timeout(Duration::from_secs(1), second.fenced()).await.unwrap_err();
    }
}
