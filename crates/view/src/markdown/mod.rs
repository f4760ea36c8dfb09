//! Markdown as it grows: which blocks are final, and what they hold.
//!
//! An answer is cut into [`Block`]s at the top level. A block is *closed* when nothing that may
//! follow can change it; then it is rendered once and never again. Only what comes behind the last
//! closed block, the *open* part, is rendered again as text arrives. The renderers for HTML,
//! Telegram and terminals all walk the same events, so they agree on what is a list and what is not.
//!
//! The dialect is `CommonMark` with tables, task lists and strikethrough. It differs in one point:
//! **a link reference serves the block it stands in front of and those behind it**, never those that
//! were closed before it came. A definition at the end of an answer would otherwise reach back into
//! blocks that have been shown already. A block's own definitions win over those before it.

mod address;
mod block;
mod definitions;
mod stream;
mod web_links;

pub use address::Address;
pub(crate) use address::is_direction_mark;
pub use block::{Block, blocks};
pub use stream::Stream;
pub use web_links::{Stretch, stretches};
