//! Asking Telegram for what people sent.
//!
//! What came is on the disk, with the number of the next, before anybody sees it and before Telegram
//! is told that it came.

use std::time::Duration;

use journal::Journal;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::Input;
use super::clock::Clock;
use super::drawer::{self, Arrival, DRAWER};
use crate::bot::{Bot, Trouble};
use crate::call::Failure;
use crate::settings::Error;

/// How long to leave another poller alone: Telegram lets go of a connection that was lost after
/// about half a minute.
const CONFLICT: Duration = Duration::from_secs(35);

/// The longest wait between attempts when Telegram is not to be had.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// What is no long poll, and how long to wait then.
const SHORTEST: Duration = Duration::from_millis(300);

/// Asks for updates.
#[derive(Debug)]
pub(super) struct Poller {
    pub(super) bot: Bot,
    pub(super) journal: Journal,
    pub(super) clock: Clock,
    pub(super) offset: i64,
    pub(super) tell: mpsc::Sender<Input>,
}

impl Poller {
    /// Polls until nobody listens any more, or the token is not known any more.
    pub(super) async fn run(mut self) {
        let mut failures = 0;
        while !self.tell.is_closed() {
            let asked = Instant::now();
            let trouble = match self.bot.updates(self.offset).await {
                Ok(updates) if updates.is_empty() && asked.elapsed() < SHORTEST => {
                    // A server that does not wait for updates would be asked without end.
                    sleep(SHORTEST).await;
                    continue;
                }
                Ok(updates) => {
                    if failures > 0 {
                        info!("Telegram is there again");
                    }
                    failures = 0;
                    self.take(&updates).await;
                    continue;
                }
                Err(trouble) => trouble,
            };
            let wait = match trouble {
                Trouble::UnknownToken => {
                    let _ = self.tell.send(Input::Ended(Error::UnknownToken)).await;
                    return;
                }
                Trouble::Conflict(why) if why.contains("webhook") => {
                    warn!("a webhook gets this bot's messages, and is removed");
                    // If it is still there, it is tried again.
                    let _ = self.bot.without_webhook().await;
                    Duration::from_secs(1)
                }
                Trouble::Conflict(why) => {
                    warn!(why, "another program asks for this bot's messages; trying again");
                    CONFLICT
                }
                Trouble::Failure(Failure::TooFast(after)) => {
                    let _ = self.tell.send(Input::AllTooFast(after)).await;
                    after
                }
                trouble => {
                    if failures == 0 {
                        warn!(%trouble, "Telegram cannot be reached; trying again");
                    }
                    failures += 1;
                    LONGEST_WAIT.min(Duration::from_secs(1 << failures.min(5)) / 2)
                }
            };
            sleep(self.clock.span(wait)).await;
        }
    }

    async fn take(&mut self, updates: &[Box<serde_json::value::RawValue>]) {
        let at = self.clock.world();
        let mut memories = Vec::new();
        let mut came = Vec::new();
        for raw in updates {
            let Some(update) = drawer::parsed(raw) else { continue };
            memories.push(drawer::update(update.update_id, at, raw));
            came.push(Arrival { at, update });
        }
        let Some(next) = came.iter().map(|it| it.update.update_id + 1).max() else { return };
        memories.push(drawer::offset(next));
        if let Err(problem) = self.journal.keep(DRAWER, memories).await {
            // Telegram keeps them until it is told that they came.
            warn!(%problem, "what came could not be written down; trying again");
            sleep(LONGEST_WAIT / 6).await;
            return;
        }
        self.offset = next;
        // Whoever has gone finds them on the disk.
        let _ = self.tell.send(Input::Updates(came)).await;
    }
}
