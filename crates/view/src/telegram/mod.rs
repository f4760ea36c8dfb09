//! What a person sees, for Telegram: its subset of HTML, in messages that fit.
//!
//! A rendering is a [`Text`]: words and marks on them. Only when it is cut into [`Message`]s do the
//! marks become tags, so a cut can never break one: a mark that spans two messages is closed in the
//! first and opened again in the second. Each message comes with its plain words too, for when
//! Telegram refuses the tags.
//!
//! Telegram's rules that shape this: 4,096 UTF-16 units after its own parsing, 100 marks, no marks
//! inside code, no quote inside a quote, no tables, no relative links.

mod item;
mod markdown;
mod message;
mod text;

pub use item::{Look, item, items, turn_end};
pub use markdown::{prose, quoted};
pub use message::{LIMIT, Message};
pub use text::{Mark, Text};
