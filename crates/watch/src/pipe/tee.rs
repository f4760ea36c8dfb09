//! `tee(2)`: the kernel puts the pages that wait in one pipe into another as well.
//!
//! They are not carried to us and back, which is half the cost of passing them on; our own copy is
//! read afterwards, and takes them out of the first pipe.

use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, tee};

use super::{PassResult, PipeEnd, read, wait, write_failed};

/// What a pipe should hold: four times the usual, so that a burst costs a fourth of the calls.
const PIPE_SIZE: usize = 256 << 10;

/// Makes an end hold more, if it is a pipe.
pub(super) fn widen(end: BorrowedFd<'_>) {
    // A user may have used up what pipes are allowed in all; then they stay as they are.
    if is_pipe(end) && fcntl_getpipe_size(end).is_ok_and(|size| size < PIPE_SIZE) {
        let _ = fcntl_setpipe_size(end, PIPE_SIZE);
    }
}

fn is_pipe(end: BorrowedFd<'_>) -> bool {
    let status = rustix::fs::fstat(end);
    status.is_ok_and(|it| FileType::from_raw_mode(it.st_mode) == FileType::Fifo)
}

/// The way.
pub(super) struct Tee;

impl Tee {
    /// The way, if both ends are pipes: `tee(2)` refuses anything else.
    pub(super) fn probe(input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> Option<Self> {
        (is_pipe(input) && is_pipe(output)).then_some(Self)
    }

    /// Passes on once; nothing where `tee(2)` does not work here after all, and nothing was passed.
    #[expect(clippy::unused_self, reason = "to have one is to have probed")]
    pub(super) fn pass(
        &mut self,
        input: BorrowedFd<'_>,
        output: BorrowedFd<'_>,
        room: &mut [u8],
    ) -> Option<PassResult> {
        let count = loop {
            match tee(input, output, room.len(), SpliceFlags::empty()) {
                Ok(0) => return Some(Err(PipeEnd::Input)),
                Ok(count) => break count,
                Err(Errno::INTR) => {}
                // Either end may be meant.
                Err(Errno::AGAIN) => {
                    wait(input, PollFlags::IN);
                    wait(output, PollFlags::OUT);
                }
                Err(Errno::INVAL | Errno::NOSYS | Errno::PERM) => return None,
                Err(error) => return Some(Err(write_failed(error))),
            }
        };
        // What was doubled still waits in the first pipe, so this takes exactly that and at once.
        let mut taken = 0;
        while taken < count {
            match read(input, &mut room[taken..count]) {
                Ok(0) => break,
                Ok(more) => taken += more,
                Err(error) => return Some(Err(PipeEnd::Reading(error.into()))),
            }
        }
        Some(Ok(taken))
    }
}
