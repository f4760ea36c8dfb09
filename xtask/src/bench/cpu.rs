//! CPU time: how much a contestant took, and which took least.

use std::fs;
use std::io;
use std::num::NonZero;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use cpu_time::ThreadTime;
use wait4::Wait4 as _;

/// Linux tells programs of hundredths of a second, whatever its own clock does.
const TICK: Duration = Duration::from_millis(10);

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

/// The CPU time that a running process took so far, user and system, in hundredths of a second.
pub(super) fn of_process(id: u32) -> io::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
    ticks(&stat)
        .map(|ticks| TICK * ticks)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, stat))
}

/// `utime` and `stime` together, in ticks.
fn ticks(stat: &str) -> Option<u32> {
    // The name of the program comes second, in parentheses, and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(|field| field.parse::<u32>().ok());
    Some(times.next()?? + times.next()??)
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

#[cfg(test)]
mod tests {
    use super::ticks;

    #[test]
    fn a_program_may_be_named_anything() {
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4194304 900 0 0 0 120 45 6 7 20 0 1 0 42";
        assert_eq!(ticks(stat), Some(165));
        assert_eq!(ticks("7 (a) S 1 7"), None);
    }
}
