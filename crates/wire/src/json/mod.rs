//! A JSON parser that validates in one pass, borrows from the line and builds no tree.
//!
//! General parsers either allocate a tree per line, which is too slow for a stream of events, or
//! need the shape in advance, and the protocol's shapes change between versions. This parser walks
//! a line once and returns slices of it. It accepts exactly the syntax that `serde_json` accepts.

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
