//! The objects of the Bot API that the bridge reads.
//!
//! Only fields that the bridge uses are listed. A field that Telegram adds, omits or changes the shape
//! of affects only itself: it is read as absent. An update that cannot be read at all is skipped, so
//! that it cannot block the updates after it.

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};

use crate::address::{ChatId, MessageId, TelegramUserId, TopicId};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TelegramUpdate {
    /// Increases with every update.
    pub update_id: i64,
    #[serde(deserialize_with = "lenient")]
    pub message: Option<Box<TelegramMessage>>,
    #[serde(deserialize_with = "lenient")]
    pub edited_message: Option<Box<TelegramMessage>>,
    #[serde(deserialize_with = "lenient")]
    pub callback_query: Option<Box<TelegramCallbackQuery>>,
}

impl TelegramUpdate {
    pub fn read(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }
}

/// Reads a field, or its default if it has an unexpected shape.
fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(T::deserialize(value).unwrap_or_default())
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TelegramUser {
    pub id: TelegramUserId,
    #[serde(default, deserialize_with = "lenient")]
    pub first_name: String,
    /// Without the `@`.
    #[serde(default, deserialize_with = "lenient")]
    pub username: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub is_bot: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TelegramChat {
    pub id: ChatId,
    /// `private`, `group`, `supergroup`, `channel`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Groups and channels have one.
    #[serde(default, deserialize_with = "lenient")]
    pub title: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TelegramMessage {
    pub message_id: MessageId,
    /// A topic, or a thread of replies: see `is_topic_message`.
    #[serde(default, deserialize_with = "lenient")]
    pub message_thread_id: Option<TopicId>,
    /// Whether `message_thread_id` is a topic.
    #[serde(default, deserialize_with = "lenient")]
    pub is_topic_message: bool,
    /// Absent in channels.
    #[serde(default, deserialize_with = "lenient")]
    pub from: Option<TelegramUser>,
    /// The chat that a message was sent on behalf of: an anonymous admin's group, a channel.
    #[serde(default, deserialize_with = "lenient")]
    pub sender_chat: Option<TelegramChat>,
    pub chat: TelegramChat,
    /// In seconds since 1970.
    #[serde(default, deserialize_with = "lenient")]
    pub date: u64,
    #[serde(default, deserialize_with = "lenient")]
    pub text: Option<String>,
    /// The text of a picture or a file.
    #[serde(default, deserialize_with = "lenient")]
    pub caption: Option<String>,
    /// One picture in several sizes.
    #[serde(default, deserialize_with = "lenient")]
    pub photo: Vec<TelegramPhoto>,
    #[serde(default, deserialize_with = "lenient")]
    pub document: Option<TelegramFile>,
    #[serde(default, deserialize_with = "lenient")]
    pub voice: Option<TelegramFile>,
    #[serde(default, deserialize_with = "lenient")]
    pub audio: Option<TelegramFile>,
    #[serde(default, deserialize_with = "lenient")]
    pub video: Option<TelegramFile>,
    #[serde(default, deserialize_with = "lenient")]
    pub video_note: Option<TelegramFile>,
    /// A video without sound. Telegram sets `document` as well.
    #[serde(default, deserialize_with = "lenient")]
    pub animation: Option<TelegramFile>,
    #[serde(default, deserialize_with = "lenient")]
    pub sticker: Option<TelegramSticker>,
    /// Also set for a venue.
    #[serde(default, deserialize_with = "lenient")]
    pub location: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "lenient")]
    pub contact: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "lenient")]
    pub poll: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "lenient")]
    pub dice: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "lenient")]
    pub game: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "lenient")]
    pub story: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "lenient")]
    pub checklist: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "lenient")]
    pub paid_media: Option<IgnoredAny>,
    /// Set on the message that opens a topic.
    #[serde(default, deserialize_with = "lenient")]
    pub forum_topic_created: Option<IgnoredAny>,
    /// The supergroup that the group became.
    #[serde(default, deserialize_with = "lenient")]
    pub migrate_to_chat_id: Option<ChatId>,
    /// The album that the message is part of.
    #[serde(default, deserialize_with = "lenient")]
    pub media_group_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub reply_to_message: Option<Box<TelegramMessage>>,
    /// The part of that message that the user selected.
    #[serde(default, deserialize_with = "lenient")]
    pub quote: Option<TelegramQuote>,
    #[serde(default, deserialize_with = "lenient")]
    pub forward_origin: Option<TelegramForwardOrigin>,
}

/// One size of a picture.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TelegramPhoto {
    pub file_id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub width: u64,
    #[serde(default, deserialize_with = "lenient")]
    pub height: u64,
    #[serde(default, deserialize_with = "lenient")]
    pub file_size: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct TelegramSticker {
    #[serde(default, deserialize_with = "lenient")]
    pub emoji: Option<String>,
}

/// A file of any kind.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TelegramFile {
    pub file_id: String,
    /// As the sender named it.
    #[serde(default, deserialize_with = "lenient")]
    pub file_name: Option<String>,
    /// As the sender's client reports it.
    #[serde(default, deserialize_with = "lenient")]
    pub mime_type: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub file_size: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TelegramQuote {
    pub text: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct TelegramForwardOrigin {
    #[serde(default, deserialize_with = "lenient")]
    pub sender_user: Option<TelegramUser>,
    /// The name of a user who hides their account.
    #[serde(default, deserialize_with = "lenient")]
    pub sender_user_name: Option<String>,
    /// A group on whose behalf the message was sent.
    #[serde(default, deserialize_with = "lenient")]
    pub sender_chat: Option<TelegramChat>,
    #[serde(default, deserialize_with = "lenient")]
    pub chat: Option<TelegramChat>,
}

/// A tap on a button.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TelegramCallbackQuery {
    pub id: String,
    pub from: TelegramUser,
    /// The message with the button. Absent if it is too old.
    #[serde(default, deserialize_with = "lenient")]
    pub message: Option<Box<TelegramMessage>>,
    #[serde(default, deserialize_with = "lenient")]
    pub data: Option<String>,
}
