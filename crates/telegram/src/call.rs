//! What a bot may ask of Telegram.

use std::path::PathBuf;
use std::time::Duration;

pub use view::telegram::Message as Words;

use crate::place::{ChatId, MessageId, Place};

/// Something to be asked of Telegram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A new message.
    Send(SendMessage),
    /// Other words, or other buttons, for a message.
    Edit {
        /// Its chat.
        chat: ChatId,
        /// Which.
        message: MessageId,
        /// What it says from here on.
        words: Words,
        /// What is under it from here on.
        buttons: Buttons,
    },
    /// What is being written, shown until the next message; in private chats only.
    Draft {
        /// Where.
        place: Place,
        /// The same number goes on with the same draft; never 0.
        draft: i64,
        /// What is written so far.
        text: String,
    },
    /// A message is taken away.
    Delete {
        /// Its chat.
        chat: ChatId,
        /// Which.
        message: MessageId,
    },
    /// A file is sent.
    SendFile {
        /// Where to.
        place: Place,
        /// The file.
        path: PathBuf,
        /// Whether as a picture; as a document otherwise.
        picture: bool,
        /// What is said with it, up to 1,024 units.
        caption: Option<Words>,
        /// Whether it makes a sound.
        loud: bool,
    },
    /// Words sent as a file, such as a diff.
    SendText {
        /// Where to.
        place: Place,
        /// What the file is called.
        name: String,
        /// What is in it.
        text: String,
        /// Whether it makes a sound.
        loud: bool,
    },
    /// Says that the bot is busy, for five seconds.
    Typing(Place),
    /// Answers a tap. Everybody's button spins until then.
    Answer {
        /// The tap.
        tap: String,
        /// A word about it.
        text: Option<String>,
        /// Whether it has to be dismissed.
        alert: bool,
    },
}

/// A new message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendMessage {
    /// Where to.
    pub place: Place,
    /// What it says.
    pub words: Words,
    /// What is under it.
    pub buttons: Buttons,
    /// Whether it makes a sound.
    pub loud: bool,
    /// The message it answers.
    pub reply_to: Option<MessageId>,
    /// Whether the other side is put to answering it at once, which cannot be had with buttons.
    pub force_reply: bool,
}

/// Rows of buttons under a message; none where empty.
pub type Buttons = Vec<Vec<Button>>;

/// A button.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Button {
    /// What is on it.
    pub label: String,
    /// What comes back when it is tapped: 1 to 64 bytes that say nothing to anybody else.
    pub data: String,
}

/// What Telegram answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It is done; a new message has this number.
    Sent(MessageId),
    /// It is done.
    Done,
}

/// Why a call came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Too fast. Nothing happened.
    #[error("too many requests, again in {0:?}")]
    TooFast(Duration),
    /// The message says that already. As good as done.
    #[error("not modified")]
    NotModified,
    /// The tags in the words are not as they should be. Nothing happened; plain words would do.
    #[error("the tags were refused: {0}")]
    Tags(String),
    /// The message is not there any more, or may not be changed.
    #[error("there is no such message")]
    NoSuchMessage,
    /// The topic is not there any more.
    #[error("there is no such topic")]
    NoSuchThread,
    /// Nobody wants to hear from the bot there: blocked, kicked, or no such chat.
    #[error("not wanted there: {0}")]
    NotWanted(String),
    /// Refused for another reason; it will not help to try again.
    #[error("refused: {0}")]
    Refused(String),
    /// The network failed before Telegram can have heard of it.
    #[error("not reached: {0}")]
    NotReached(String),
    /// The network failed, or Telegram did, and nobody knows whether it happened.
    #[error("no answer: {0}")]
    Unknown(String),
}
