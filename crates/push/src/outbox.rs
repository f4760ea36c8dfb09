//! Messages that wait to be sent: a bounded queue, retries, and one request at a time for each
//! subscription.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use crate::endpoint::PushEndpoint;
use crate::message::PushMessage;
use crate::push_client::{PushClient, PushResult};
use crate::subscription::PushSubscription;

/// How many messages wait at most. Beyond that the oldest is dropped: it is the least useful one.
const MAX_WAITING: usize = 256;

/// How many requests are made at a time.
const MAX_REQUESTS: usize = 8;

/// How often a message is tried.
const MAX_ATTEMPTS: u32 = 8;

/// How long the first retry waits. Each further one waits twice as long, up to [`MAX_DELAY`].
const FIRST_DELAY: Duration = Duration::from_secs(5);
const MAX_DELAY: Duration = Duration::from_mins(5);

/// Messages that wait to be sent. Clones share them.
#[derive(Clone, Debug)]
pub struct Outbox(Arc<OutboxState>);

#[derive(Debug)]
struct OutboxState {
    client: PushClient,
    waiting: Mutex<VecDeque<WaitingPush>>,
    changed: Notify,
}

#[derive(Clone, Debug)]
struct WaitingPush {
    subscription: PushSubscription,
    message: PushMessage,
    attempts: u32,
    due: Instant,
    /// After this it is of no use.
    expires: Instant,
}

impl WaitingPush {
    fn is_about(&self, endpoint: &PushEndpoint, topic: Option<&str>) -> bool {
        self.subscription.endpoint == *endpoint
            && topic.is_some()
            && self.message.topic.as_deref() == topic
    }
}

impl Outbox {
    pub fn new(client: PushClient) -> Self {
        let (waiting, changed) = (Mutex::default(), Notify::new());
        Self(Arc::new(OutboxState { client, waiting, changed }))
    }

    /// The key that browsers subscribe with.
    pub fn public_key(&self) -> &str {
        self.0.client.public_key()
    }

    /// Adds a message. It replaces one of the same topic that still waits.
    pub fn add(&self, subscription: PushSubscription, message: PushMessage) {
        let due = Instant::now();
        let expires = due + message.ttl.max(FIRST_DELAY);
        let new = WaitingPush { subscription, message, attempts: 0, due, expires };
        let mut waiting = self.waiting();
        let topic = new.message.topic.as_deref();
        waiting.retain(|it| !it.is_about(&new.subscription.endpoint, topic));
        if waiting.len() >= MAX_WAITING {
            warn!("too many push messages wait, so the oldest is dropped");
            waiting.pop_front();
        }
        waiting.push_back(new);
        drop(waiting);
        self.0.changed.notify_one();
    }

    /// Removes a message that still waits. Returns whether there was one.
    pub fn cancel(&self, endpoint: &PushEndpoint, topic: &str) -> bool {
        let mut waiting = self.waiting();
        let before = waiting.len();
        waiting.retain(|it| !it.is_about(endpoint, Some(topic)));
        waiting.len() < before
    }

    /// Removes everything that waits for a subscription.
    pub fn remove(&self, endpoint: &PushEndpoint) {
        self.waiting().retain(|it| it.subscription.endpoint != *endpoint);
    }

    /// Sends messages for as long as it is polled. `gone` is called with subscriptions that the push
    /// service does not know any more.
    pub async fn run(self, gone: impl Fn(&PushEndpoint)) {
        let mut requests = JoinSet::new();
        let mut busy: HashSet<PushEndpoint> = HashSet::new();
        loop {
            while requests.len() < MAX_REQUESTS
                && let Some(next) = self.take_due(&busy)
            {
                busy.insert(next.subscription.endpoint.clone());
                let state = Arc::clone(&self.0);
                requests.spawn(async move {
                    let result = state.client.send(&next.subscription, &next.message).await;
                    (next, result)
                });
            }
            let next_due = self.next_due(&busy).filter(|_| requests.len() < MAX_REQUESTS);
            let finished = tokio::select! {
                Some(finished) = requests.join_next() => finished,
                () = self.0.changed.notified() => continue,
                () = wait_until(next_due) => continue,
            };
            let Ok((sent, result)) = finished else {
                // A request that panicked does not say whose it was.
                warn!("sending a push message failed unexpectedly");
                busy.clear();
                continue;
            };
            busy.remove(&sent.subscription.endpoint);
            match result {
                PushResult::Accepted => {}
                PushResult::Gone => {
                    self.remove(&sent.subscription.endpoint);
                    gone(&sent.subscription.endpoint);
                }
                PushResult::Rejected(reason) => {
                    warn!(endpoint = ?sent.subscription.endpoint, %reason, "a push message was not sent");
                }
                PushResult::Retry { after, reason } => self.put_back(sent, after, &reason),
            }
        }
    }

    /// Puts a message back unless it is out of date.
    fn put_back(&self, mut sent: WaitingPush, after: Option<Duration>, reason: &str) {
        let endpoint = &sent.subscription.endpoint;
        let delay = FIRST_DELAY.saturating_mul(1 << sent.attempts.min(16)).min(MAX_DELAY);
        sent.attempts += 1;
        sent.due = Instant::now() + after.unwrap_or(delay);
        if sent.attempts >= MAX_ATTEMPTS || sent.due > sent.expires {
            warn!(?endpoint, %reason, "a push message was given up");
            return;
        }
        debug!(?endpoint, %reason, "a push message will be sent again");
        let mut waiting = self.waiting();
        let topic = sent.message.topic.as_deref();
        let is_replaced = waiting.iter().any(|it| it.is_about(endpoint, topic));
        if !is_replaced && waiting.len() < MAX_WAITING {
            waiting.push_front(sent);
        }
    }

    fn take_due(&self, busy: &HashSet<PushEndpoint>) -> Option<WaitingPush> {
        let now = Instant::now();
        let mut waiting = self.waiting();
        let is_due = |it: &WaitingPush| it.due <= now && !busy.contains(&it.subscription.endpoint);
        let index = waiting.iter().position(is_due)?;
        waiting.remove(index)
    }

    fn next_due(&self, busy: &HashSet<PushEndpoint>) -> Option<Instant> {
        let waiting = self.waiting();
        let free = waiting.iter().filter(|it| !busy.contains(&it.subscription.endpoint));
        free.map(|it| it.due).min()
    }

    #[cfg(test)]
    pub(crate) fn waiting_count(&self) -> usize {
        self.waiting().len()
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<WaitingPush>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
