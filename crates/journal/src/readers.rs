//! The connections that read: a few, each used by one blocking task at a time.

use std::panic;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;
use tokio::task;

use crate::connection;
use crate::error::Error;
use crate::mend;

/// How many may read at once; who comes later waits.
const READERS: usize = 4;

/// Read-only connections, opened as they are needed.
#[derive(Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
}

impl Readers {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, idle: Mutex::default(), permits: Semaphore::new(READERS) }
    }

    /// Runs something that reads, away from the async threads.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let _permit = self.permits.acquire().await.map_err(|_| Error::Closed)?;
        let readers = Arc::clone(self);
        match task::spawn_blocking(move || readers.blocking_read(work)).await {
            Ok(result) => result,
            Err(error) if error.is_panic() => panic::resume_unwind(error.into_panic()),
            Err(_) => Err(Error::Closed),
        }
    }

    fn blocking_read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let connection = match self.idle().pop() {
            Some(connection) => connection,
            None => connection::reading(&self.path)?,
        };
        let result = work(&connection);
        match &result {
            Err(error @ Error::Damaged { .. }) => mend::suspect(&self.path, error),
            _ if self.permits.is_closed() => {}
            _ => self.idle().push(connection),
        }
        result
    }

    /// Closes the connections, and refuses what comes later.
    pub(crate) fn close(&self) {
        self.permits.close();
        self.idle().clear();
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
