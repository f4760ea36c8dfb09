//! The shim itself: one thread, blocking `poll`, no runtime.
//!
//! [`Keeper`](keep::Keeper) is the loop. It reads what is ready, never waits for anybody in particular, and asks
//! the pure parts what follows: [`Pulse`](pulse::Pulse) whether a turn runs,
//! [`Lease`](lease::Lease) how long an agent without an owner lives, [`Ending`](ending::Ending) what
//! comes next when it must end.

mod agent;
mod alarm;
mod attend;
mod begin;
mod close;
mod complaints;
mod door;
mod ending;
mod keep;
mod lease;
mod owner;
mod pulse;
mod wait;

use std::fs::File;
use std::io::{self, Write as _};

use super::plan::{Answer, Plan, Refusal};

/// Runs a shim: reads its plan from stdin, answers on stdout, and keeps the agent until it has ended.
/// Returns the process's exit code. To be called before anything else: no thread may run yet.
pub fn run_shim() -> i32 {
    let plan: Result<Plan, _> = serde_json::from_reader(io::stdin().lock());
    let keeper =
        plan.map_err(|error| Refusal::Plan(error.to_string())).and_then(|plan| begin::begin(&plan));
    match keeper {
        Ok(keeper) => {
            answer(&Answer::Ready { shim: keeper.shim(), agent: keeper.agent() });
            keeper.keep();
            0
        }
        Err(refusal) => {
            answer(&Answer::Refused(refusal));
            2
        }
    }
}

/// Says how it went, and lets go of the pipes to whoever started this process: they must not stay
/// open as long as the agent lives.
fn answer(answer: &Answer) {
    let line = serde_json::to_vec(answer).unwrap_or_default();
    let mut stdout = io::stdout().lock();
    // Nobody to hear it is the same as an owner who left: the agent goes on.
    let _ = stdout.write_all(&line).and_then(|()| stdout.flush());
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}
