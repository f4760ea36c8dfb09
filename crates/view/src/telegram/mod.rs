//! Conversations for Telegram: its subset of HTML, in messages within its limits.
//!
//! A rendering is a [`FormattedText`]: plain text with formats on ranges of it. The formats become tags
//! only when the text is split into [`RenderedMessage`]s, so a split never breaks a tag: a format that
//! spans two messages is closed in the first and opened again in the second. Each message also has
//! its plain text, for when Telegram rejects the tags.
//!
//! Telegram's limits: 4,096 UTF-16 units after parsing, 100 formats, no formats inside code, no
//! quote inside a quote, no tables, no relative links.

mod item;
mod markdown;
mod text;

pub use item::{TelegramOptions, item, items, turn_end};
pub use markdown::{collapsed_quote, markdown};
pub use text::{FormattedText, LIMIT, RenderedMessage, TextFormat};
