//! The logs of sessions: one stream, a subject for each session.

use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::{HeaderMap, jetstream};
use bytes::Bytes;
use futures_util::StreamExt as _;
use journal::SessionId;
use tokio::sync::mpsc;
use tokio::time::timeout;
use uuid::Uuid;

use super::connection::{ANSWER_TIMEOUT, NatsConnection, RequestFailure};
use super::stored::{StoredMessage, header_number};
use super::subjects::{LIVE_SUBJECTS, LOG_STREAM, LOG_SUBJECTS, log_subject, session_of};
use crate::bus::{BusError, LogMessage, LogPosition, MAX_MESSAGE};

/// How many messages may wait for a follower. If there are more, they are dropped.
const FOLLOWER_QUEUE: usize = 1024;

/// How many messages one reading returns.
const READ_MESSAGES: usize = 64;

pub(super) async fn append(
    connection: &NatsConnection,
    session: SessionId,
    expected: LogPosition,
    payload: Bytes,
) -> Result<LogPosition, BusError> {
    if payload.len() > MAX_MESSAGE {
        return Err(BusError::TooLarge { size: payload.len(), limit: MAX_MESSAGE });
    }
    let subject = log_subject(session);
    let position =
        connection.publish(&subject, HeaderMap::new(), payload, Some(expected.0)).await?;
    Ok(LogPosition(position))
}

pub(super) async fn last(
    connection: &NatsConnection,
    session: SessionId,
) -> Result<Option<LogMessage>, BusError> {
    let last = connection.last_message(LOG_STREAM, &log_subject(session)).await?;
    Ok(last.map(|stored| message_of(session, stored)))
}

pub(super) async fn read(
    connection: &NatsConnection,
    session: SessionId,
    after: LogPosition,
) -> Result<Vec<LogMessage>, BusError> {
    let subject = log_subject(session);
    let stored = connection.read_messages(LOG_STREAM, &subject, after.0, READ_MESSAGES).await?;
    Ok(stored.into_iter().map(|stored| message_of(session, stored)).collect())
}

fn message_of(session: SessionId, stored: StoredMessage) -> LogMessage {
    LogMessage { session, position: LogPosition(stored.sequence), payload: stored.payload }
}

/// The headers of the last message of each log are read, not the messages.
pub(super) async fn logs(
    connection: &NatsConnection,
) -> Result<Vec<(SessionId, LogPosition)>, BusError> {
    let list = async {
        let failed = |error: &dyn std::error::Error| RequestFailure::NoAnswer(error.to_string());
        let context = jetstream::new(connection.client().clone());
        let config = pull::OrderedConfig {
            // With a name, the subject of the request has the filter, and permissions can check it.
            name: Some(Uuid::new_v4().simple().to_string()),
            filter_subject: LOG_SUBJECTS.to_owned(),
            deliver_policy: DeliverPolicy::LastPerSubject,
            headers_only: true,
            ..pull::OrderedConfig::default()
        };
        let consumer = context.create_consumer_on_stream(config, LOG_STREAM).await;
        let consumer = consumer.map_err(|error| failed(&error))?;
        let mut logs = Vec::new();
        if consumer.cached_info().num_pending == 0 {
            return Ok(logs);
        }
        let mut messages = consumer.messages().await.map_err(|error| failed(&error))?;
        loop {
            let Ok(Some(message)) = timeout(ANSWER_TIMEOUT, messages.next()).await else {
                return Err(RequestFailure::NoAnswer("the list of logs was cut off".to_owned()));
            };
            let message = message.map_err(|error| failed(&error))?;
            let info =
                message.info().map_err(|error| RequestFailure::NoAnswer(error.to_string()))?;
            if let Some(session) = session_of(&message.subject) {
                logs.push((session, LogPosition(info.stream_sequence)));
            }
            if info.pending == 0 {
                return Ok(logs);
            }
        }
    };
    let subject = format!("$JS.API.CONSUMER.CREATE.{LOG_STREAM}");
    let mut logs =
        connection.or_failure(&subject, list).await.map_err(RequestFailure::into_error)?;
    // A log that grew during the listing is in it twice.
    logs.sort_unstable();
    let mut listed: Vec<(SessionId, LogPosition)> = Vec::with_capacity(logs.len());
    for (session, position) in logs {
        match listed.last_mut() {
            Some(before) if before.0 == session => before.1 = position,
            _ => listed.push((session, position)),
        }
    }
    Ok(listed)
}

pub(super) async fn follow(
    connection: &NatsConnection,
) -> Result<mpsc::Receiver<LogMessage>, BusError> {
    let lost = connection.lost();
    let denied = connection.denied(LIVE_SUBJECTS);
    let subscriber = connection.subscribe(LIVE_SUBJECTS).await;
    let mut subscriber = subscriber.map_err(RequestFailure::into_error)?;
    let (sender, receiver) = mpsc::channel(FOLLOWER_QUEUE);
    // Ends with the connection or with the receiver.
    tokio::spawn(async move {
        tokio::pin!(lost, denied);
        loop {
            let message = tokio::select! {
                message = subscriber.next() => message,
                () = &mut lost => return,
                _ = &mut denied => return,
                () = sender.closed() => return,
            };
            let Some(message) = message else { return };
            let Some(message) = republished(&message) else { continue };
            if let Err(mpsc::error::TrySendError::Closed(_)) = sender.try_send(message) {
                return;
            }
        }
    });
    Ok(receiver)
}

/// A message as the stream publishes it again.
fn republished(message: &async_nats::Message) -> Option<LogMessage> {
    let headers = message.headers.as_ref();
    let session = session_of(headers?.get("Nats-Subject")?.as_str())?;
    let position = LogPosition(header_number(headers, "Nats-Sequence")?);
    Some(LogMessage { session, position, payload: message.payload.clone() })
}
