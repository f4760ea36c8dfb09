//! Updates brought to the bot instead of fetched by it.
//!
//! They are brought one after the other. One that is not taken with a 2xx stays first in line and is
//! brought again, after longer and longer pauses.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::clock::Clock;
use super::params::Params;
use super::refusal::Refusal;
use super::stage::Stage;
use super::world::World;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
const PATIENCE: Duration = Duration::from_mins(1);

/// Where updates are brought.
#[derive(Debug, Default)]
pub(super) struct Webhook {
    /// Empty where the bot fetches them itself.
    url: String,
    secret: String,
    failed: Option<(Duration, String)>,
}

impl Webhook {
    pub(super) fn is_set(&self) -> bool {
        !self.url.is_empty()
    }

    pub(super) fn info(&self, clock: &Clock, pending: usize) -> Value {
        let mut info = json!({
            "url": self.url,
            "has_custom_certificate": false,
            "pending_update_count": pending,
        });
        if let Some((at, why)) = &self.failed {
            info["last_error_date"] = clock.date(*at).into();
            info["last_error_message"] = why.as_str().into();
        }
        info
    }
}

impl World {
    pub(super) fn set_webhook(&mut self, params: &Params) -> Result<(), Refusal> {
        let url = params.text("url").into_owned();
        let here = ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"];
        // As a server of one's own allows it, and only on loopback.
        if !url.is_empty()
            && !url.starts_with("https://")
            && !here.iter().any(|it| url.starts_with(it))
        {
            return Err(Refusal::bad("bad webhook: An HTTPS URL must be provided for webhook"));
        }
        let secret = params.text("secret_token").into_owned();
        if secret.len() > 256 {
            return Err(Refusal::bad("secret token is too long"));
        }
        let fits = |it: u8| it.is_ascii_alphanumeric() || it == b'_' || it == b'-';
        if !secret.bytes().all(fits) {
            return Err(Refusal::bad("secret token contains unallowed characters"));
        }
        self.updates.allow(&params.json("allowed_updates")?.unwrap_or_default());
        self.delete_webhook(params);
        self.webhook = Webhook { url, secret, failed: None };
        Ok(())
    }

    pub(super) fn delete_webhook(&mut self, params: &Params) {
        if params.flag("drop_pending_updates") {
            self.updates.clear();
        }
        self.webhook = Webhook::default();
    }
}

/// Brings updates wherever the webhook says, for as long as the server lives.
pub(super) async fn bring(stage: Arc<Stage>) {
    let client = crate::http_client();
    let mut changed = stage.changed.subscribe();
    let mut pause = FIRST_PAUSE;
    loop {
        changed.mark_unchanged();
        let next = {
            let mut world = stage.world();
            let now = world.now();
            let first =
                if world.webhook.is_set() { world.updates.first(now, 1).pop() } else { None };
            first.map(|update| (update, world.webhook.url.clone(), world.webhook.secret.clone()))
        };
        let Some((update, url, secret)) = next else {
            if changed.changed().await.is_err() {
                return;
            }
            continue;
        };
        let mut request = client.post(&url).json(&update).timeout(PATIENCE);
        if !secret.is_empty() {
            request = request.header("x-telegram-bot-api-secret-token", secret);
        }
        let outcome = match request.send().await {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(format!("Wrong response from the webhook: {}", response.status())),
            Err(_) => Err("Connection failed".to_owned()),
        };
        let failed = outcome.is_err();
        let ours = stage.change(|world| {
            let now = world.now();
            match outcome {
                Ok(()) => {
                    let id = update["update_id"].as_i64().unwrap_or_default();
                    world.updates.confirm(id + 1);
                }
                Err(why) => world.webhook.failed = Some((now, why)),
            }
            world.clock.ours(pause)
        });
        if failed {
            tokio::time::sleep(ours).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        } else {
            pause = FIRST_PAUSE;
        }
    }
}
