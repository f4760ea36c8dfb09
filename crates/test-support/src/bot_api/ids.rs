//! The names of things in a chat. Telegram numbers all of them, so the types keep them apart.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub i64);

        impl From<i64> for $name {
            fn from(number: i64) -> Self {
                Self(number)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// A person, or the bot.
    UserId
}
number! {
    /// A chat: the user's own number for a private one, negative for a group.
    ChatId
}
number! {
    /// A message, counted up in each chat.
    MessageId
}
number! {
    /// A topic: the number of the message that opened it.
    ThreadId
}

/// A tap on a button.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallbackId(pub String);

impl fmt::Display for CallbackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
