//! Programs that actions start: git, hooks, commands; never an agent.
//!
//! Each runs in a process group of its own, so that a timeout also kills what it started. Its output is
//! drained while it runs. It does not outlive this process, whichever way this process ends.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout, timeout_at};

use crate::process_guard::{self, OrphanPolicy};

/// Secrets of Towpath that this process may have in its environment. No program inherits them: hooks of a
/// repository may come from anyone.
pub const SECRET_VARIABLES: &[&str] = &["TOWPATH_TELEGRAM_TOKEN"];

/// How many bytes of the output are kept by default.
const MAX_OUTPUT: usize = 1 << 20;

/// How long to wait for the end of the output after the program has exited. Processes it left running
/// may keep the pipe open.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(300);

/// How long git may take to remove its locks after it was asked to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts a command line after a first line of input, which is sent when the guard knows the program. If
/// this process is killed before, there is no such line, and nothing is started.
const WAITING_SHELL: &str = r#"read -r line && exec sh -c "$@""#;

/// A program to run.
#[derive(Debug)]
pub(crate) struct Program {
    command: Command,
    name: String,
    stdin: Vec<u8>,
    max_output: Option<usize>,
    orphan_policy: OrphanPolicy,
    /// Whether it waits for a first line of input.
    waits: bool,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    #[error("could not start `{name}`: {source}")]
    Start { name: String, source: io::Error },
    #[error("`{name}` took longer than {} s and was stopped", limit.as_secs_f32())]
    Timeout { name: String, limit: Duration },
    #[error("`{name}` failed ({status}){}", if message.is_empty() { String::new() } else { format!(": {message}") })]
    Failed {
        name: String,
        status: ExitStatus,
        /// The last line it printed.
        message: String,
    },
    #[error("`{name}` printed more than {limit} bytes")]
    OutputTooLong { name: String, limit: usize },
}

impl Program {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let name = program.as_ref().to_string_lossy().into_owned();
        let mut command = Command::new(program);
        command.process_group(0);
        for name in SECRET_VARIABLES {
            command.env_remove(name);
        }
        let orphan_policy = OrphanPolicy::Kill;
        Self { command, name, stdin: Vec::new(), max_output: None, orphan_policy, waits: false }
    }

    /// Git, which is asked to stop before it is killed: otherwise it would leave its locks behind.
    pub(crate) fn git() -> Self {
        Self { orphan_policy: OrphanPolicy::Finish, ..Self::new("git") }
    }

    /// A command line for the shell, with the arguments `$1`, `$2`, ….
    pub(crate) fn shell(line: &str, arguments: &[&OsStr]) -> Self {
        let mut program = Self { waits: true, ..Self::new("sh") };
        program.command.args(["-c", WAITING_SHELL, "towpath"]);
        program.command.arg(line).arg("towpath").args(arguments);
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

    /// Sets how many bytes of the output are kept. Longer output is an error.
    pub(crate) fn max_output(mut self, limit: usize) -> Self {
        self.max_output = Some(limit);
        self
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Sets the name for error messages.
    pub(crate) fn named(mut self, name: String) -> Self {
        self.name = name;
        self
    }

    /// Runs the program with a time limit.
    pub(crate) async fn run(mut self, time: Duration) -> Result<ProgramOutput, ProgramError> {
        let deadline = Instant::now() + time;
        if self.waits {
            self.stdin.insert(0, b'\n');
        }
        let stdin = if self.stdin.is_empty() { Stdio::null() } else { Stdio::piped() };
        self.command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        process_guard::prepare();
        let mut child = self
            .command
            .spawn()
            .map_err(|source| ProgramError::Start { name: self.name.clone(), source })?;
        let group = ProcessGroup::new(&child, self.orphan_policy);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        // One more byte tells whether the output was longer.
        let limit = self.max_output.map_or(MAX_OUTPUT, |limit| limit + 1);
        let result = {
            let stdin = child.stdin.take();
            let text = &self.stdin;
            let write_input = async {
                if let Some(mut stdin) = stdin {
                    // A program may exit without reading its input.
                    let _ = stdin.write_all(text).await;
                }
            };
            let stdout = child.stdout.take();
            let stderr = child.stderr.take();
            let draining = async {
                let (out, err) = (drain(stdout, &mut out, limit), drain(stderr, &mut err, limit));
                tokio::join!(write_input, out, err);
            };
            tokio::pin!(draining);
            let waiting = async {
                tokio::select! {
                    status = child.wait() => {
                        let _ = timeout(DRAIN_TIMEOUT, &mut draining).await;
                        status
                    }
                    () = &mut draining => child.wait().await,
                }
            };
            timeout_at(deadline, waiting).await
        };
        if matches!(result, Ok(Ok(_))) {
            group.finish();
        } else {
            group.stop(&mut child).await;
        }
        match result {
            Ok(Ok(_)) if self.max_output.is_some_and(|limit| out.len() > limit) => {
                let limit = self.max_output.unwrap_or_default();
                Err(ProgramError::OutputTooLong { name: self.name, limit })
            }
            Ok(Ok(status)) => Ok(ProgramOutput { status, stdout: out, stderr: err }),
            Ok(Err(source)) => Err(ProgramError::Start { name: self.name, source }),
            Err(_) => Err(ProgramError::Timeout { name: self.name, limit: time }),
        }
    }

    /// Runs the program and returns its stdout; an exit status other than 0 is an error.
    pub(crate) async fn run_checked(self, limit: Duration) -> Result<Vec<u8>, ProgramError> {
        let name = self.name.clone();
        let output = self.run(limit).await?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(ProgramError::Failed { name, status: output.status, message: output.message() })
    }
}

impl ProgramOutput {
    /// The line in which git names its error, or else the last line of stderr, or of stdout if stderr is
    /// empty. After its error git may print advice.
    pub(crate) fn message(&self) -> String {
        let text = String::from_utf8_lossy(if self.stderr.is_empty() {
            &self.stdout
        } else {
            &self.stderr
        })
        .into_owned();
        let error = text.lines().find(|it| it.starts_with("fatal: ") || it.starts_with("error: "));
        let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
        error.or(last).unwrap_or_default().to_owned()
    }
}

/// The process group of a running program. Dropping it ends the program.
struct ProcessGroup {
    group: Option<Pid>,
    policy: OrphanPolicy,
}

impl ProcessGroup {
    fn new(child: &Child, policy: OrphanPolicy) -> Self {
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(group) = group {
            process_guard::add(group, policy);
        }
        Self { group, policy }
    }

    /// The program has exited. What it left in the background may continue.
    fn finish(mut self) {
        if let Some(group) = self.group.take() {
            process_guard::remove(group);
        }
    }

    /// Ends the program and what it started.
    async fn stop(self, child: &mut Child) {
        if self.policy == OrphanPolicy::Finish {
            self.signal(Signal::TERM);
            let _ = timeout(STOP_TIMEOUT, child.wait()).await;
        }
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // This fails if the group has exited meanwhile.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        match self.policy {
            OrphanPolicy::Kill => self.signal(Signal::KILL),
            OrphanPolicy::Finish => self.signal(Signal::TERM),
        }
        if let Some(group) = self.group {
            process_guard::remove(group);
        }
    }
}

/// Reads to the end and keeps the first bytes.
async fn drain(source: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>, limit: usize) {
    let Some(mut source) = source else { return };
    let mut buffer = vec![0; 8 << 10];
    while let Ok(count @ 1..) = source.read(&mut buffer).await {
        let length = limit.saturating_sub(kept.len()).min(count);
        kept.extend_from_slice(&buffer[..length]);
    }
}

/// The path in the output of a program.
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
    fn a_program_gets_its_input_and_its_output_is_drained() {
        let text = vec![b'x'; 2 << 20];
        let program = Program::shell("cat; echo talk >&2; exit 3", &[]).stdin(text);
        let output = run(program.run(LONG)).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(3), super::MAX_OUTPUT));
        assert_eq!(output.message(), "talk");
    }

    #[test]
    fn a_timeout_kills_the_whole_process_group() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let line = "sleep 1000 & echo $! > \"$1\"; wait";
        let mut pid = String::new();
        // On a busy machine the process may not have started in a short time.
        for milliseconds in [300, 3_000, 30_000] {
            let program = Program::shell(line, &[file.as_os_str()]);
            let output = run(program.run(Duration::from_millis(milliseconds)));
            assert!(matches!(output, Err(ProgramError::Timeout { .. })), "{output:?}");
            pid = std::fs::read_to_string(&file).unwrap_or_default();
            if pid.ends_with('\n') {
                break;
            }
        }
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        let start = Instant::now();
        // An orphan is a zombie until the process that adopted it reaps it.
        let exited = || {
            let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
            status.map_or(true, |status| status.contains(") Z "))
                && (cfg!(target_os = "linux") || rustix::process::test_kill_process(pid).is_err())
        };
        while !exited() {
            assert!(start.elapsed() < LONG, "the process still runs");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_background_process_does_not_delay_the_result() {
        let start = Instant::now();
        let output = run(Program::shell("sleep 600 & echo $!", &[]).run_checked(LONG)).unwrap();
        assert!(start.elapsed() < Duration::from_secs(50));
        let id = std::str::from_utf8(&output).unwrap().trim().parse().unwrap();
        let id = rustix::process::Pid::from_raw(id).unwrap();
        // It may continue, and nothing but the test ends it.
        rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
    }

    #[test]
    fn an_error_names_the_program_and_its_message() {
        let failed = run(Program::shell("echo no such thing >&2; exit 1", &[]).run_checked(LONG));
        let text = failed.unwrap_err().to_string();
        assert!(text.ends_with("failed (exit status: 1): no such thing"), "{text}");
        let missing = run(Program::new("/nowhere/program").run_checked(LONG));
        assert!(matches!(missing, Err(ProgramError::Start { .. })));
    }
}
