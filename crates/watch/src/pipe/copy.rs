//! Reads and writes: the way across that always works.

use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::{PassResult, PipeEnd, read, wait, write_failed};

/// The way.
pub(super) struct CopyLoop;

impl CopyLoop {
    #[expect(clippy::unused_self, reason = "the other way has a state")]
    pub(super) fn pass(
        &mut self,
        input: BorrowedFd<'_>,
        output: BorrowedFd<'_>,
        room: &mut [u8],
    ) -> PassResult {
        let count = match read(input, room) {
            Ok(0) => return Err(PipeEnd::Input),
            Ok(count) => count,
            Err(error) => return Err(PipeEnd::Reading(error.into())),
        };
        let mut left = &room[..count];
        while !left.is_empty() {
            match rustix::io::write(output, left) {
                Ok(written) => left = &left[written..],
                Err(Errno::AGAIN) => wait(output, PollFlags::OUT),
                Err(Errno::INTR) => {}
                Err(error) => return Err(write_failed(error)),
            }
        }
        Ok(count)
    }
}
