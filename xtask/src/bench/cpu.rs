//! CPU time: how much a contestant took, and which took least.

use std::io;
use std::num::NonZero;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use cpu_time::ThreadTime;
use wait4::Wait4 as _;

/// The CPU time of this thread that `work` takes.
pub(super) fn of_work(work: impl FnOnce()) -> Duration {
    let start = ThreadTime::now();
    work();
    start.elapsed()
}

/// The CPU time that a program takes, user and system, and how it ended.
pub(super) fn of_program(program: &mut Command) -> io::Result<(Duration, ExitStatus)> {
    let used = program.spawn()?.wait4()?;
    Ok((used.rusage.utime + used.rusage.stime, used.status))
}

/// Lets the contestants run in turn, and gives the least time of each.
pub(super) fn race<E, const N: usize>(
    rounds: NonZero<u32>,
    mut contestants: [&mut dyn FnMut() -> Result<Duration, E>; N],
) -> Result<[Duration; N], E> {
    let mut least = [Duration::MAX; N];
    for _ in 0..rounds.get() {
        for (least, contestant) in least.iter_mut().zip(&mut contestants) {
            *least = contestant()?.min(*least);
        }
    }
    Ok(least)
}
