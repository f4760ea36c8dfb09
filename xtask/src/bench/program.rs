//! The built binary, against other programs.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::num::NonZero;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::cache::Cache;
use super::cpu;
use super::table::{Row, Target};
use crate::corpus::Mix;
use crate::failure::Failure;
use crate::setup;

/// A start takes about a millisecond: the minimum of a few would be chance.
const STARTS: NonZero<u32> = NonZero::new(200).expect("not zero");

/// `towpath inspect` of a file, against `jq`, and the most memory it holds.
pub(super) fn inspect(cache: &Cache, rounds: NonZero<u32>) -> Result<Vec<Row>, Failure> {
    let towpath = cache.program("towpath");
    if let Err(reason) = prints(&towpath, &["inspect", "--help"], "--json") {
        return Ok(vec![Row::skipped("inspect", "C", reason)]);
    }
    let file = cache.file(Mix::C)?;
    let ours = || {
        let mut command = Command::new(&towpath);
        command.args(["inspect", "--json"]).arg(&file).stdout(Stdio::null());
        command
    };
    let memory = match peak_memory(&mut ours()) {
        Ok(megabytes) => {
            Row::amount("inspect, memory", "C", String::new(), (megabytes, " MB"), None)
        }
        Err(error) => Row::skipped("inspect, memory", "C", error.to_string()),
    };
    if let Err(reason) = setup::jq() {
        return Ok(vec![Row::skipped("inspect", "C", reason), memory]);
    }
    let jq = || {
        let mut command = Command::new("jq");
        command.args(["-c", ".type"]).arg(&file).stdout(Stdio::null());
        command
    };
    let [theirs, ours] =
        cpu::race(rounds, [&mut || successful(&mut jq()), &mut || successful(&mut ours())])?;
    let target = Some(Target::AtLeast(20.0));
    Ok(vec![Row::speedup("inspect", "C", ("jq -c .type", theirs), ours, target), memory])
}

/// `towpath --version`, against the program that does nothing.
pub(super) fn startup(cache: &Cache) -> Result<Vec<Row>, Failure> {
    let towpath = cache.program("towpath");
    if let Err(reason) = prints(&towpath, &["--version"], "towpath") {
        return Ok(vec![Row::skipped("startup", "", reason)]);
    }
    let [nothing, ours] = cpu::race(
        STARTS,
        [&mut || successful(&mut bare("/usr/bin/true".as_ref())), &mut || {
            successful(bare(&towpath).arg("--version"))
        }],
    )?;
    Ok(vec![Row::slowdown("startup", ("true", nothing), ours, Target::AtMost(2.0))])
}

/// A program without an environment: the library path that cargo sets makes loading slower.
fn bare(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().stdout(Stdio::null());
    command
}

fn successful(program: &mut Command) -> Result<Duration, Failure> {
    let name = program.get_program().to_string_lossy().into_owned();
    match cpu::of_program(program) {
        Ok((time, status)) if status.success() => Ok(time),
        Ok((_, status)) => Err(Failure::could_not(&format!("measure `{name}`"), &status)),
        Err(error) => Err(Failure::could_not(&format!("start `{name}`"), &error)),
    }
}

/// Looks whether the program can do what is measured: one that does nothing would win.
pub(super) fn prints(program: &Path, arguments: &[&str], expected: &str) -> Result<(), String> {
    let called = format!("`towpath {}`", arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{called} did not start: {error}"))?;
    if String::from_utf8_lossy(&output.stdout).contains(expected) {
        Ok(())
    } else {
        Err(format!("{called} does not print `{expected}`"))
    }
}

/// The most memory a program held, in megabytes.
///
/// Asked from outside while it runs, for what the kernel tells afterwards includes the memory of
/// the process that started it.
pub(super) fn peak_memory(program: &mut Command) -> io::Result<f64> {
    let mut child = program.spawn()?;
    let mut most = 0;
    while child.try_wait()?.is_none() {
        most = high_water_mark(&child)?.unwrap_or(most);
        thread::sleep(Duration::from_micros(500));
    }
    Ok(f64::from(most) / 1000.0)
}

/// `VmHWM`, in kilobytes; nothing once the process is ending.
pub(super) fn high_water_mark(child: &Child) -> io::Result<Option<u32>> {
    status_field(child.id(), "VmHWM:")
}

/// An amount of memory that the system tells of a process, in kilobytes; nothing once it is ending.
pub(super) fn status_field(process: u32, name: &str) -> io::Result<Option<u32>> {
    let status = File::open(format!("/proc/{process}/status"))?;
    for line in BufReader::new(status).lines() {
        if let Some(amount) = line?.strip_prefix(name) {
            let kilobytes = amount.trim().strip_suffix(" kB").and_then(|it| it.parse().ok());
            return Ok(kilobytes);
        }
    }
    Ok(None)
}
