//! Large entries that several readers want at the same time share one buffer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use crate::connection::ReadPool;
use crate::entries;
use crate::error::Error;
use crate::id::{Seq, SessionId, SessionKey};
use crate::records::{Entry, EntryHead};

/// The large entries that someone holds. Nothing is kept here for its own sake.
#[derive(Debug, Default)]
pub(crate) struct LargeEntries {
    held: Mutex<HeldEntries>,
    /// Held while a large entry is read: a reader that waits for it probably wants the same one.
    reading: tokio::sync::Mutex<()>,
}

/// Large entries by session and number, as long as a reader holds them.
type HeldEntries = HashMap<(SessionKey, Seq), Weak<Vec<u8>>>;

/// The owner of the bytes of a large entry.
struct SharedBytes(Arc<Vec<u8>>);

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl LargeEntries {
    /// Reads a whole entry, or takes it from another reader that still holds it.
    pub(crate) async fn read(
        &self,
        readers: &Arc<ReadPool>,
        session: SessionId,
        key: SessionKey,
        head: EntryHead,
    ) -> Result<Entry, Error> {
        let _reading = self.reading.lock().await;
        let shared = self.held().get(&(key, head.seq)).and_then(Weak::upgrade);
        let bytes = if let Some(shared) = shared {
            shared
        } else {
            let size = usize::try_from(head.size).unwrap_or(usize::MAX);
            let part = readers.read(move |it| entries::part(it, session, head.seq, 0, size));
            let bytes = Arc::new(part.await?.unwrap_or_default());
            let mut entries = self.held();
            entries.retain(|_, bytes| bytes.strong_count() > 0);
            entries.insert((key, head.seq), Arc::downgrade(&bytes));
            bytes
        };
        Ok(head.with_bytes(Bytes::from_owner(SharedBytes(bytes))))
    }

    fn held(&self) -> MutexGuard<'_, HeldEntries> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
