//! One running process of the agent.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::process::ChildStdin;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::agent::new_command;
use super::sandbox::VerifySandbox;
use super::transcript::{VerifyDirection, VerifyTranscript};
use crate::scenario::ScenarioSignal;

/// How long output is still read after the process has exited, because its children may keep the
/// pipe open.
const OUTPUT_GRACE: Duration = Duration::from_millis(500);

pub(super) struct VerifyProcess {
    /// The number of the process in the scenario, counted from 1.
    pub(super) number: usize,
    pub(super) arguments: Vec<String>,
    pid: Option<Pid>,
    stdin: Option<ChildStdin>,
    status: watch::Receiver<Option<ExitStatus>>,
    stdout_done: watch::Receiver<bool>,
    stderr_done: watch::Receiver<bool>,
    stderr: Arc<Mutex<Vec<u8>>>,
    transcript: VerifyTranscript,
    /// The tasks that read the output and wait for the exit. Dropping them kills the process.
    _tasks: JoinSet<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum VerifyStdin {
    Pipe,
    Null,
}

impl VerifyProcess {
    pub(super) fn start(
        number: usize,
        command: &[OsString],
        arguments: Vec<String>,
        stdin: VerifyStdin,
        sandbox: &VerifySandbox,
        transcript: &VerifyTranscript,
    ) -> io::Result<Self> {
        let mut command = new_command(command);
        command.args(&arguments).env_clear().envs(sandbox.environment());
        command.current_dir(sandbox.project()).process_group(0).kill_on_drop(true);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if stdin == VerifyStdin::Pipe { Stdio::piped() } else { Stdio::null() });
        let mut child = command.spawn()?;
        let started = format!("started {}", arguments.join(" "));
        transcript.add(number, VerifyDirection::Action, started.as_bytes());
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let (status_sender, status) = watch::channel(None);
        let (stdout_sender, stdout_done) = watch::channel(false);
        let (stderr_sender, stderr_done) = watch::channel(false);
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let stdin = child.stdin.take();
        if let Some(pipe) = child.stdout.take() {
            let (transcript, status) = (transcript.clone(), status.clone());
            tasks.spawn(async move {
                read_stdout(pipe, number, &transcript, status).await;
                stdout_sender.send_replace(true);
                transcript.notify();
            });
        }
        if let Some(pipe) = child.stderr.take() {
            let (stderr, status) = (Arc::clone(&stderr), status.clone());
            tasks.spawn(async move {
                tokio::select! {
                    biased;
                    () = read_stderr(pipe, stderr) => {}
                    () = grace_period(status) => {}
                }
                stderr_sender.send_replace(true);
            });
        }
        let notifier = transcript.clone();
        tasks.spawn(async move {
            status_sender.send_replace(child.wait().await.ok());
            notifier.notify();
        });
        Ok(Self {
            number,
            arguments,
            pid,
            stdin,
            status,
            stdout_done,
            stderr_done,
            stderr,
            transcript: transcript.clone(),
            _tasks: tasks,
        })
    }

    /// Writes to stdin. If the agent no longer reads it, a later step detects that.
    pub(super) async fn write(&mut self, bytes: &[u8]) {
        let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        self.transcript.add(self.number, VerifyDirection::Input, line);
        if let Some(stdin) = &mut self.stdin
            && (stdin.write_all(bytes).await.is_err() || stdin.flush().await.is_err())
        {
            self.add_action("could not write: stdin is closed");
        }
    }

    pub(super) fn close_stdin(&mut self) {
        if self.stdin.take().is_some() {
            self.add_action("end of input");
        }
    }

    pub(super) fn signal(&self, signal: ScenarioSignal) {
        let (name, signal) = match signal {
            ScenarioSignal::Int => ("SIGINT", Signal::INT),
            ScenarioSignal::Term => ("SIGTERM", Signal::TERM),
            ScenarioSignal::Kill => ("SIGKILL", Signal::KILL),
        };
        self.add_action(name);
        if let Some(pid) = self.pid.filter(|_| self.status().is_none()) {
            // The process may exit at this moment; the error is then expected.
            let _ = kill_process(pid, signal);
        }
    }

    fn add_action(&self, action: &str) {
        self.transcript.add(self.number, VerifyDirection::Action, action.as_bytes());
    }

    /// The exit status, if the process has exited.
    pub(super) fn status(&self) -> Option<ExitStatus> {
        *self.status.borrow()
    }

    /// Whether all output has been read.
    pub(super) fn is_stdout_done(&self) -> bool {
        *self.stdout_done.borrow()
    }

    /// Waits for the exit and for the rest of the output.
    pub(super) async fn wait(&self) -> Option<ExitStatus> {
        let mut status = self.status.clone();
        // `self` owns the task that sends the status, so the sender still exists.
        let status = status.wait_for(Option::is_some).await.ok().and_then(|status| *status);
        let _ = self.stdout_done.clone().wait_for(|done| *done).await;
        let _ = self.stderr_done.clone().wait_for(|done| *done).await;
        status
    }

    pub(super) fn stderr(&self) -> String {
        let stderr = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&stderr).into_owned()
    }
}

/// An exit status as text.
pub(super) fn describe_exit(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown exit status".to_owned(),
    }
}

async fn read_stdout(
    pipe: impl AsyncRead + Unpin,
    number: usize,
    transcript: &VerifyTranscript,
    status: watch::Receiver<Option<ExitStatus>>,
) {
    let mut pipe = BufReader::with_capacity(1 << 16, pipe);
    let mut line = Vec::new();
    let grace_period = grace_period(status);
    tokio::pin!(grace_period);
    loop {
        tokio::select! {
            biased;
            read = pipe.read_until(b'\n', &mut line) => {
                let is_complete = line.pop_if(|last| *last == b'\n').is_some();
                if is_complete || !line.is_empty() {
                    transcript.add(number, VerifyDirection::Output, &line);
                }
                line.clear();
                if !is_complete || read.is_err() {
                    return;
                }
            }
            () = &mut grace_period => return,
        }
    }
}

/// Waits until the process has exited and the grace period has passed.
async fn grace_period(mut status: watch::Receiver<Option<ExitStatus>>) {
    let _ = status.wait_for(Option::is_some).await;
    tokio::time::sleep(OUTPUT_GRACE).await;
}

async fn read_stderr(mut pipe: impl AsyncRead + Unpin, buffer: Arc<Mutex<Vec<u8>>>) {
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = pipe.read(&mut chunk).await {
        let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.extend_from_slice(&chunk[..length]);
    }
}
