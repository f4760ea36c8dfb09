//! Polling Telegram for updates.
//!
//! Updates are stored, together with the id of the next one, before the dispatcher gets them and
//! before Telegram is told that they have arrived. Telegram holds a poll open for 50 seconds while
//! there is no update, and serves only one poll per bot at a time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::store::{self, ReceivedUpdate};
use super::{BridgeClock, DispatcherEvent};
use crate::bot::{Bot, BotCallError, BotError};
use crate::bridge::Error;
use crate::state_store::StateStore;

/// The pause if another program polls the same bot. Telegram gives up a lost connection after about
/// half a minute, so the other program may be an earlier run of this one.
const CONFLICT_PAUSE: Duration = Duration::from_secs(35);

/// The longest wait between attempts while Telegram cannot be reached.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// The pause after updates could not be stored.
const STORE_PAUSE: Duration = Duration::from_secs(5);

/// A poll that returns nothing sooner was not held open by the server.
const MIN_POLL: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub(super) struct UpdatePoller {
    pub(super) bot: Bot,
    pub(super) store: Arc<dyn StateStore>,
    pub(super) clock: BridgeClock,
    pub(super) offset: i64,
    pub(super) events: mpsc::Sender<DispatcherEvent>,
    /// Whether the dispatcher has room for further updates.
    pub(super) has_room: watch::Receiver<bool>,
}

impl UpdatePoller {
    /// Polls until the dispatcher stops or Telegram no longer accepts the token.
    pub(super) async fn run(mut self) {
        let mut failures = 0;
        while !self.events.is_closed() {
            // Telegram keeps updates that are not polled for a day.
            if self.has_room.wait_for(|has_room| *has_room).await.is_err() {
                return;
            }
            let started = Instant::now();
            let error = match self.bot.updates(self.offset).await {
                Ok(updates) if updates.is_empty() && started.elapsed() < MIN_POLL => {
                    // A server that does not hold polls open would be asked in a busy loop.
                    sleep(MIN_POLL).await;
                    continue;
                }
                Ok(updates) => {
                    if failures > 0 {
                        info!("Telegram can be reached again");
                    }
                    failures = 0;
                    self.receive(&updates).await;
                    continue;
                }
                Err(error) => error,
            };
            let pause = match error {
                BotError::InvalidToken => {
                    let event = DispatcherEvent::Failed(Error::InvalidToken);
                    let _ = self.events.send(event).await;
                    return;
                }
                BotError::Conflict(why) if why.contains("webhook") => {
                    warn!("a webhook receives this bot's updates; removing it");
                    // If that fails, the next poll has the same conflict.
                    let _ = self.bot.delete_webhook().await;
                    Duration::from_secs(1)
                }
                BotError::Conflict(why) => {
                    warn!(why, "another program polls this bot's updates; retrying");
                    CONFLICT_PAUSE
                }
                BotError::Call(BotCallError::RateLimited(after)) => {
                    let _ = self.events.send(DispatcherEvent::RateLimited(after)).await;
                    after
                }
                error => {
                    if failures == 0 {
                        warn!(%error, "could not reach Telegram; retrying");
                    }
                    failures += 1;
                    MAX_BACKOFF.min(Duration::from_secs(1 << failures.min(5)) / 2)
                }
            };
            sleep(self.clock.real_span(pause)).await;
        }
    }

    async fn receive(&mut self, updates: &[Box<RawValue>]) {
        let at = self.clock.unix_millis();
        let mut entries = Vec::new();
        let mut received = Vec::new();
        for raw in updates {
            let Some(update) = store::parse_update(raw) else { continue };
            entries.push(store::update(update.update_id, at, raw));
            received.push(ReceivedUpdate { at, update });
        }
        let Some(next) = received.iter().map(|it| it.update.update_id + 1).max() else { return };
        entries.push(store::offset(next));
        if let Err(error) = self.store.write(entries).await {
            // Telegram keeps the updates until the next poll with a higher offset.
            warn!(%error, "could not store updates; retrying");
            sleep(STORE_PAUSE).await;
            return;
        }
        self.offset = next;
        // If the dispatcher has stopped, the updates are processed after the next start.
        let _ = self.events.send(DispatcherEvent::Updates(received)).await;
    }
}
