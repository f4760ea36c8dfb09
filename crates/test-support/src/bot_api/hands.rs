//! What people do in their chats.
//!
//! A hand that reaches for a chat that does not exist is a mistake of the test, and panics.

use std::time::Duration;

use serde_json::json;

use super::callback::CallbackAnswer;
use super::chat::{Chat, Kind};
use super::ids::{CallbackId, ChatId, MessageId, ThreadId, UserId};
use super::markup::Button;
use super::message::{Message, Reply, Sender};
use super::rich::Rich;
use super::said::{Answered, Said};
use super::server::BotApi;
use super::world::{Person, World};

/// A tap that hit nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotTap {
    /// There is no such message to be seen.
    #[error("there is no message `{0}`")]
    NoMessage(MessageId),
    /// It has no such button; these are there.
    #[error("message `{0}` has no such button, but `{1:?}`")]
    NoButton(MessageId, Vec<Vec<String>>),
    /// The button opens something instead of telling the bot.
    #[error("the button does not tell the bot")]
    OpensSomething,
}

impl BotApi {
    /// Gives a person a name; without it they are called after their number.
    pub fn name_user(&self, user: UserId, first_name: &str, username: &str) {
        let username = Some(username.to_owned());
        let person = Person { first_name: first_name.to_owned(), username };
        self.stage.change(|world| world.people.insert(user, person));
    }

    /// A chat of one person with the bot, which the bot may write to.
    pub fn chat_private(&self, user: UserId) -> ChatId {
        self.stage.change(|world| {
            meet(world, user);
            let id = ChatId(user.0);
            let topics = world.options.private_topics;
            world.chats.entry(id).or_insert_with(|| Chat::new(id, Kind::Private { topics }));
            id
        })
    }

    /// A group without topics, with the bot as an administrator.
    pub fn chat_group(&self, members: &[UserId]) -> ChatId {
        self.group(members, false)
    }

    /// A group with topics, with the bot as an administrator.
    pub fn chat_forum(&self, members: &[UserId]) -> ChatId {
        self.group(members, true)
    }

    fn group(&self, members: &[UserId], forum: bool) -> ChatId {
        self.stage.change(|world| {
            for user in members {
                meet(world, *user);
            }
            let count = i64::try_from(world.chats.len()).unwrap_or(i64::MAX);
            let id = ChatId(-1_002_000_000_000 - count);
            let kind =
                Kind::Group { title: format!("Group {count}"), members: members.to_vec(), forum };
            world.chats.insert(id, Chat::new(id, kind));
            id
        })
    }

    /// A person sends something.
    ///
    /// # Panics
    ///
    /// If there is no such chat.
    pub fn user_says(&self, chat: ChatId, user: UserId, said: impl Into<Said>) -> MessageId {
        let said = said.into();
        self.stage.change(|world| {
            let content = said.content(&mut world.files);
            let now = world.now();
            let mut message = Message::new(Sender::User(user), said.topic, content);
            message.at = now;
            message.forwarded_from = said.forwarded_from;
            message.album = said.album;
            let to = match said.answered {
                Some(Answered::Message(id)) => Some(id),
                Some(Answered::TopicRoot) => said.topic.map(|it| MessageId(it.0)),
                None => None,
            };
            message.reply = to.map(|to| Reply { to, quote: said.quote });
            let room = room(world, chat);
            let id = room.next_id();
            room.messages.insert(id, message);
            let json = world.message_json(chat, id);
            world.updates.add(now, "message", json);
            id
        })
    }

    /// A person changes the text or caption of a message of theirs.
    pub fn user_edits(&self, chat: ChatId, message: MessageId, text: &str) {
        self.stage.change(|world| world.user_edit(chat, message, Rich::plain(text)));
    }

    /// A person takes a message away; the bot is not told.
    ///
    /// # Panics
    ///
    /// If there is no such chat.
    pub fn user_deletes(&self, chat: ChatId, message: MessageId) {
        self.stage.change(|world| {
            if let Some(message) = room(world, chat).message_mut(message) {
                message.deleted = true;
            }
        });
    }

    /// A person taps a button.
    ///
    /// # Panics
    ///
    /// If there is no such chat.
    pub fn user_taps(
        &self,
        chat: ChatId,
        user: UserId,
        message: MessageId,
        button: impl Into<Button>,
    ) -> Result<CallbackId, CannotTap> {
        let button = button.into();
        self.stage.change(|world| {
            let seen = room(world, chat).message(message).ok_or(CannotTap::NoMessage(message))?;
            let key = seen.markup.as_ref().and_then(|it| it.key(&button));
            let Some(key) = key else {
                let rows = seen.markup.iter().flat_map(super::markup::Markup::rows);
                let rows = rows.map(|row| row.iter().map(|it| it.text.clone()).collect());
                return Err(CannotTap::NoButton(message, rows.collect()));
            };
            let data = key.data.clone().ok_or(CannotTap::OpensSomething)?;
            Ok(tap(world, chat, user, message, &data))
        })
    }

    /// A person taps a button that was just taken away, which their phone still showed.
    pub fn user_taps_late(
        &self,
        chat: ChatId,
        user: UserId,
        message: MessageId,
        data: &str,
    ) -> CallbackId {
        self.stage.change(|world| tap(world, chat, user, message, data))
    }

    /// What a person sees after a tap; waits for it.
    pub async fn answer_to(&self, tap: &CallbackId, patience: Duration) -> Option<CallbackAnswer> {
        self.eventually(patience, |api| api.stage.world().callbacks.answer_to(tap)).await
    }

    /// A person blocks the bot, or a group throws it out.
    pub fn bot_is_shut_out(&self, chat: ChatId) {
        self.stage.change(|world| shut(world, chat, true));
    }

    /// A person or a group lets the bot in again.
    pub fn bot_is_let_in(&self, chat: ChatId) {
        self.stage.change(|world| shut(world, chat, false));
    }

    /// A person opens a topic.
    pub fn user_opens_topic(&self, chat: ChatId, user: UserId, name: &str) -> ThreadId {
        self.stage.change(|world| {
            let thread = world.open_topic(chat, Sender::User(user), name);
            let (now, json) = (world.now(), world.message_json(chat, MessageId(thread.0)));
            world.updates.add(now, "message", json);
            thread
        })
    }

    /// A person deletes a topic with everything in it; the bot is not told.
    ///
    /// # Panics
    ///
    /// If there is no such chat.
    pub fn user_deletes_topic(&self, chat: ChatId, topic: ThreadId) {
        self.stage.change(|world| room(world, chat).delete_topic(topic));
    }
}

fn meet(world: &mut World, user: UserId) {
    let stranger = || Person { first_name: format!("User {user}"), username: None };
    world.people.entry(user).or_insert_with(stranger);
}

pub(super) fn room(world: &mut World, chat: ChatId) -> &mut Chat {
    match world.chats.get_mut(&chat) {
        Some(room) => room,
        None => panic!("there is no chat `{chat}`"),
    }
}

fn tap(
    world: &mut World,
    chat: ChatId,
    user: UserId,
    message: MessageId,
    data: &str,
) -> CallbackId {
    let now = world.now();
    let id = world.callbacks.tap(now);
    let query = json!({
        "id": id.0,
        "from": world.user(user),
        "message": world.message_json(chat, message),
        "chat_instance": chat.0.to_string(),
        "data": data,
    });
    world.updates.add(now, "callback_query", query);
    id
}

fn shut(world: &mut World, chat: ChatId, shut: bool) {
    let Some(room) = world.chats.get_mut(&chat) else { return };
    room.shut = shut;
    let member = if room.is_private() { "member" } else { "administrator" };
    let who = match &room.kind {
        Kind::Private { .. } => UserId(chat.0),
        Kind::Group { members, .. } => members.first().copied().unwrap_or(UserId(0)),
    };
    let (old, new) = if shut { (member, "kicked") } else { ("kicked", member) };
    let Some(room) = world.chats.get(&chat) else { return };
    let (now, bot) = (world.now(), world.bot());
    let change = json!({
        "chat": world.chat_json(room),
        "from": world.user(who),
        "date": world.clock.date(now),
        "old_chat_member": {"user": bot, "status": old},
        "new_chat_member": {"user": bot, "status": new},
    });
    world.updates.add(now, "my_chat_member", change);
}
