//! The keeper of views: sees to it that no session is far ahead of its saved view.
//!
//! Rooms fold what somebody looks at; a session that nobody looked at for weeks, or that ran while
//! nobody did, would have to be folded from its beginning when somebody comes. So one task goes
//! around the sessions and folds on what has fallen behind, one at a time and with pauses: it reads
//! the journal as any follower does, and agents wait for it no more than for others. It alone saves
//! views.
//!
//! A view ends, where that is possible, with an entry that settling keeps. What only served
//! streaming may be gone when the view is read, and then nothing proves that it is of this journal.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use journal::{Entry, Error, Journal, Origin, Seq, SessionId, SessionRecord, SpoolMark, Status};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use tracing::debug;
use view::highlight::highlight;
use wire::Kind;

use super::checkpoint::{Anchor, Checkpoints, Upto, View};
use super::reading::Reading;
use super::stage::{Stage, push};

/// How often it goes around.
const EVERY: Duration = Duration::from_secs(3);

/// For each moment of work, so many of rest: at most a quarter of one core is taken.
const REST: u32 = 3;

/// How far a session may be ahead of its view while its agent is at work,
const WORKING: Lag = Lag { entries: 4_000, bytes: 4 << 20 };

/// and when it rests.
const RESTING: Lag = Lag { entries: 500, bytes: 512 << 10 };

/// A shorter session is folded faster than a view is read.
const SHORT: Lag = Lag { entries: 1_000, bytes: 1 << 20 };

/// So many pieces of one text are waited through for its end.
const PATIENCE: usize = 2_000;

/// After so many entries a view is saved also if there is more to fold.
const SAVE_EVERY: u64 = 50_000;

/// How far a session is ahead of its view.
#[derive(Clone, Copy, Debug)]
struct Lag {
    entries: u64,
    bytes: u64,
}

impl Lag {
    fn reaches(self, limit: Self) -> bool {
        self.entries >= limit.entries || self.bytes >= limit.bytes
    }
}

/// What a session was like when it was last looked at.
#[derive(Clone, Copy, Debug)]
struct Seen {
    last: Seq,
    spool: SpoolMark,
    /// Whether it had a view afterwards.
    has_view: bool,
}

/// The keeper of views.
#[derive(Debug)]
pub(super) struct Keeper {
    journal: Journal,
    checkpoints: Arc<Checkpoints>,
    seen: HashMap<SessionId, Seen>,
}

impl Keeper {
    pub(super) fn new(journal: Journal, checkpoints: Arc<Checkpoints>) -> Self {
        Self { journal, checkpoints, seen: HashMap::new() }
    }

    /// Goes around until the journal is closed.
    pub(super) async fn keep(mut self) {
        self.checkpoints.look().await;
        // Loading the grammars takes a while, and the first who comes should not wait for it.
        let _ = spawn_blocking(|| highlight("", "rust", |_, _| {})).await;
        loop {
            match self.round().await {
                Ok(()) => {}
                Err(Error::Closed) => return,
                Err(error) => debug!(%error, "views could not be kept"),
            }
            sleep(EVERY).await;
        }
    }

    /// Brings all views near to their sessions, those of the last active ones first.
    pub(super) async fn round(&mut self) -> Result<(), Error> {
        'again: loop {
            let looked = Instant::now();
            let records = self.journal.sessions().await?;
            self.tidy(&records).await;
            for record in records {
                if !self.is_due(&record) {
                    continue;
                }
                match self.catch_up(&record).await {
                    Ok(()) | Err(Error::Gone) => {}
                    Err(Error::Closed) => return Err(Error::Closed),
                    Err(error) => debug!(session = %record.id, %error, "a view was not made"),
                }
                // Whatever came of it: tried again when the session has gone on.
                let has_view = self.checkpoints.of(record.id).is_some();
                let seen = Seen { last: record.last, spool: record.spool, has_view };
                self.seen.insert(record.id, seen);
                if looked.elapsed() >= EVERY {
                    // Others may have become active meanwhile.
                    continue 'again;
                }
            }
            return Ok(());
        }
    }

    /// Removes what is left of sessions that are deleted.
    async fn tidy(&mut self, records: &[SessionRecord]) {
        let there: HashSet<_> = records.iter().map(|it| it.id).collect();
        self.seen.retain(|id, _| there.contains(id));
        for id in self.checkpoints.sessions() {
            if !there.contains(&id) {
                self.checkpoints.forget(id).await;
            }
        }
    }

    fn is_due(&self, record: &SessionRecord) -> bool {
        let whole = Lag { entries: record.last.0, bytes: record.spool.offset };
        if !whole.reaches(SHORT) {
            return false;
        }
        let seen = self.seen.get(&record.id);
        let (last, spool) = match (self.checkpoints.of(record.id), seen) {
            (Some(view), Some(seen)) if view.anchor.seq < seen.last.0 => (seen.last, seen.spool),
            (Some(view), _) => (Seq(view.anchor.seq), view.spool),
            (None, Some(Seen { last, spool, has_view: false })) => (*last, *spool),
            // It never had a view, or somebody found that it was none.
            (None, _) => (Seq(0), SpoolMark::default()),
        };
        if last > record.last {
            // It is of a longer journal than this one.
            return true;
        }
        let bytes = if spool.run == record.spool.run {
            record.spool.offset.saturating_sub(spool.offset)
        } else {
            record.spool.offset
        };
        let lag = Lag { entries: record.last.0 - last.0, bytes };
        lag.reaches(match record.status {
            Status::Running | Status::Waiting => WORKING,
            Status::Idle | Status::Dead | Status::Failed => RESTING,
        })
    }

    /// Folds on what a session has beyond its view, and saves that.
    async fn catch_up(&self, record: &SessionRecord) -> Result<(), Error> {
        let session = record.id;
        let Reading { mut fold, mut shown, upto, mut entries, mut follower } =
            Reading::begin(&self.journal, &self.checkpoints, session).await?;
        let mut saved = upto.map_or(0, |it| it.anchor.seq);
        let mut last = None;
        loop {
            let began = Instant::now();
            let more = follower.ready().await?;
            let at_end = more.is_empty();
            entries.extend(more);
            let lasting = entries.iter().rposition(lasts).map(|at| at + 1);
            let ready = lasting.or_else(|| (entries.len() >= PATIENCE).then_some(entries.len()));
            if let Some(ready) = ready {
                let now: Vec<Entry> = entries.drain(..ready).collect();
                last = now.last().map(Anchor::of).or(last);
                let folded = spawn_blocking(move || {
                    for entry in &now {
                        push(&mut fold, entry);
                    }
                    fold
                });
                fold = folded.await.map_err(|_| Error::Closed)?;
            }
            if let Some(anchor) = last
                && (at_end || anchor.seq >= saved + SAVE_EVERY)
            {
                let upto = Upto { anchor, spool: record.spool };
                let made = spawn_blocking(move || {
                    let (fold, shown) = Stage::new(fold, shown).into_shown();
                    View { fold, shown, upto }
                });
                let view = made.await.map_err(|_| Error::Closed)?;
                let Some(view) = self.checkpoints.save(session, view).await else { return Ok(()) };
                (fold, shown, saved, last) = (view.fold, view.shown, anchor.seq, None);
            }
            if at_end {
                break;
            }
            sleep(began.elapsed() * REST).await;
        }
        // A session that was deleted meanwhile must not leave its view.
        if self.journal.session(session).await?.is_none() {
            self.checkpoints.forget(session).await;
        }
        Ok(())
    }
}

/// Whether settling will keep an entry.
fn lasts(entry: &Entry) -> bool {
    entry.origin == Origin::Towpath
        || Kind::find(&entry.bytes).is_none_or(|kind| kind.name != "stream_event")
}

#[cfg(test)]
mod tests;
