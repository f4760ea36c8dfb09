//! `towpath serve` end to end: the built binary, the built-in agent, a scripted API, and clients
//! over HTTP and WebSocket.

#![expect(clippy::disallowed_methods, reason = "tests start the program they test")]
#![expect(clippy::print_stdout, reason = "what is fetched or skipped is said")]

mod agent_choices;
mod budget;
#[path = "../environment/mod.rs"]
mod environment;
mod files;
mod fixture;
mod fleet;
mod fleet_dev;
mod fleet_kills;
mod fleet_moves;
mod git;
mod hooks;
mod logging;
mod memory;
mod options;
mod prompts;
mod push;
mod reading;
#[path = "../driving/real_cli.rs"]
mod real_cli;
mod restart;
mod schedule;
mod schema;
mod search;
mod security;
mod shared_session;
mod stop;
mod streams;
mod terminal;
mod transcripts;
mod watch;
