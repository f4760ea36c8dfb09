//! The shim, with real processes: shell scripts as agents, and owners that are killed.

#![expect(clippy::disallowed_methods, reason = "tests start processes, with the PATH they have")]

mod attaching;
mod ending;
mod limits;
mod skew;
mod stage;
mod starting;
mod unowned;
