//! The test bed: a scripted Messages API, a stand-in for the CLI, and scenarios that test both.
//!
//! A [`scenario`] is a conversation in a file: what is written to the agent, what the model replies,
//! and what the agent must print (`docs/scenarios.md` describes the format). The [`api`] takes the
//! part of the model over HTTP, [`play`] takes the part of the agent, and [`verify`] runs scenarios
//! against any agent and reports differences. The [`history`] is what is known about all releases.
//!
//! This crate shares no types with the product: a field name that is misspelled in a shared type would
//! pass every test. It uses `serde_json` values instead.

pub mod api;
pub mod history;
pub mod play;
pub mod scenario;
mod timestamp;
pub mod verify;
