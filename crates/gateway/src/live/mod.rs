//! Live sessions: one for each session that a client has open.
//!
//! A live session's task follows the journal and folds its entries into a document. A subscription
//! is only a position in it: a client that is slow, or one of a thousand, costs no memory here and
//! gets everything since its revision in one piece when it is ready for more.
//!
//! What clients are sent is derived elsewhere. `C` is the cache that the deriving code keeps beside
//! the document; this module only stores it.
//!
//! All documents together stay within a [budget](memory), because a client may open any number of
//! sessions.
//!
//! A live session starts from the checkpoint that the [`checkpoint_task`] saved, so opening one
//! does not depend on how long the session is.

mod checkpoint;
mod checkpoint_task;
mod memory;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use journal::{Entry, Journal, SessionId};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::sleep;
use tracing::{error, warn};
use view::{Fold, Revision};

use crate::limits::MAX_LOADS;
use checkpoint::{CheckpointStore, Replay};
use checkpoint_task::CheckpointTask;
pub(crate) use memory::CacheMemory;
use memory::{LiveMemory, MemoryShare};

/// How long a live session stays after its last subscription: a reloaded page comes back at once.
const LINGER: Duration = Duration::from_secs(10);

/// Renders the newest items of a document, reusing what was rendered before. The result is stored
/// in a checkpoint and handed back as [`LiveDocument::rendered`].
pub(crate) type Prerender = fn(&Fold, Option<&[u8]>) -> Vec<u8>;

/// All live sessions. Clones share them.
#[derive(Debug)]
pub(crate) struct LiveSessions<C>(Arc<LiveShared<C>>);

#[derive(Debug)]
struct LiveShared<C> {
    journal: Journal,
    checkpoints: Arc<CheckpointStore>,
    prerender: Prerender,
    open: Mutex<HashMap<SessionId, Arc<LiveSession<C>>>>,
    memory: LiveMemory<C>,
    /// Held while some lines of a session that is being loaded are in memory.
    loads: Semaphore,
}

#[derive(Debug)]
struct LiveSession<C> {
    session: SessionId,
    document: Mutex<LiveDocument<C>>,
    state: watch::Sender<LiveState>,
    /// How much memory the document takes.
    share: MemoryShare,
    /// Notified when the session was closed because others need its memory.
    evicted: Notify,
}

/// The document of a live session and what was derived from it.
#[derive(Debug, Default)]
pub(crate) struct LiveDocument<C> {
    pub(crate) fold: Fold,
    pub(crate) cache: C,
    /// What [`Prerender`] returned for the checkpoint this document started from, until the cache
    /// takes it.
    pub(crate) rendered: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiveState {
    /// Entries that were in the journal already are still being folded.
    Loading,
    /// The document has this revision.
    Ready(Revision),
    /// The session was deleted.
    Deleted,
    /// The session cannot be read, or reading it panicked. The next subscription tries again.
    Failed,
}

/// There is no memory for another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveSessionsFull;

/// A client's subscription to a live session, which stays open while there is one.
#[derive(Debug)]
pub(crate) struct Subscription<C> {
    all: LiveSessions<C>,
    live: Arc<LiveSession<C>>,
    state: watch::Receiver<LiveState>,
}

impl<C: Default + Send + 'static> LiveSessions<C> {
    /// The sessions of a journal, whose documents and caches take at most about `budget` bytes.
    pub(crate) fn new(
        journal: Journal,
        checkpoints: PathBuf,
        prerender: Prerender,
        cache: CacheMemory<C>,
        budget: usize,
    ) -> Self {
        let checkpoints = Arc::new(CheckpointStore::new(checkpoints));
        let memory = LiveMemory::new(cache, budget);
        let (open, loads) = (Mutex::default(), Semaphore::new(MAX_LOADS));
        Self(Arc::new(LiveShared { journal, checkpoints, prerender, open, memory, loads }))
    }

    /// Subscribes to a session, which must exist.
    pub(crate) fn subscribe(
        &self,
        session: SessionId,
    ) -> Result<Subscription<C>, LiveSessionsFull> {
        let known = self.open().get(&session).cloned();
        if known.is_none() && !self.make_room() {
            return Err(LiveSessionsFull);
        }
        let mut open = self.open();
        let usable = open.get(&session).filter(|live| *live.state.borrow() != LiveState::Failed);
        let live = usable.cloned().unwrap_or_else(|| {
            let live = Arc::new(LiveSession {
                session,
                document: Mutex::default(),
                state: watch::Sender::new(LiveState::Loading),
                share: self.0.memory.share(),
                evicted: Notify::new(),
            });
            // The task ends by itself: after the last subscription, or with the session.
            tokio::spawn(self.clone().run(Arc::clone(&live)));
            open.insert(session, Arc::clone(&live));
            live
        });
        Ok(Subscription { all: self.clone(), state: live.state.subscribe(), live })
    }

    /// Keeps the checkpoints of all sessions up to date. Ends with the journal.
    pub(crate) async fn run_checkpoints(self) {
        let LiveShared { journal, checkpoints, prerender, .. } = &*self.0;
        CheckpointTask::new(journal.clone(), Arc::clone(checkpoints), *prerender).run().await;
    }

    async fn run(self, live: Arc<LiveSession<C>>) {
        let session = live.session;
        let state = match AssertUnwindSafe(self.follow(&live)).catch_unwind().await {
            Ok(Ok(())) => return,
            // A deleted session or a closed journal. The checkpoint task tells them apart and
            // removes the checkpoint of a deleted one.
            Ok(Err(journal::Error::Gone)) => LiveState::Deleted,
            Ok(Err(error)) => {
                warn!(%session, %error, "a session can no longer be followed");
                LiveState::Failed
            }
            Err(_) => {
                error!(%session, "reading a session panicked; nothing more is shown of it");
                LiveState::Failed
            }
        };
        remove(&live, &mut self.open());
        live.state.send_replace(state);
    }

    /// Folds entries until the last subscription has been gone for a while.
    async fn follow(&self, live: &LiveSession<C>) -> Result<(), journal::Error> {
        let LiveShared { journal, checkpoints, loads, .. } = &*self.0;
        // It is never closed.
        let load = loads.acquire().await.ok();
        let replay = Replay::start(journal, checkpoints, live.session).await?;
        let Replay { fold, rendered, entries, mut follower, position: _ } = replay;
        *live.document() = LiveDocument { fold, rendered, cache: C::default() };
        self.push_all(live, entries);
        drop(load);
        // Subscribers see nothing before everything that is already there is folded.
        loop {
            // Each session gets its turn after some lines, so that a long one holds up no other.
            let load = loads.acquire().await.ok();
            let entries = follower.ready().await?;
            if entries.is_empty() {
                break;
            }
            self.push_all(live, entries);
            drop(load);
            if live.state.receiver_count() == 0 && self.close_if_unused(live) {
                return Ok(());
            }
        }
        loop {
            let mut unused = pin!(async {
                live.state.closed().await;
                tokio::select! {
                    () = sleep(LINGER) => {}
                    () = live.evicted.notified() => {}
                }
            });
            loop {
                let state = LiveState::Ready(live.document().fold.revision());
                live.state.send_if_modified(|known| {
                    // A client may have found that the document cannot be shown.
                    *known != LiveState::Failed && std::mem::replace(known, state) != state
                });
                tokio::select! {
                    entries = follower.next() => self.push_all(live, entries?),
                    () = &mut unused => break,
                }
            }
            if self.close_if_unused(live) {
                return Ok(());
            }
        }
    }

    fn push_all(&self, live: &LiveSession<C>, entries: Vec<Entry>) {
        live.document().push_all(&entries);
        // They are as large as what was made of them.
        drop(entries);
        self.account(live);
    }

    fn close_if_unused(&self, live: &LiveSession<C>) -> bool {
        let mut open = self.open();
        // Subscribing takes the same lock, so no subscription is added in between.
        let unused = live.state.receiver_count() == 0;
        if unused {
            remove(live, &mut open);
        }
        unused
    }

    fn open(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<LiveSession<C>>>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Clone for LiveSessions<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> LiveSession<C> {
    fn document(&self) -> MutexGuard<'_, LiveDocument<C>> {
        self.document.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> LiveDocument<C> {
    fn push_all(&mut self, entries: &[Entry]) {
        for entry in entries {
            push(&mut self.fold, entry);
        }
    }
}

impl<C: Default + Send + 'static> Subscription<C> {
    /// Waits until the document is loaded or cannot be.
    pub(crate) async fn loaded(&mut self) -> LiveState {
        let state = self.state.wait_for(|state| *state != LiveState::Loading).await;
        state.map_or(LiveState::Deleted, |state| *state)
    }

    /// The state of the session now.
    pub(crate) fn state(&self) -> LiveState {
        *self.state.borrow()
    }

    /// Waits until the document is newer than `revision`, or there is none any more.
    pub(crate) async fn newer_than(&mut self, revision: Revision) -> LiveState {
        let newer = |state: &LiveState| match state {
            LiveState::Loading => false,
            LiveState::Ready(now) => *now > revision,
            LiveState::Deleted | LiveState::Failed => true,
        };
        self.state.wait_for(newer).await.map_or(LiveState::Deleted, |state| *state)
    }

    /// Gives access to the document while it is locked. If that panics, the session has failed for
    /// all its clients: each of them would run into the same.
    pub(crate) fn with_document<T>(&self, access: impl FnOnce(&mut LiveDocument<C>) -> T) -> T {
        let mut document = self.live.document();
        let result = catch_unwind(AssertUnwindSafe(|| access(&mut document)));
        drop(document);
        // Frames and items were cached.
        self.all.account(&self.live);
        result.unwrap_or_else(|panic| {
            let session = self.live.session;
            error!(%session, "showing a session panicked; nothing more is shown of it");
            self.live.state.send_replace(LiveState::Failed);
            resume_unwind(panic)
        })
    }
}

impl<C> Clone for Subscription<C> {
    fn clone(&self) -> Self {
        let (all, live) = (self.all.clone(), Arc::clone(&self.live));
        Self { all, live, state: self.state.clone() }
    }
}

/// Removes a live session, unless another one has taken its place.
fn remove<C>(live: &LiveSession<C>, open: &mut HashMap<SessionId, Arc<LiveSession<C>>>) {
    if open.get(&live.session).is_some_and(|it| std::ptr::eq(&raw const **it, live)) {
        open.remove(&live.session);
    }
}

/// Folds an entry of the journal.
pub(crate) fn push(fold: &mut Fold, entry: &Entry) {
    #[cfg(test)]
    tests::panic_if_asked(entry);
    fold.push_recorded(entry.line());
}

#[cfg(test)]
mod tests;
