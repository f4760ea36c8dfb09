//! One running process of the agent.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, kill_process};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::process::ChildStdin;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::agent;
use super::sandbox::Sandbox;
use super::tape::{Tape, Way};
use crate::scenario::Signal;

/// How long output may still come after the end of the process: what it started may hold the pipe.
const AFTERMATH: Duration = Duration::from_millis(500);

/// The process.
pub(super) struct Child {
    /// From 1 on, over the whole scenario.
    pub(super) number: usize,
    /// What it was started with.
    pub(super) arguments: Vec<String>,
    pid: Option<Pid>,
    input: Option<ChildStdin>,
    ended: watch::Receiver<Option<ExitStatus>>,
    silent: watch::Receiver<bool>,
    complete: watch::Receiver<bool>,
    errors: Arc<Mutex<Vec<u8>>>,
    tape: Tape,
    /// Those who read and wait; dropping them kills the process.
    _tasks: JoinSet<()>,
}

/// What stdin is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    Pipe,
    Nothing,
}

impl Child {
    pub(super) fn start(
        number: usize,
        command: &[OsString],
        arguments: Vec<String>,
        input: Input,
        sandbox: &Sandbox,
        tape: &Tape,
    ) -> io::Result<Self> {
        let mut start = agent::start(command);
        start.args(&arguments).env_clear().envs(sandbox.environment());
        start.current_dir(sandbox.project()).process_group(0).kill_on_drop(true);
        start.stdout(Stdio::piped()).stderr(Stdio::piped());
        start.stdin(if input == Input::Pipe { Stdio::piped() } else { Stdio::null() });
        let mut child = start.spawn()?;
        tape.add(number, Way::Done, format!("started {}", arguments.join(" ")).as_bytes());
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let (end, ended) = watch::channel(None);
        let (silence, silent) = watch::channel(false);
        let (completion, complete) = watch::channel(false);
        let errors = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let stdin = child.stdin.take();
        if let Some(stdout) = child.stdout.take() {
            let (tape, ended) = (tape.clone(), ended.clone());
            tasks.spawn(async move {
                hear(stdout, number, &tape, ended).await;
                silence.send_replace(true);
                tape.nudge();
            });
        }
        if let Some(stderr) = child.stderr.take() {
            let (errors, ended) = (Arc::clone(&errors), ended.clone());
            tasks.spawn(async move {
                tokio::select! {
                    biased;
                    () = keep(stderr, errors) => {}
                    () = aftermath(ended) => {}
                }
                completion.send_replace(true);
            });
        }
        let reaper = tape.clone();
        tasks.spawn(async move {
            let status = child.wait().await.ok();
            end.send_replace(status);
            reaper.nudge();
        });
        let (arguments, tape) = (arguments, tape.clone());
        Ok(Self {
            number,
            arguments,
            pid,
            input: stdin,
            ended,
            silent,
            complete,
            errors,
            tape,
            _tasks: tasks,
        })
    }

    /// Writes to it. That it no longer reads is for the steps that follow to notice.
    pub(super) async fn say(&mut self, bytes: &[u8]) {
        self.tape.add(self.number, Way::Said, bytes.strip_suffix(b"\n").unwrap_or(bytes));
        if let Some(input) = &mut self.input
            && (input.write_all(bytes).await.is_err() || input.flush().await.is_err())
        {
            self.tape.add(self.number, Way::Done, b"could not write: it no longer reads");
        }
    }

    pub(super) fn close_input(&mut self) {
        if self.input.take().is_some() {
            self.tape.add(self.number, Way::Done, b"end of input");
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        let (name, signal) = match signal {
            Signal::Int => ("SIGINT", rustix::process::Signal::INT),
            Signal::Term => ("SIGTERM", rustix::process::Signal::TERM),
            Signal::Kill => ("SIGKILL", rustix::process::Signal::KILL),
        };
        self.tape.add(self.number, Way::Done, name.as_bytes());
        if let Some(pid) = self.pid.filter(|_| self.status().is_none()) {
            // It may end in this very moment; then the signal has nobody to reach.
            let _ = kill_process(pid, signal);
        }
    }

    /// How it ended, once it has.
    pub(super) fn status(&self) -> Option<ExitStatus> {
        *self.ended.borrow()
    }

    /// Whether nothing more can come from it.
    pub(super) fn is_silent(&self) -> bool {
        *self.silent.borrow()
    }

    /// Waits for the end and the last of its output.
    pub(super) async fn end(&self) -> Option<ExitStatus> {
        let mut ended = self.ended.clone();
        // The reaper lives as long as `self`, so the wait ends with the process.
        let status = ended.wait_for(Option::is_some).await.ok().and_then(|status| *status);
        let _ = self.silent.clone().wait_for(|silent| *silent).await;
        let _ = self.complete.clone().wait_for(|complete| *complete).await;
        status
    }

    pub(super) fn errors(&self) -> String {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&errors).into_owned()
    }
}

/// How a process ended, in words.
pub(super) fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown end".to_owned(),
    }
}

async fn hear(
    stdout: impl AsyncRead + Unpin,
    number: usize,
    tape: &Tape,
    ended: watch::Receiver<Option<ExitStatus>>,
) {
    let mut stdout = BufReader::with_capacity(1 << 16, stdout);
    let mut line = Vec::new();
    let aftermath = aftermath(ended);
    tokio::pin!(aftermath);
    loop {
        tokio::select! {
            biased;
            read = stdout.read_until(b'\n', &mut line) => {
                let whole = line.pop_if(|last| *last == b'\n').is_some();
                if whole || !line.is_empty() {
                    tape.add(number, Way::Heard, &line);
                }
                line.clear();
                if !whole || read.is_err() {
                    return;
                }
            }
            () = &mut aftermath => return,
        }
    }
}

/// Waits until the process has ended and a little longer.
async fn aftermath(mut ended: watch::Receiver<Option<ExitStatus>>) {
    let _ = ended.wait_for(Option::is_some).await;
    tokio::time::sleep(AFTERMATH).await;
}

async fn keep(mut stderr: impl AsyncRead + Unpin, kept: Arc<Mutex<Vec<u8>>>) {
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = stderr.read(&mut chunk).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&chunk[..length]);
    }
}
