//! Objects: content that is too large for a message.
//!
//! An object is a number of chunks, each with a subject of its own, and a message that describes it. The
//! description is written after the chunks, so an object is seen whole or not at all. Descriptions are those of
//! NATS object stores, so their tools list what there is.
//!
//! A stream of objects keeps one message of each subject. So nothing here needs the right to purge a stream, and
//! no user who may write to it can empty it: to replace an object, a new one is written beside it, the
//! description is replaced, and the old chunks are replaced by empty messages that expire. What is
//! [written once](ObjectKind::Pack) is in a stream that refuses a second message of a subject.

use std::time::Duration;

use async_nats::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use uuid::Uuid;

use super::connection::NatsConnection;
use crate::bus::{BusError, ObjectKind};

/// The size of a chunk, as in other clients.
const CHUNK: usize = 128 << 10;

/// How many chunks one reading asks for.
const READ_CHUNKS: usize = 32;

/// How many old chunks are emptied at the same time.
const CONCURRENT_REMOVALS: usize = 16;

/// How long an emptied chunk stays.
const EMPTY_LIFETIME: &str = "1s";

/// How long a reader waits for a server that does not have all chunks yet.
const LAG_TIMEOUT: Duration = Duration::from_secs(10);

const LAG_PAUSE: Duration = Duration::from_millis(20);

/// The description of an object. Other clients write more fields.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct ObjectDescription {
    name: String,
    bucket: String,
    /// The name of the chunks.
    pub(crate) nuid: String,
    size: usize,
    chunks: usize,
    #[serde(default)]
    digest: String,
    #[serde(default)]
    deleted: bool,
}

pub(super) async fn put_object(
    connection: &NatsConnection,
    name: &str,
    content: Bytes,
) -> Result<(), BusError> {
    let kind = ObjectKind::of(name);
    let found = describe(connection, name).await?;
    if let Some(found) = found.as_ref().filter(|_| is_written_once(kind)) {
        return found.require(&content);
    }
    let nuid = Uuid::new_v4().simple().to_string();
    let chunks = content.len().div_ceil(CHUNK);
    for number in 0..chunks {
        let end = content.len().min((number + 1) * CHUNK);
        let chunk = content.slice(number * CHUNK..end);
        let subject = kind.chunk_subject(&nuid, number);
        connection.publish(&subject, HeaderMap::new(), chunk, None).await?;
    }
    let description = ObjectDescription {
        name: name.to_owned(),
        bucket: kind.bucket().to_owned(),
        nuid,
        size: content.len(),
        chunks,
        digest: digest(&content),
        deleted: false,
    };
    let encoded = serde_json::to_vec(&description)
        .map_err(|error| BusError::Setup(format!("object `{name}`: {error}")))?;
    let subject = kind.description_subject(name);
    let written = connection.publish(&subject, HeaderMap::new(), encoded.into(), None).await;
    if let Err(error) = written {
        // The servers may have it from an earlier attempt.
        return match describe(connection, name).await? {
            Some(found) if is_written_once(kind) => found.require(&content),
            _ => Err(error),
        };
    }
    if let Some(replaced) = found {
        remove_chunks(connection, kind, &replaced).await;
    }
    Ok(())
}

fn is_written_once(kind: ObjectKind) -> bool {
    match kind {
        ObjectKind::Pack | ObjectKind::Question => true,
        ObjectKind::Files => false,
    }
}

/// Replaces the chunks of an object that was replaced. What fails stays on the servers.
async fn remove_chunks(
    connection: &NatsConnection,
    kind: ObjectKind,
    replaced: &ObjectDescription,
) {
    let removals = (0..replaced.chunks).map(|number| {
        let subject = kind.chunk_subject(&replaced.nuid, number);
        async move {
            let mut headers = HeaderMap::new();
            headers.insert("Nats-TTL", EMPTY_LIFETIME);
            connection.publish(&subject, headers, Bytes::new(), None).await
        }
    });
    let mut removed = stream::iter(removals).buffer_unordered(CONCURRENT_REMOVALS);
    while let Some(removed) = removed.next().await {
        if let Err(error) = removed {
            let name = &replaced.name;
            tracing::warn!(name, %error, "a chunk of a replaced object stays on the servers");
        }
    }
}

pub(super) async fn get_object(
    connection: &NatsConnection,
    name: &str,
) -> Result<Option<Bytes>, BusError> {
    let kind = ObjectKind::of(name);
    let damaged = || BusError::Damaged(name.to_owned());
    let Some(mut described) = describe(connection, name).await? else { return Ok(None) };
    let mut content = ObjectContent::default();
    let mut deadline = Instant::now() + LAG_TIMEOUT;
    while content.chunks < described.chunks {
        let (stream, subjects) = (kind.stream(), kind.chunk_subjects(&described.nuid));
        let read = connection.read_messages(&stream, &subjects, content.after, READ_CHUNKS);
        let messages = read.await?;
        let before = content.chunks;
        for message in messages {
            // An empty one is left of an object that was replaced.
            if !message.payload.is_empty() && content.chunks < described.chunks {
                content.add(message.sequence, &message.payload);
            }
        }
        if content.chunks > before {
            deadline = Instant::now() + LAG_TIMEOUT;
            continue;
        }
        // It may have been replaced, and its chunks removed.
        match describe(connection, name).await? {
            None => return Ok(None),
            Some(now) if now != described => {
                described = now;
                content = ObjectContent::default();
                deadline = Instant::now() + LAG_TIMEOUT;
            }
            Some(_) if Instant::now() > deadline => return Err(damaged()),
            Some(_) => tokio::time::sleep(LAG_PAUSE).await,
        }
    }
    let content = content.bytes.freeze();
    described.require(&content)?;
    Ok(Some(content))
}

/// The chunks of an object that were read.
#[derive(Default)]
struct ObjectContent {
    bytes: BytesMut,
    chunks: usize,
    after: u64,
}

impl ObjectContent {
    fn add(&mut self, sequence: u64, chunk: &[u8]) {
        self.bytes.extend_from_slice(chunk);
        self.chunks += 1;
        self.after = sequence;
    }
}

impl ObjectDescription {
    /// Refuses content that is not the object's.
    fn require(&self, content: &[u8]) -> Result<(), BusError> {
        let is_same = self.digest.is_empty() || self.digest == digest(content);
        if content.len() == self.size && is_same {
            return Ok(());
        }
        Err(BusError::Damaged(self.name.clone()))
    }
}

pub(crate) async fn describe(
    connection: &NatsConnection,
    name: &str,
) -> Result<Option<ObjectDescription>, BusError> {
    let kind = ObjectKind::of(name);
    let subject = kind.description_subject(name);
    let message = connection.last_message(&kind.stream(), &subject).await?;
    let Some(message) = message else { return Ok(None) };
    let description: ObjectDescription =
        serde_json::from_slice(&message.payload).map_err(|_| BusError::Damaged(name.to_owned()))?;
    Ok((!description.deleted).then_some(description))
}

fn digest(content: &[u8]) -> String {
    format!("SHA-256={}", URL_SAFE.encode(Sha256::digest(content)))
}
