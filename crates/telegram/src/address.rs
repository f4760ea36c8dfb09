//! Chats, topics, messages and users of Telegram, by their ids.

use serde::{Deserialize, Serialize};

/// A private chat, or a group, whose id is negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChatId(pub i64);

/// A topic of a chat. The general topic of a group has no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TopicId(pub i64);

/// A message, within its chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(pub i64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TelegramUserId(pub i64);

/// What shows one session: a chat, or a topic of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChatAddress {
    pub chat: ChatId,
    #[serde(default, alias = "thread", skip_serializing_if = "Option::is_none")]
    pub topic: Option<TopicId>,
}

/// Decides the rate limits of a chat and whether it shows drafts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatKind {
    Private,
    Group,
}
