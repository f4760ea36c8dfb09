//! The state of the API: users, chats, files, updates, and the log of the bot's calls.
//!
//! Each call changes it in one step under one lock, so a reader sees the effects of a call
//! completely or not at all.

mod chat;
mod file;
mod keyboard;
mod message;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::call::{BotApiCall, BotApiError, BotApiParams};
use super::limiter::{BotApiLimiter, BotApiLoad};
use super::method::BotApiCommandMenus;
use super::server::BotApiOptions;
use super::updates::{BotApiUpdateQueue, BotApiWebhook};

pub(crate) use chat::{BotApiChat, BotApiChatKind, BotApiDraft, BotApiTopic};
pub(crate) use file::{BotApiFiles, ImageSize, fits_photo, image_size};
pub use keyboard::{BotApiButtonSelector, BotApiCallbackAnswer};
pub(crate) use keyboard::{BotApiCallbacks, BotApiMarkup};
pub use message::BotApiMediaKind;
pub(crate) use message::{BotApiContent, BotApiMedia, BotApiMessage, BotApiReply, BotApiSender};

#[derive(Debug)]
pub(crate) struct BotApiState {
    pub(crate) clock: BotApiClock,
    pub(crate) options: BotApiOptions,
    pub(crate) users: BTreeMap<BotApiUserId, BotApiUser>,
    pub(crate) chats: BTreeMap<BotApiChatId, BotApiChat>,
    pub(crate) updates: BotApiUpdateQueue,
    pub(crate) callbacks: BotApiCallbacks,
    pub(crate) files: BotApiFiles,
    pub(crate) limiter: BotApiLimiter,
    pub(crate) commands: BotApiCommandMenus,
    pub(crate) webhook: BotApiWebhook,
    pub(crate) calls: Vec<BotApiCall>,
    /// The messages that caused a notification with sound, in order.
    pub(crate) notifications: Vec<(BotApiChatId, BotApiMessageId)>,
}

#[derive(Clone, Debug)]
pub(crate) struct BotApiUser {
    pub(crate) first_name: String,
    pub(crate) username: Option<String>,
}

/// Where and how a call wants its message to appear.
#[derive(Debug)]
pub(crate) struct BotApiDestination {
    pub(crate) chat: BotApiChatId,
    pub(crate) thread: Option<BotApiThreadId>,
    pub(crate) reply: Option<BotApiReply>,
    pub(crate) silent: bool,
}

impl BotApiState {
    pub(crate) fn new(options: BotApiOptions) -> Self {
        let clock = BotApiClock::new(options.speed);
        let tolerance = clock.api_time(options.rates.tolerance);
        let limiter = BotApiLimiter::new(options.rates.clone(), tolerance);
        Self {
            clock,
            options,
            users: BTreeMap::new(),
            chats: BTreeMap::new(),
            updates: BotApiUpdateQueue::new(),
            callbacks: BotApiCallbacks::default(),
            files: BotApiFiles::default(),
            limiter,
            commands: BotApiCommandMenus::default(),
            webhook: BotApiWebhook::default(),
            calls: Vec::new(),
            notifications: Vec::new(),
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    pub(crate) fn bot_json(&self) -> Value {
        let id = self.options.token.split(':').next().and_then(|it| it.parse::<i64>().ok());
        let username = &self.options.username;
        json!({"id": id.unwrap_or(1), "is_bot": true, "first_name": "Towpath", "username": username})
    }

    pub(crate) fn user_json(&self, id: BotApiUserId) -> Value {
        let mut json = json!({"id": id.0, "is_bot": false, "language_code": "en"});
        if let Some(user) = self.users.get(&id) {
            json["first_name"] = user.first_name.as_str().into();
            if let Some(username) = &user.username {
                json["username"] = username.as_str().into();
            }
        }
        json
    }

    pub(crate) fn chat_json(&self, chat: &BotApiChat) -> Value {
        let user = self.users.get(&BotApiUserId(chat.id.0));
        let first_name = user.map_or("", |it| it.first_name.as_str());
        chat.json(first_name, user.and_then(|it| it.username.as_deref()))
    }

    /// A message as the bot receives it. The message it replies to is included, but not the one
    /// that message replies to.
    pub(crate) fn message_json(&self, chat_id: BotApiChatId, id: BotApiMessageId) -> Value {
        let Some(chat) = self.chats.get(&chat_id) else { return Value::Null };
        let Some(message) = chat.messages.get(&id) else { return Value::Null };
        let mut json = self.message_json_without_reply(chat, id, message);
        if let Some(reply) = &message.reply
            && let Some(original) = chat.message(reply.to)
        {
            json["reply_to_message"] = self.message_json_without_reply(chat, reply.to, original);
            if let Some(quote) = &reply.quote {
                json["quote"] = json!({"text": quote, "position": 0, "is_manual": true});
            }
        }
        json
    }

    fn message_json_without_reply(
        &self,
        chat: &BotApiChat,
        id: BotApiMessageId,
        message: &BotApiMessage,
    ) -> Value {
        let from = match message.from {
            BotApiSender::Bot => self.bot_json(),
            BotApiSender::User(user) => self.user_json(user),
        };
        let mut json = json!({
            "message_id": id.0,
            "from": from,
            "chat": self.chat_json(chat),
            "date": self.clock.date(message.at),
        });
        if let Some(edited_at) = message.edited_at {
            json["edit_date"] = self.clock.date(edited_at).into();
        }
        if let Some(thread) = message.thread {
            json["message_thread_id"] = thread.0.into();
            json["is_topic_message"] = true.into();
        }
        if let Some(album) = &message.album {
            json["media_group_id"] = album.as_str().into();
        }
        if let Some(name) = &message.forwarded_from {
            let date = self.clock.date(message.at);
            json["forward_origin"] =
                json!({"type": "hidden_user", "sender_user_name": name, "date": date});
        }
        message.add_content_json(&mut json);
        if let Some(markup) = message.markup.as_ref().and_then(BotApiMarkup::json) {
            json["reply_markup"] = markup;
        }
        json
    }

    /// The chat that a call names, if the bot may write to it.
    pub(crate) fn chat_of(
        &mut self,
        params: &BotApiParams,
    ) -> Result<&mut BotApiChat, BotApiError> {
        if params.text("chat_id").is_empty() {
            return Err(BotApiError::bad_request("chat_id is empty"));
        }
        let id = params.number("chat_id").map(BotApiChatId);
        let chat = id.and_then(|id| self.chats.get_mut(&id));
        let chat = chat.ok_or_else(|| BotApiError::bad_request("chat not found"))?;
        match (chat.bot_blocked, chat.is_private()) {
            (true, true) => Err(BotApiError::forbidden("bot was blocked by the user")),
            (true, false) => Err(BotApiError::forbidden("bot was kicked from the supergroup chat")),
            (false, _) => Ok(chat),
        }
    }

    pub(crate) fn destination(
        &mut self,
        params: &BotApiParams,
    ) -> Result<BotApiDestination, BotApiError> {
        let chat = self.chat_of(params)?;
        let thread = params.thread_id();
        // The general topic is addressed without a thread id; its number 1 is not found.
        if thread.is_some_and(|it| !chat.topics.contains_key(&it)) {
            return Err(BotApiError::bad_request("message thread not found"));
        }
        let reply = reply(chat, params)?;
        let silent = params.flag("disable_notification");
        Ok(BotApiDestination { chat: chat.id, thread, reply, silent })
    }

    pub(crate) fn check_rate(
        &mut self,
        method: &str,
        chat: BotApiChatId,
        load: BotApiLoad,
    ) -> Result<(), BotApiError> {
        let group = self.chats.get(&chat).is_some_and(|it| !it.is_private());
        let now = self.now();
        let admission = self.limiter.admit(now, method, (chat, group), load);
        admission.map_err(BotApiError::too_many_requests)
    }

    /// Adds a message of the bot to a chat. It replaces the drafts of its topic.
    pub(crate) fn post(
        &mut self,
        destination: &BotApiDestination,
        mut message: BotApiMessage,
    ) -> BotApiMessageId {
        message.at = self.now();
        message.silent = destination.silent;
        message.reply.clone_from(&destination.reply);
        let Some(chat) = self.chats.get_mut(&destination.chat) else { return BotApiMessageId(0) };
        chat.drafts.retain(|(thread, _), _| *thread != destination.thread);
        let id = chat.add(message);
        if !destination.silent {
            self.notifications.push((destination.chat, id));
        }
        id
    }
}

fn reply(chat: &BotApiChat, params: &BotApiParams) -> Result<Option<BotApiReply>, BotApiError> {
    let reply = params.json("reply_parameters")?;
    let (to, quote, optional) = if let Some(reply) = &reply {
        let quote = reply["quote"].as_str().map(ToOwned::to_owned);
        (reply["message_id"].as_i64(), quote, reply["allow_sending_without_reply"] == true)
    } else {
        let optional = params.flag("allow_sending_without_reply");
        (params.number("reply_to_message_id"), None, optional)
    };
    let Some(to) = to.filter(|id| *id != 0).map(BotApiMessageId) else { return Ok(None) };
    match chat.message(to) {
        Some(original) => {
            let text = original.text().map_or("", |it| it.text.as_str());
            if quote.as_deref().is_some_and(|quote| !text.contains(quote)) {
                return Err(BotApiError::bad_request("QUOTE_TEXT_INVALID"));
            }
            Ok(Some(BotApiReply { to, quote }))
        }
        None if optional => Ok(None),
        None => Err(BotApiError::bad_request("message to be replied not found")),
    }
}

/// The API's clock. It starts with the server and may run faster than real time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BotApiClock {
    start: Instant,
    /// The Unix time of the start, in seconds.
    epoch: u64,
    speed: f64,
}

impl BotApiClock {
    fn new(speed: f64) -> Self {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let speed = if speed.is_finite() && speed > 0.0 { speed } else { 1.0 };
        Self { start: Instant::now(), epoch, speed }
    }

    fn now(&self) -> Duration {
        self.start.elapsed().mul_f64(self.speed)
    }

    /// A time as messages carry it, in whole seconds.
    pub(crate) fn date(&self, at: Duration) -> u64 {
        self.epoch + at.as_secs()
    }

    /// How long this much of the API's time takes in real time.
    pub(crate) fn real_time(self, time: Duration) -> Duration {
        time.div_f64(self.speed)
    }

    /// How much of the API's time passes in this much real time.
    fn api_time(self, time: Duration) -> Duration {
        time.mul_f64(self.speed)
    }
}

macro_rules! numeric_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

numeric_id! {
    /// A user or the bot.
    BotApiUserId
}
numeric_id! {
    /// A chat: the user's id for a private chat, negative for a group.
    BotApiChatId
}
numeric_id! {
    /// A message, numbered within its chat.
    BotApiMessageId
}
numeric_id! {
    /// A topic: the number of the service message that created it.
    BotApiThreadId
}

/// A callback query: one tap on a button.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BotApiCallbackId(pub String);
