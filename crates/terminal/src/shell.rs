//! The process behind a terminal: a login shell in a pseudo-terminal.

use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use filedescriptor::{FileDescriptor, POLLIN, Pipe, poll, pollfd};
use portable_pty::{
    Child, CommandBuilder, ExitStatus, MasterPty, PtyPair, PtySize, native_pty_system,
};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use thiserror::Error;

use crate::screen::ScreenSize;

/// Variables that describe the terminal or the service that the server was started in.
const NOT_INHERITED: &[&str] = &[
    "COLUMNS",
    "LINES",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TMUX",
    "TMUX_PANE",
    "STY",
    "WINDOWID",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "NOTIFY_SOCKET",
];

/// How shells are started.
#[derive(Clone, Debug)]
pub struct ShellConfig {
    /// The environment, without what the server keeps secret. `SHELL` is the shell; without it, the
    /// one of the user's account.
    pub environment: Vec<(OsString, OsString)>,
}

/// How a shell ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellExit {
    Code(u32),
    /// By a signal, with its name.
    Signal(String),
    Unknown,
}

/// Why a shell could not be started.
#[derive(Debug, Error)]
pub enum ShellStartError {
    #[error("the directory `{}` does not exist", .0.display())]
    NoDirectory(PathBuf),
    #[error("the system has no pseudo-terminal left: {0}")]
    NoTerminal(String),
    #[error("the shell could not be started: {0}")]
    NotStarted(String),
}

/// A started shell, taken apart for those who use each part.
pub(crate) struct StartedShell {
    pub(crate) output: ShellOutput,
    pub(crate) input: Box<dyn Write + Send>,
    pub(crate) child: Box<dyn Child + Send + Sync>,
    pub(crate) control: ShellControl,
    /// Ends a wait for output when it is dropped.
    pub(crate) wake: FileDescriptor,
}

/// The size of the terminal, and signals to its processes.
pub(crate) struct ShellControl {
    pty: Box<dyn MasterPty + Send>,
    process: Option<Pid>,
}

/// The process groups that end with a terminal.
#[derive(Default)]
pub(crate) struct ShellGroups(Vec<Pid>);

/// What the shell and its programs print.
pub(crate) struct ShellOutput {
    reader: Box<dyn Read + Send>,
    /// The terminal's descriptor, which [`ShellControl`] keeps open.
    terminal: RawFd,
    woken: FileDescriptor,
}

/// What a wait for output ended with.
pub(crate) enum OutputEvent {
    Printed(usize),
    /// The other end was dropped, or there is nothing more to come.
    Woken,
    Ended,
}

pub(crate) fn start(
    config: &ShellConfig,
    directory: &Path,
    size: ScreenSize,
) -> Result<StartedShell, ShellStartError> {
    // Without this check the shell would start in the home directory.
    if !directory.is_dir() {
        return Err(ShellStartError::NoDirectory(directory.to_owned()));
    }
    let no_terminal =
        |error: &dyn std::fmt::Display| ShellStartError::NoTerminal(error.to_string());
    let pair = native_pty_system().openpty(pty_size(size)).map_err(|it| no_terminal(&it))?;
    let PtyPair { slave, master } = pair;
    // A login shell, as terminals start it.
    let mut command = CommandBuilder::new_default_prog();
    command.env_clear();
    for (name, value) in &config.environment {
        if !NOT_INHERITED.iter().any(|it| name == it) {
            command.env(name, value);
        }
    }
    command.env("TERM", "xterm-256color");
    command.env("COLORTERM", "truecolor");
    command.env("PWD", directory);
    command.cwd(directory);
    let reader = master.try_clone_reader().map_err(|it| no_terminal(&it))?;
    let input = master.take_writer().map_err(|it| no_terminal(&it))?;
    let terminal = master.as_raw_fd().ok_or_else(|| no_terminal(&"it has no descriptor"))?;
    let Pipe { read: woken, write: wake } = Pipe::new().map_err(|it| no_terminal(&it))?;
    let child = slave.spawn_command(command);
    let child = child.map_err(|it| ShellStartError::NotStarted(it.to_string()))?;
    let process = child.process_id().and_then(|it| Pid::from_raw(i32::try_from(it).ok()?));
    let output = ShellOutput { reader, terminal, woken };
    Ok(StartedShell { output, input, child, control: ShellControl { pty: master, process }, wake })
}

fn pty_size(size: ScreenSize) -> PtySize {
    PtySize { rows: size.rows(), cols: size.columns(), pixel_width: 0, pixel_height: 0 }
}

impl ShellControl {
    pub(crate) fn resize(&self, size: ScreenSize) {
        if let Err(error) = self.pty.resize(pty_size(size)) {
            tracing::debug!(%error, "a terminal kept its size");
        }
    }

    /// The program in the foreground and the shell. Other jobs get a hangup from the shell, unless they
    /// were told not to.
    pub(crate) fn groups(&self) -> ShellGroups {
        let foreground = self.pty.process_group_leader().and_then(Pid::from_raw);
        let foreground = foreground.filter(|it| Some(*it) != self.process);
        ShellGroups(foreground.into_iter().chain(self.process).collect())
    }
}

impl ShellGroups {
    pub(crate) fn signal(&self, signal: Signal) {
        for group in &self.0 {
            // It may have ended meanwhile.
            let _ = kill_process_group(*group, signal);
        }
    }

    pub(crate) fn have_ended(&self) -> bool {
        self.0.iter().all(|it| test_kill_process_group(*it).is_err())
    }
}

impl ShellOutput {
    /// Waits for output. After it was woken there may still be some.
    pub(crate) fn read(&mut self, buffer: &mut [u8], draining: Option<Duration>) -> OutputEvent {
        let wait = |fd| pollfd { fd, events: POLLIN, revents: 0 };
        let mut waits = [wait(self.terminal), wait(self.woken.as_raw_fd())];
        let waits = if draining.is_some() { &mut waits[..1] } else { &mut waits[..] };
        match poll(waits, draining) {
            Ok(0) => return OutputEvent::Ended,
            Ok(_) => {}
            // A signal that was handled.
            Err(filedescriptor::Error::Poll(error)) if error.kind() == ErrorKind::Interrupted => {
                return OutputEvent::Printed(0);
            }
            Err(error) => {
                tracing::warn!(%error, "a terminal cannot be waited for");
                return OutputEvent::Ended;
            }
        }
        if waits[0].revents != 0 {
            return match self.reader.read(buffer) {
                Ok(0) => OutputEvent::Ended,
                Ok(read) => OutputEvent::Printed(read),
                Err(error) if error.kind() == ErrorKind::Interrupted => OutputEvent::Printed(0),
                Err(_) => OutputEvent::Ended,
            };
        }
        if waits.get(1).is_some_and(|it| it.revents != 0) {
            return OutputEvent::Woken;
        }
        OutputEvent::Printed(0)
    }
}

impl From<ExitStatus> for ShellExit {
    fn from(status: ExitStatus) -> Self {
        match status.signal() {
            Some(name) => Self::Signal(name.to_owned()),
            None => Self::Code(status.exit_code()),
        }
    }
}
