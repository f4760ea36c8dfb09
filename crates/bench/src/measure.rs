//! CPU time and memory of work, of programs and of servers.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use wait4::Wait4 as _;

/// The unit in which Linux reports the CPU time of a process.
const TICK: Duration = Duration::from_millis(10);

/// How long a server may take to end.
const TERMINATION: Duration = Duration::from_secs(30);

/// The CPU time of this thread that `work` takes.
pub(crate) fn cpu_of_work(work: impl FnOnce()) -> Duration {
    let start = ThreadTime::now();
    work();
    start.elapsed()
}

/// The CPU time that a program takes, user and system, and its exit status.
pub(crate) fn cpu_of_program(program: &mut Command) -> io::Result<(Duration, ExitStatus)> {
    let used = program.spawn()?.wait4()?;
    Ok((used.rusage.utime + used.rusage.stime, used.status))
}

/// Runs the candidates in turn, and returns the least time of each.
pub(crate) fn least_times<E, const N: usize>(
    rounds: NonZero<u32>,
    mut candidates: [&mut dyn FnMut() -> Result<Duration, E>; N],
) -> Result<[Duration; N], E> {
    let mut least = [Duration::MAX; N];
    for _ in 0..rounds.get() {
        for (least, candidate) in least.iter_mut().zip(&mut candidates) {
            *least = candidate()?.min(*least);
        }
    }
    Ok(least)
}

/// The peak memory of a program, in megabytes.
pub(crate) fn peak_memory(program: &mut Command) -> io::Result<f64> {
    peak_memory_of(program.spawn()?)
}

/// The peak memory of a process until it exits, in megabytes.
///
/// Read from outside while the process runs: the figure that the kernel gives afterwards includes
/// the memory of the parent process.
pub(crate) fn peak_memory_of(mut child: Child) -> io::Result<f64> {
    let mut peak = 0;
    while child.try_wait()?.is_none() {
        peak = memory_field(child.id(), "VmHWM:")?.unwrap_or(peak);
        thread::sleep(Duration::from_micros(500));
    }
    Ok(f64::from(peak) / 1000.0)
}

/// A field of `/proc/PID/status`, in kilobytes; `None` once the process is exiting.
pub(crate) fn memory_field(process: u32, name: &str) -> io::Result<Option<u32>> {
    let status = File::open(format!("/proc/{process}/status"))?;
    for line in BufReader::new(status).lines() {
        if let Some(amount) = line?.strip_prefix(name) {
            return Ok(amount.trim().strip_suffix(" kB").and_then(|it| it.parse().ok()));
        }
    }
    Ok(None)
}

/// Checks that a program can do what is measured: one that fails at once would win.
pub(crate) fn check_prints(
    program: &Path,
    arguments: &[&str],
    expected: &str,
) -> Result<(), String> {
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

/// The CPU time of a process so far, user and system, in hundredths of a second.
pub(crate) fn cpu_of_process(process: u32) -> io::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    ticks(&stat)
        .map(|ticks| TICK * ticks)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, stat))
}

/// A server on this machine that is measured. Dropping it kills its process.
pub(crate) struct BenchServer {
    pub(crate) address: SocketAddr,
    /// The line in which the server printed its address.
    pub(crate) ready_line: String,
    child: Child,
    /// Kept open, because a server may exit when it cannot write to stdout.
    _stdout: BufReader<ChildStdout>,
}

impl BenchServer {
    /// Starts the server and waits until it prints its address on stdout.
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        match child.stdout.take().map(BufReader::new).map(wait_for_address) {
            Some(Ok((address, ready_line, stdout))) => {
                Ok(Self { address, ready_line, child, _stdout: stdout })
            }
            other => {
                child.kill()?;
                child.wait()?;
                Err(other.and_then(Result::err).unwrap_or(io::ErrorKind::BrokenPipe.into()))
            }
        }
    }

    /// Asks the server to end, and waits until it has.
    pub(crate) fn terminate(&mut self) -> io::Result<()> {
        Command::new("kill").arg(self.child.id().to_string()).status()?;
        let deadline = Instant::now() + TERMINATION;
        while self.child.try_wait()?.is_none() && Instant::now() < deadline {
            thread::sleep(TICK);
        }
        Ok(())
    }

    /// The process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The CPU time of the server so far, user and system, in hundredths of a second.
    pub(crate) fn cpu(&self) -> io::Result<Duration> {
        cpu_of_process(self.child.id())
    }

    /// The resident memory of the server, in kilobytes.
    pub(crate) fn memory(&self) -> io::Result<f64> {
        memory_field(self.child.id(), "VmRSS:")?
            .map(f64::from)
            .ok_or(io::ErrorKind::NotFound.into())
    }

    /// The peak memory of the server so far, in kilobytes.
    pub(crate) fn peak_memory(&self) -> io::Result<f64> {
        Ok(memory_field(self.child.id(), "VmHWM:")?.map_or(0.0, f64::from))
    }
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        // Killing fails only if the server has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `utime` and `stime` together, in ticks.
fn ticks(stat: &str) -> Option<u32> {
    // The second field is the name of the program in parentheses, which may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(|field| field.parse::<u32>().ok());
    Some(times.next()?? + times.next()??)
}

fn wait_for_address(
    mut stdout: BufReader<ChildStdout>,
) -> io::Result<(SocketAddr, String, BufReader<ChildStdout>)> {
    let mut line = String::new();
    while stdout.read_line(&mut line)? > 0 {
        if let Some(address) = loopback_address(&line) {
            return Ok((address, line, stdout));
        }
        line.clear();
    }
    Err(io::Error::other("the server exited without printing its address"))
}

/// The loopback address in a line of JSON or text.
fn loopback_address(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("http://")?;
    let end = rest.find(|it: char| !it.is_ascii_digit() && !".:".contains(it));
    let address: SocketAddr = rest[..end.unwrap_or(rest.len())].parse().ok()?;
    address.ip().is_loopback().then_some(address)
}

#[cfg(test)]
mod tests {
    use super::{loopback_address, ticks};

    #[test]
    fn a_program_name_may_contain_parentheses() {
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4194304 900 0 0 0 120 45 6 7 20 0 1 0 42";
        assert_eq!(ticks(stat), Some(165));
        assert_eq!(ticks("7 (a) S 1 7"), None);
    }

    #[test]
    fn only_a_loopback_address_is_found() {
        let cases = [
            (r#"{"url":"http://127.0.0.1:4010","pid":7}"#, Some("127.0.0.1:4010")),
            ("[aimock] listening on http://127.0.0.1:80\n", Some("127.0.0.1:80")),
            ("listening on http://192.0.2.1:80", None),
            ("[aimock] Loaded 1 fixture(s)", None),
        ];
        for (line, expected) in cases {
            assert_eq!(loopback_address(line), expected.map(|it| it.parse().unwrap()), "{line}");
        }
    }
}
