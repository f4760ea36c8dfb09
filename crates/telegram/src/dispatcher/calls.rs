//! Calls to Telegram: which chat is next, and what the outcome changes.

use std::path::PathBuf;

use tracing::{debug, warn};

use super::chat_state::ChatDemand;
use super::{CallOutcome, Dispatcher, DispatcherEvent, outbox, store, worker_outbox};
use crate::address::{ChatAddress, ChatId};
use crate::bot::{BotCallError, BotError};
use crate::chat::BridgeTime;
use crate::rate_limiter::{CallCost, RateDecision};

impl Dispatcher {
    /// Makes every call that may be made now. Returns when the next one is due.
    pub(super) async fn make_calls(&mut self) -> Option<BridgeTime> {
        loop {
            let now = self.now();
            let mut requests = Vec::new();
            let mut next: Option<BridgeTime> = None;
            let mut wake_at = |at: BridgeTime| next = Some(next.map_or(at, |it| it.min(at)));
            for chat in self.chats.values_mut() {
                let earliest = self.rate_limiter.earliest_any(chat.address.chat, chat.kind);
                match chat.demand(earliest, now) {
                    ChatDemand::Call(request) => requests.push(request),
                    ChatDemand::WakeAt(at) => wake_at(at),
                    ChatDemand::Nothing => {}
                }
            }
            match self.rate_limiter.choose(requests.into_iter(), now) {
                RateDecision::Now(address) => self.start_call(address, now).await,
                RateDecision::At(at) => {
                    wake_at(at);
                    return next;
                }
                RateDecision::Blocked => return next,
            }
        }
    }

    async fn start_call(&mut self, address: ChatAddress, now: BridgeTime) {
        let Some(chat) = self.chats.get_mut(&address) else { return };
        let Some(call) = chat.start_call(now) else { return };
        self.rate_limiter.call_started(address.chat, CallCost::of(&call), now);
        // What the chat was sent so far is on disk before it is sent more.
        let write = match chat.unstored_checkpoint() {
            Some(checkpoint) => {
                Some(self.state_writer.write(vec![store::checkpoint(checkpoint)]).await)
            }
            None => None,
        };
        let (bot, events) = (self.context.bot.clone(), self.events.clone());
        self.work.spawn(async move {
            let stored = match write {
                Some(write) => write.done().await,
                None => true,
            };
            let outcome = if stored {
                CallOutcome::Made(bot.call(&call).await)
            } else {
                CallOutcome::NotStored
            };
            // The dispatcher drops the receiver only when everything stops.
            let _ = events.send(DispatcherEvent::CallFinished { address, outcome }).await;
        });
    }

    pub(super) async fn call_finished(&mut self, address: ChatAddress, outcome: CallOutcome) {
        let now = self.now();
        let mut migrated_to = None;
        let outcome = match outcome {
            CallOutcome::NotStored => {
                if let Some(chat) = self.chats.get_mut(&self.current_address(address)) {
                    chat.set_stored(false);
                }
                Err(BotCallError::Unreachable("could not write to the journal".to_owned()))
            }
            CallOutcome::Made(made) => made.map_err(|error| match error {
                BotError::Call(error) => error,
                BotError::ChatMigrated(to) => {
                    migrated_to = Some(to);
                    BotCallError::RateLimited(std::time::Duration::ZERO)
                }
                // The poller gets the same error and stops the bridge.
                BotError::InvalidToken => {
                    BotCallError::Unreachable("the token is not valid".to_owned())
                }
                BotError::Conflict(why) => BotCallError::NoResponse(why),
            }),
        };
        let (called_chat, address) = (address.chat, self.current_address(address));
        let Some(chat) = self.chats.get_mut(&address) else { return };
        let Some(call) = chat.call_finished(&outcome, now) else { return };
        self.rate_limiter.call_finished((called_chat, chat.kind), call.cost, &outcome, now);
        if let Err(error) = &outcome {
            match error {
                BotCallError::NotModified | BotCallError::RateLimited(_) => {
                    debug!(chat = address.chat.0, %error);
                }
                _ => warn!(chat = address.chat.0, %error, "a call of the Bot API failed"),
            }
        }
        if let Some(path) = call.file {
            let sent = match &outcome {
                Ok(_) => Some(true),
                Err(
                    BotCallError::RateLimited(_)
                    | BotCallError::Unreachable(_)
                    | BotCallError::NoResponse(_)
                    | BotCallError::Forbidden(_)
                    | BotCallError::TopicNotFound,
                ) => None,
                Err(_) => Some(false),
            };
            if let Some(sent) = sent {
                chat.queued_files.remove(&path);
                let elsewhere = self.chats.values().any(|it| it.queued_files.contains(&path));
                if !elsewhere {
                    self.archive_file(path, sent).await;
                }
            }
        }
        self.store_checkpoint(address).await;
        if let Some(to) = migrated_to {
            self.migrate(address.chat, to).await;
        }
    }

    /// Stores the checkpoint of a chat if it has changed.
    pub(super) async fn store_checkpoint(&mut self, address: ChatAddress) {
        let Some(chat) = self.chats.get_mut(&address) else { return };
        if let Some(checkpoint) = chat.unstored_checkpoint() {
            let entry = store::checkpoint(checkpoint);
            self.state_writer.write(vec![entry]).await;
        }
    }

    /// Moves the chats of a group that became a supergroup.
    pub(super) async fn migrate(&mut self, from: ChatId, to: ChatId) {
        if from == to {
            return;
        }
        self.migrated.insert(from, to);
        let addresses: Vec<ChatAddress> =
            self.chats.keys().copied().filter(|address| address.chat == from).collect();
        for old in addresses {
            let Some(mut chat) = self.chats.remove(&old) else { continue };
            let new = ChatAddress { chat: to, ..old };
            chat.address = new;
            chat.replies.migrate(new);
            chat.with(|chat| chat.migrate(new));
            let mut entries = vec![store::delete_chat(old)];
            entries.extend(chat.unstored_checkpoint().map(store::checkpoint));
            self.chats.entry(new).or_insert(chat);
            self.state_writer.write(entries).await;
        }
    }

    /// Moves a file out of the outbox, so that it is not found again.
    async fn archive_file(&mut self, path: PathBuf, sent: bool) {
        let Some(file) = self.copies.start_archiving(&path) else {
            // The dispatcher waits, or the file would be found again.
            let archived = tokio::task::spawn_blocking(move || outbox::archive(&path, sent)).await;
            if let Ok(Err(error)) = archived {
                warn!(%error, "could not move a file out of the outbox");
            }
            return;
        };
        let (sessions, events) = (self.context.sessions.clone(), self.events.clone());
        self.work.spawn(async move {
            let archived = worker_outbox::archive(&sessions, &file, &path, sent).await;
            if let Err(error) = &archived {
                warn!(%error, "could not move a file out of the outbox of a worker's session");
            }
            let is_done = archived.is_ok();
            // The dispatcher drops the receiver only when everything stops.
            let _ = events.send(DispatcherEvent::Archived { path, is_done }).await;
        });
    }
}
