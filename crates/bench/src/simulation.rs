//! The simulation of a session's owner: how many runs it manages, and whether any of them fails.

use std::process::Command;

use crate::error::BenchError;
use crate::measure::cpu_of_program;
use crate::table::BenchRow;

/// Ten times as many as the tests run, in about a minute. The first 1,000,000 take ten, with
/// `TOWPATH_SIM_RUNS`; they found four faults that the 10,000 of the tests do not meet.
const RUNS: f64 = 100_000.0;

const TEST: &str = "simulation::nothing_is_lost_repeated_or_left_waiting_whatever_fails";

pub(crate) fn rows() -> Result<Vec<BenchRow>, BenchError> {
    let failed = |error| BenchError::new("run the simulation", &error);
    let cargo = |more: &[&str]| {
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--quiet", "--release", "--package", "towpath-session"]);
        // Only the table goes to stdout.
        cargo.args(["--test", "session"]).args(more).stdout(std::io::stderr());
        cargo
    };
    // What is measured does not include the time to build it.
    let (_, built) = cpu_of_program(&mut cargo(&["--no-run"])).map_err(failed)?;
    if !built.success() {
        let reason = "the tests of `towpath-session` cannot be built".to_owned();
        return Ok(vec![BenchRow::skipped("simulation", "", reason)]);
    }
    let mut run = cargo(&["--", "--exact", TEST]);
    let run = run.env("TOWPATH_SIM_RUNS", RUNS.to_string());
    let (cpu, status) = cpu_of_program(run).map_err(failed)?;
    let baseline = if status.success() {
        format!("{RUNS} runs, none failed")
    } else {
        format!("of {RUNS} runs, one FAILED (see above)")
    };
    let speed = (RUNS / cpu.as_secs_f64(), " runs per CPU second");
    Ok(vec![BenchRow::amount("simulation", "", baseline, speed, None)])
}
