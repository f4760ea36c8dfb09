//! What a test can inspect: the messages that a chat shows, and what the bot did.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use super::call::BotApiCall;
use super::limiter::BotApiViolation;
use super::server::BotApi;
use super::state::{
    BotApiChatId, BotApiContent, BotApiFiles, BotApiMarkup, BotApiMediaKind, BotApiMessage,
    BotApiMessageId, BotApiSender, BotApiThreadId,
};
use super::text::{BotApiEntity, to_html};
use super::users::existing_chat;

/// A message as a user sees it at the moment.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property that a user can see")]
pub struct MessageSnapshot {
    pub message_id: BotApiMessageId,
    pub thread: Option<BotApiThreadId>,
    pub from_bot: bool,
    /// The text or caption, without formatting.
    pub text: String,
    /// The text or caption with its formatting. Equal formatting always gives equal HTML.
    pub html: String,
    pub entities: Vec<BotApiEntity>,
    /// How many entities Telegram dropped: because of the nesting rules, or as too many.
    pub dropped_entities: usize,
    /// The labels of the inline buttons, row by row.
    pub buttons: Vec<Vec<String>>,
    /// Whether the message opens the reply field of the user.
    pub force_reply: bool,
    pub reply_to: Option<BotApiMessageId>,
    /// Whether the message arrived without a notification sound.
    pub silent: bool,
    pub edit_count: u32,
    pub deleted: bool,
    /// The bot's reactions.
    pub reactions: Vec<String>,
    pub album: Option<String>,
    pub media: Option<MediaSnapshot>,
}

/// A file in a message.
#[derive(Clone, Debug)]
pub struct MediaSnapshot {
    pub kind: BotApiMediaKind,
    /// The file name, which is empty for photos and voice messages.
    pub name: String,
    pub bytes: Bytes,
}

/// A draft that a chat shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftSnapshot {
    /// The number that the bot gave the draft.
    pub draft_id: i64,
    pub thread: Option<BotApiThreadId>,
    /// The text, without formatting.
    pub text: String,
}

/// A chat did not reach the expected state in time. It holds the messages of the chat.
#[derive(Clone)]
pub struct BotApiWaitError(pub Vec<MessageSnapshot>);

impl fmt::Display for BotApiWaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the chat did not reach the expected state in time; it contains:")?;
        for message in &self.0 {
            let sender = if message.from_bot { "bot" } else { "user" };
            let deleted = if message.deleted { " (deleted)" } else { "" };
            let MessageSnapshot { message_id, text, buttons, .. } = message;
            write!(f, "\n  {message_id} {sender}{deleted}: {text:?} {buttons:?}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for BotApiWaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BotApiWaitError {}

impl BotApi {
    /// All messages of a chat in their current form, including deleted ones.
    ///
    /// # Panics
    ///
    /// If the chat does not exist.
    pub fn messages(&self, chat: BotApiChatId) -> Vec<MessageSnapshot> {
        let mut state = self.service.state();
        let messages = existing_chat(&mut state, chat).messages.clone();
        let files = &state.files;
        messages.iter().map(|(id, it)| MessageSnapshot::new(*id, it, files)).collect()
    }

    /// The messages of a chat that are not deleted.
    pub fn visible_messages(&self, chat: BotApiChatId) -> Vec<MessageSnapshot> {
        let mut messages = self.messages(chat);
        messages.retain(|it| !it.deleted);
        messages
    }

    /// The drafts that a chat shows at the moment.
    ///
    /// # Panics
    ///
    /// If the chat does not exist.
    pub fn drafts(&self, chat: BotApiChatId) -> Vec<DraftSnapshot> {
        let mut state = self.service.state();
        let (now, lifetime) = (state.now(), state.options.draft_lifetime);
        let drafts = existing_chat(&mut state, chat).drafts.iter();
        let drafts = drafts.filter(|(_, draft)| now < draft.at + lifetime);
        let drafts = drafts.map(|((thread, draft_id), draft)| DraftSnapshot {
            draft_id: *draft_id,
            thread: *thread,
            text: draft.text.text.clone(),
        });
        drafts.collect()
    }

    /// The bot's messages that notified the users of this chat with a sound, in order.
    pub fn notifications(&self, chat: BotApiChatId) -> Vec<BotApiMessageId> {
        let state = self.service.state();
        state.notifications.iter().filter(|(it, _)| *it == chat).map(|(_, id)| *id).collect()
    }

    /// All calls of the bot, in the order of arrival.
    pub fn calls(&self) -> Vec<BotApiCall> {
        self.service.state().calls.clone()
    }

    /// All calls of one method, in the order of arrival.
    pub fn calls_of(&self, method: &str) -> Vec<BotApiCall> {
        let state = self.service.state();
        state.calls.iter().filter(|it| it.is(method)).cloned().collect()
    }

    /// All calls that broke a rate limit. A correct bot has none.
    pub fn violations(&self) -> Vec<BotApiViolation> {
        self.service.state().limiter.violations().to_vec()
    }

    /// How many calls hang in the black hole at the moment.
    pub fn hung_calls(&self) -> usize {
        self.service.hung_calls()
    }

    /// How many updates the bot has not confirmed yet.
    pub fn pending_updates(&self) -> usize {
        self.service.state().updates.len()
    }

    /// The time on the API's clock since the start.
    pub fn now(&self) -> Duration {
        self.service.state().now()
    }

    /// Waits until a condition holds for the messages of a chat. The timeout is in real time.
    pub async fn wait_for_chat(
        &self,
        chat: BotApiChatId,
        mut condition: impl FnMut(&[MessageSnapshot]) -> bool,
        timeout: Duration,
    ) -> Result<Vec<MessageSnapshot>, BotApiWaitError> {
        let messages = self.wait_for(timeout, |api| {
            let messages = api.messages(chat);
            condition(&messages).then_some(messages)
        });
        messages.await.ok_or_else(|| BotApiWaitError(self.messages(chat)))
    }

    /// Calls `inspect` after every change until it returns a value. The timeout is in real time.
    pub async fn wait_for<T>(
        &self,
        timeout: Duration,
        mut inspect: impl FnMut(&Self) -> Option<T>,
    ) -> Option<T> {
        let mut changes = self.service.changes.subscribe();
        let deadline = Instant::now() + timeout;
        loop {
            changes.mark_unchanged();
            if let Some(value) = inspect(self) {
                return Some(value);
            }
            timeout_at(deadline, changes.changed()).await.ok()?.ok()?;
        }
    }
}

impl MessageSnapshot {
    fn new(id: BotApiMessageId, message: &BotApiMessage, files: &BotApiFiles) -> Self {
        let text = message.text().cloned().unwrap_or_default();
        let media = match &message.content {
            BotApiContent::Media { media, .. } => Some(MediaSnapshot {
                kind: media.kind,
                name: media.name.clone(),
                bytes: files.bytes(media.file),
            }),
            BotApiContent::Text(_) | BotApiContent::Service(..) => None,
        };
        Self {
            message_id: id,
            thread: message.thread,
            from_bot: message.from == BotApiSender::Bot,
            html: to_html(&text.text, &text.entities),
            text: text.text,
            entities: text.entities,
            dropped_entities: text.dropped_entities,
            buttons: message.markup.as_ref().map(BotApiMarkup::labels).unwrap_or_default(),
            force_reply: message.markup.as_ref().is_some_and(BotApiMarkup::is_force_reply),
            reply_to: message.reply.as_ref().map(|it| it.to),
            silent: message.silent,
            edit_count: message.edit_count,
            deleted: message.deleted,
            reactions: message.reactions.clone(),
            album: message.album.clone(),
            media,
        }
    }
}
