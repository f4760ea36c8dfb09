//! The queue of updates for the bot, and its two ways out: long polling and a webhook.
//!
//! An update stays in the queue until a poll with a higher offset confirms it, the webhook accepts
//! it, or a day has passed. A poll that does not confirm gets the same updates again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::call::{BotApiError, BotApiParams};
use super::service::BotApiService;
use super::state::{BotApiClock, BotApiState};

const UPDATE_LIFETIME: Duration = Duration::from_hours(24);

/// The kinds that a bot receives only if it asks for them.
const OPT_IN_KINDS: [&str; 3] = ["chat_member", "message_reaction", "message_reaction_count"];

/// The longest time that a poll waits, in seconds.
const MAX_POLL: i64 = 50;

const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_mins(1);
const WEBHOOK_TIMEOUT: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(crate) struct BotApiUpdateQueue {
    queue: VecDeque<BotApiUpdate>,
    next_id: i64,
    /// The kinds that the bot asked for. An empty list means the default ones.
    allowed: Vec<String>,
    /// The number of the current poll. A later poll ends an earlier one.
    poll: u64,
}

#[derive(Debug)]
struct BotApiUpdate {
    id: i64,
    at: Duration,
    body: Value,
}

impl BotApiUpdateQueue {
    pub(crate) fn new() -> Self {
        Self { queue: VecDeque::new(), next_id: 500_000_001, allowed: Vec::new(), poll: 0 }
    }

    /// Adds an update, unless the bot does not want its kind.
    pub(crate) fn add(&mut self, now: Duration, kind: &str, body: Value) {
        let wanted = match self.allowed.as_slice() {
            [] => !OPT_IN_KINDS.contains(&kind),
            kinds => kinds.iter().any(|it| it == kind),
        };
        if wanted {
            let id = self.next_id;
            self.next_id += 1;
            let mut update = json!({"update_id": id});
            update[kind] = body;
            self.queue.push_back(BotApiUpdate { id, at: now, body: update });
        }
    }

    /// Sets the kinds that the bot wants. Updates that are already queued stay.
    fn allow(&mut self, kinds: &Value) {
        if let Some(kinds) = kinds.as_array() {
            let kinds = kinds.iter().filter_map(Value::as_str);
            self.allowed = kinds.map(ToOwned::to_owned).collect();
        }
    }

    /// Drops the updates before an offset. A negative offset keeps that many of the newest.
    fn confirm(&mut self, offset: i64) {
        if let Ok(count) = usize::try_from(-offset)
            && count > 0
        {
            let old = self.queue.len().saturating_sub(count);
            self.queue.drain(..old);
        } else {
            self.queue.retain(|it| it.id >= offset);
        }
    }

    fn first(&mut self, now: Duration, limit: usize) -> Vec<Value> {
        self.queue.retain(|it| now < it.at + UPDATE_LIFETIME);
        self.queue.iter().take(limit).map(|it| it.body.clone()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }
}

/// `getUpdates`, the only method that waits.
pub(crate) async fn long_poll(
    service: &BotApiService,
    params: &BotApiParams,
) -> Result<Value, BotApiError> {
    let kinds = params.json("allowed_updates")?.unwrap_or_default();
    let limit = params.number("limit").and_then(|it| usize::try_from(it).ok());
    let limit = limit.unwrap_or(100).clamp(1, 100);
    let timeout = params.number("timeout").unwrap_or(0).clamp(0, MAX_POLL).unsigned_abs();
    let mut changes = service.changes.subscribe();
    // A new poll ends the one before it.
    let (poll, timeout) = service.modify(|state| {
        if state.webhook.is_set() {
            return Err(BotApiError::conflict(
                "can't use getUpdates method while webhook is active; use deleteWebhook to delete \
                 the webhook first",
            ));
        }
        state.updates.allow(&kinds);
        state.updates.confirm(params.number("offset").unwrap_or(0));
        state.updates.poll += 1;
        Ok((state.updates.poll, state.clock.real_time(Duration::from_secs(timeout))))
    })?;
    let deadline = Instant::now() + timeout;
    let mut expired = timeout.is_zero();
    loop {
        changes.mark_unchanged();
        {
            let mut state = service.state();
            if state.webhook.is_set() {
                return Err(BotApiError::conflict("terminated by setWebhook request"));
            }
            if state.updates.poll != poll {
                return Err(BotApiError::conflict(
                    "terminated by other getUpdates request; make sure that only one bot instance \
                     is running",
                ));
            }
            let now = state.now();
            let batch = state.updates.first(now, limit);
            if expired || !batch.is_empty() {
                return Ok(batch.into());
            }
        }
        expired = timeout_at(deadline, changes.changed()).await.is_err();
    }
}

/// Where the server delivers updates, instead of waiting for polls.
#[derive(Debug, Default)]
pub(crate) struct BotApiWebhook {
    /// Empty if no webhook is set.
    url: String,
    secret: String,
    last_error: Option<(Duration, String)>,
}

impl BotApiWebhook {
    fn is_set(&self) -> bool {
        !self.url.is_empty()
    }

    pub(crate) fn info(&self, clock: &BotApiClock, pending: usize) -> Value {
        let mut info = json!({
            "url": self.url,
            "has_custom_certificate": false,
            "pending_update_count": pending,
        });
        if let Some((at, message)) = &self.last_error {
            info["last_error_date"] = clock.date(*at).into();
            info["last_error_message"] = message.as_str().into();
        }
        info
    }
}

impl BotApiState {
    pub(crate) fn set_webhook(&mut self, params: &BotApiParams) -> Result<(), BotApiError> {
        let url = params.text("url").into_owned();
        let loopback = ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"];
        // A self-hosted Bot API server accepts plain HTTP too; the double does on loopback.
        if !url.is_empty()
            && !url.starts_with("https://")
            && !loopback.iter().any(|it| url.starts_with(it))
        {
            let reason = "bad webhook: An HTTPS URL must be provided for webhook";
            return Err(BotApiError::bad_request(reason));
        }
        let secret = params.text("secret_token").into_owned();
        if secret.len() > 256 {
            return Err(BotApiError::bad_request("secret token is too long"));
        }
        let is_allowed = |it: u8| it.is_ascii_alphanumeric() || it == b'_' || it == b'-';
        if !secret.bytes().all(is_allowed) {
            return Err(BotApiError::bad_request("secret token contains unallowed characters"));
        }
        self.updates.allow(&params.json("allowed_updates")?.unwrap_or_default());
        self.delete_webhook(params);
        self.webhook = BotApiWebhook { url, secret, last_error: None };
        Ok(())
    }

    pub(crate) fn delete_webhook(&mut self, params: &BotApiParams) {
        if params.flag("drop_pending_updates") {
            self.updates.queue.clear();
        }
        self.webhook = BotApiWebhook::default();
    }
}

/// Delivers updates to the webhook, one after the other, until the server is dropped.
///
/// An update that is not accepted with a 2xx status stays first in the queue and is sent again
/// with exponential backoff.
pub(crate) async fn deliver_to_webhook(service: Arc<BotApiService>) {
    let client = crate::http_client();
    let mut changes = service.changes.subscribe();
    let mut pause = FIRST_RETRY;
    loop {
        changes.mark_unchanged();
        let next = {
            let mut state = service.state();
            let now = state.now();
            let first =
                if state.webhook.is_set() { state.updates.first(now, 1).pop() } else { None };
            first.map(|update| (update, state.webhook.url.clone(), state.webhook.secret.clone()))
        };
        let Some((update, url, secret)) = next else {
            if changes.changed().await.is_err() {
                return;
            }
            continue;
        };
        let mut request = client.post(&url).json(&update).timeout(WEBHOOK_TIMEOUT);
        if !secret.is_empty() {
            request = request.header("x-telegram-bot-api-secret-token", secret);
        }
        let result = match request.send().await {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(format!("Wrong response from the webhook: {}", response.status())),
            Err(_) => Err("Connection failed".to_owned()),
        };
        let failed = result.is_err();
        let real_pause = service.modify(|state| {
            let now = state.now();
            match result {
                Ok(()) => {
                    let id = update["update_id"].as_i64().unwrap_or_default();
                    state.updates.confirm(id + 1);
                }
                Err(message) => state.webhook.last_error = Some((now, message)),
            }
            state.clock.real_time(pause)
        });
        if failed {
            tokio::time::sleep(real_pause).await;
            pause = (pause * 2).min(LAST_RETRY);
        } else {
            pause = FIRST_RETRY;
        }
    }
}
