//! The processes of `towpath fleet dev`: how each is started, and the task that owns it.
//!
//! Each is in a process group of its own, so Ctrl-C in a terminal reaches only the command, which ends them
//! in order. If the command itself is killed, a small shell script ends what still runs.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::mpsc;

use crate::settings::remove_secrets;

/// How many signals may wait for a process. The sender waits.
const SIGNAL_QUEUE: usize = 4;

/// How much of a log is shown of a process that did not start.
const LOG_TAIL: usize = 4000;

/// Reads `PID`, and `-PID` for one that has ended. Kills those that are left at the end of the input.
const GUARD_SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM PIPE
running=
while read -r id; do
    case $id in
    -*) rest=; for it in $running; do [ "$it" = "${id#-}" ] || rest="$rest $it"; done; running=$rest ;;
    *) running="$running $id" ;;
    esac
done
for it in $running; do kill -9 "$it"; done
"#;

/// What a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessKind {
    Server,
    Worker,
    Gateway,
}

/// How a process is started.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    pub(super) kind: ProcessKind,
    pub(super) name: String,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    /// The file for what it writes to stderr.
    pub(super) log: PathBuf,
}

/// A process that runs. Its task owns it.
#[derive(Debug)]
pub(super) struct DevProcess {
    pub(super) recipe: Recipe,
    pub(super) pid: u32,
    signals: mpsc::Sender<Signal>,
}

/// A process has ended.
#[derive(Debug)]
pub(super) struct ProcessExit {
    pub(super) recipe: Recipe,
    pub(super) pid: u32,
    pub(super) status: io::Result<ExitStatus>,
}

/// Ends the processes when this one is killed.
#[derive(Debug)]
pub(super) struct OrphanGuard {
    script: std::process::Child,
    pipe: Option<Arc<Mutex<ChildStdin>>>,
}

impl ProcessKind {
    /// What people are told that it is.
    pub(super) fn describe(self, name: &str) -> String {
        match self {
            Self::Server => format!("NATS server {name}"),
            Self::Worker => format!("worker {name}"),
            Self::Gateway => "gateway".to_owned(),
        }
    }
}

impl Recipe {
    pub(super) fn server(
        name: String,
        program: PathBuf,
        arguments: Vec<OsString>,
        log: PathBuf,
    ) -> Self {
        Self { kind: ProcessKind::Server, name, program, arguments, log }
    }

    /// The end of what the process wrote to its log.
    pub(super) fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let tail = &text[text.len().saturating_sub(LOG_TAIL)..];
        String::from_utf8_lossy(tail).trim().to_owned()
    }

    /// Starts it. Its end is sent to `exits`. With `ready`, also returns its output.
    #[expect(clippy::disallowed_methods, reason = "this command owns the processes of its fleet")]
    pub(super) fn start(
        &self,
        guard: &OrphanGuard,
        exits: &mpsc::Sender<ProcessExit>,
    ) -> io::Result<(DevProcess, Option<ChildStdout>)> {
        let mut options = File::options();
        let log = options.create(true).append(true).mode(0o600).open(&self.log)?;
        let is_server = self.kind == ProcessKind::Server;
        let mut command = std::process::Command::new(&self.program);
        if is_server {
            remove_secrets(&mut command);
        }
        command.args(&self.arguments).stdin(Stdio::null()).process_group(0);
        command.stdout(if is_server { Stdio::from(log.try_clone()?) } else { Stdio::piped() });
        command.stderr(log);
        let mut child = Command::from(command).kill_on_drop(true).spawn()?;
        // It has not been waited for.
        let pid = child.id().ok_or(io::ErrorKind::NotFound)?;
        guard.add(pid);
        let output = child.stdout.take();
        let (signals, receiver) = mpsc::channel(SIGNAL_QUEUE);
        // The end of the pipe belongs to the guard alone.
        let pipe = guard.pipe.as_ref().map(Arc::downgrade);
        let (recipe, exits) = (self.clone(), exits.clone());
        tokio::spawn(async move {
            let status = own(&mut child, pid, receiver).await;
            if let Some(pipe) = pipe.and_then(|pipe| pipe.upgrade()) {
                write_line(&pipe, &format!("-{pid}"));
            }
            // There is no receiver any more if the command gives up.
            let _ = exits.send(ProcessExit { recipe, pid, status }).await;
        });
        Ok((DevProcess { recipe: self.clone(), pid, signals }, output))
    }
}

impl DevProcess {
    /// Sends a signal, unless it has ended.
    pub(super) async fn signal(&self, signal: Signal) {
        let _ = self.signals.send(signal).await;
    }
}

/// Waits for the end of a process and passes signals on. Dropping the sender is no signal.
async fn own(
    child: &mut Child,
    pid: u32,
    mut signals: mpsc::Receiver<Signal>,
) -> io::Result<ExitStatus> {
    loop {
        tokio::select! {
            status = child.wait() => return status,
            Some(signal) = signals.recv() => {
                // It has not been waited for, so the number is still its own.
                if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                    let _ = kill_process(pid, signal);
                }
            }
        }
    }
}

/// The first line that a process prints, which is an object; none if it ends before.
pub(super) async fn ready_line(output: ChildStdout) -> Option<Value> {
    let mut lines = BufReader::new(output).lines();
    let line = lines.next_line().await.ok()??;
    let ready = serde_json::from_str(&line).ok();
    // What else it prints must not make it wait.
    tokio::spawn(async move { while lines.next_line().await.is_ok_and(|it| it.is_some()) {} });
    ready
}

impl OrphanGuard {
    #[expect(clippy::disallowed_methods, reason = "this command owns the processes of its fleet")]
    pub(super) fn start() -> io::Result<Self> {
        let mut command = std::process::Command::new("/bin/sh");
        command.arg("-c").arg(GUARD_SCRIPT).stdin(Stdio::piped()).process_group(0);
        let mut script = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let pipe = script.stdin.take().map(|pipe| Arc::new(Mutex::new(pipe)));
        Ok(Self { script, pipe })
    }

    fn add(&self, pid: u32) {
        if let Some(pipe) = &self.pipe {
            write_line(pipe, &pid.to_string());
        }
    }

    /// Ends the script, which kills what still runs.
    pub(super) fn stop(mut self) {
        self.pipe = None;
        let _ = self.script.wait();
    }
}

fn write_line(pipe: &Mutex<ChildStdin>, line: &str) {
    let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
    // Without the script, only a killed command leaves processes behind.
    let _ = writeln!(pipe, "{line}");
}

/// `exited with status 1`, `was killed by signal 9`.
pub(super) fn describe_exit(status: &io::Result<ExitStatus>) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exited with code {code}"),
            (_, Some(signal)) => format!("was killed by signal {signal}"),
            _ => "ended".to_owned(),
        },
        Err(error) => format!("ended: {error}"),
    }
}

/// Whether a log says that another program took the port.
pub(super) fn is_port_taken(log: &str) -> bool {
    log.to_ascii_lowercase().contains("address already in use")
}

/// The path of the log of a process in a directory.
pub(super) fn log_file(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.log"))
}
