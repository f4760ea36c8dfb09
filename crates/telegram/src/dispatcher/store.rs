//! What the bridge stores, under which keys, and the task that writes it.

use std::sync::Arc;

use journal::StateChange;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tracing::{error, warn};

use crate::address::ChatAddress;
use crate::checkpoint::ChatCheckpoint;
use crate::state_store::{StateStore, StateStoreError};
use crate::update::TelegramUpdate;

/// The key of the next update's id.
const OFFSET: &str = "offset";

/// How many writes may be queued. When the queue is full, the dispatcher waits: it must not get ahead
/// of what is stored.
const WRITE_QUEUE: usize = 256;

/// How many writes are combined into one.
const WRITE_BATCH: usize = 128;

/// Everything that is stored.
#[derive(Debug, Default)]
pub(crate) struct BridgeState {
    /// The id of the next update.
    pub(super) offset: i64,
    /// Updates whose actions are not done, in order.
    pub(super) updates: Vec<ReceivedUpdate>,
    pub(super) chats: Vec<ChatCheckpoint>,
}

#[derive(Debug)]
pub(super) struct ReceivedUpdate {
    /// When it arrived, in milliseconds since 1970.
    pub(super) at: u64,
    pub(super) update: TelegramUpdate,
}

impl BridgeState {
    pub(crate) async fn read(store: &dyn StateStore) -> Result<Self, StateStoreError> {
        let mut state = Self::default();
        for (key, value) in store.read().await? {
            let read = match key.split_once('/') {
                None if key == OFFSET => {
                    let number = std::str::from_utf8(&value).ok().and_then(|it| it.parse().ok());
                    number.map(|number| state.offset = number)
                }
                Some(("update", _)) => read_update(&value).map(|it| state.updates.push(it)),
                Some(("place", _)) => {
                    serde_json::from_slice(&value).ok().map(|it| state.chats.push(it))
                }
                _ => None,
            };
            if read.is_none() {
                warn!(key, "ignored a part of the stored state that could not be read");
            }
        }
        state.updates.sort_by_key(|it| it.update.update_id);
        // Updates may be stored without the id of the next one, if the process was killed in between.
        let next = state.updates.last().map_or(0, |it| it.update.update_id + 1);
        state.offset = state.offset.max(next);
        Ok(state)
    }
}

pub(super) fn offset(next: i64) -> StateChange {
    StateChange { key: OFFSET.to_owned(), value: Some(next.to_string().into_bytes()) }
}

pub(super) fn update(id: i64, at: u64, raw: &RawValue) -> StateChange {
    let value = format!(r#"{{"at":{at},"update":{raw}}}"#);
    StateChange { key: update_key(id), value: Some(value.into_bytes()) }
}

pub(super) fn delete_update(id: i64) -> StateChange {
    StateChange { key: update_key(id), value: None }
}

pub(super) fn checkpoint(checkpoint: &ChatCheckpoint) -> StateChange {
    // Numbers and strings can always be serialised.
    let value = serde_json::to_vec(checkpoint).ok();
    StateChange { key: chat_key(checkpoint.address), value }
}

pub(super) fn delete_chat(address: ChatAddress) -> StateChange {
    StateChange { key: chat_key(address), value: None }
}

/// Parses an update. One whose content cannot be read is empty but has its id.
pub(super) fn parse_update(raw: &RawValue) -> Option<TelegramUpdate> {
    #[derive(Deserialize)]
    struct UpdateId {
        update_id: i64,
    }
    let UpdateId { update_id } = serde_json::from_str(raw.get()).ok()?;
    let update = serde_json::from_str(raw.get());
    Some(update.unwrap_or_else(|_| TelegramUpdate { update_id, ..TelegramUpdate::default() }))
}

fn read_update(value: &[u8]) -> Option<ReceivedUpdate> {
    #[derive(Deserialize)]
    struct UpdateValue<'a> {
        at: u64,
        #[serde(borrow)]
        update: &'a RawValue,
    }
    let value: UpdateValue<'_> = serde_json::from_slice(value).ok()?;
    Some(ReceivedUpdate { at: value.at, update: parse_update(value.update)? })
}

fn update_key(id: i64) -> String {
    format!("update/{id}")
}

/// `place` is what earlier versions called a chat. The keys stay, so that their state is found.
fn chat_key(address: ChatAddress) -> String {
    match address.topic {
        Some(topic) => format!("place/{}/{}", address.chat.0, topic.0),
        None => format!("place/{}", address.chat.0),
    }
}

/// A handle to the task that writes state, in order and several writes at once.
#[derive(Clone, Debug)]
pub(super) struct StateWriter(mpsc::Sender<WriteRequest>);

#[derive(Debug)]
struct WriteRequest {
    entries: Vec<StateChange>,
    done: oneshot::Sender<()>,
}

/// A write that is queued.
#[derive(Debug)]
pub(super) struct PendingWrite(oneshot::Receiver<()>);

impl StateWriter {
    /// A writer, and its work, which ends when the last handle is dropped.
    pub(super) fn new(store: Arc<dyn StateStore>) -> (Self, impl Future<Output = ()>) {
        let (requests, received) = mpsc::channel(WRITE_QUEUE);
        (Self(requests), write_all(store, received))
    }

    /// Queues a write behind all earlier ones.
    pub(super) async fn write(&self, entries: Vec<StateChange>) -> PendingWrite {
        let (done, pending) = oneshot::channel();
        // If the task has ended, the request is dropped, and `PendingWrite::done` returns false.
        let _ = self.0.send(WriteRequest { entries, done }).await;
        PendingWrite(pending)
    }
}

impl PendingWrite {
    /// Waits until the write has ended. Returns whether it succeeded.
    pub(super) async fn done(self) -> bool {
        self.0.await.is_ok()
    }
}

async fn write_all(store: Arc<dyn StateStore>, mut received: mpsc::Receiver<WriteRequest>) {
    let mut requests = Vec::new();
    while received.recv_many(&mut requests, WRITE_BATCH).await > 0 {
        let entries = requests.iter_mut().flat_map(|it| std::mem::take(&mut it.entries)).collect();
        match store.write(entries).await {
            Ok(()) => {
                for request in requests.drain(..) {
                    // Not every caller waits for its write.
                    let _ = request.done.send(());
                }
            }
            Err(error) => {
                error!(%error, "could not store the state of the chats");
                requests.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use journal::Journal;
    use serde_json::value::RawValue;

    use super::{BridgeState, delete_update, offset, parse_update, update};
    use crate::state_store::{JournalStore, StateStore as _};

    #[tokio::test]
    async fn stored_updates_are_read_in_order_until_they_are_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(&directory.path().join("journal.db")).unwrap().journal;
        let raw = |id: i64| {
            let text = format!(
                r#"{{"update_id":{id},"message":{{"message_id":1,"chat":{{"id":7,"type":"private"}},"text":"é \"x\""}}}}"#
            );
            RawValue::from_string(text).unwrap()
        };
        let updates = [9, 10, 100].map(|id| update(id, 5, &raw(id)));
        let store = JournalStore(journal);
        store.write([vec![offset(9)], updates.to_vec()].concat()).await.unwrap();
        let state = BridgeState::read(&store).await.unwrap();
        assert_eq!(state.offset, 101, "those that are stored are not asked for again");
        store.write(vec![offset(101), delete_update(10)]).await.unwrap();
        let state = BridgeState::read(&store).await.unwrap();
        assert_eq!(state.offset, 101);
        let numbers: Vec<_> = state.updates.iter().map(|it| it.update.update_id).collect();
        assert_eq!(numbers, [9, 100]);
        let message = state.updates[0].update.message.as_ref().unwrap();
        assert_eq!((message.text.as_deref(), state.updates[0].at), (Some("é \"x\""), 5));
    }

    #[test]
    fn an_update_that_cannot_be_read_still_has_its_id() {
        let odd = RawValue::from_string(r#"{"update_id":3,"message":"what?"}"#.to_owned()).unwrap();
        let update = parse_update(&odd).unwrap();
        assert_eq!((update.update_id, update.message), (3, None));
    }
}
