//! The turn machine against everything that can happen to it, thousands of times.
//!
//! Each run follows from one number. One that fails names it; `TOWPATH_SIM_SEED` repeats that run
//! and shows every step of it, `TOWPATH_SIM_RUNS` changes how many there are.

mod cli;
mod dice;
mod disk;
mod ledger;
mod people;
mod story;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use story::tell;
use world::World;

#[test]
fn whatever_happens_nothing_is_lost_doubled_or_left_hanging() {
    if let Some(seed) = number_from("TOWPATH_SIM_SEED") {
        return run(seed, true);
    }
    for seed in 0..number_from("TOWPATH_SIM_RUNS").unwrap_or(4000) {
        run(seed, false);
    }
}

fn run(seed: u64, traced: bool) {
    let mut world = World::new(seed, traced);
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| tell(&mut world))) {
        let steps = world.trace.unwrap_or_default().join("\n");
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref().copied()).unwrap_or_default();
        panic!("{steps}\nrun again with TOWPATH_SIM_SEED={seed}: {text}");
    }
}

#[expect(clippy::disallowed_methods, reason = "whoever looks into a failed run names it so")]
fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
