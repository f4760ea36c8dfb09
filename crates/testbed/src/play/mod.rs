//! `towpath play`: a stand-in for the CLI, version 2.1.325 or one of a few older ones.
//!
//! The *host* is the program that started the player and talks to it over stdin and stdout. All
//! decisions are made by `PlayerSession`, a state machine that is tested without a
//! process. [`run`] does the I/O around it: it reads stdin, sends requests to a model, runs tools in
//! the working directory and writes stdout. One loop handles the effects of the session in order,
//! so the order of the lines is the order of the decisions.

mod acp;
mod args;
mod definitions;
mod event;
mod json_schema;
mod mcp_connections;
mod mcp_http;
mod model;
mod permission;
mod player;
mod private_files;
mod release;
mod session;
mod settings;
mod stamps;
mod start_checks;
mod stdio;
mod subcommand;
mod texts;
mod tools;
mod transcript;

pub use acp::{AcpPlayerArgs, AcpPlayerArgsError, run_acp};
pub use args::{PlayerArgs, PlayerStartError};
pub use player::run;
pub use release::{PlayerRelease, PlayerReleaseError};
pub use settings::PlayerEnvironment;
