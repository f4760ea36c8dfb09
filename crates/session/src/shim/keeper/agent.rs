//! The agent's process: its pipes, and what is still to be written to it.

use std::collections::VecDeque;
use std::io::{self, Read, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::shim::plan::{MARKER_VARIABLE, Plan, Refusal};

/// How much may wait for an agent that does not read. Enough for a conversation's worth of pictures;
/// what exceeds it is refused, not lost.
const MOST_PENDING: usize = 64 << 20;

/// The agent.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) id: i32,
    pub(super) stdout: Option<ChildStdout>,
    pub(super) stderr: Option<ChildStderr>,
    stdin: Option<ChildStdin>,
    /// To be closed once nothing is pending.
    closing: bool,
    pending: VecDeque<Pending>,
    pending_bytes: usize,
    /// The last write taken.
    last: u64,
    /// The last write that is entirely in the pipe.
    written: u64,
}

#[derive(Debug)]
struct Pending {
    number: u64,
    bytes: Vec<u8>,
    sent: usize,
}

/// What becomes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It will be written.
    New,
    /// It was taken before.
    Again,
    /// It cannot be taken.
    Not,
}

impl Agent {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that starts agents")]
    pub(super) fn start(plan: &Plan) -> Result<Self, Refusal> {
        if let Err(error) = std::fs::read_dir(&plan.working_directory) {
            return Err(Refusal::WorkingDirectory {
                directory: plan.working_directory.display().to_string(),
                reason: error.to_string(),
            });
        }
        let refused = |error: &io::Error| Refusal::Agent {
            program: plan.program.to_string_lossy().into_owned(),
            reason: error.to_string(),
            os_error: error.raw_os_error(),
        };
        let mut child = Command::new(&plan.program)
            .args(&plan.arguments)
            .env_clear()
            .envs(plan.environment.iter().map(|(name, value)| (name, value)))
            .env(MARKER_VARIABLE, plan.marker.as_str())
            .current_dir(&plan.working_directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: an agent that signals its group must not hit the shim.
            .process_group(0)
            .spawn()
            .map_err(|error| refused(&error))?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let set = [
            stdin.as_ref().map(AsFd::as_fd),
            stdout.as_ref().map(AsFd::as_fd),
            stderr.as_ref().map(AsFd::as_fd),
        ];
        for pipe in set.into_iter().flatten() {
            let done = fcntl_getfl(pipe).and_then(|now| fcntl_setfl(pipe, now | OFlags::NONBLOCK));
            done.map_err(|error| refused(&error.into()))?;
        }
        Ok(Self {
            id: i32::try_from(child.id()).unwrap_or(i32::MAX),
            stdout,
            stderr,
            stdin,
            closing: false,
            pending: VecDeque::new(),
            pending_bytes: 0,
            last: 0,
            written: 0,
        })
    }

    /// Its stdin, if something is to be done with it.
    pub(super) fn stdin_to_poll(&self) -> Option<&ChildStdin> {
        self.stdin.as_ref().filter(|_| !self.pending.is_empty())
    }

    pub(super) fn stdin_is_open(&self) -> bool {
        self.stdin.is_some() && !self.closing
    }

    pub(super) fn last_write(&self) -> u64 {
        self.last
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Whether a write can be taken: it is the next one, stdin is open, and there is room for it.
    pub(super) fn judge(&self, number: u64, length: usize) -> Verdict {
        if number <= self.last {
            return Verdict::Again;
        }
        let room = self.pending_bytes == 0 || self.pending_bytes + length <= MOST_PENDING;
        if number == self.last + 1 && self.stdin_is_open() && room {
            Verdict::New
        } else {
            Verdict::Not
        }
    }

    /// Takes a write.
    pub(super) fn take(&mut self, number: u64, bytes: Vec<u8>) {
        self.last = number;
        self.pending_bytes += bytes.len();
        self.pending.push_back(Pending { number, bytes, sent: 0 });
        self.write();
    }

    /// Closes its stdin once nothing is pending.
    pub(super) fn close_stdin(&mut self) {
        self.closing = true;
        self.write();
    }

    /// Gives up its stdin and whatever is pending.
    pub(super) fn drop_stdin(&mut self) {
        self.stdin = None;
        self.pending.clear();
        self.pending_bytes = 0;
    }

    /// Writes what the pipe takes.
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
                // The agent has closed it: nothing more will be read.
                Err(_) => return self.drop_stdin(),
            }
        }
        if self.closing {
            self.drop_stdin();
        }
    }

    /// Nobody holds its ends of the pipes any more, or nobody who counts.
    pub(super) fn drop_output(&mut self) {
        self.stdout = None;
        self.stderr = None;
    }
}

/// What is in a pipe now: some bytes, nothing yet, or nothing ever again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// So many bytes.
    Bytes(usize),
    /// None now.
    Dry,
    /// The end.
    End,
}

/// Reads what is in a pipe now.
pub(super) fn read_now(pipe: &mut impl Read, buffer: &mut [u8]) -> Flow {
    loop {
        return match pipe.read(buffer) {
            Ok(0) => Flow::End,
            Ok(read) => Flow::Bytes(read),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Flow::Dry,
            Err(_) => Flow::End,
        };
    }
}
