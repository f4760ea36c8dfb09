//! Markdown that grows: which blocks are final, and what they hold.
//!
//! An answer is split into top-level [`MarkdownBlock`]s. A block is *closed* when no text that follows
//! can change it; it is then rendered once and never again. Only the text behind the last closed
//! block, the *open* part, is rendered again as more text arrives. The renderers for HTML, Telegram
//! and terminals all use the same events, so they agree on the structure.
//!
//! The dialect is `CommonMark` with tables, task lists, strikethrough, footnotes and formulas. It differs in
//! one point: **a link reference definition applies to its own block and later ones**, never to blocks
//! that were closed before it. A definition at the end of an answer would otherwise change blocks that are
//! already on the screen. A block's own definitions win over earlier ones.

mod block;
mod formula;
mod formula_text;
mod inline;
mod line_prefix;
mod link;

pub(crate) use block::is_line_break;
pub use block::{MarkdownBlock, MarkdownStream, blocks};
pub(crate) use formula_text::{formula_events, formula_text, without_panics};
pub(crate) use link::is_direction_mark;
pub use link::{SafeUrl, TextSegment, segments};
