//! Agents of the Agent Client Protocol, as processes: the player, and released agents with
//! `towpath stub` as their model.

#![expect(clippy::disallowed_methods, reason = "tests start the programs they test")]
#![expect(clippy::print_stdout, reason = "what is installed, skipped or measured is said")]

mod client;
mod misbehaviors;
mod player;
#[path = "../acp_clients/programs.rs"]
#[expect(dead_code, reason = "of the clients, only the check of records is used here")]
mod programs;
#[path = "../driving/real_cli.rs"]
#[expect(dead_code, reason = "only the network namespace is used here")]
mod real_cli;
#[path = "../acp_clients/records.rs"]
#[expect(dead_code, reason = "agents are not wrapped here")]
mod records;
mod released;
mod scenarios;
