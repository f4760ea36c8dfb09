//! Scenarios held with agents: what holds, and where an agent differs.
//!
//! Every conversation has a sandbox, an API and a tape of its own, so any number of them go on at a
//! time. Nothing is decided by sleeping: steps wait for lines, requests, files and ends of processes.

mod agent;
mod book;
mod capture;
mod child;
mod conversation;
mod difference;
mod fetch;
mod normal;
mod processes;
pub mod report;
mod sandbox;
mod say;
mod tape;

pub use agent::{Agent, AgentError, command_for};
pub use book::{Outcome, Progress, Report, Settings, run_book};
pub use capture::{Capture, ProcessTrace};
pub use difference::{Difference, Nearest};
pub use fetch::{fetch, fetched};
pub use tape::{Entry, Way};
