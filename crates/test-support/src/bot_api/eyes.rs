//! Looking at the chats, and at what the bot did.

use std::fmt;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::hands::room;
use super::ids::{ChatId, MessageId};
use super::limiter::Breach;
use super::log::Call;
use super::seen::{Draft, Seen};
use super::server::BotApi;

/// A chat in which something never came to be seen; this is what was.
#[derive(Clone)]
pub struct NotSeen(pub Vec<Seen>);

impl fmt::Display for NotSeen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it did not come to be seen; the chat holds:")?;
        for seen in &self.0 {
            let who = if seen.from_bot { "bot" } else { "user" };
            let gone = if seen.deleted { " (deleted)" } else { "" };
            write!(f, "\n  {} {who}{gone}: {:?} {:?}", seen.message_id, seen.text, seen.markup)?;
        }
        Ok(())
    }
}

impl fmt::Debug for NotSeen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NotSeen {}

impl BotApi {
    /// Everything that was ever said in a chat, as it is now; what was deleted says so.
    ///
    /// # Panics
    ///
    /// If there is no such chat.
    pub fn messages(&self, chat: ChatId) -> Vec<Seen> {
        let mut world = self.stage.world();
        let messages = room(&mut world, chat).messages.clone();
        messages.iter().map(|(id, message)| Seen::of(*id, message, &world.files)).collect()
    }

    /// What a person sees of a chat now.
    pub fn visible(&self, chat: ChatId) -> Vec<Seen> {
        let mut messages = self.messages(chat);
        messages.retain(|it| !it.deleted);
        messages
    }

    /// The drafts that are on the screen now.
    ///
    /// # Panics
    ///
    /// If there is no such chat.
    pub fn drafts(&self, chat: ChatId) -> Vec<Draft> {
        let mut world = self.stage.world();
        let (now, life) = (world.now(), world.options.draft_life);
        let drafts = room(&mut world, chat).drafts.iter();
        let shown = drafts.filter(|(_, it)| now < it.at + life);
        let draft = |(key, sketch): (&(Option<_>, i64), &super::chat::Sketch)| {
            let (thread, draft_id) = *key;
            Draft { draft_id, thread, text: sketch.rich.text.clone() }
        };
        shown.map(draft).collect()
    }

    /// The bot's messages that made a phone ring in this chat, in order.
    pub fn notifications(&self, chat: ChatId) -> Vec<MessageId> {
        let world = self.stage.world();
        world.rung.iter().filter(|(it, _)| *it == chat).map(|(_, id)| *id).collect()
    }

    /// Every call of the bot, in the order they came.
    pub fn calls(&self) -> Vec<Call> {
        self.stage.world().log.clone()
    }

    /// Every call of one method, in the order they came.
    pub fn calls_of(&self, method: &str) -> Vec<Call> {
        let world = self.stage.world();
        world.log.iter().filter(|it| it.is(method)).cloned().collect()
    }

    /// Every time the bot sent more than it may. A bot that behaves has none.
    pub fn breaches(&self) -> Vec<Breach> {
        self.stage.world().limiter.breaches().to_vec()
    }

    /// How many calls hang in a dead network now.
    pub fn held_calls(&self) -> usize {
        self.stage.held()
    }

    /// How many updates wait for the bot to confirm them.
    pub fn pending_updates(&self) -> usize {
        self.stage.world().updates.len()
    }

    /// The time on the API's clock since it began.
    pub fn now(&self) -> Duration {
        self.stage.world().now()
    }

    /// Waits until a chat looks as it should, for so long of our time.
    pub async fn wait_until(
        &self,
        chat: ChatId,
        mut looks: impl FnMut(&[Seen]) -> bool,
        patience: Duration,
    ) -> Result<Vec<Seen>, NotSeen> {
        let seen = self.eventually(patience, |api| {
            let seen = api.messages(chat);
            looks(&seen).then_some(seen)
        });
        seen.await.ok_or_else(|| NotSeen(self.messages(chat)))
    }

    /// Looks each time something happened until there is something to return, for so long of our
    /// time.
    pub async fn eventually<T>(
        &self,
        patience: Duration,
        mut look: impl FnMut(&Self) -> Option<T>,
    ) -> Option<T> {
        let mut changed = self.stage.changed.subscribe();
        let end = Instant::now() + patience;
        loop {
            changed.mark_unchanged();
            if let Some(found) = look(self) {
                return Some(found);
            }
            timeout_at(end, changed.changed()).await.ok()?.ok()?;
        }
    }
}
