//! JSON as this crate needs it: checked in one pass, borrowed, and never built into a tree.
//!
//! The general parsers at hand either allocate a tree per line or need the shape in advance; a
//! stream of events has neither the budget for the first nor the stability for the second. What is
//! here walks a line once, strictly (it accepts what `serde_json` accepts as syntax, no more), and
//! hands out slices of it.

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
