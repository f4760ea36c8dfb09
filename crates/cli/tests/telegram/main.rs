//! `towpath telegram` from outside: the built binary with the built-in agent, a scripted Messages
//! API, and a Bot API double that is as strict as Telegram's.

#![expect(clippy::print_stdout, reason = "tests report what they install, skip or measure")]
#![expect(clippy::disallowed_methods, reason = "tests start the program they test")]

mod agents;
#[path = "../browser/mod.rs"]
mod browser;
mod commands;
mod conversations;
#[path = "../environment/mod.rs"]
mod environment;
mod external;
mod files;
mod fixture;
mod fleet;
#[path = "../fleet_environment/mod.rs"]
mod fleet_environment;
mod network;
mod options;
mod other_agents;
mod outbox;
mod permissions;
#[path = "../driving/real_cli.rs"]
mod real_cli;
mod restarts;
mod schedules;
mod server;
mod sessions;
mod taps;
mod texts;
