//! `getUpdates`, the one method that waits.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::params::Params;
use super::refusal::Refusal;
use super::stage::Stage;

/// The longest a poll waits, whatever it asks for.
const LONGEST: i64 = 50;

impl Stage {
    pub(super) async fn get_updates(&self, params: &Params) -> Result<Value, Refusal> {
        let kinds = params.json("allowed_updates")?.unwrap_or_default();
        let limit = params.number("limit").and_then(|it| usize::try_from(it).ok());
        let limit = limit.unwrap_or(100).clamp(1, 100);
        let wait = params.number("timeout").unwrap_or(0).clamp(0, LONGEST).unsigned_abs();
        let mut changed = self.changed.subscribe();
        // Whoever polls ends the poll before.
        let (mine, wait) = self.change(|world| {
            if world.webhook.is_set() {
                return Err(Refusal::conflict(
                    "can't use getUpdates method while webhook is active; use deleteWebhook to \
                     delete the webhook first",
                ));
            }
            world.updates.allow(&kinds);
            world.updates.confirm(params.number("offset").unwrap_or(0));
            world.updates.poll += 1;
            Ok((world.updates.poll, world.clock.ours(Duration::from_secs(wait))))
        })?;
        let end = Instant::now() + wait;
        let mut over = wait.is_zero();
        loop {
            changed.mark_unchanged();
            {
                let mut world = self.world();
                if world.webhook.is_set() {
                    return Err(Refusal::conflict("terminated by setWebhook request"));
                }
                if world.updates.poll != mine {
                    return Err(Refusal::conflict(
                        "terminated by other getUpdates request; make sure that only one bot \
                         instance is running",
                    ));
                }
                let now = world.now();
                let batch = world.updates.first(now, limit);
                if over || !batch.is_empty() {
                    return Ok(batch.into());
                }
            }
            over = timeout_at(end, changed.changed()).await.is_err();
        }
    }
}
