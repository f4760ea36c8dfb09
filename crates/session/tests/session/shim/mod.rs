//! The shim with real processes: shell scripts as agents, and owners that are killed.

mod attach;
mod exit;
mod fixture;
mod launch;
mod lease;
mod limits;
mod protocol;
