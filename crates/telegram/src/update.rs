//! What Telegram sends, as far as the bridge reads it.
//!
//! Fields that nothing here decides on are not listed, and a field that Telegram adds, leaves out or
//! gives another shape breaks nothing but itself: it is read as if it were not there. An update that
//! cannot be read at all is skipped, never refused for ever.

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};

use crate::place::{ChatId, MessageId, ThreadId, UserId};

/// An update, as `getUpdates` and webhooks bring it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Update {
    /// Its number; they grow.
    pub update_id: i64,
    /// A new message.
    #[serde(deserialize_with = "lenient")]
    pub message: Option<Box<Message>>,
    /// A message was changed.
    #[serde(deserialize_with = "lenient")]
    pub edited_message: Option<Box<Message>>,
    /// A button was tapped.
    #[serde(deserialize_with = "lenient")]
    pub callback_query: Option<Box<CallbackQuery>>,
}

impl Update {
    /// The update that some JSON holds, if it holds one.
    pub fn read(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }
}

/// A field, or what there is without it.
fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(T::deserialize(value).unwrap_or_default())
}

/// Somebody.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct User {
    /// Who.
    pub id: UserId,
    /// What they call themselves.
    #[serde(default, deserialize_with = "lenient")]
    pub first_name: String,
    /// Their name for everybody, without the `@`.
    #[serde(default, deserialize_with = "lenient")]
    pub username: Option<String>,
    /// Whether it is a bot.
    #[serde(default, deserialize_with = "lenient")]
    pub is_bot: bool,
}

/// A chat.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Chat {
    /// Which.
    pub id: ChatId,
    /// `private`, `group`, `supergroup`, `channel`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it is called, unless it is a person's.
    #[serde(default, deserialize_with = "lenient")]
    pub title: Option<String>,
    /// Whether it has topics.
    #[serde(default, deserialize_with = "lenient")]
    pub is_forum: bool,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Message {
    /// Which.
    pub message_id: MessageId,
    /// The topic.
    #[serde(default, deserialize_with = "lenient")]
    pub message_thread_id: Option<ThreadId>,
    /// Whether that number is a topic's and not that of a thread of replies.
    #[serde(default, deserialize_with = "lenient")]
    pub is_topic_message: bool,
    /// Who sent it; nobody in a channel.
    #[serde(default, deserialize_with = "lenient")]
    pub from: Option<User>,
    /// The chat in whose name it was sent: an anonymous admin's group, a channel.
    #[serde(default, deserialize_with = "lenient")]
    pub sender_chat: Option<Chat>,
    /// Where.
    pub chat: Chat,
    /// When, in seconds since 1970.
    #[serde(default, deserialize_with = "lenient")]
    pub date: u64,
    /// The words.
    #[serde(default, deserialize_with = "lenient")]
    pub text: Option<String>,
    /// The words with a picture or a file.
    #[serde(default, deserialize_with = "lenient")]
    pub caption: Option<String>,
    /// A picture, in several sizes, the largest last.
    #[serde(default, deserialize_with = "lenient")]
    pub photo: Vec<PhotoSize>,
    /// A file.
    #[serde(default, deserialize_with = "lenient")]
    pub document: Option<File>,
    /// Words spoken.
    #[serde(default, deserialize_with = "lenient")]
    pub voice: Option<File>,
    /// Sound.
    #[serde(default, deserialize_with = "lenient")]
    pub audio: Option<File>,
    /// A film.
    #[serde(default, deserialize_with = "lenient")]
    pub video: Option<File>,
    /// A round film.
    #[serde(default, deserialize_with = "lenient")]
    pub video_note: Option<File>,
    /// A film without sound.
    #[serde(default, deserialize_with = "lenient")]
    pub animation: Option<File>,
    /// A sticker.
    #[serde(default, deserialize_with = "lenient")]
    pub sticker: Option<Sticker>,
    /// A place on earth, a venue included.
    #[serde(default, deserialize_with = "lenient")]
    pub location: Option<IgnoredAny>,
    /// Somebody's number.
    #[serde(default, deserialize_with = "lenient")]
    pub contact: Option<IgnoredAny>,
    /// A vote.
    #[serde(default, deserialize_with = "lenient")]
    pub poll: Option<IgnoredAny>,
    /// A throw.
    #[serde(default, deserialize_with = "lenient")]
    pub dice: Option<IgnoredAny>,
    /// A game.
    #[serde(default, deserialize_with = "lenient")]
    pub game: Option<IgnoredAny>,
    /// Somebody's story.
    #[serde(default, deserialize_with = "lenient")]
    pub story: Option<IgnoredAny>,
    /// Things to be done.
    #[serde(default, deserialize_with = "lenient")]
    pub checklist: Option<IgnoredAny>,
    /// Pictures for money.
    #[serde(default, deserialize_with = "lenient")]
    pub paid_media: Option<IgnoredAny>,
    /// A topic was created; the first message of it.
    #[serde(default, deserialize_with = "lenient")]
    pub forum_topic_created: Option<IgnoredAny>,
    /// The group became this supergroup.
    #[serde(default, deserialize_with = "lenient")]
    pub migrate_to_chat_id: Option<ChatId>,
    /// The album it is part of.
    #[serde(default, deserialize_with = "lenient")]
    pub media_group_id: Option<String>,
    /// The message it answers.
    #[serde(default, deserialize_with = "lenient")]
    pub reply_to_message: Option<Box<Message>>,
    /// The part of that message that was picked.
    #[serde(default, deserialize_with = "lenient")]
    pub quote: Option<Quote>,
    /// Where it was forwarded from.
    #[serde(default, deserialize_with = "lenient")]
    pub forward_origin: Option<ForwardOrigin>,
}

/// One size of a picture.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PhotoSize {
    /// Telegram's name for it.
    pub file_id: String,
    /// Pixels from left to right.
    #[serde(default, deserialize_with = "lenient")]
    pub width: u64,
    /// Pixels from top to bottom.
    #[serde(default, deserialize_with = "lenient")]
    pub height: u64,
    /// Bytes.
    #[serde(default, deserialize_with = "lenient")]
    pub file_size: Option<u64>,
}

/// A sticker.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Sticker {
    /// What it stands for.
    #[serde(default, deserialize_with = "lenient")]
    pub emoji: Option<String>,
}

/// A file of any sort.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct File {
    /// Telegram's name for it.
    pub file_id: String,
    /// The sender's name for it.
    #[serde(default, deserialize_with = "lenient")]
    pub file_name: Option<String>,
    /// What sort it is, says the sender.
    #[serde(default, deserialize_with = "lenient")]
    pub mime_type: Option<String>,
    /// Bytes.
    #[serde(default, deserialize_with = "lenient")]
    pub file_size: Option<u64>,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Quote {
    /// Its words.
    pub text: String,
}

/// Where a message was forwarded from.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ForwardOrigin {
    /// A person who shows who they are.
    #[serde(default, deserialize_with = "lenient")]
    pub sender_user: Option<User>,
    /// One who does not.
    #[serde(default, deserialize_with = "lenient")]
    pub sender_user_name: Option<String>,
    /// A group that spoke as itself.
    #[serde(default, deserialize_with = "lenient")]
    pub sender_chat: Option<Chat>,
    /// A channel.
    #[serde(default, deserialize_with = "lenient")]
    pub chat: Option<Chat>,
}

/// A tap on a button.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct CallbackQuery {
    /// Its id, to answer it by.
    pub id: String,
    /// Who tapped.
    pub from: User,
    /// The message under which the button is; too old ones are not shown.
    #[serde(default, deserialize_with = "lenient")]
    pub message: Option<Box<Message>>,
    /// What the button carries.
    #[serde(default, deserialize_with = "lenient")]
    pub data: Option<String>,
}
