//! The thread that passes bytes on and skims them as they pass.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wire::{Reading, Rejoiner, read};

use crate::Stream;
use crate::feed::Feed;
use crate::news::News;
use crate::observer::{Observer, Wants};
use crate::pipe::{Ended, Pipe};
use crate::skim::{Interest, Skimmed, Skimmer};

/// How much of an event that is spread over lines is held.
const REJOINED: usize = 1 << 20;

/// How much went through, as it goes.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) bytes: AtomicU64,
    pub(crate) unread: AtomicU64,
    /// The stream is over, and the thread about to end.
    pub(crate) over: AtomicBool,
}

/// The stream on its way from one end to the other.
pub(crate) struct Passage {
    skimmer: Skimmer,
    /// Nobody's, after a mistake of ours: the bytes go on without.
    eyes: Option<Eyes>,
    feed: Arc<Feed>,
    counts: Arc<Counts>,
}

impl Passage {
    pub(crate) fn new(wants: Wants, rejoin: bool, feed: Arc<Feed>, counts: Arc<Counts>) -> Self {
        let rejoiner = rejoin.then(|| Rejoiner::with_cap(REJOINED));
        let eyes = Some(Eyes { observer: Observer::new(wants), rejoiner });
        Self { skimmer: Skimmer::default(), eyes, feed, counts }
    }

    /// Passes everything on; whether all of it could be watched, and why it ended.
    pub(crate) fn run(mut self, stream: Stream) -> (Ended, Watched) {
        let ended = self.pass(Pipe::between(stream.input, stream.output, stream.way));
        self.guarded(|eyes, skimmer, feed, counts| {
            skimmer.finish(|found| eyes.see(found, feed, counts));
            eyes.finish(feed);
        });
        self.counts.over.store(true, Ordering::Release);
        let watched = if let Some(eyes) = &mut self.eyes {
            eyes.observer.finish(|news| self.feed.tell(news));
            Watched::All
        } else {
            self.feed.tell(News::Over { unfinished: Vec::new() });
            Watched::Partly
        };
        (ended, watched)
    }

    fn pass(&mut self, mut pipe: Pipe) -> Ended {
        loop {
            match pipe.pass(self.skimmer.room()) {
                Ok(count) => {
                    self.counts.bytes.fetch_add(count as u64, Ordering::Relaxed);
                    self.guarded(|eyes, skimmer, feed, counts| {
                        let interest = eyes.interest();
                        skimmer.put(count, interest, |found| {
                            eyes.see(found, feed, counts);
                            eyes.interest()
                        });
                        feed.wake();
                    });
                }
                Err(ended) => return ended,
            }
        }
    }

    /// Looks at the stream. A panic in here is a mistake of ours, and no reason to break the pipe.
    fn guarded(&mut self, look: impl FnOnce(&mut Eyes, &mut Skimmer, &Feed, &Counts)) {
        let Some(eyes) = &mut self.eyes else { return };
        let (skimmer, feed, counts) = (&mut self.skimmer, &self.feed, &self.counts);
        let look = AssertUnwindSafe(|| look(eyes, skimmer, feed, counts));
        if catch_unwind(look).is_err() {
            self.eyes = None;
            self.skimmer = Skimmer::default();
        }
    }
}

/// What looks at lines.
struct Eyes {
    observer: Observer,
    /// For events that may be spread over several lines.
    rejoiner: Option<Rejoiner>,
}

impl Eyes {
    fn interest(&self) -> Interest {
        let all = self.rejoiner.is_some();
        let interest = self.observer.interest();
        Interest { all, whole: all || interest.whole, ..interest }
    }

    fn see(&mut self, found: Skimmed<'_>, feed: &Feed, counts: &Counts) {
        match (found, &mut self.rejoiner) {
            (Skimmed::Unreadable, _) => {
                counts.unread.fetch_add(1, Ordering::Relaxed);
            }
            (Skimmed::Line(line), Some(rejoiner)) => {
                for line in rejoiner.push(line) {
                    self.read(&line.text, feed);
                }
            }
            (Skimmed::Line(line) | Skimmed::Abridged(line), _) => self.read(line, feed),
        }
    }

    fn finish(&mut self, feed: &Feed) {
        let held = self.rejoiner.as_mut().map(Rejoiner::finish);
        for line in held.unwrap_or_default() {
            self.read(&line.text, feed);
        }
    }

    fn read(&mut self, line: &[u8], feed: &Feed) {
        for line in read(line) {
            if let Reading::Event(event) = line.reading {
                self.observer.observe(&event, |news| feed.put(news));
            }
        }
    }
}

/// Whether the stream was watched to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// It was.
    All,
    /// A mistake of ours ended the watching before.
    Partly,
}
