//! The agent's process: its pipes, the writes that are pending, and the end of its stderr.

use std::collections::VecDeque;
use std::io::{self, Read, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::shim::launch::{LaunchError, MARKER_VARIABLE, ShimConfig};

/// How much may wait for an agent that does not read: enough for the images of a conversation.
/// Writes beyond it are refused, not lost.
const MAX_PENDING: usize = 64 << 20;

/// How much of stderr is kept.
const STDERR_TAIL: usize = 16 << 10;

/// The agent's process.
#[derive(Debug)]
pub(super) struct AgentProcess {
    pub(super) id: i32,
    pub(super) stdout: Option<ChildStdout>,
    pub(super) stderr: Option<ChildStderr>,
    stdin: Option<ChildStdin>,
    /// Whether stdin is to be closed once nothing is pending.
    closing: bool,
    pending: VecDeque<StdinWrite>,
    pending_bytes: usize,
    /// The number of the last write that was accepted.
    last_write: u64,
    /// The number of the last write that is completely in the pipe.
    written: u64,
}

#[derive(Debug)]
struct StdinWrite {
    number: u64,
    bytes: Vec<u8>,
    sent: usize,
}

/// Whether a write can be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteCheck {
    New,
    /// It was accepted before.
    Repeated,
    Refused,
}

impl AgentProcess {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that starts agents")]
    pub(super) fn start(config: &ShimConfig) -> Result<Self, LaunchError> {
        if let Err(error) = std::fs::read_dir(&config.working_directory) {
            return Err(LaunchError::WorkingDirectory {
                directory: config.working_directory.display().to_string(),
                reason: error.to_string(),
            });
        }
        let failed = |error: &io::Error| LaunchError::Agent {
            program: config.program.to_string_lossy().into_owned(),
            reason: error.to_string(),
            os_error: error.raw_os_error(),
        };
        let mut child = Command::new(&config.program)
            .args(&config.arguments)
            .env_clear()
            .envs(config.environment.iter().map(|(name, value)| (name, value)))
            .env(MARKER_VARIABLE, config.marker.as_str())
            .current_dir(&config.working_directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // An agent that signals its process group must not hit the shim.
            .process_group(0)
            .spawn()
            .map_err(|error| failed(&error))?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let pipes = [
            stdin.as_ref().map(AsFd::as_fd),
            stdout.as_ref().map(AsFd::as_fd),
            stderr.as_ref().map(AsFd::as_fd),
        ];
        for pipe in pipes.into_iter().flatten() {
            let set = fcntl_getfl(pipe).and_then(|now| fcntl_setfl(pipe, now | OFlags::NONBLOCK));
            set.map_err(|error| failed(&error.into()))?;
        }
        Ok(Self {
            id: i32::try_from(child.id()).unwrap_or(i32::MAX),
            stdout,
            stderr,
            stdin,
            closing: false,
            pending: VecDeque::new(),
            pending_bytes: 0,
            last_write: 0,
            written: 0,
        })
    }

    /// Its stdin, if something is to be written.
    pub(super) fn stdin_to_poll(&self) -> Option<&ChildStdin> {
        self.stdin.as_ref().filter(|_| !self.pending.is_empty())
    }

    pub(super) fn stdin_is_open(&self) -> bool {
        self.stdin.is_some() && !self.closing
    }

    pub(super) fn last_write(&self) -> u64 {
        self.last_write
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Whether a write can be accepted: it is the next one, stdin is open, and there is space for
    /// it.
    pub(super) fn check_write(&self, number: u64, length: usize) -> WriteCheck {
        if number <= self.last_write {
            return WriteCheck::Repeated;
        }
        let fits = self.pending_bytes == 0 || self.pending_bytes + length <= MAX_PENDING;
        if number == self.last_write + 1 && self.stdin_is_open() && fits {
            WriteCheck::New
        } else {
            WriteCheck::Refused
        }
    }

    /// Accepts a write that was checked before.
    pub(super) fn push_write(&mut self, number: u64, bytes: Vec<u8>) {
        self.last_write = number;
        self.pending_bytes += bytes.len();
        self.pending.push_back(StdinWrite { number, bytes, sent: 0 });
        self.write();
    }

    /// Closes stdin once nothing is pending.
    pub(super) fn close_stdin(&mut self) {
        self.closing = true;
        self.write();
    }

    /// Closes stdin and drops the pending writes.
    pub(super) fn drop_stdin(&mut self) {
        self.stdin = None;
        self.pending.clear();
        self.pending_bytes = 0;
    }

    /// Writes as much as the pipe takes.
    pub(super) fn write(&mut self) {
        while let (Some(stdin), Some(next)) = (&mut self.stdin, self.pending.front_mut()) {
            let rest = &next.bytes[next.sent..];
            match if rest.is_empty() { Ok(0) } else { stdin.write(rest) } {
                Ok(more) => {
                    next.sent += more;
                    self.pending_bytes -= more;
                    if next.sent == next.bytes.len() {
                        self.written = next.number;
                        self.pending.pop_front();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The agent has closed it.
                Err(_) => return self.drop_stdin(),
            }
        }
        if self.closing {
            self.drop_stdin();
        }
    }

    /// Closes stdout and stderr, although a process that escaped may still hold the other end.
    pub(super) fn drop_output(&mut self) {
        self.stdout = None;
        self.stderr = None;
    }
}

/// The result of a read that does not block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PipeRead {
    Bytes(usize),
    /// Nothing can be read now.
    Empty,
    /// The end of the stream.
    End,
}

/// Reads from a non-blocking pipe or socket.
pub(super) fn read_now(pipe: &mut impl Read, buffer: &mut [u8]) -> PipeRead {
    loop {
        return match pipe.read(buffer) {
            Ok(0) => PipeRead::End,
            Ok(read) => PipeRead::Bytes(read),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => PipeRead::Empty,
            Err(_) => PipeRead::End,
        };
    }
}

/// The end of what the agent wrote to stderr.
#[derive(Debug, Default)]
pub(super) struct StderrTail {
    bytes: VecDeque<u8>,
}

impl StderrTail {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(STDERR_TAIL)..];
        let excess = (self.bytes.len() + bytes.len()).saturating_sub(STDERR_TAIL);
        self.bytes.drain(..excess);
        self.bytes.extend(bytes);
    }

    pub(super) fn bytes(&mut self) -> &[u8] {
        self.bytes.make_contiguous()
    }
}

#[cfg(test)]
mod tests {
    use super::{STDERR_TAIL, StderrTail};

    #[test]
    fn only_the_end_of_stderr_is_kept() {
        let mut tail = StderrTail::default();
        let all: Vec<u8> = (0..50_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        for chunk in all.chunks(777) {
            tail.push(chunk);
        }
        assert!(tail.bytes() == &all[all.len() - STDERR_TAIL..]);
        tail.push(&all);
        assert!(tail.bytes() == &all[all.len() - STDERR_TAIL..]);
    }
}
