//! The methods for the topics of forums and private chats.

use serde_json::{Value, json};

use crate::bot_api::call::{BotApiError, BotApiParams};
use crate::bot_api::limiter::BotApiLoad;
use crate::bot_api::state::{
    BotApiChat, BotApiChatId, BotApiContent, BotApiMessage, BotApiSender, BotApiState,
    BotApiThreadId, BotApiTopic,
};

const ICON_COLOR: u32 = 7_322_096;

impl BotApiState {
    pub(super) fn create_forum_topic(
        &mut self,
        params: &BotApiParams,
    ) -> Result<Value, BotApiError> {
        let name = read_name(params)?;
        let chat = forum(self.chat_of(params)?)?.id;
        self.check_rate("createForumTopic", chat, BotApiLoad::Messages(1))?;
        let thread = self.add_topic(chat, BotApiSender::Bot, &name);
        Ok(json!({"message_thread_id": thread.0, "name": name, "icon_color": ICON_COLOR}))
    }

    /// Adds a topic. Its id is the number of the service message that creates it.
    pub(crate) fn add_topic(
        &mut self,
        chat: BotApiChatId,
        from: BotApiSender,
        name: &str,
    ) -> BotApiThreadId {
        let at = self.now();
        let Some(chat) = self.chats.get_mut(&chat) else { return BotApiThreadId(0) };
        let id = chat.next_message_id();
        let thread = BotApiThreadId(id.0);
        let created = json!({"name": name, "icon_color": ICON_COLOR});
        let content = BotApiContent::Service("forum_topic_created", created);
        let mut message = BotApiMessage::new(from, Some(thread), content);
        message.at = at;
        message.silent = true;
        chat.messages.insert(id, message);
        chat.topics.insert(thread, BotApiTopic { name: name.to_owned(), closed: false });
        thread
    }

    pub(super) fn edit_forum_topic(&mut self, params: &BotApiParams) -> Result<(), BotApiError> {
        let new_name = if params.has("name") { Some(read_name(params)?) } else { None };
        let topic = self.topic(params)?;
        match new_name {
            Some(name) if name != topic.name => {
                topic.name = name;
                Ok(())
            }
            Some(_) => Err(BotApiError::bad_request("TOPIC_NOT_MODIFIED")),
            None => Ok(()),
        }
    }

    pub(super) fn close_forum_topic(&mut self, params: &BotApiParams) -> Result<(), BotApiError> {
        let topic = self.topic(params)?;
        if topic.closed {
            return Err(BotApiError::bad_request("TOPIC_NOT_MODIFIED"));
        }
        topic.closed = true;
        Ok(())
    }

    pub(super) fn reopen_forum_topic(&mut self, params: &BotApiParams) -> Result<(), BotApiError> {
        let topic = self.topic(params)?;
        if !topic.closed {
            return Err(BotApiError::bad_request("TOPIC_NOT_MODIFIED"));
        }
        topic.closed = false;
        Ok(())
    }

    pub(super) fn delete_forum_topic(&mut self, params: &BotApiParams) -> Result<(), BotApiError> {
        let thread = params.thread_id();
        let chat = forum(self.chat_of(params)?)?;
        match thread {
            Some(thread) if chat.delete_topic(thread) => Ok(()),
            _ => Err(BotApiError::bad_request("TOPIC_ID_INVALID")),
        }
    }

    fn topic(&mut self, params: &BotApiParams) -> Result<&mut BotApiTopic, BotApiError> {
        let thread = params.thread_id();
        let chat = forum(self.chat_of(params)?)?;
        let topic = thread.and_then(|it| chat.topics.get_mut(&it));
        topic.ok_or_else(|| BotApiError::bad_request("TOPIC_ID_INVALID"))
    }
}

fn forum(chat: &mut BotApiChat) -> Result<&mut BotApiChat, BotApiError> {
    if chat.has_topics() {
        Ok(chat)
    } else {
        Err(BotApiError::bad_request("the chat is not a forum"))
    }
}

fn read_name(params: &BotApiParams) -> Result<String, BotApiError> {
    let name = params.text("name").trim().to_owned();
    match name.chars().count() {
        0 => Err(BotApiError::bad_request("topic name must be non-empty")),
        1..=128 => Ok(name),
        _ => Err(BotApiError::bad_request("TOPIC_TITLE_TOO_LONG")),
    }
}
