//! A chat with the bot: its members, messages, topics and drafts.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::message::BotApiMessage;
use super::{BotApiChatId, BotApiMessageId, BotApiThreadId, BotApiUserId};
use crate::bot_api::text::BotApiText;

#[derive(Debug)]
pub(crate) struct BotApiChat {
    pub(crate) id: BotApiChatId,
    pub(crate) kind: BotApiChatKind,
    pub(crate) messages: BTreeMap<BotApiMessageId, BotApiMessage>,
    pub(crate) topics: BTreeMap<BotApiThreadId, BotApiTopic>,
    pub(crate) drafts: BTreeMap<(Option<BotApiThreadId>, i64), BotApiDraft>,
    pub(crate) pinned: Vec<BotApiMessageId>,
    /// The user blocked the bot, or the group removed it.
    pub(crate) bot_blocked: bool,
    last_message_id: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BotApiChatKind {
    Private { topics: bool },
    Group { title: String, members: Vec<BotApiUserId>, forum: bool },
}

#[derive(Clone, Debug)]
pub(crate) struct BotApiTopic {
    pub(crate) name: String,
    pub(crate) closed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct BotApiDraft {
    pub(crate) text: BotApiText,
    /// The time of the last change.
    pub(crate) at: Duration,
}

impl BotApiChat {
    pub(crate) fn new(id: BotApiChatId, kind: BotApiChatKind) -> Self {
        // Message 1 of a group is the service message of its creation. A topic has the number of
        // the message that created it, so no topic gets the number 1 of the general topic.
        let last_message_id = i64::from(matches!(kind, BotApiChatKind::Group { .. }));
        Self {
            id,
            kind,
            messages: BTreeMap::new(),
            topics: BTreeMap::new(),
            drafts: BTreeMap::new(),
            pinned: Vec::new(),
            bot_blocked: false,
            last_message_id,
        }
    }

    pub(crate) fn is_private(&self) -> bool {
        matches!(self.kind, BotApiChatKind::Private { .. })
    }

    pub(crate) fn has_topics(&self) -> bool {
        use BotApiChatKind::{Group, Private};
        matches!(self.kind, Private { topics: true } | Group { forum: true, .. })
    }

    pub(crate) fn add(&mut self, message: BotApiMessage) -> BotApiMessageId {
        let id = self.next_message_id();
        self.messages.insert(id, message);
        id
    }

    pub(crate) fn next_message_id(&mut self) -> BotApiMessageId {
        self.last_message_id += 1;
        BotApiMessageId(self.last_message_id)
    }

    /// A message that is not deleted.
    pub(crate) fn message(&self, id: BotApiMessageId) -> Option<&BotApiMessage> {
        self.messages.get(&id).filter(|it| !it.deleted)
    }

    /// A message that is not deleted.
    pub(crate) fn message_mut(&mut self, id: BotApiMessageId) -> Option<&mut BotApiMessage> {
        self.messages.get_mut(&id).filter(|it| !it.deleted)
    }

    /// Deletes a topic with all its messages. Returns whether the topic existed.
    pub(crate) fn delete_topic(&mut self, thread: BotApiThreadId) -> bool {
        let existed = self.topics.remove(&thread).is_some();
        if existed {
            self.drafts.retain(|(draft_thread, _), _| *draft_thread != Some(thread));
            for message in self.messages.values_mut().filter(|it| it.thread == Some(thread)) {
                message.deleted = true;
            }
        }
        existed
    }

    /// The chat as messages include it.
    pub(crate) fn json(&self, first_name: &str, username: Option<&str>) -> Value {
        match &self.kind {
            BotApiChatKind::Private { .. } => {
                let mut chat =
                    json!({"id": self.id.0, "first_name": first_name, "type": "private"});
                if let Some(username) = username {
                    chat["username"] = username.into();
                }
                chat
            }
            BotApiChatKind::Group { title, forum, .. } => {
                let mut chat = json!({"id": self.id.0, "title": title, "type": "supergroup"});
                if *forum {
                    chat["is_forum"] = true.into();
                }
                chat
            }
        }
    }
}
