//! How long a search may work.

use std::time::Duration;

use cpu_time::ThreadTime;

/// A time that the current thread may work. Time in which other programs have the processor does not
/// count: on a busy machine a search is slower, but finds the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimit {
    start: ThreadTime,
    limit: Duration,
}

impl TimeLimit {
    /// Starts now, for this thread.
    pub(crate) fn start(limit: Duration) -> Self {
        Self { start: ThreadTime::now(), limit }
    }

    pub(crate) fn is_over(self) -> bool {
        self.start.elapsed() >= self.limit
    }

    /// How long the thread has worked.
    pub(crate) fn used(self) -> Duration {
        self.start.elapsed()
    }
}
