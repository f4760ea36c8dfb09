//! `towpath inspect` and the start of `towpath`, compared with other programs.

use std::num::NonZero;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::cache::BenchCache;
use crate::corpus::Corpus;
use crate::error::BenchError;
use crate::measure::{check_prints, cpu_of_program, least_times, peak_memory};
use crate::table::{BenchRow, BenchTarget};

/// A start takes about a millisecond, so a few of them say little.
const STARTS: NonZero<u32> = NonZero::new(200).expect("not zero");

/// `towpath inspect` of a file compared with `jq`, and its peak memory.
pub(crate) fn inspect(
    cache: &BenchCache,
    rounds: NonZero<u32>,
) -> Result<Vec<BenchRow>, BenchError> {
    let towpath = cache.program("towpath");
    if let Err(reason) = check_prints(&towpath, &["inspect", "--help"], "--json") {
        return Ok(vec![BenchRow::skipped("inspect", "C", reason)]);
    }
    let file = cache.file(Corpus::C)?;
    let ours = || {
        let mut command = Command::new(&towpath);
        command.args(["inspect", "--json"]).arg(&file).stdout(Stdio::null());
        command
    };
    let memory = match peak_memory(&mut ours()) {
        Ok(megabytes) => {
            BenchRow::amount("inspect, memory", "C", String::new(), (megabytes, " MB"), None)
        }
        Err(error) => BenchRow::skipped("inspect, memory", "C", error.to_string()),
    };
    if Command::new("jq").arg("--version").output().is_err() {
        let reason = "`jq` is not installed".to_owned();
        return Ok(vec![BenchRow::skipped("inspect", "C", reason), memory]);
    }
    let jq = || {
        let mut command = Command::new("jq");
        command.args(["-c", ".type"]).arg(&file).stdout(Stdio::null());
        command
    };
    let [theirs, ours] =
        least_times(rounds, [&mut || cpu_of(&mut jq()), &mut || cpu_of(&mut ours())])?;
    let target = Some(BenchTarget::AtLeast(20.0));
    Ok(vec![BenchRow::speedup("inspect", "C", ("jq -c .type", theirs), ours, target), memory])
}

/// `towpath --version`, compared with the program that does nothing.
pub(crate) fn startup(cache: &BenchCache) -> Result<Vec<BenchRow>, BenchError> {
    let towpath = cache.program("towpath");
    if let Err(reason) = check_prints(&towpath, &["--version"], "towpath") {
        return Ok(vec![BenchRow::skipped("startup", "", reason)]);
    }
    let [nothing, ours] = least_times(
        STARTS,
        [&mut || cpu_of(&mut without_environment("/usr/bin/true".as_ref())), &mut || {
            cpu_of(without_environment(&towpath).arg("--version"))
        }],
    )?;
    Ok(vec![BenchRow::slowdown("startup", ("true", nothing), ours, BenchTarget::AtMost(2.0))])
}

/// A program without an environment: the library path that cargo sets slows down loading.
fn without_environment(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().stdout(Stdio::null());
    command
}

/// The CPU time of a program that must succeed.
fn cpu_of(program: &mut Command) -> Result<Duration, BenchError> {
    let name = program.get_program().to_string_lossy().into_owned();
    match cpu_of_program(program) {
        Ok((time, status)) if status.success() => Ok(time),
        Ok((_, status)) => Err(BenchError::new(&format!("measure `{name}`"), &status)),
        Err(error) => Err(BenchError::new(&format!("start `{name}`"), &error)),
    }
}
