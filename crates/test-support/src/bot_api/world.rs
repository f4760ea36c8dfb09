//! Everything the server knows: people, chats, files, updates, and what the bot did.
//!
//! It changes only under one lock and in one step for each call, so whoever looks sees a call's
//! effects whole or not at all.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::callback::Callbacks;
use super::chat::Chat;
use super::clock::Clock;
use super::command::Commands;
use super::file::Files;
use super::ids::{ChatId, MessageId, ThreadId, UserId};
use super::limiter::{Limiter, Load};
use super::log::Call;
use super::message::{Message, Reply, Sender};
use super::options::BotApiOptions;
use super::params::Params;
use super::refusal::Refusal;
use super::update::Updates;
use super::webhook::Webhook;

/// Everything the server knows.
#[derive(Debug)]
pub(super) struct World {
    pub(super) clock: Clock,
    pub(super) options: BotApiOptions,
    pub(super) people: BTreeMap<UserId, Person>,
    pub(super) chats: BTreeMap<ChatId, Chat>,
    pub(super) updates: Updates,
    pub(super) callbacks: Callbacks,
    pub(super) files: Files,
    pub(super) limiter: Limiter,
    pub(super) commands: Commands,
    pub(super) webhook: Webhook,
    pub(super) log: Vec<Call>,
    /// The messages that made a phone ring, in order.
    pub(super) rung: Vec<(ChatId, MessageId)>,
}

/// Somebody with a name.
#[derive(Clone, Debug)]
pub(super) struct Person {
    pub(super) first_name: String,
    pub(super) username: Option<String>,
}

/// Where a message is to go.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) chat: ChatId,
    pub(super) thread: Option<ThreadId>,
    pub(super) reply: Option<Reply>,
    pub(super) silent: bool,
}

impl World {
    pub(super) fn new(options: BotApiOptions) -> Self {
        let clock = Clock::new(options.speed);
        let limiter = Limiter::new(options.rates.clone(), clock.theirs(options.rates.leeway));
        Self {
            clock,
            options,
            people: BTreeMap::new(),
            chats: BTreeMap::new(),
            updates: Updates::new(),
            callbacks: Callbacks::default(),
            files: Files::default(),
            limiter,
            commands: Commands::default(),
            webhook: Webhook::default(),
            log: Vec::new(),
            rung: Vec::new(),
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.clock.now()
    }

    pub(super) fn bot(&self) -> Value {
        let id = self.options.token.split(':').next().and_then(|it| it.parse::<i64>().ok());
        let username = &self.options.username;
        json!({"id": id.unwrap_or(1), "is_bot": true, "first_name": "Towpath", "username": username})
    }

    pub(super) fn user(&self, id: UserId) -> Value {
        let mut user = json!({"id": id.0, "is_bot": false, "language_code": "en"});
        if let Some(person) = self.people.get(&id) {
            user["first_name"] = person.first_name.as_str().into();
            if let Some(username) = &person.username {
                user["username"] = username.as_str().into();
            }
        }
        user
    }

    pub(super) fn chat_json(&self, chat: &Chat) -> Value {
        let person = self.people.get(&UserId(chat.id.0));
        let name = person.map_or("", |it| it.first_name.as_str());
        chat.json(name, person.and_then(|it| it.username.as_deref()))
    }

    /// A message as the bot gets it. What it answers is told in full, but not what that answered.
    pub(super) fn message_json(&self, chat: ChatId, id: MessageId) -> Value {
        let Some(room) = self.chats.get(&chat) else { return Value::Null };
        let Some(message) = room.messages.get(&id) else { return Value::Null };
        let mut json = self.bare_json(room, id, message);
        if let Some(reply) = &message.reply
            && let Some(answered) = room.message(reply.to)
        {
            json["reply_to_message"] = self.bare_json(room, reply.to, answered);
            if let Some(quote) = &reply.quote {
                json["quote"] = json!({"text": quote, "position": 0, "is_manual": true});
            }
        }
        json
    }

    fn bare_json(&self, chat: &Chat, id: MessageId, message: &Message) -> Value {
        let from = match message.from {
            Sender::Bot => self.bot(),
            Sender::User(user) => self.user(user),
        };
        let mut json = json!({
            "message_id": id.0,
            "from": from,
            "chat": self.chat_json(chat),
            "date": self.clock.date(message.at),
        });
        if let Some(edited) = message.edited {
            json["edit_date"] = self.clock.date(edited).into();
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
        message.describe(&mut json);
        if let Some(markup) = message.markup.as_ref().and_then(super::markup::Markup::json) {
            json["reply_markup"] = markup;
        }
        json
    }

    /// The chat that a call names, where the bot may write to it.
    pub(super) fn chat_of(&mut self, params: &Params) -> Result<&mut Chat, Refusal> {
        if params.text("chat_id").is_empty() {
            return Err(Refusal::bad("chat_id is empty"));
        }
        let id = params.number("chat_id").map(ChatId);
        let chat = id.and_then(|id| self.chats.get_mut(&id));
        let chat = chat.ok_or_else(|| Refusal::bad("chat not found"))?;
        match (chat.shut, chat.is_private()) {
            (true, true) => Err(Refusal::forbidden("bot was blocked by the user")),
            (true, false) => Err(Refusal::forbidden("bot was kicked from the supergroup chat")),
            (false, _) => Ok(chat),
        }
    }

    /// Where a call wants its message.
    pub(super) fn place(&mut self, params: &Params) -> Result<Place, Refusal> {
        let chat = self.chat_of(params)?;
        let thread = params.thread();
        // The general topic is no topic here: it is left out, and its number 1 is not found.
        if thread.is_some_and(|it| !chat.topics.contains_key(&it)) {
            return Err(Refusal::bad("message thread not found"));
        }
        let reply = reply(chat, params)?;
        let silent = params.flag("disable_notification");
        Ok(Place { chat: chat.id, thread, reply, silent })
    }

    pub(super) fn admit(&mut self, method: &str, chat: ChatId, load: Load) -> Result<(), Refusal> {
        let group = self.chats.get(&chat).is_some_and(|it| !it.is_private());
        let now = self.now();
        self.limiter.admit(now, method, (chat, group), load).map_err(Refusal::too_many)
    }

    /// Puts the bot's message where it belongs. A real message takes the place of any draft there.
    pub(super) fn post(&mut self, place: &Place, mut message: Message) -> MessageId {
        let now = self.now();
        message.at = now;
        message.silent = place.silent;
        message.reply.clone_from(&place.reply);
        let Some(chat) = self.chats.get_mut(&place.chat) else { return MessageId(0) };
        chat.drafts.retain(|(thread, _), _| *thread != place.thread);
        let id = chat.next_id();
        chat.messages.insert(id, message);
        if !place.silent {
            self.rung.push((place.chat, id));
        }
        id
    }
}

fn reply(chat: &Chat, params: &Params) -> Result<Option<Reply>, Refusal> {
    let given = params.json("reply_parameters")?;
    let (to, quote, lenient) = if let Some(reply) = &given {
        let quote = reply["quote"].as_str().map(ToOwned::to_owned);
        (reply["message_id"].as_i64(), quote, reply["allow_sending_without_reply"] == true)
    } else {
        let lenient = params.flag("allow_sending_without_reply");
        (params.number("reply_to_message_id"), None, lenient)
    };
    let Some(to) = to.filter(|id| *id != 0).map(MessageId) else { return Ok(None) };
    match chat.message(to) {
        Some(answered) => {
            let text = answered.rich().map_or("", |it| it.text.as_str());
            if quote.as_deref().is_some_and(|quote| !text.contains(quote)) {
                return Err(Refusal::bad("QUOTE_TEXT_INVALID"));
            }
            Ok(Some(Reply { to, quote }))
        }
        None if lenient => Ok(None),
        None => Err(Refusal::bad("message to be replied not found")),
    }
}
