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
mod agent_calls;
mod delivery;
mod files;
mod git;
mod hooks;
mod observer;
mod pipe;
mod pipe_thread;
mod pre_hook;
mod prefilter;
mod process;
mod process_guard;
mod project;
mod record_watcher;
mod report;
mod settings;
mod stream_event;
mod target;
mod workers;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use actions::Actions;
pub use git::{CommitSettings, CommitTarget, DEFAULT_MESSAGE, DEFAULT_TRAILERS};
pub use hooks::HookSettings;
pub use observer::{Observer, ObserverOptions};
pub use pipe::{CopyMethod, PipeEnd};
pub use pipe_thread::Coverage;
pub use pre_hook::{PreHook, PreHookResult};
pub use process::SECRET_VARIABLES;
pub use project::{PatternError, Selection};
pub use record_watcher::RecordWatcher;
pub use report::{LogLine, Report, ReportEntry, ReportStatus, Verbosity};
pub use settings::{ActionTrigger, RetryPolicy, WatchSettings};
pub use stream_event::{AgentSessionId, CallId, Change, EventQueue, StreamEvent};
pub use target::{CommandTarget, DirectoryTarget, HttpTarget, StoreTarget, Target, TargetError};

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
    /// Why the stream ended; `None` if watching was stopped before.
    pub end: Option<PipeEnd>,
    pub coverage: Coverage,
    pub report: Report,
}

/// The two ends of the stream. They are closed as soon as the stream ends: actions may take longer,
/// and the processes at the other ends should not wait for them.
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
    log: impl FnMut(&LogLine),
    stop: impl FnOnce() -> Stop,
) -> Result<WatchOutcome, Error> {
    let queue = Arc::new(EventQueue::default());
    let counts = Arc::new(PipeCounts::default());
    let options = settings.observer_options();
    let pipe = PipeThread::new(options, settings.rejoin, Arc::clone(&queue), Arc::clone(&counts));
    // The thread is started first, so that the bytes are copied even if the rest fails.
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
    let mut report = runtime.block_on(async { actions.run(&queue, log, stop()).await });
    // A target may hang in a system call, so blocking threads are not joined.
    runtime.shutdown_background();
    let (end, coverage) = if counts.ended.load(Ordering::Acquire) {
        match thread.join() {
            Ok((end, coverage)) => (Some(end), coverage),
            Err(_) => (None, Coverage::Partial),
        }
    } else {
        (None, Coverage::Complete)
    };
    report.bytes = counts.bytes.load(Ordering::Relaxed);
    report.unread = counts.unread.load(Ordering::Relaxed);
    Ok(WatchOutcome { end, coverage, report })
}
