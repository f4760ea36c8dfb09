//! `towpath watch`, run as a process after an agent.

#![expect(clippy::disallowed_methods, reason = "tests start programs and read the environment")]

mod agents;
mod branches;
mod commits;
mod interrupted;
mod lost_replies;
mod other_agents;
mod pipe;
mod process;
mod signals;
mod store;
mod web_server;
