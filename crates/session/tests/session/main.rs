//! Integration tests of the crate: the shim with real processes, and the simulation of the machine.

#[expect(clippy::disallowed_methods, reason = "tests start processes, with the PATH they have")]
mod shim;
mod simulation;
