//! `towpath acp` with clients that others wrote: `acpx`, and the SDKs for Python and TypeScript.
//!
//! Every line that an agent prints in these tests is checked against the schema of the protocol.

#![expect(clippy::disallowed_methods, reason = "tests start programs")]
#![expect(clippy::print_stdout, reason = "what is installed, skipped or measured is said")]

mod acpx;
#[path = "../browser/mod.rs"]
mod browser;
mod client;
mod conversations;
#[path = "../environment/mod.rs"]
mod environment;
mod fixture;
mod fleet;
#[path = "../fleet_environment/mod.rs"]
mod fleet_environment;
mod foreign_agent;
mod gateway;
mod hangups;
mod kills;
mod processes;
mod programs;
#[path = "../driving/real_cli.rs"]
mod real_cli;
mod records;
mod registry;
mod views;
