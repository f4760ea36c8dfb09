//! Signals to the shim as a file descriptor to poll.
//!
//! The signals have handlers and are not ignored: the agent and all it starts would inherit an
//! ignored signal, while handlers end with the shim. The standard library already ignores `SIGPIPE`
//! and resets it in child processes.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// Readable when a child has exited or this process was terminated.
#[derive(Debug)]
pub(super) struct SignalPipe {
    reader: UnixStream,
    terminated: Arc<AtomicBool>,
}

impl SignalPipe {
    pub(super) fn install() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        let terminated = Arc::new(AtomicBool::new(false));
        flag::register(SIGTERM, Arc::clone(&terminated))?;
        for signal in [SIGTERM, SIGCHLD] {
            low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        // A closed terminal or Ctrl-C in another program must not end the shim.
        for signal in [SIGHUP, SIGINT] {
            flag::register(signal, Arc::new(AtomicBool::new(false)))?;
        }
        Ok(Self { reader, terminated })
    }

    pub(super) fn reader(&self) -> &UnixStream {
        &self.reader
    }

    /// Empties the pipe. Returns whether this process was terminated.
    pub(super) fn drain(&mut self) -> bool {
        let mut chunk = [0; 64];
        while matches!(self.reader.read(&mut chunk), Ok(read) if read > 0) {}
        self.terminated.swap(false, Ordering::SeqCst)
    }
}
