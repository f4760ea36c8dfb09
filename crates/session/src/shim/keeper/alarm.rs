//! Signals as something to poll.
//!
//! Handlers rather than ignored signals: what is ignored stays ignored in the agent and all it
//! starts, while handlers end with the shim. `SIGPIPE` the standard library ignores already, and
//! gives back to what it starts.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// Readable when a child has ended or this process was told to.
#[derive(Debug)]
pub(super) struct Alarm {
    bell: UnixStream,
    terminated: Arc<AtomicBool>,
}

impl Alarm {
    pub(super) fn set() -> io::Result<Self> {
        let (bell, rope) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        rope.set_nonblocking(true)?;
        let terminated = Arc::new(AtomicBool::new(false));
        flag::register(SIGTERM, Arc::clone(&terminated))?;
        for signal in [SIGTERM, SIGCHLD] {
            low_level::pipe::register(signal, rope.try_clone()?)?;
        }
        // A terminal that closes, or a person who interrupts something else, means nothing here.
        for signal in [SIGHUP, SIGINT] {
            flag::register(signal, Arc::new(AtomicBool::new(false)))?;
        }
        Ok(Self { bell, terminated })
    }

    pub(super) fn bell(&self) -> &UnixStream {
        &self.bell
    }

    /// Silences the bell until the next signal; says whether this process was told to end.
    pub(super) fn hear(&mut self) -> bool {
        let mut chunk = [0; 64];
        while matches!(self.bell.read(&mut chunk), Ok(read) if read > 0) {}
        self.terminated.swap(false, Ordering::SeqCst)
    }
}
