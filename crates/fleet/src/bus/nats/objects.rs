//! Objects: content that is too large for a message, in the layout of NATS object stores.
//!
//! An object is a number of chunks with a subject of their own, and a message that describes it. The
//! description is written after the chunks, so an object is seen whole or not at all.

use std::time::Duration;

use async_nats::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use uuid::Uuid;

use super::connection::NatsConnection;
use super::subjects::{OBJECT_BUCKET, OBJECT_STREAM};
use crate::bus::BusError;

/// The size of a chunk, as in other clients.
const CHUNK: usize = 128 << 10;

/// How many chunks one reading asks for.
const READ_CHUNKS: usize = 32;

/// How long a reader waits for a server that does not have all chunks yet.
const LAG_TIMEOUT: Duration = Duration::from_secs(10);

const LAG_PAUSE: Duration = Duration::from_millis(20);

/// The description of an object. Other clients write more fields.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
struct ObjectDescription {
    name: String,
    bucket: String,
    /// The name of the chunks.
    nuid: String,
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
    let replaced = describe(connection, name).await?;
    let nuid = Uuid::new_v4().simple().to_string();
    let subject = chunk_subject(&nuid);
    let chunks = content.len().div_ceil(CHUNK);
    for number in 0..chunks {
        let end = content.len().min((number + 1) * CHUNK);
        let chunk = content.slice(number * CHUNK..end);
        connection.publish(&subject, HeaderMap::new(), chunk, None).await?;
    }
    let description = ObjectDescription {
        name: name.to_owned(),
        bucket: OBJECT_BUCKET.to_owned(),
        nuid,
        size: content.len(),
        chunks,
        digest: digest(&content),
        deleted: false,
    };
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Rollup", "sub");
    let description = serde_json::to_vec(&description)
        .map_err(|error| BusError::Setup(format!("object `{name}`: {error}")))?;
    connection.publish(&description_subject(name), headers, description.into(), None).await?;
    if let Some(replaced) = replaced {
        let body = json!({ "filter": chunk_subject(&replaced.nuid) });
        let purged = connection.api(&format!("STREAM.PURGE.{OBJECT_STREAM}"), Some(&body)).await;
        if !matches!(purged, Ok(Ok(_))) {
            tracing::warn!(name, "the chunks of a replaced object stay on the servers: {purged:?}");
        }
    }
    Ok(())
}

pub(super) async fn get_object(
    connection: &NatsConnection,
    name: &str,
) -> Result<Option<Bytes>, BusError> {
    let Some(mut described) = describe(connection, name).await? else { return Ok(None) };
    let mut content = ObjectContent::default();
    let mut deadline = Instant::now() + LAG_TIMEOUT;
    while content.chunks < described.chunks {
        let subject = chunk_subject(&described.nuid);
        let read = connection.read_messages(OBJECT_STREAM, &subject, content.after, READ_CHUNKS);
        let messages = read.await?;
        if messages.is_empty() {
            if Instant::now() > deadline {
                let why = format!("the servers do not have all chunks of object `{name}`");
                return Err(BusError::Unavailable(why));
            }
            tokio::time::sleep(LAG_PAUSE).await;
            // It may have been replaced, and its chunks removed.
            match describe(connection, name).await? {
                None => return Ok(None),
                Some(now) if now != described => {
                    described = now;
                    content = ObjectContent::default();
                }
                Some(_) => {}
            }
            continue;
        }
        deadline = Instant::now() + LAG_TIMEOUT;
        for message in messages {
            content.add(message.sequence, &message.payload);
        }
    }
    let content = content.bytes.freeze();
    if content.len() != described.size
        || !(described.digest.is_empty() || described.digest == digest(&content))
    {
        let why = format!("object `{name}` is damaged on the servers");
        return Err(BusError::Unavailable(why));
    }
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

async fn describe(
    connection: &NatsConnection,
    name: &str,
) -> Result<Option<ObjectDescription>, BusError> {
    let message = connection.last_message(OBJECT_STREAM, &description_subject(name)).await?;
    let Some(message) = message else { return Ok(None) };
    let description: ObjectDescription = serde_json::from_slice(&message.payload)
        .map_err(|error| BusError::Unavailable(format!("object `{name}`: {error}")))?;
    Ok((!description.deleted).then_some(description))
}

fn chunk_subject(nuid: &str) -> String {
    format!("$O.{OBJECT_BUCKET}.C.{nuid}")
}

fn description_subject(name: &str) -> String {
    format!("$O.{OBJECT_BUCKET}.M.{}", URL_SAFE.encode(name))
}

fn digest(content: &[u8]) -> String {
    format!("SHA-256={}", URL_SAFE.encode(Sha256::digest(content)))
}
