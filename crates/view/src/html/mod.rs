//! What a person sees, as HTML.
//!
//! Made of our own tags and classes, and of escaped text: no inline style and no script, so that a
//! page may forbid both. [`STYLE`] and [`colour_rules`] are the rules for the classes.

mod ansi;
mod call;
mod code;
mod diff;
mod escape;
mod item;
mod lists;
mod markdown;
mod page;
mod prose;
mod timeline;
mod turn;

pub use ansi::{colour_rules, terminal_text};
pub use code::{code_block, coloured};
pub use diff::diff;
pub use escape::{escape, escaped};
pub use item::{Look, item, raw_line};
pub use markdown::render as render_block;
pub use page::{Nonce, Totals, foot, head};
pub use prose::{Prose, prose};
pub use timeline::Timeline;
pub use turn::{items, turn_end};

pub(crate) use call::without_numbers;
pub(crate) use markdown::is_line_break;
pub(crate) use turn::foldable;

/// The rules for everything in a conversation, in light and dark.
pub const STYLE: &str = include_str!("style.css");
