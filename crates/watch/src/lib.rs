//! A pipe that passes a stream on byte for byte and acts on every file the agent changes.
//!
//! ```text
//! stdin ─► pipe ─► stdout            first and always, in a thread that waits for nothing else
//!           └► skim ─► observer ─► feed ─► actions ─┬─► outbox ─► courier ─► target   one each
//!              lines that   calls,   never    place,  ├─► commits, in an index of their own
//!              may matter   results  waits    select  └─► hooks, one after the other
//! ```
//!
//! What fails on the right never reaches the left. A change is announced at its `tool_use` and
//! acted on at its successful `tool_result`; whoever has the events already, and no bytes, uses an
//! [`Observer`], a [`Feed`] and [`Actions`] without the pipe; for a record that stays, and somebody who
//! may be gone in the middle of it, there is a [`Listener`].
//!
//! Deliberately absent: printing, the environment, exit codes. What is worth saying is a [`Remark`],
//! what came of everything a [`Report`].

mod actions;
mod courier;
mod feed;
mod git;
mod hooks;
mod listener;
mod milestone;
mod news;
mod observer;
mod outbox;
mod passage;
mod pipe;
mod place;
mod process;
mod progress;
mod remark;
mod report;
mod scan;
mod selection;
mod settings;
mod skim;
mod source;
mod target;
mod work;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use actions::Actions;
pub use feed::Feed;
pub use git::{CommitPlace, CommitSettings, DEFAULT_MESSAGE, DEFAULT_TRAILERS};
pub use hooks::HookSettings;
pub use listener::Listener;
pub use news::{CallId, Change, News, SessionId};
pub use observer::{Observer, Wants};
pub use passage::Watched;
pub use pipe::{Ended, Way};
pub use remark::{Loudness, Remark};
pub use report::{Entry, Report, Status};
pub use selection::{BadPattern, Selection};
pub use settings::{Every, Patience, Settings};
pub use target::{BadTarget, CommandTarget, DirectoryTarget, HttpTarget, StoreTarget, Target};

use passage::{Counts, Passage};

/// The stream could not be watched; it was passed on all the same where that was possible.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No thread to pass it on.
    #[error("could not start the thread that passes the stream on")]
    Thread(#[source] io::Error),
    /// Nothing to run actions on.
    #[error("could not set up what runs the actions")]
    Runtime(#[source] io::Error),
}

/// How it went.
#[derive(Debug)]
pub struct Outcome {
    /// Why the stream ended; nothing if it had not when we were asked to stop.
    pub ended: Option<Ended>,
    /// Whether it was watched to its end.
    pub watched: Watched,
    /// What came of every change.
    pub report: Report,
}

/// The stream to be passed on. Both ends are closed as soon as it is over: actions may take longer,
/// and whoever is at the other side should not have to wait for them.
#[derive(Debug)]
pub struct Stream {
    /// Where it comes from.
    pub input: OwnedFd,
    /// Where it goes.
    pub output: OwnedFd,
    /// How it gets there.
    pub way: Way,
}

/// Passes the stream on until it ends, and acts on every change in it, until all is done or `stop`
/// comes.
pub fn run<Stop: Future<Output = ()>>(
    stream: Stream,
    settings: Settings,
    tell: impl FnMut(&Remark),
    stop: impl FnOnce() -> Stop,
) -> Result<Outcome, Error> {
    let feed = Arc::new(Feed::default());
    let counts = Arc::new(Counts::default());
    let wants = settings.wants();
    let passage = Passage::new(wants, settings.rejoin, Arc::clone(&feed), Arc::clone(&counts));
    // The thread comes first: whatever is wrong with the rest, the bytes go through.
    let thread = std::thread::Builder::new()
        .name("passage".to_owned())
        .spawn(move || passage.run(stream))
        .map_err(Error::Thread)?;
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = thread.join();
            return Err(Error::Runtime(error));
        }
    };
    let actions = Actions::new(settings);
    let mut report = runtime.block_on(async { actions.run(&feed, tell, stop()).await });
    // A target that hangs in a call to the system cannot be waited for.
    runtime.shutdown_background();
    let (ended, watched) = if counts.over.load(Ordering::Acquire) {
        match thread.join() {
            Ok((ended, watched)) => (Some(ended), watched),
            Err(_) => (None, Watched::Partly),
        }
    } else {
        (None, Watched::All)
    };
    report.bytes = counts.bytes.load(Ordering::Relaxed);
    report.unread = counts.unread.load(Ordering::Relaxed);
    Ok(Outcome { ended, watched, report })
}
