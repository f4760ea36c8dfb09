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

/// How many questions may wait for a worker. If there are more, those who ask get no answer.
const QUESTION_QUEUE: usize = 1024;

pub(super) async fn ask(
    connection: &NatsConnection,
    worker: &str,
    payload: Bytes,
    timeout: Duration,
) -> Result<Bytes, BusError> {
    let size = payload.len();
    let subject = question_subject(worker)?;
    match connection.request(&subject, HeaderMap::new(), payload, timeout).await {
        Ok(answer) => Ok(answer.payload),
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
                        tracing::warn!("too many questions wait, one is dropped");
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
    // A question that is dropped has no answer.
    let Ok(answer) = answer else { return };
    if let Err(error) = client.publish(subject, answer).await {
        tracing::warn!("an answer could not be sent: {error}");
    }
}
