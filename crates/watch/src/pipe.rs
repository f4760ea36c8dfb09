//! Copies bytes from stdin to stdout before anything else looks at them.
//!
//! The copying thread waits for its two ends and for nothing else. A slow reader slows the writer
//! down, as in any pipe, and nothing beside the pipe can. On Linux, if both ends are pipes, the kernel
//! duplicates the pages with `tee(2)` and only our own copy is read into memory, which halves the cost.
//! Elsewhere the bytes are read and written.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// How the bytes are copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyMethod {
    /// With `tee(2)` if possible, else with reads and writes.
    #[default]
    Best,
    /// With reads and writes.
    Copy,
}

/// Why copying ended.
#[derive(Debug)]
pub enum PipeEnd {
    /// The input ended and was copied completely.
    EndOfInput,
    /// The process that reads the output closed it.
    OutputClosed,
    ReadFailed(io::Error),
    WriteFailed(io::Error),
}

/// The number of bytes that were copied and are now in the buffer.
type CopyResult = Result<usize, PipeEnd>;

/// The two ends of the stream.
pub(crate) struct BytePipe {
    input: OwnedFd,
    output: OwnedFd,
    /// Whether to use `tee(2)`.
    #[cfg(target_os = "linux")]
    tee: bool,
}

impl BytePipe {
    #[cfg(target_os = "linux")]
    pub(crate) fn new(input: OwnedFd, output: OwnedFd, method: CopyMethod) -> Self {
        tee::enlarge(input.as_fd());
        tee::enlarge(output.as_fd());
        let pipes = tee::is_pipe(input.as_fd()) && tee::is_pipe(output.as_fd());
        let tee = method == CopyMethod::Best && pipes;
        Self { input, output, tee }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn new(input: OwnedFd, output: OwnedFd, _method: CopyMethod) -> Self {
        Self { input, output }
    }

    /// Copies what is available, up to the length of the buffer, and leaves it in the buffer.
    pub(crate) fn copy(&mut self, buffer: &mut [u8]) -> CopyResult {
        #[cfg(target_os = "linux")]
        if self.tee {
            if let Some(copied) = tee::copy(self.input.as_fd(), self.output.as_fd(), buffer) {
                return copied;
            }
            // Some sandboxes refuse `tee(2)` even for pipes.
            self.tee = false;
        }
        read_and_write(self.input.as_fd(), self.output.as_fd(), buffer)
    }
}

fn read_and_write(input: BorrowedFd<'_>, output: BorrowedFd<'_>, buffer: &mut [u8]) -> CopyResult {
    let count = match read(input, buffer) {
        Ok(0) => return Err(PipeEnd::EndOfInput),
        Ok(count) => count,
        Err(error) => return Err(PipeEnd::ReadFailed(error.into())),
    };
    let mut left = &buffer[..count];
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

/// Waits until a non-blocking end is ready. The ends are inherited, and the parent process may have
/// made them non-blocking.
fn wait(end: BorrowedFd<'_>, flags: PollFlags) {
    // If the poll fails, the call after it fails for the same reason.
    let _ = poll(&mut [PollFd::from_borrowed_fd(end, flags)], None);
}

/// Reads once and waits until there is something to read.
fn read(input: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    loop {
        match rustix::io::read(input, &mut *buffer) {
            Err(Errno::AGAIN) => wait(input, PollFlags::IN),
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

fn write_failed(error: Errno) -> PipeEnd {
    match error {
        Errno::PIPE => PipeEnd::OutputClosed,
        error => PipeEnd::WriteFailed(error.into()),
    }
}

/// `tee(2)`: the kernel duplicates the pages of one pipe into another.
#[cfg(target_os = "linux")]
mod tee {
    use std::os::fd::BorrowedFd;

    use rustix::event::PollFlags;
    use rustix::fs::FileType;
    use rustix::io::Errno;
    use rustix::pipe::{SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, tee};

    use super::{CopyResult, PipeEnd, read, wait, write_failed};

    /// The capacity of a pipe: four times the default, so that a burst takes a fourth of the calls.
    const PIPE_SIZE: usize = 256 << 10;

    /// Enlarges the capacity if this end is a pipe.
    pub(super) fn enlarge(end: BorrowedFd<'_>) {
        // This fails if the user has reached the limit for pipes. The default size works, too.
        if is_pipe(end) && fcntl_getpipe_size(end).is_ok_and(|size| size < PIPE_SIZE) {
            let _ = fcntl_setpipe_size(end, PIPE_SIZE);
        }
    }

    pub(super) fn is_pipe(end: BorrowedFd<'_>) -> bool {
        let status = rustix::fs::fstat(end);
        status.is_ok_and(|it| FileType::from_raw_mode(it.st_mode) == FileType::Fifo)
    }

    /// Copies once; `None` if `tee(2)` does not work here, and then nothing was copied.
    pub(super) fn copy(
        input: BorrowedFd<'_>,
        output: BorrowedFd<'_>,
        buffer: &mut [u8],
    ) -> Option<CopyResult> {
        let count = loop {
            match tee(input, output, buffer.len(), SpliceFlags::empty()) {
                Ok(0) => return Some(Err(PipeEnd::EndOfInput)),
                Ok(count) => break count,
                Err(Errno::INTR) => {}
                // The error does not tell which end is not ready.
                Err(Errno::AGAIN) => {
                    wait(input, PollFlags::IN);
                    wait(output, PollFlags::OUT);
                }
                Err(Errno::INVAL | Errno::NOSYS | Errno::PERM) => return None,
                Err(error) => return Some(Err(write_failed(error))),
            }
        };
        // The duplicated bytes are still in the input pipe, so these reads do not wait.
        let mut filled = 0;
        while filled < count {
            match read(input, &mut buffer[filled..count]) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) => return Some(Err(PipeEnd::ReadFailed(error.into()))),
            }
        }
        Some(Ok(filled))
    }
}
