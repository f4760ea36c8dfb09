//! Where the bridge keeps what must survive it: in the journal's file, or wherever a fleet keeps it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use journal::{Journal, StateChange};
use thiserror::Error;

/// The name of the bridge's follower state.
pub(crate) const STATE: &str = "telegram";

/// What an operation of a store returns.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StateStoreError>> + Send + 'a>>;

/// Keys and values that outlive the bridge.
pub trait StateStore: fmt::Debug + Send + Sync {
    /// All of them.
    fn read(&self) -> StoreFuture<'_, Vec<(String, Vec<u8>)>>;

    /// Writes some. They are stored when this returns. If it fails or the process is killed, some of them may be
    /// stored: values then are before removals, each in the given order.
    fn write(&self, changes: Vec<StateChange>) -> StoreFuture<'_, ()>;
}

/// Why the state could not be read or written.
#[derive(Debug, Error)]
pub enum StateStoreError {
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// In words.
    #[error("{0}")]
    Other(String),
}

/// The state in the journal's file. A write is stored as a whole.
#[derive(Clone, Debug)]
pub(crate) struct JournalStore(pub(crate) Journal);

impl StateStore for JournalStore {
    fn read(&self) -> StoreFuture<'_, Vec<(String, Vec<u8>)>> {
        Box::pin(async { Ok(self.0.read_state(STATE).await?) })
    }

    fn write(&self, changes: Vec<StateChange>) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(self.0.write_state(STATE, changes).await?) })
    }
}
