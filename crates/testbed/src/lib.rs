//! The proving ground: a scripted Messages API, a stand-in for the CLI, and scenarios run on both.
//!
//! A [`scenario`] is a conversation in a file: what is written to the agent, what the model answers,
//! what must come back (`docs/scenarios.md` is its grammar). The [`api`] plays the model's part over
//! HTTP, [`play`] the agent's, and [`verify`] runs scenarios against any agent and says where it
//! differs.
//!
//! This crate shares no type with the product: a field that both misspelt would pass on both sides.
//! Everything here speaks JSON as `serde_json` values.

pub mod api;
pub mod play;
pub mod scenario;
pub mod verify;
