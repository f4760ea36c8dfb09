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
mod fleet_access;
mod fleet_cables;
mod fleet_check;
mod fleet_clocks;
mod fleet_dev;
#[path = "../fleet_environment/mod.rs"]
mod fleet_environment;
mod fleet_files;
mod fleet_full_disk;
mod fleet_kills;
mod fleet_moves;
mod fleet_power;
mod fleet_terminals;
mod fleet_worktrees;
mod git;
mod hooks;
mod logging;
mod memory;
mod nesting;
mod newer_cli;
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
