//! The bus: the same contract in memory and on released NATS servers, and what happens when servers fail.
//!
//! The servers are installed under `target/` on first use. Without Python or a way to install them, the tests
//! print that they were skipped; with `CI=true` they fail.

#![expect(clippy::unwrap_used, reason = "a failure in a test's fixture fails the test")]

mod access;
mod cluster;
mod contract;
mod fixture;
mod setup;
