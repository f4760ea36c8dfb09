//! A JSON parser that validates in one pass, borrows from the line and builds no tree.
//!
//! General parsers either allocate a tree per line, which is too slow for a stream of events, or
//! need the shape in advance, and the protocol's shapes change between versions. This parser walks
//! a line once and returns slices of it. It accepts exactly the syntax that `serde_json` accepts.
//!
//! Reading has no limit of depth, because nothing in it recurses: a value that nests a million levels
//! deep is skipped and kept as [`Raw`]. Code that looks *into* nested values, level by level, stops at
//! [`MAX_DEPTH`]. What lies deeper stays in the raw text of the line and is shown that way.

mod cursor;
mod nesting;
mod raw;
mod scan;
mod text;

pub(crate) use cursor::{Cursor, JsonValue, ParseError, ShapeError};
pub(crate) use nesting::{Outline, OutlineProgress};
pub use raw::{Fields, Items, Raw, Shape};
pub(crate) use scan::{skip_loosely, string_end_loosely};
pub use text::Text;

/// How many levels of nested values or markup are interpreted, here and in everything that shows
/// what was read. It is the limit of `serde_json` too, so both see the same content.
pub const MAX_DEPTH: usize = 128;
