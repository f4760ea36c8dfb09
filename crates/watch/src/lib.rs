//! A pipe that passes a stream on byte for byte and acts on every file the agent changes.
//!
//! ```text
//! stdin ─► pipe ─► stdout                  always first, in a thread that waits for nothing else
//!           └► prefilter ─► observer ─► event queue ─► actions ─┬─► delivery ─► target, one each
//!              relevant     calls and   never                   ├─► commits with their own index
//!              lines        results     blocks                  └─► hooks, one after the other
//! ```
//!
//! A failure on the right never reaches the left. A change is announced at its `tool_use` and acted on
//! at its successful `tool_result`. A caller that already has events uses an [`Observer`], an
//! [`EventQueue`] and [`Actions`] without the pipe; one that follows a persistent record and may be
//! restarted uses a [`RecordWatcher`].
//!
//! The crate does not print, read the environment or exit. It reports through [`LogLine`]s and a
//! [`Report`].

mod actions;
mod completion;
mod delivery;
mod event_queue;
mod git;
mod hooks;
mod log_line;
mod observer;
mod pipe;
mod pipe_thread;
mod prefilter;
mod process;
mod project;
mod record_watcher;
mod report;
mod scan;
mod selection;
mod settings;
mod source_file;
mod stream_event;
mod target;
mod workers;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use actions::Actions;
pub use event_queue::EventQueue;
pub use git::{CommitSettings, CommitTarget, DEFAULT_MESSAGE, DEFAULT_TRAILERS};
pub use hooks::HookSettings;
pub use log_line::{LogLine, Verbosity};
pub use observer::{Observer, ObserverOptions};
pub use pipe::{CopyMethod, PipeEnd};
pub use pipe_thread::Coverage;
pub use record_watcher::RecordWatcher;
pub use report::{Report, ReportEntry, ReportStatus};
pub use selection::{BadPattern, Selection};
pub use settings::{ActionTrigger, RetryPolicy, WatchSettings};
pub use stream_event::{AgentSessionId, CallId, Change, StreamEvent};
pub use target::{BadTarget, CommandTarget, DirectoryTarget, HttpTarget, StoreTarget, Target};

use pipe_thread::{PipeCounts, PipeThread};

/// Why the stream could not be watched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not start the pipe thread")]
    Thread(#[source] io::Error),
    #[error("could not start the runtime for actions")]
    Runtime(#[source] io::Error),
}

/// The result of watching a stream.
#[derive(Debug)]
pub struct WatchOutcome {
    /// Why the stream ended; `None` if it was stopped before.
    pub ended: Option<PipeEnd>,
    pub watched: Coverage,
    pub report: Report,
}

/// The ends of the stream. Both are closed as soon as it ends: actions may take longer, and the
/// processes at the other ends should not have to wait for them.
#[derive(Debug)]
pub struct StreamEnds {
    pub input: OwnedFd,
    pub output: OwnedFd,
    pub method: CopyMethod,
}

/// Copies the stream until it ends and acts on every change in it, until everything is done or
/// `stop` completes.
pub fn run<Stop: Future<Output = ()>>(
    stream: StreamEnds,
    settings: WatchSettings,
    tell: impl FnMut(&LogLine),
    stop: impl FnOnce() -> Stop,
) -> Result<WatchOutcome, Error> {
    let queue = Arc::new(EventQueue::default());
    let counts = Arc::new(PipeCounts::default());
    let wants = settings.wants();
    let pipe = PipeThread::new(wants, settings.rejoin, Arc::clone(&queue), Arc::clone(&counts));
    // The thread comes first: whatever is wrong with the rest, the bytes go through.
    let thread = std::thread::Builder::new()
        .name("pipe".to_owned())
        .spawn(move || pipe.run(stream))
        .map_err(Error::Thread)?;
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = thread.join();
            return Err(Error::Runtime(error));
        }
    };
    let actions = Actions::new(settings);
    let mut report = runtime.block_on(async { actions.run(&queue, tell, stop()).await });
    // A target that hangs in a call to the system cannot be waited for.
    runtime.shutdown_background();
    let (ended, watched) = if counts.over.load(Ordering::Acquire) {
        match thread.join() {
            Ok((ended, watched)) => (Some(ended), watched),
            Err(_) => (None, Coverage::Partly),
        }
    } else {
        (None, Coverage::All)
    };
    report.bytes = counts.bytes.load(Ordering::Relaxed);
    report.unread = counts.unread.load(Ordering::Relaxed);
    Ok(WatchOutcome { ended, watched, report })
}
