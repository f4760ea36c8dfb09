//! How a command ended, as an exit code.

use std::process::{ExitCode, Termination};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// Done: 0.
    Done,
    /// The answer is no: 1.
    No,
    /// Could not try, at least not all of it: 2.
    CouldNotTry,
    /// A signal ended it before it was done: 128 and its number, as shells have it.
    Stopped {
        /// The number.
        signal: u8,
    },
}

impl Termination for Verdict {
    fn report(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Done => 0,
            Self::No => 1,
            Self::CouldNotTry => 2,
            Self::Stopped { signal } => 128_u8.saturating_add(signal),
        })
    }
}
