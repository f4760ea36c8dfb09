//! Rooms: one for each session that somebody looks at.
//!
//! A room's task follows the journal and folds; what followers are sent is made when the first of
//! them asks for it, and shared by all that are equally far. A follower is nothing but the revision
//! it has: one that is slow, or stalled, or one of a thousand costs the room no memory, and gets
//! everything since in one piece once it is ready for more.

mod checkpoint;
mod growing;
mod look;
mod stage;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::ws::Utf8Bytes;
use journal::{Journal, Seq, SessionId};
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::warn;
use view::{Fold, Revision};

use checkpoint::Checkpoints;
pub(crate) use look::{shown_items, whole_item};
pub(crate) use stage::{Stage, push};

/// How long a room stays when the last follower has left: a reload comes back at once.
const LINGER: Duration = Duration::from_secs(10);

/// After so many entries the fold is saved.
const SAVE_EVERY: u64 = 20_000;

/// How much of a document is kept in memory; older parts are folded again when asked for.
const BUDGET: usize = 2 << 20;

/// All rooms.
#[derive(Clone, Debug)]
pub(crate) struct Rooms(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    journal: Journal,
    checkpoints: Checkpoints,
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
        let checkpoints = Checkpoints::new(views);
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

    async fn keep(self, room: Arc<Room>) {
        let session = room.session;
        let fold = self.0.checkpoints.load(session).await;
        let fold = fold.unwrap_or_else(|| Fold::with_budget(BUDGET));
        let mut saved = fold.revision();
        let mut follower = self.0.journal.follow(session, Seq(saved.0));
        *room.stage() = Stage::new(fold);
        let mut loading = true;
        loop {
            let entries = if loading {
                follower.ready().await
            } else {
                match timeout(LINGER, follower.next()).await {
                    Ok(entries) => entries,
                    Err(_) if self.close_if_empty(&room) => break,
                    Err(_) => continue,
                }
            };
            let entries = match entries {
                Ok(entries) => entries,
                Err(journal::Error::Gone) => {
                    room.news.send_replace(News::Gone);
                    self.open().remove(&session);
                    self.0.checkpoints.forget(session).await;
                    return;
                }
                Err(error) => {
                    warn!(%session, %error, "a session can no longer be followed");
                    room.news.send_replace(News::Gone);
                    self.open().remove(&session);
                    return;
                }
            };
            loading = loading && !entries.is_empty();
            let revision = {
                let mut stage = room.stage();
                stage.take(&entries);
                stage.revision()
            };
            if !loading {
                room.news.send_replace(News::At(revision));
            }
            if revision.0 >= saved.0 + SAVE_EVERY {
                saved = revision;
                self.save(&room).await;
            }
            if room.seats.load(Ordering::Relaxed) == 0 && loading && self.close_if_empty(&room) {
                return;
            }
        }
        if room.stage().revision() > saved {
            self.save(&room).await;
        }
    }

    async fn save(&self, room: &Room) {
        let (revision, fold) = {
            let stage = room.stage();
            (stage.revision(), stage.fold().save())
        };
        self.0.checkpoints.save(room.session, revision, fold).await;
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
