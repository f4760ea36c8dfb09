//! Tables of keys: a key-value bucket each, whose keys expire by themselves.

use std::time::Duration;

use async_nats::jetstream::consumer::{DeliverPolicy, push};
use async_nats::{HeaderMap, jetstream};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::connection::{NatsConnection, RequestFailure};
use super::stored::is_tombstone;
use crate::bus::{BusError, Expected, KeyChange, KeyGuard, KeyRevision, KeyTable};

/// How many changes may wait for a watcher. If there are more, the server is asked for them later.
const WATCHER_QUEUE: usize = 1024;

/// How often a key that does not exist is written while the trace of an earlier value goes away.
const CREATE_ATTEMPTS: usize = 4;

/// How long it is known that a key was removed.
const TOMBSTONE_LIFETIME: Duration = Duration::from_mins(1);

pub(super) async fn put(
    connection: &NatsConnection,
    table: KeyTable,
    key: &str,
    value: Bytes,
    expected: Expected,
    lifetime: Option<Duration>,
) -> Result<KeyRevision, BusError> {
    let subject = table.subject(key)?;
    let headers = || {
        let mut headers = HeaderMap::new();
        if let Some(lifetime) = lifetime {
            headers.insert("Nats-TTL", time_to_live(lifetime));
        }
        headers
    };
    let expected = match expected {
        Expected::Anything => None,
        Expected::Revision(revision) => Some(revision.0),
        Expected::Missing => Some(0),
    };
    let mut written = connection.publish(&subject, headers(), value.clone(), expected).await;
    // A key that was removed or has expired leaves a message behind, which is the one to replace.
    if expected == Some(0) {
        for _ in 1..CREATE_ATTEMPTS {
            if written != Err(BusError::Conflict) {
                break;
            }
            let last = match connection.last_message(&table.stream(), &subject).await? {
                Some(last) if !last.is_tombstone => return Err(BusError::Conflict),
                Some(last) => last.sequence,
                None => 0,
            };
            written = connection.publish(&subject, headers(), value.clone(), Some(last)).await;
        }
    }
    written.map(KeyRevision)
}

/// The servers compare the number of the guard's last message in the moment in which they store this one.
/// Versions before 2.11 ignore that the number is another key's, which is why `fleet check` refuses them.
pub(super) async fn put_guarded(
    connection: &NatsConnection,
    table: KeyTable,
    key: &str,
    value: Option<Bytes>,
    guard: &KeyGuard,
) -> Result<(), BusError> {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Expected-Last-Subject-Sequence-Subject", table.subject(&guard.key)?);
    if value.is_none() {
        mark_removed(&mut headers);
    }
    let (subject, value) = (table.subject(key)?, value.unwrap_or_default());
    connection.publish(&subject, headers, value, Some(guard.revision.0)).await?;
    Ok(())
}

pub(super) async fn get(
    connection: &NatsConnection,
    table: KeyTable,
    key: &str,
) -> Result<Option<(KeyRevision, Bytes)>, BusError> {
    let last = connection.last_message(&table.stream(), &table.subject(key)?).await?;
    let value = last.filter(|it| !it.is_tombstone);
    Ok(value.map(|it| (KeyRevision(it.sequence), it.payload)))
}

pub(super) async fn remove(
    connection: &NatsConnection,
    table: KeyTable,
    key: &str,
    expected: Expected,
) -> Result<(), BusError> {
    let found = get(connection, table, key).await?;
    let revision = match (expected, found) {
        (Expected::Missing | Expected::Anything, None) => return Ok(()),
        (Expected::Missing, Some(_)) | (Expected::Revision(_), None) => {
            return Err(BusError::Conflict);
        }
        (Expected::Anything, Some(_)) => None,
        (Expected::Revision(revision), Some(_)) => Some(revision.0),
    };
    let mut headers = HeaderMap::new();
    mark_removed(&mut headers);
    connection.publish(&table.subject(key)?, headers, Bytes::new(), revision).await?;
    Ok(())
}

/// Makes a message say that its key was removed.
fn mark_removed(headers: &mut HeaderMap) {
    headers.insert("KV-Operation", "DEL");
    headers.insert("Nats-TTL", time_to_live(TOMBSTONE_LIFETIME));
}

/// The servers count lifetimes in whole seconds.
fn time_to_live(lifetime: Duration) -> String {
    let seconds = lifetime.as_secs() + u64::from(lifetime.subsec_nanos() > 0);
    format!("{}s", seconds.max(1))
}

pub(super) async fn watch(
    connection: &NatsConnection,
    table: KeyTable,
) -> Result<mpsc::Receiver<Option<KeyChange>>, BusError> {
    let lost = connection.lost();
    let open = async {
        let failed = |error: &dyn std::error::Error| RequestFailure::NoAnswer(error.to_string());
        let context = jetstream::new(connection.client().clone());
        let config = push::OrderedConfig {
            // With a name, the subject of the request has the filter, and permissions can check it.
            name: Some(Uuid::new_v4().simple().to_string()),
            deliver_subject: connection.client().new_inbox(),
            filter_subject: table.subjects(),
            deliver_policy: DeliverPolicy::LastPerSubject,
            ..push::OrderedConfig::default()
        };
        let consumer = context.create_consumer_on_stream(config, table.stream()).await;
        let consumer = consumer.map_err(|error| failed(&error))?;
        let info = consumer.cached_info();
        // Some may have been delivered before the server answered.
        let is_empty = info.num_pending == 0 && info.delivered.consumer_sequence == 0;
        let messages = consumer.messages().await.map_err(|error| failed(&error))?;
        Ok((is_empty, messages))
    };
    let subject = format!("$JS.API.CONSUMER.CREATE.{}", table.stream());
    let opened = connection.or_failure(&subject, open).await;
    let (is_empty, mut messages) = opened.map_err(RequestFailure::into_error)?;
    let (sender, receiver) = mpsc::channel(WATCHER_QUEUE);
    // Ends with the connection or with the receiver.
    tokio::spawn(async move {
        let mut is_listing = !is_empty;
        if is_empty && sender.send(None).await.is_err() {
            return;
        }
        tokio::pin!(lost);
        loop {
            let message = tokio::select! {
                message = messages.next() => message,
                () = &mut lost => return,
                () = sender.closed() => return,
            };
            // The consumer has tried to restore itself before it reports an error.
            let Some(Ok(message)) = message else { return };
            let Ok(info) = message.info() else { return };
            let removed = is_tombstone(message.headers.as_ref());
            if let Some(key) = table.key(&message.subject)
                && !(is_listing && removed)
            {
                let revision = KeyRevision(info.stream_sequence);
                let value = (!removed).then(|| message.payload.clone());
                let change = KeyChange { key: key.to_owned(), revision, value };
                if sender.send(Some(change)).await.is_err() {
                    return;
                }
            }
            if is_listing && info.pending == 0 {
                is_listing = false;
                if sender.send(None).await.is_err() {
                    return;
                }
            }
        }
    });
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::time_to_live;

    #[test]
    fn a_lifetime_is_never_cut_short() {
        let cases = [(0, "1s"), (1, "1s"), (1000, "1s"), (1001, "2s"), (15_000, "15s")];
        for (milliseconds, text) in cases {
            assert_eq!(time_to_live(Duration::from_millis(milliseconds)), text);
        }
    }
}
