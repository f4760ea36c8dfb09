//! Conversations as HTML.
//!
//! The output consists of our own tags and classes and of escaped text. It has no inline styles and
//! no scripts, so a page's content security policy can forbid both. [`STYLE`] and [`colour_rules`]
//! are the style sheets for the classes.

mod call;
mod code_lines;
mod export;
mod item;
mod markdown;
mod math;
mod page;
mod text;

pub use code_lines::code_lines;
pub use export::{ExportOptions, HtmlExport};
pub use item::{HtmlOptions, item, items, raw_line, turn_end};
pub use markdown::{StreamingHtml, markdown, render_block};
pub use page::{CspNonce, PageTotals, Timeline, page_foot, page_head};
pub use text::{
    code_block, colour_rules, coloured, diff, escape, escaped, terminal_text, whole_diff,
};

/// The style sheet of a conversation, for light and dark mode.
pub const STYLE: &str = include_str!("style.css");
