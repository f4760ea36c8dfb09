//! One reader of a session that is told of new entries.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{self, Instant};

use crate::command::Command;
use crate::entry::Entry;
use crate::error::Error;
use crate::feed::{Feed, Feeds, Pulse};
use crate::id::{Seq, SessionId};
use crate::query::{self, Portion};
use crate::readers::Readers;

/// How much a follower gets at once.
const PORTION: Portion = Portion { entries: 1024, bytes: 1 << 20 };

/// How often somebody who waits has the writer look for what another process wrote.
const LOOK_AROUND: Duration = Duration::from_millis(250);

/// What followers share with the journal. It does not keep the journal open.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) feeds: Feeds,
    pub(crate) readers: Arc<Readers>,
    pub(crate) commands: mpsc::WeakSender<Command>,
    /// When a follower last had the writer look around: one look serves all.
    pub(crate) looked: Mutex<Option<Instant>>,
    /// How many commits this process made or noticed.
    pub(crate) changes: watch::Sender<u64>,
}

/// Follows a session from an entry on.
///
/// Every entry comes once and in order. Entries that were dropped by settling before the follower
/// came to them do not come; their numbers are then missing.
#[derive(Debug)]
pub struct Follower {
    session: SessionId,
    cursor: Seq,
    shared: Arc<Shared>,
    feed: Arc<Feed>,
    pulse: watch::Receiver<Pulse>,
    /// The pulse at which the file had nothing after the cursor.
    exhausted: Option<Pulse>,
}

impl Follower {
    pub(crate) fn new(session: SessionId, after: Seq, shared: Arc<Shared>) -> Self {
        // Joined before the file is read: what is committed in between comes by the feed.
        let feed = shared.feeds.join(session);
        let pulse = feed.pulse();
        Self { session, cursor: after, shared, feed, pulse, exhausted: None }
    }

    /// The next entries, at least one; waits for them.
    ///
    /// Cancel safe: what was not returned comes again. Must be called in a runtime with timers.
    pub async fn next(&mut self) -> Result<Vec<Entry>, Error> {
        loop {
            let entries = self.ready().await?;
            if !entries.is_empty() {
                return Ok(entries);
            }
            tokio::select! {
                changed = self.pulse.changed() => changed.map_err(|_| Error::Gone)?,
                () = time::sleep(LOOK_AROUND) => self.shared.look_around(),
            }
        }
    }

    /// The entries that are there already, or none. Not all of them where there are many.
    pub async fn ready(&mut self) -> Result<Vec<Entry>, Error> {
        let pulse = *self.pulse.borrow_and_update();
        if pulse.gone {
            return Err(Error::Gone);
        }
        let entries = match self.feed.after(self.cursor, PORTION.entries) {
            Some(entries) if !entries.is_empty() => entries,
            _ if self.exhausted == Some(pulse) => Vec::new(),
            _ => self.read(pulse).await?,
        };
        if let Some(last) = entries.last() {
            self.cursor = last.seq;
        }
        Ok(entries)
    }

    /// The number of the last entry that was returned.
    pub fn cursor(&self) -> Seq {
        self.cursor
    }

    async fn read(&mut self, pulse: Pulse) -> Result<Vec<Entry>, Error> {
        let (session, cursor) = (self.session, self.cursor);
        let read = self
            .shared
            .readers
            .read(move |connection| query::entries(connection, session, cursor, PORTION));
        match read.await {
            Ok(stretch) => {
                if stretch.entries.is_empty() {
                    // Whatever lay in between was dropped.
                    self.cursor = self.cursor.max(stretch.last);
                    self.exhausted = Some(pulse);
                }
                Ok(stretch.entries)
            }
            Err(Error::NoSuchSession(_) | Error::Closed) => Err(Error::Gone),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.feeds.leave(self.session, &self.feed);
    }
}

impl Shared {
    /// Has the writer see whether another process has written, unless it just did.
    fn look_around(&self) {
        let now = Instant::now();
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.is_some_and(|looked| now.duration_since(looked) < LOOK_AROUND / 2) {
            return;
        }
        *looked = Some(now);
        // A writer that is too busy to be asked is asked again soon.
        if let Some(commands) = self.commands.upgrade() {
            let _ = commands.try_send(Command::LookAround);
        }
    }
}
