//! Messages of streams: publishing with an expectation, and reading what is stored.

use std::time::Duration;

use async_nats::{HeaderMap, Message};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::json;

use super::connection::{ANSWER_TIMEOUT, JetStreamError, NatsConnection, RequestFailure};
use crate::bus::BusError;

/// The last message of the subject is not the expected one.
const WRONG_LAST_SEQUENCE: u64 = 10071;

/// An earlier message of the subject is not stored on all servers yet. With three servers this also
/// happens to a writer that waits for each answer before it sends the next message.
const STILL_IN_PROCESS: u64 = 10164;

const NO_MESSAGE_FOUND: u64 = 10037;

/// How often a message is sent again while an earlier one is in process.
const BUSY_RETRIES: u32 = 9;

/// How long the first pause is. Each is twice as long as the one before, half a second in all.
const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// How many bytes one reading returns, or one message if that is larger.
const READ_BYTES: usize = 4 << 20;

/// A message that a stream holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredMessage {
    pub(super) sequence: u64,
    pub(super) payload: Bytes,
    /// Whether it stands for a key that was removed or has expired.
    pub(super) is_tombstone: bool,
}

impl NatsConnection {
    /// Publishes a message and returns its sequence number when it is stored on a majority of the
    /// servers. `expected` is the sequence number of the last message with this subject, 0 if there must
    /// be none.
    pub(super) async fn publish(
        &self,
        subject: &str,
        mut headers: HeaderMap,
        payload: Bytes,
        expected: Option<u64>,
    ) -> Result<u64, BusError> {
        if let Some(expected) = expected {
            headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
        }
        let size = payload.len();
        let mut retries = 0..BUSY_RETRIES;
        loop {
            let message = (headers.clone(), payload.clone());
            let answer = self.request(subject, message.0, message.1, ANSWER_TIMEOUT).await;
            let answer = match answer {
                Ok(answer) => super::connection::parse_answer(&answer.payload),
                Err(RequestFailure::NoAnswer(why)) => return Err(BusError::Unsure(why)),
                Err(RequestFailure::TooLarge) => {
                    let limit = self.client().max_payload();
                    return Err(BusError::TooLarge { size, limit });
                }
                Err(failure) => return Err(failure.into_error()),
            };
            match answer {
                Ok(answer) => {
                    let sequence = answer["seq"].as_u64();
                    return sequence.ok_or_else(|| {
                        BusError::Unsure(format!("the server's answer has no number: {answer}"))
                    });
                }
                Err(error) if error.code == WRONG_LAST_SEQUENCE => return Err(BusError::Conflict),
                // The same expectation decides: if the message in process is another writer's, the next
                // attempt is a conflict.
                Err(error) if error.code == STILL_IN_PROCESS => match retries.next() {
                    Some(retry) => tokio::time::sleep(BUSY_PAUSE * 2_u32.pow(retry)).await,
                    None => return Err(BusError::Unsure(error.description)),
                },
                // A server that fails while it stores a message does not know what the others do with it.
                Err(error) if error.status >= 500 => {
                    return Err(BusError::Unsure(error.description));
                }
                Err(error) => return Err(error.into_error()),
            }
        }
    }

    /// The last message with a subject. The leader of the stream is asked, since other servers may not
    /// have it yet.
    pub(super) async fn last_message(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<StoredMessage>, BusError> {
        let body = json!({ "last_by_subj": subject });
        let answer = self.read_api(&format!("STREAM.MSG.GET.{stream}"), Some(&body)).await;
        let message = match answer.map_err(RequestFailure::into_error)? {
            Ok(answer) => answer["message"].clone(),
            Err(error) if error.code == NO_MESSAGE_FOUND => return Ok(None),
            Err(error) => return Err(missing_stream(stream, error)),
        };
        let decode = |name: &str| STANDARD.decode(message[name].as_str().unwrap_or_default());
        let (Some(sequence), Ok(payload), Ok(headers)) =
            (message["seq"].as_u64(), decode("data"), decode("hdrs"))
        else {
            let why = format!("the server's answer for `{subject}` cannot be read");
            return Err(BusError::Unavailable(why));
        };
        let headers = String::from_utf8_lossy(&headers).to_ascii_lowercase();
        let is_tombstone = ["\r\nkv-operation:", "\r\nnats-marker-reason:"];
        let is_tombstone = is_tombstone.iter().any(|name| headers.contains(name));
        Ok(Some(StoredMessage { sequence, payload: payload.into(), is_tombstone }))
    }

    /// Some messages with a subject after a sequence number, in order and without gaps. A server that
    /// lags behind knows fewer than there are.
    pub(super) async fn read_messages(
        &self,
        stream: &str,
        subject: &str,
        after: u64,
        count: usize,
    ) -> Result<Vec<StoredMessage>, BusError> {
        let unavailable = |error: &dyn std::error::Error| BusError::Unavailable(error.to_string());
        let request = format!("$JS.API.DIRECT.GET.{stream}");
        let body = json!({
            "seq": after + 1, "next_by_subj": subject, "batch": count, "max_bytes": READ_BYTES,
        });
        let inbox = self.client().new_inbox();
        let subscriber = self.client().subscribe(inbox.clone()).await;
        let mut answers = subscriber.map_err(|error| unavailable(&error))?;
        let read = async {
            let sent = self.client().publish_with_reply(
                request.clone(),
                inbox,
                Bytes::from(body.to_string()),
            );
            sent.await.map_err(|error| RequestFailure::NoAnswer(error.to_string()))?;
            let mut batch = BatchReader::default();
            loop {
                let answer = tokio::time::timeout(ANSWER_TIMEOUT, answers.next()).await;
                let Ok(Some(answer)) = answer else {
                    return Err(RequestFailure::NoAnswer(format!(
                        "`{stream}` was not read in time"
                    )));
                };
                match batch.add(answer)? {
                    BatchState::Open => {}
                    BatchState::Complete => return Ok(batch.messages),
                }
            }
        };
        self.or_failure(&request, read).await.map_err(RequestFailure::into_error)
    }
}

/// Collects the answers to one batched direct get.
#[derive(Default)]
struct BatchReader {
    messages: Vec<StoredMessage>,
}

#[derive(Debug, PartialEq, Eq)]
enum BatchState {
    Open,
    Complete,
}

impl BatchReader {
    fn add(&mut self, answer: Message) -> Result<BatchState, RequestFailure> {
        match answer.status.map(|it| it.as_u16()) {
            None => {}
            // The end of the batch, or no message at all.
            Some(204 | 404) => return Ok(BatchState::Complete),
            Some(503) => return Err(RequestFailure::NoResponders),
            Some(status) => {
                let description = answer.description.unwrap_or_default();
                let why = format!("reading was refused: {status} {description}");
                return Err(RequestFailure::NoAnswer(why));
            }
        }
        let Some(sequence) = header_number(answer.headers.as_ref(), "Nats-Sequence") else {
            return Err(RequestFailure::NoAnswer("a message has no number".to_owned()));
        };
        // The server says which message of the batch came before. If the client lost that one, the
        // messages until the gap are the result.
        let before = header_number(answer.headers.as_ref(), "Nats-Last-Sequence");
        let last = self.messages.last().map_or(0, |it| it.sequence);
        if before.is_some_and(|before| before != last) {
            return Ok(BatchState::Complete);
        }
        let is_tombstone = is_tombstone(answer.headers.as_ref());
        self.messages.push(StoredMessage { sequence, payload: answer.payload, is_tombstone });
        Ok(BatchState::Open)
    }
}

pub(super) fn header_number(headers: Option<&HeaderMap>, name: &str) -> Option<u64> {
    headers?.get(name)?.as_str().parse().ok()
}

/// Whether a message stands for a key that was removed or has expired.
pub(super) fn is_tombstone(headers: Option<&HeaderMap>) -> bool {
    let names = ["KV-Operation", "Nats-Marker-Reason"];
    headers.is_some_and(|headers| names.iter().any(|name| headers.get(*name).is_some()))
}

pub(super) fn missing_stream(stream: &str, error: JetStreamError) -> BusError {
    if error.is_missing_stream() {
        return BusError::Setup(format!(
            "the servers have no stream `{stream}`: run `towpath fleet init`"
        ));
    }
    error.into_error()
}

#[cfg(test)]
mod tests {
    use async_nats::{HeaderMap, Message, StatusCode};

    use super::{BatchReader, BatchState};

    fn stored(sequence: u64, before: u64) -> Message {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Sequence", sequence.to_string());
        headers.insert("Nats-Last-Sequence", before.to_string());
        message(None, Some(headers))
    }

    fn message(status: Option<StatusCode>, headers: Option<HeaderMap>) -> Message {
        Message {
            subject: "answer".into(),
            reply: None,
            payload: "x".into(),
            headers,
            status,
            description: None,
            length: 0,
        }
    }

    #[test]
    fn a_batch_ends_where_a_message_was_lost() {
        let mut batch = BatchReader::default();
        assert_eq!(batch.add(stored(3, 0)).unwrap(), BatchState::Open);
        assert_eq!(batch.add(stored(5, 3)).unwrap(), BatchState::Open);
        assert_eq!(batch.add(stored(9, 7)).unwrap(), BatchState::Complete);
        let numbers: Vec<_> = batch.messages.iter().map(|it| it.sequence).collect();
        assert_eq!(numbers, [3, 5]);
    }

    #[test]
    fn a_batch_ends_with_a_status() {
        let mut batch = BatchReader::default();
        let status = |code| message(Some(StatusCode::from_u16(code).unwrap()), None);
        assert_eq!(batch.add(status(404)).unwrap(), BatchState::Complete);
        assert_eq!(batch.add(status(204)).unwrap(), BatchState::Complete);
        batch.add(status(503)).unwrap_err();
        batch.add(status(408)).unwrap_err();
        batch.add(message(None, None)).unwrap_err();
    }
}
