//! Questions to workers: requests over the servers, which store nothing of them.

use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};

use super::connection::{NatsConnection, RequestFailure};
use super::subjects::question_subject;
use crate::bus::{BusError, BusQuestion};

/// How many questions may wait for a worker. If there are more, those who ask are refused.
const QUESTION_QUEUE: usize = 1024;

/// The header of an answer that says why there is none.
const ERROR_HEADER: &str = "Towpath-Error";

/// What an answer may take besides its content.
const HEADER_SPACE: usize = 1024;

pub(super) async fn ask(
    connection: &NatsConnection,
    worker: &str,
    payload: Bytes,
    timeout: Duration,
) -> Result<Bytes, BusError> {
    let size = payload.len();
    let subject = question_subject(worker)?;
    match connection.request(&subject, HeaderMap::new(), payload, timeout).await {
        Ok(answer) => match answer.headers.as_ref().and_then(|it| it.get(ERROR_HEADER)) {
            Some(why) => Err(BusError::NotAnswered(why.as_str().to_owned())),
            None => Ok(answer.payload),
        },
        Err(RequestFailure::NoResponders) => Err(BusError::NoListener),
        Err(RequestFailure::TooLarge) => {
            Err(BusError::TooLarge { size, limit: connection.client().max_payload() })
        }
        Err(failure) => Err(failure.into_error()),
    }
}

/// The subscription outlives the connection: the client renews it when it connects again.
pub(super) async fn questions(
    connection: &NatsConnection,
    worker: &str,
) -> Result<mpsc::Receiver<BusQuestion>, BusError> {
    let subject = question_subject(worker)?;
    let subscriber = connection.subscribe(&subject).await;
    let mut subscriber = subscriber.map_err(RequestFailure::into_error)?;
    let client = connection.client().clone();
    let (sender, receiver) = mpsc::channel(QUESTION_QUEUE);
    // Ends with the receiver, after the questions that it got are answered or dropped.
    tokio::spawn(async move {
        let mut answers = FuturesUnordered::new();
        loop {
            tokio::select! {
                message = subscriber.next() => {
                    let Some(message) = message else { break };
                    let Some(reply_subject) = message.reply else { continue };
                    let (reply, answer) = oneshot::channel();
                    let question = BusQuestion { payload: message.payload, reply };
                    if sender.try_send(question).is_ok() {
                        answers.push(async move { (reply_subject, answer.await) });
                    } else {
                        refuse(&client, reply_subject, "too many questions wait").await;
                    }
                }
                Some((reply_subject, answer)) = answers.next() => {
                    send_answer(&client, reply_subject, answer).await;
                }
                () = sender.closed() => break,
            }
        }
        let _ = subscriber.unsubscribe().await;
        while let Some((reply_subject, answer)) = answers.next().await {
            send_answer(&client, reply_subject, answer).await;
        }
    });
    Ok(receiver)
}

async fn send_answer(
    client: &async_nats::Client,
    subject: async_nats::Subject,
    answer: Result<Bytes, oneshot::error::RecvError>,
) {
    let limit = client.max_payload().saturating_sub(HEADER_SPACE);
    match answer {
        Ok(answer) if answer.len() > limit => {
            let size = answer.len();
            let why = format!("its answer of {size} bytes is too large, the limit is {limit}");
            refuse(client, subject, &why).await;
        }
        Ok(answer) => {
            if let Err(error) = client.publish(subject, answer).await {
                tracing::warn!("an answer could not be sent: {error}");
            }
        }
        Err(_) => refuse(client, subject, "it has dropped the question").await,
    }
}

/// Tells why there is no answer, so that the asker does not wait for one.
async fn refuse(client: &async_nats::Client, subject: async_nats::Subject, why: &str) {
    tracing::warn!("a question is not answered: {why}");
    let mut headers = HeaderMap::new();
    headers.insert(ERROR_HEADER, why);
    if let Err(error) = client.publish_with_headers(subject, headers, Bytes::new()).await {
        tracing::warn!("an answer could not be sent: {error}");
    }
}
