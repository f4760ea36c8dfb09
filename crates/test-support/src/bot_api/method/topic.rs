//! Topics of forums.

use serde_json::{Value, json};

use crate::bot_api::chat::{Chat, Topic};
use crate::bot_api::ids::{ChatId, ThreadId};
use crate::bot_api::limiter::Load;
use crate::bot_api::message::{Content, Message, Sender};
use crate::bot_api::params::Params;
use crate::bot_api::refusal::Refusal;
use crate::bot_api::world::World;

const COLOUR: u32 = 7_322_096;

impl World {
    pub(super) fn create_forum_topic(&mut self, params: &Params) -> Result<Value, Refusal> {
        let name = name(params)?;
        let chat = forum(self.chat_of(params)?)?.id;
        self.admit("createForumTopic", chat, Load::Messages(1))?;
        let thread = self.open_topic(chat, Sender::Bot, &name);
        Ok(json!({"message_thread_id": thread.0, "name": name, "icon_color": COLOUR}))
    }

    /// A topic is named by the note that opens it.
    pub(in crate::bot_api) fn open_topic(
        &mut self,
        chat: ChatId,
        from: Sender,
        name: &str,
    ) -> ThreadId {
        let at = self.now();
        let Some(room) = self.chats.get_mut(&chat) else { return ThreadId(0) };
        let id = room.next_id();
        let thread = ThreadId(id.0);
        let note = json!({"name": name, "icon_color": COLOUR});
        let content = Content::Note("forum_topic_created", note);
        let mut message = Message::new(from, Some(thread), content);
        message.at = at;
        message.silent = true;
        room.messages.insert(id, message);
        room.topics.insert(thread, Topic { name: name.to_owned(), closed: false });
        thread
    }

    pub(super) fn edit_forum_topic(&mut self, params: &Params) -> Result<(), Refusal> {
        let renamed = if params.has("name") { Some(name(params)?) } else { None };
        let topic = self.topic(params)?;
        match renamed {
            Some(name) if name != topic.name => {
                topic.name = name;
                Ok(())
            }
            Some(_) => Err(Refusal::bad("TOPIC_NOT_MODIFIED")),
            None => Ok(()),
        }
    }

    pub(super) fn close_forum_topic(&mut self, params: &Params) -> Result<(), Refusal> {
        let topic = self.topic(params)?;
        if topic.closed {
            return Err(Refusal::bad("TOPIC_NOT_MODIFIED"));
        }
        topic.closed = true;
        Ok(())
    }

    pub(super) fn reopen_forum_topic(&mut self, params: &Params) -> Result<(), Refusal> {
        let topic = self.topic(params)?;
        if !topic.closed {
            return Err(Refusal::bad("TOPIC_NOT_MODIFIED"));
        }
        topic.closed = false;
        Ok(())
    }

    pub(super) fn delete_forum_topic(&mut self, params: &Params) -> Result<(), Refusal> {
        let thread = params.thread();
        let chat = forum(self.chat_of(params)?)?;
        match thread {
            Some(thread) if chat.delete_topic(thread) => Ok(()),
            _ => Err(Refusal::bad("TOPIC_ID_INVALID")),
        }
    }

    fn topic(&mut self, params: &Params) -> Result<&mut Topic, Refusal> {
        let thread = params.thread();
        let chat = forum(self.chat_of(params)?)?;
        let topic = thread.and_then(|it| chat.topics.get_mut(&it));
        topic.ok_or_else(|| Refusal::bad("TOPIC_ID_INVALID"))
    }
}

fn forum(chat: &mut Chat) -> Result<&mut Chat, Refusal> {
    if chat.has_topics() { Ok(chat) } else { Err(Refusal::bad("the chat is not a forum")) }
}

fn name(params: &Params) -> Result<String, Refusal> {
    let name = params.text("name").trim().to_owned();
    match name.chars().count() {
        0 => Err(Refusal::bad("topic name must be non-empty")),
        1..=128 => Ok(name),
        _ => Err(Refusal::bad("TOPIC_TITLE_TOO_LONG")),
    }
}
