//! The thread that passes bytes on and skims them as they pass.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wire::{Reading, Rejoiner, read};

use crate::StreamEnds;
use crate::event_queue::EventQueue;
use crate::observer::{Observer, ObserverOptions};
use crate::pipe::{BytePipe, PipeEnd};
use crate::prefilter::{FilteredLine, Interest, Prefilter};
use crate::stream_event::StreamEvent;

/// How much of an event that is spread over lines is held.
const REJOINED: usize = 1 << 20;

/// How much went through, as it goes.
#[derive(Debug, Default)]
pub(crate) struct PipeCounts {
    pub(crate) bytes: AtomicU64,
    pub(crate) unread: AtomicU64,
    /// The stream is over, and the thread about to end.
    pub(crate) over: AtomicBool,
}

/// The stream on its way from one end to the other.
pub(crate) struct PipeThread {
    prefilter: Prefilter,
    /// Nobody's, after a mistake of ours: the bytes go on without.
    reader: Option<StreamReader>,
    queue: Arc<EventQueue>,
    counts: Arc<PipeCounts>,
}

impl PipeThread {
    pub(crate) fn new(
        wants: ObserverOptions,
        rejoin: bool,
        queue: Arc<EventQueue>,
        counts: Arc<PipeCounts>,
    ) -> Self {
        let rejoiner = rejoin.then(|| Rejoiner::with_cap(REJOINED));
        let reader = Some(StreamReader { observer: Observer::new(wants), rejoiner });
        Self { prefilter: Prefilter::default(), reader, queue, counts }
    }

    /// Passes everything on; whether all of it could be watched, and why it ended.
    pub(crate) fn run(mut self, stream: StreamEnds) -> (PipeEnd, Coverage) {
        let ended = self.pass(BytePipe::between(stream.input, stream.output, stream.method));
        self.guarded(|reader, prefilter, queue, counts| {
            prefilter.finish(|found| reader.see(found, queue, counts));
            reader.finish(queue);
        });
        self.counts.over.store(true, Ordering::Release);
        let watched = if let Some(reader) = &mut self.reader {
            reader.observer.finish(|news| self.queue.push(news));
            Coverage::All
        } else {
            self.queue.push(StreamEvent::EndOfStream { unfinished: Vec::new() });
            Coverage::Partly
        };
        (ended, watched)
    }

    fn pass(&mut self, mut pipe: BytePipe) -> PipeEnd {
        loop {
            match pipe.pass(self.prefilter.room()) {
                Ok(count) => {
                    self.counts.bytes.fetch_add(count as u64, Ordering::Relaxed);
                    self.guarded(|reader, prefilter, queue, counts| {
                        let interest = reader.interest();
                        prefilter.put(count, interest, |found| {
                            reader.see(found, queue, counts);
                            reader.interest()
                        });
                        queue.wake();
                    });
                }
                Err(ended) => return ended,
            }
        }
    }

    /// Looks at the stream. A panic in here is a mistake of ours, and no reason to break the pipe.
    fn guarded(
        &mut self,
        look: impl FnOnce(&mut StreamReader, &mut Prefilter, &EventQueue, &PipeCounts),
    ) {
        let Some(reader) = &mut self.reader else { return };
        let (prefilter, queue, counts) = (&mut self.prefilter, &self.queue, &self.counts);
        let look = AssertUnwindSafe(|| look(reader, prefilter, queue, counts));
        if catch_unwind(look).is_err() {
            self.reader = None;
            self.prefilter = Prefilter::default();
        }
    }
}

/// What looks at lines.
struct StreamReader {
    observer: Observer,
    /// For events that may be spread over several lines.
    rejoiner: Option<Rejoiner>,
}

impl StreamReader {
    fn interest(&self) -> Interest {
        let all = self.rejoiner.is_some();
        let interest = self.observer.interest();
        Interest { all, whole: all || interest.whole, ..interest }
    }

    fn see(&mut self, found: FilteredLine<'_>, queue: &EventQueue, counts: &PipeCounts) {
        match (found, &mut self.rejoiner) {
            (FilteredLine::Unreadable, _) => {
                counts.unread.fetch_add(1, Ordering::Relaxed);
            }
            (FilteredLine::Line(line), Some(rejoiner)) => {
                for line in rejoiner.push(line) {
                    self.read(&line.text, queue);
                }
            }
            (FilteredLine::Line(line) | FilteredLine::Abridged(line), _) => self.read(line, queue),
        }
    }

    fn finish(&mut self, queue: &EventQueue) {
        let held = self.rejoiner.as_mut().map(Rejoiner::finish);
        for line in held.unwrap_or_default() {
            self.read(&line.text, queue);
        }
    }

    fn read(&mut self, line: &[u8], queue: &EventQueue) {
        for line in read(line) {
            if let Reading::Event(event) = line.reading {
                self.observer.observe(&event, |news| queue.put(news));
            }
        }
    }
}

/// Whether the stream was watched to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// It was.
    All,
    /// A mistake of ours ended the watching before.
    Partly,
}
