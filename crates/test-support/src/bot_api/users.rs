//! The actions of users in their chats.
//!
//! An action in a chat that does not exist is a mistake in the test and panics.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::server::BotApi;
use super::state::{
    BotApiButtonSelector, BotApiCallbackAnswer, BotApiCallbackId, BotApiChat, BotApiChatId,
    BotApiChatKind, BotApiContent, BotApiFiles, BotApiMarkup, BotApiMedia, BotApiMessage,
    BotApiMessageId, BotApiReply, BotApiSender, BotApiState, BotApiThreadId, BotApiUser,
    BotApiUserId, ImageSize, image_size,
};
use super::text::BotApiText;

/// Why a user could not tap a button.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BotApiTapError {
    #[error("there is no message `{0}`, or it is deleted")]
    NoMessage(BotApiMessageId),
    #[error("message `{0}` has no such button; it has `{1:?}`")]
    NoButton(BotApiMessageId, Vec<Vec<String>>),
    #[error("the button does not send a callback query")]
    NoCallback,
}

impl BotApi {
    /// Names a user. The default name contains the user's id.
    pub fn set_user_name(&self, user: BotApiUserId, first_name: &str, username: &str) {
        let username = Some(username.to_owned());
        let named = BotApiUser { first_name: first_name.to_owned(), username };
        self.service.modify(|state| state.users.insert(user, named));
    }

    /// The private chat of a user with the bot, created if necessary.
    pub fn private_chat(&self, user: BotApiUserId) -> BotApiChatId {
        self.service.modify(|state| {
            add_user(state, user);
            let id = BotApiChatId(user.0);
            let kind = BotApiChatKind::Private { topics: state.options.private_topics };
            state.chats.entry(id).or_insert_with(|| BotApiChat::new(id, kind));
            id
        })
    }

    /// Creates a group without topics, with the bot as an administrator.
    pub fn create_group(&self, members: &[BotApiUserId]) -> BotApiChatId {
        self.create_supergroup(members, false)
    }

    /// Creates a group with topics, with the bot as an administrator.
    pub fn create_forum(&self, members: &[BotApiUserId]) -> BotApiChatId {
        self.create_supergroup(members, true)
    }

    fn create_supergroup(&self, members: &[BotApiUserId], forum: bool) -> BotApiChatId {
        self.service.modify(|state| {
            for user in members {
                add_user(state, *user);
            }
            let count = i64::try_from(state.chats.len()).unwrap_or(i64::MAX);
            let id = BotApiChatId(-1_002_000_000_000 - count);
            let (title, members) = (format!("Group {count}"), members.to_vec());
            let kind = BotApiChatKind::Group { title, members, forum };
            state.chats.insert(id, BotApiChat::new(id, kind));
            id
        })
    }

    /// # Panics
    ///
    /// If the chat does not exist.
    pub fn user_sends(
        &self,
        chat: BotApiChatId,
        user: BotApiUserId,
        message: impl Into<BotApiUserMessage>,
    ) -> BotApiMessageId {
        let message = message.into();
        self.service.modify(|state| {
            let now = state.now();
            let message = message.build(user, now, &mut state.files);
            let id = existing_chat(state, chat).add(message);
            let json = state.message_json(chat, id);
            state.updates.add(now, "message", json);
            id
        })
    }

    /// The user edits the text or caption of one of their messages.
    pub fn user_edits(&self, chat: BotApiChatId, message: BotApiMessageId, text: &str) {
        let text = BotApiText::from_user(text);
        self.service.modify(|state| edit_message(state, chat, message, text));
    }

    /// The user deletes a message. Telegram does not notify the bot.
    ///
    /// # Panics
    ///
    /// If the chat does not exist.
    pub fn user_deletes(&self, chat: BotApiChatId, message: BotApiMessageId) {
        self.service.modify(|state| {
            if let Some(message) = existing_chat(state, chat).message_mut(message) {
                message.deleted = true;
            }
        });
    }

    /// # Panics
    ///
    /// If the chat does not exist.
    pub fn user_taps(
        &self,
        chat: BotApiChatId,
        user: BotApiUserId,
        message: BotApiMessageId,
        button: impl Into<BotApiButtonSelector>,
    ) -> Result<BotApiCallbackId, BotApiTapError> {
        let selector = button.into();
        self.service.modify(|state| {
            let found = existing_chat(state, chat).message(message);
            let markup = &found.ok_or(BotApiTapError::NoMessage(message))?.markup;
            let Some(button) = markup.as_ref().and_then(|it| it.button(&selector)) else {
                let labels = markup.as_ref().map(BotApiMarkup::labels);
                return Err(BotApiTapError::NoButton(message, labels.unwrap_or_default()));
            };
            let data = button.data.clone().ok_or(BotApiTapError::NoCallback)?;
            Ok(add_callback(state, chat, user, message, &data))
        })
    }

    /// The user taps a button that the bot has removed but the user's client still shows.
    pub fn user_taps_removed_button(
        &self,
        chat: BotApiChatId,
        user: BotApiUserId,
        message: BotApiMessageId,
        data: &str,
    ) -> BotApiCallbackId {
        self.service.modify(|state| add_callback(state, chat, user, message, data))
    }

    /// Waits for the bot's answer to a tap.
    pub async fn callback_answer(
        &self,
        tap: &BotApiCallbackId,
        timeout: Duration,
    ) -> Option<BotApiCallbackAnswer> {
        self.wait_for(timeout, |api| api.service.state().callbacks.answer(tap)).await
    }

    /// The user blocks the bot, or the group removes it.
    pub fn block_bot(&self, chat: BotApiChatId) {
        self.service.modify(|state| set_bot_blocked(state, chat, true));
    }

    /// The user unblocks the bot, or the group adds it again.
    pub fn unblock_bot(&self, chat: BotApiChatId) {
        self.service.modify(|state| set_bot_blocked(state, chat, false));
    }

    pub fn user_creates_topic(
        &self,
        chat: BotApiChatId,
        user: BotApiUserId,
        name: &str,
    ) -> BotApiThreadId {
        self.service.modify(|state| {
            let thread = state.add_topic(chat, BotApiSender::User(user), name);
            let (now, json) = (state.now(), state.message_json(chat, BotApiMessageId(thread.0)));
            state.updates.add(now, "message", json);
            thread
        })
    }

    /// The user deletes a topic with all its messages. Telegram does not notify the bot.
    ///
    /// # Panics
    ///
    /// If the chat does not exist.
    pub fn user_deletes_topic(&self, chat: BotApiChatId, topic: BotApiThreadId) {
        self.service.modify(|state| existing_chat(state, chat).delete_topic(topic));
    }
}

fn add_user(state: &mut BotApiState, user: BotApiUserId) {
    let unnamed = || BotApiUser { first_name: format!("User {user}"), username: None };
    state.users.entry(user).or_insert_with(unnamed);
}

pub(crate) fn existing_chat(state: &mut BotApiState, id: BotApiChatId) -> &mut BotApiChat {
    state.chats.get_mut(&id).unwrap_or_else(|| panic!("there is no chat `{id}`"))
}

fn edit_message(
    state: &mut BotApiState,
    chat: BotApiChatId,
    id: BotApiMessageId,
    text: BotApiText,
) {
    let now = state.now();
    let message = state.chats.get_mut(&chat).and_then(|it| it.message_mut(id));
    let Some(message) = message else { return };
    match &mut message.content {
        BotApiContent::Text(old) | BotApiContent::Media { caption: old, .. } => *old = text,
        BotApiContent::Service(..) => return,
    }
    message.edited_at = Some(now);
    message.edit_count += 1;
    let json = state.message_json(chat, id);
    state.updates.add(now, "edited_message", json);
}

fn add_callback(
    state: &mut BotApiState,
    chat: BotApiChatId,
    user: BotApiUserId,
    message: BotApiMessageId,
    data: &str,
) -> BotApiCallbackId {
    let now = state.now();
    let id = state.callbacks.add(now);
    let query = json!({
        "id": id.0,
        "from": state.user_json(user),
        "message": state.message_json(chat, message),
        "chat_instance": chat.0.to_string(),
        "data": data,
    });
    state.updates.add(now, "callback_query", query);
    id
}

fn set_bot_blocked(state: &mut BotApiState, id: BotApiChatId, blocked: bool) {
    let Some(chat) = state.chats.get_mut(&id) else { return };
    chat.bot_blocked = blocked;
    let member = if chat.is_private() { "member" } else { "administrator" };
    let user = match &chat.kind {
        BotApiChatKind::Private { .. } => BotApiUserId(id.0),
        BotApiChatKind::Group { members, .. } => {
            members.first().copied().unwrap_or(BotApiUserId(0))
        }
    };
    let (old, new) = if blocked { (member, "kicked") } else { ("kicked", member) };
    let Some(chat) = state.chats.get(&id) else { return };
    let (now, bot) = (state.now(), state.bot_json());
    let change = json!({
        "chat": state.chat_json(chat),
        "from": state.user_json(user),
        "date": state.clock.date(now),
        "old_chat_member": {"user": bot, "status": old},
        "new_chat_member": {"user": bot, "status": new},
    });
    state.updates.add(now, "my_chat_member", change);
}

/// A message for a user to send: a text, or a file with a caption.
#[derive(Clone, Debug, Default)]
pub struct BotApiUserMessage {
    text: String,
    attachment: Option<BotApiAttachment>,
    topic: Option<BotApiThreadId>,
    reply_target: Option<BotApiReplyTarget>,
    quote: Option<String>,
    forwarded_from: Option<String>,
    album: Option<String>,
}

#[derive(Clone, Debug)]
enum BotApiAttachment {
    Photo(Bytes),
    Document { name: String, mime: String, bytes: Bytes },
    Voice(Bytes),
}

#[derive(Clone, Copy, Debug)]
enum BotApiReplyTarget {
    Message(BotApiMessageId),
    TopicRoot,
}

impl From<&str> for BotApiUserMessage {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }
}

impl From<String> for BotApiUserMessage {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl BotApiUserMessage {
    pub fn photo(bytes: impl Into<Bytes>) -> Self {
        Self { attachment: Some(BotApiAttachment::Photo(bytes.into())), ..Self::default() }
    }

    pub fn document(name: &str, mime: &str, bytes: impl Into<Bytes>) -> Self {
        let (name, mime) = (name.to_owned(), mime.to_owned());
        let document = BotApiAttachment::Document { name, mime, bytes: bytes.into() };
        Self { attachment: Some(document), ..Self::default() }
    }

    pub fn voice(bytes: impl Into<Bytes>) -> Self {
        Self { attachment: Some(BotApiAttachment::Voice(bytes.into())), ..Self::default() }
    }

    #[must_use]
    pub fn caption(self, text: &str) -> Self {
        Self { text: text.to_owned(), ..self }
    }

    #[must_use]
    pub fn in_topic(self, topic: BotApiThreadId) -> Self {
        Self { topic: Some(topic), ..self }
    }

    #[must_use]
    pub fn reply_to(self, message: BotApiMessageId) -> Self {
        Self { reply_target: Some(BotApiReplyTarget::Message(message)), ..self }
    }

    /// As a reply to the service message that created the topic. Some clients send every message
    /// in a topic this way.
    #[must_use]
    pub fn reply_to_topic_root(self) -> Self {
        Self { reply_target: Some(BotApiReplyTarget::TopicRoot), ..self }
    }

    /// Quotes these words of the message that this one replies to.
    #[must_use]
    pub fn quote(self, words: &str) -> Self {
        Self { quote: Some(words.to_owned()), ..self }
    }

    /// As a forward of a message by a person of this name.
    #[must_use]
    pub fn forwarded_from(self, name: &str) -> Self {
        Self { forwarded_from: Some(name.to_owned()), ..self }
    }

    /// As part of an album. Messages with the same album name belong together.
    #[must_use]
    pub fn album(self, name: &str) -> Self {
        Self { album: Some(name.to_owned()), ..self }
    }

    fn build(self, user: BotApiUserId, now: Duration, files: &mut BotApiFiles) -> BotApiMessage {
        let text = BotApiText::from_user(&self.text);
        let media = self.attachment.map(|attachment| match attachment {
            BotApiAttachment::Photo(bytes) => {
                let default = ImageSize { width: 1_280, height: 960 };
                let dimensions = image_size(&bytes).unwrap_or(default);
                BotApiMedia::photo(files, bytes, dimensions)
            }
            BotApiAttachment::Document { name, mime, bytes } => {
                BotApiMedia::document(files, &name, &mime, bytes)
            }
            BotApiAttachment::Voice(bytes) => BotApiMedia::voice(files, bytes),
        });
        let content = match media {
            Some(media) => BotApiContent::Media { media, caption: text },
            None => BotApiContent::Text(text),
        };
        let reply_to = self.reply_target.and_then(|target| match target {
            BotApiReplyTarget::Message(id) => Some(id),
            BotApiReplyTarget::TopicRoot => self.topic.map(|it| BotApiMessageId(it.0)),
        });
        BotApiMessage {
            at: now,
            forwarded_from: self.forwarded_from,
            album: self.album,
            reply: reply_to.map(|to| BotApiReply { to, quote: self.quote }),
            ..BotApiMessage::new(BotApiSender::User(user), self.topic, content)
        }
    }
}
