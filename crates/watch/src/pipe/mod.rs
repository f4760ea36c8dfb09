//! Bytes from one end to the other, first and always.
//!
//! A piece is passed on before anybody looks at it. The thread that passes waits for its two ends
//! and for nothing else, so a slow reader slows the writer, as any pipe does, and nothing beside the
//! pipe can. Where both ends are pipes and the system is Linux, the kernel doubles the pages with
//! `tee(2)` and only our own copy is carried over; elsewhere bytes are read and written.

mod copy;
#[cfg(target_os = "linux")]
mod tee;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use copy::CopyLoop;

/// How the bytes get across.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyMethod {
    /// `tee(2)` where it can be had, reads and writes elsewhere.
    #[default]
    Best,
    /// Reads and writes.
    Copy,
}

/// Why passing came to an end.
#[derive(Debug)]
pub enum PipeEnd {
    /// Everything came and was passed on.
    Input,
    /// Whoever read the other end has seen enough.
    Reader,
    /// The input could not be read.
    Reading(io::Error),
    /// The output could not be written.
    Writing(io::Error),
}

/// How many bytes were passed on and now lie in the room, or why there will be none any more.
type PassResult = Result<usize, PipeEnd>;

/// Two ends, and a way between them.
pub(crate) struct BytePipe {
    input: OwnedFd,
    output: OwnedFd,
    #[cfg(target_os = "linux")]
    tee: Option<tee::Tee>,
    copying: CopyLoop,
}

impl BytePipe {
    #[cfg(target_os = "linux")]
    pub(crate) fn between(input: OwnedFd, output: OwnedFd, way: CopyMethod) -> Self {
        tee::widen(input.as_fd());
        tee::widen(output.as_fd());
        let tee = match way {
            CopyMethod::Best => tee::Tee::probe(input.as_fd(), output.as_fd()),
            CopyMethod::Copy => None,
        };
        Self { input, output, tee, copying: CopyLoop }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn between(input: OwnedFd, output: OwnedFd, _way: CopyMethod) -> Self {
        Self { input, output, copying: CopyLoop }
    }

    /// Passes on what comes, at most as much as there is room for, and leaves it in the room.
    pub(crate) fn pass(&mut self, room: &mut [u8]) -> PassResult {
        #[cfg(target_os = "linux")]
        if let Some(tee) = &mut self.tee {
            if let Some(passed) = tee.pass(self.input.as_fd(), self.output.as_fd(), room) {
                return passed;
            }
            // Both are pipes, and still it is refused, as some sandboxes do.
            self.tee = None;
        }
        self.copying.pass(self.input.as_fd(), self.output.as_fd(), room)
    }
}

/// Waits until an end that does not block by itself can go on. Ends are inherited, and whoever made
/// them may have set them not to block.
fn wait(end: BorrowedFd<'_>, flags: PollFlags) {
    // A poll that fails is followed by the call it waited for, which fails for the same reason.
    let _ = poll(&mut [PollFd::from_borrowed_fd(end, flags)], None);
}

/// Reads once, waiting as long as it takes.
fn read(input: BorrowedFd<'_>, room: &mut [u8]) -> Result<usize, Errno> {
    loop {
        match rustix::io::read(input, &mut *room) {
            Err(Errno::AGAIN) => wait(input, PollFlags::IN),
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

/// The end that a failed write tells of.
fn write_failed(error: Errno) -> PipeEnd {
    match error {
        Errno::PIPE => PipeEnd::Reader,
        error => PipeEnd::Writing(error.into()),
    }
}
