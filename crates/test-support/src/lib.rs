//! What only tests need: a double of Telegram's Bot API, and installers for outside programs.
//!
//! No shipped crate depends on this one. Like `testbed`, it shares no type with the product: a
//! misspelled field name must not pass on both sides.

pub mod bot_api;
pub mod packages;
