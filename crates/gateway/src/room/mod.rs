//! Rooms: one for each session that somebody looks at.
//!
//! A room's task follows the journal and folds; what followers are sent is made when the first of
//! them asks for it, and shared by all that are equally far. A follower is nothing but the revision
//! it has: one that is slow, or stalled, or one of a thousand costs the room no memory, and gets
//! everything since in one piece once it is ready for more.
//!
//! A room begins with the view that the [`keeper`] has saved of its session, so that what somebody
//! sees first does not depend on how long the session is, or on who looked at it before.

mod checkpoint;
mod growing;
mod keeper;
mod look;
mod reading;
mod stage;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::ws::Utf8Bytes;
use journal::{Journal, SessionId};
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::warn;
use view::Revision;

use checkpoint::Checkpoints;
use keeper::Keeper;
pub(crate) use look::{shown_items, whole_item};
use reading::Reading;
pub(crate) use stage::{Stage, push};

/// How long a room stays when the last follower has left: a reload comes back at once.
const LINGER: Duration = Duration::from_secs(10);

/// All rooms.
#[derive(Clone, Debug)]
pub(crate) struct Rooms(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    journal: Journal,
    checkpoints: Arc<Checkpoints>,
    open: Mutex<HashMap<SessionId, Arc<Room>>>,
}

/// A session that somebody looks at.
#[derive(Debug)]
struct Room {
    session: SessionId,
    stage: Mutex<Stage>,
    news: watch::Sender<News>,
    seats: AtomicUsize,
}

/// What followers are told: that there is more, or that there will never be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// What is in the journal already is still being folded.
    Loading,
    /// The document is of this revision.
    At(Revision),
    /// The session is no more.
    Gone,
}

/// A place in a room; the room stays open as long as there is one.
#[derive(Debug)]
pub(crate) struct Seat {
    room: Arc<Room>,
    news: watch::Receiver<News>,
}

impl Rooms {
    pub(crate) fn new(journal: Journal, views: PathBuf) -> Self {
        let checkpoints = Arc::new(Checkpoints::new(views));
        Self(Arc::new(Inner { journal, checkpoints, open: Mutex::default() }))
    }

    /// Takes a place in the room of a session, which must exist.
    pub(crate) fn enter(&self, session: SessionId) -> Seat {
        let mut open = self.open();
        let room = open.entry(session).or_insert_with(|| {
            let room = Arc::new(Room {
                session,
                stage: Mutex::default(),
                news: watch::Sender::new(News::Loading),
                seats: AtomicUsize::new(0),
            });
            // It ends by itself: when everybody has left, or with the session.
            tokio::spawn(self.clone().keep(Arc::clone(&room)));
            room
        });
        room.seats.fetch_add(1, Ordering::Relaxed);
        Seat { news: room.news.subscribe(), room: Arc::clone(room) }
    }

    /// Keeps the views of all sessions near to their ends, for those who come later. Ends with the
    /// journal.
    pub(crate) async fn keep_views(self) {
        let Inner { journal, checkpoints, .. } = &*self.0;
        Keeper::new(journal.clone(), Arc::clone(checkpoints)).keep().await;
    }

    async fn keep(self, room: Arc<Room>) {
        if let Err(error) = self.follow(&room).await {
            let session = room.session;
            room.news.send_replace(News::Gone);
            self.open().remove(&session);
            // Deleted, or the journal is closed: the keeper knows which, and removes the view or not.
            if !matches!(error, journal::Error::Gone) {
                warn!(%session, %error, "a session can no longer be followed");
            }
        }
    }

    /// Folds what comes, until everybody has left.
    async fn follow(&self, room: &Room) -> Result<(), journal::Error> {
        let Inner { journal, checkpoints, .. } = &*self.0;
        let reading = Reading::begin(journal, checkpoints, room.session).await?;
        let Reading { fold, shown, mut entries, mut follower, upto: _ } = reading;
        *room.stage() = Stage::new(fold, shown);
        // What is there already is folded before anybody is told.
        loop {
            room.stage().take(&entries);
            entries = follower.ready().await?;
            if entries.is_empty() {
                break;
            }
            if room.seats.load(Ordering::Relaxed) == 0 && self.close_if_empty(room) {
                return Ok(());
            }
        }
        loop {
            let news = News::At(room.stage().revision());
            room.news.send_if_modified(|known| std::mem::replace(known, news) != news);
            entries = match timeout(LINGER, follower.next()).await {
                Ok(entries) => entries?,
                Err(_) if self.close_if_empty(room) => return Ok(()),
                Err(_) => continue,
            };
            room.stage().take(&entries);
        }
    }

    fn close_if_empty(&self, room: &Room) -> bool {
        let mut open = self.open();
        // Seats are taken under the same lock, so nobody comes in between.
        let empty = room.seats.load(Ordering::Relaxed) == 0;
        if empty {
            open.remove(&room.session);
        }
        empty
    }

    fn open(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Room>>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Waits until there is a document, or never will be. Says whether there is.
    pub(crate) async fn ready(&mut self) -> bool {
        let news = self.news.wait_for(|news| *news != News::Loading).await;
        news.is_ok_and(|news| *news != News::Gone)
    }

    /// Waits until the document is of another revision than that one.
    pub(crate) async fn beyond(&mut self, revision: Revision) -> News {
        let fresh = |news: &News| match news {
            News::Loading => false,
            News::At(at) => *at > revision,
            News::Gone => true,
        };
        self.news.wait_for(fresh).await.map_or(News::Gone, |news| *news)
    }

    /// The frame for somebody who has that revision, or nothing; and what they have afterwards.
    pub(crate) fn frame(&self, since: Option<Revision>) -> (Utf8Bytes, Revision) {
        self.room.stage().frame(since)
    }

    /// Looks at the document.
    pub(crate) fn with_stage<T>(&self, look: impl FnOnce(&Stage) -> T) -> T {
        look(&self.room.stage())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.room.seats.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
