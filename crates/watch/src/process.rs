//! Programs that actions start: git, hooks, commands. Never an agent.
//!
//! The only file here that starts processes. Each gets a group of its own, so that what it started
//! ends with it when its time is up, and its output is drained while it runs.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout, timeout_at};

/// How much of what a program prints is kept: more than `git` says of a thousand files.
const KEPT: usize = 1 << 20;

/// How long output is awaited once the program has ended: what it left running may hold it open.
const LINGER: Duration = Duration::from_millis(300);

/// A program to be run.
#[derive(Debug)]
pub(crate) struct Program {
    command: Command,
    name: String,
    stdin: Vec<u8>,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct CommandRun {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// A program did not do what it was started for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    /// It could not be started.
    #[error("could not start `{name}`: {source}")]
    Start {
        /// The program.
        name: String,
        /// Why not.
        source: io::Error,
    },
    /// It ran longer than it may.
    #[error("`{name}` took longer than {} s and was ended", limit.as_secs_f32())]
    TimeUp {
        /// The program.
        name: String,
        /// How long it may run.
        limit: Duration,
    },
    /// It says that it failed.
    #[error("`{name}` failed ({status}){}", if said.is_empty() { String::new() } else { format!(": {said}") })]
    Failed {
        /// The program.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// What it said last.
        said: String,
    },
}

impl Program {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let name = program.as_ref().to_string_lossy().into_owned();
        let mut command = Command::new(program);
        command.process_group(0).kill_on_drop(true);
        Self { command, name, stdin: Vec::new() }
    }

    /// A line for the shell, with arguments that it finds as `$1` and on.
    pub(crate) fn shell(line: &str, arguments: &[&OsStr]) -> Self {
        let mut program = Self::new("sh");
        program.command.arg("-c").arg(line).arg("towpath").args(arguments);
        line.clone_into(&mut program.name);
        program
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn without_env(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    pub(crate) fn directory(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    pub(crate) fn stdin(mut self, text: Vec<u8>) -> Self {
        self.stdin = text;
        self
    }

    /// How it is called where it is spoken of.
    pub(crate) fn called(mut self, name: String) -> Self {
        self.name = name;
        self
    }

    /// Runs it, for no longer than `limit`.
    pub(crate) async fn run(mut self, limit: Duration) -> Result<CommandRun, ProgramError> {
        let deadline = Instant::now() + limit;
        let piped = if self.stdin.is_empty() { Stdio::null() } else { Stdio::piped() };
        self.command.stdin(piped).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self
            .command
            .spawn()
            .map_err(|source| ProgramError::Start { name: self.name.clone(), source })?;
        let group = ProcessGroup::of(&child);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let ended = {
            let stdin = child.stdin.take();
            let text = &self.stdin;
            let feeding = async {
                if let Some(mut stdin) = stdin {
                    // One that does not read its input has its reasons.
                    let _ = stdin.write_all(text).await;
                }
            };
            let stdout = child.stdout.take();
            let stderr = child.stderr.take();
            let draining = async {
                tokio::join!(feeding, drain(stdout, &mut out), drain(stderr, &mut err));
            };
            tokio::pin!(draining);
            let waiting = async {
                tokio::select! {
                    status = child.wait() => {
                        let _ = timeout(LINGER, &mut draining).await;
                        status
                    }
                    () = &mut draining => child.wait().await,
                }
            };
            timeout_at(deadline, waiting).await
        };
        match ended {
            Ok(Ok(status)) => Ok(CommandRun { status, stdout: out, stderr: err }),
            Ok(Err(source)) => Err(ProgramError::Start { name: self.name, source }),
            Err(_) => {
                group.kill();
                Err(ProgramError::TimeUp { name: self.name, limit })
            }
        }
    }

    /// Runs it, and takes a status other than 0 for a failure.
    pub(crate) async fn succeed(self, limit: Duration) -> Result<Vec<u8>, ProgramError> {
        let name = self.name.clone();
        let run = self.run(limit).await?;
        if run.status.success() {
            return Ok(run.stdout);
        }
        Err(ProgramError::Failed { name, status: run.status, said: run.said() })
    }
}

impl CommandRun {
    /// What it said last, in a line.
    pub(crate) fn said(&self) -> String {
        let text = String::from_utf8_lossy(if self.stderr.is_empty() {
            &self.stdout
        } else {
            &self.stderr
        })
        .into_owned();
        let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
        last.unwrap_or_default().to_owned()
    }
}

/// The processes that a program started.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)))
    }

    fn kill(&self) {
        if let Some(group) = self.0 {
            // It may have ended by itself in the meantime.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Reads to the end, and keeps the beginning.
async fn drain(from: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut from) = from else { return };
    let mut piece = vec![0; 8 << 10];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        let room = KEPT.saturating_sub(kept.len()).min(count);
        kept.extend_from_slice(&piece[..room]);
    }
}

/// A path as git and programs print it, from their output.
pub(crate) fn path_from(output: &[u8]) -> OsString {
    use std::os::unix::ffi::OsStringExt as _;
    OsString::from_vec(output.trim_ascii_end().to_vec())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Program, ProgramError};

    const LONG: Duration = Duration::from_secs(20);

    fn run<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(future)
    }

    #[test]
    fn a_program_is_given_its_input_and_its_output_is_drained() {
        let text = vec![b'x'; 2 << 20];
        let program = Program::shell("cat; echo talk >&2; exit 3", &[]).stdin(text);
        let ended = run(program.run(LONG)).unwrap();
        assert_eq!((ended.status.code(), ended.stdout.len()), (Some(3), super::KEPT));
        assert_eq!(ended.said(), "talk");
    }

    #[test]
    fn when_its_time_is_up_all_it_started_ends() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let line = "sleep 1000 & echo $! > \"$1\"; wait";
        let program = Program::shell(line, &[file.as_os_str()]);
        let ended = run(program.run(Duration::from_millis(300)));
        assert!(matches!(ended, Err(ProgramError::TimeUp { .. })), "{ended:?}");
        let pid = std::fs::read_to_string(file).unwrap();
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        let begun = Instant::now();
        // An orphan is gone once whoever adopted it has noticed.
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
            stat.map_or(true, |stat| stat.contains(") Z "))
                && (cfg!(target_os = "linux") || rustix::process::test_kill_process(pid).is_err())
        };
        while !gone() {
            assert!(begun.elapsed() < LONG, "it still runs");
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_is_left_running_does_not_hold_up_who_waits() {
        let start = Instant::now();
        let output = run(Program::shell("sleep 5 & echo done", &[]).succeed(LONG)).unwrap();
        assert_eq!(output, b"done\n");
        assert!(start.elapsed() < Duration::from_secs(4));
    }

    #[test]
    fn failures_say_what_failed_and_what_it_said() {
        let failed = run(Program::shell("echo no such thing >&2; exit 1", &[]).succeed(LONG));
        let said = failed.unwrap_err().to_string();
        assert!(said.ends_with("failed (exit status: 1): no such thing"), "{said}");
        let missing = run(Program::new("/nowhere/program").succeed(LONG));
        assert!(matches!(missing, Err(ProgramError::Start { .. })));
    }
}
