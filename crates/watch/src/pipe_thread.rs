//! The thread that copies the stream and reads the copy.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wire::other_agents::AgentStreamReader;
use wire::{Rejoiner, read};

use crate::StreamEnds;
use crate::observer::{Observer, ObserverOptions};
use crate::pipe::{BytePipe, PipeEnd};
use crate::prefilter::{FilteredLine, Interest, Prefilter};
use crate::stream_event::{EventQueue, StreamEvent};

/// How many bytes of an event that is spread over several lines are buffered.
const MAX_REJOINED: usize = 1 << 20;

/// Whether the whole stream was watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    Complete,
    /// A bug in this crate ended watching before the stream ended.
    Partial,
}

/// Counters that the thread updates while it runs.
#[derive(Debug, Default)]
pub(crate) struct PipeCounts {
    pub(crate) bytes: AtomicU64,
    pub(crate) unread: AtomicU64,
    /// The stream has ended and the thread is about to end.
    pub(crate) ended: AtomicBool,
}

/// The state of the thread.
pub(crate) struct PipeThread {
    prefilter: Prefilter,
    /// `None` after a panic: the bytes are still copied.
    reader: Option<StreamReader>,
    queue: Arc<EventQueue>,
    counts: Arc<PipeCounts>,
}

impl PipeThread {
    pub(crate) fn new(
        options: ObserverOptions,
        rejoin: bool,
        queue: Arc<EventQueue>,
        counts: Arc<PipeCounts>,
    ) -> Self {
        let rejoiner = rejoin.then(|| Rejoiner::with_cap(MAX_REJOINED));
        let reader = Some(StreamReader {
            observer: Observer::new(options),
            agent_stream: AgentStreamReader::default(),
            rejoiner,
        });
        Self { prefilter: Prefilter::default(), reader, queue, counts }
    }

    /// Copies the whole stream. Returns why it ended, and whether all of it was watched.
    pub(crate) fn run(mut self, stream: StreamEnds) -> (PipeEnd, Coverage) {
        let end = self.copy(BytePipe::new(stream.input, stream.output, stream.method));
        self.catch_panics(|reader, prefilter, queue, counts| {
            prefilter.finish(|line| reader.read_filtered(line, queue, counts));
            reader.finish(queue);
        });
        self.counts.ended.store(true, Ordering::Release);
        let coverage = if let Some(reader) = &mut self.reader {
            reader.observer.finish(|event| self.queue.push(event));
            Coverage::Complete
        } else {
            self.queue.push(StreamEvent::EndOfStream { unfinished: Vec::new() });
            Coverage::Partial
        };
        (end, coverage)
    }

    fn copy(&mut self, mut pipe: BytePipe) -> PipeEnd {
        loop {
            match pipe.copy(self.prefilter.buffer()) {
                Ok(count) => {
                    self.counts.bytes.fetch_add(count as u64, Ordering::Relaxed);
                    self.catch_panics(|reader, prefilter, queue, counts| {
                        let interest = reader.interest();
                        prefilter.advance(count, interest, |line| {
                            reader.read_filtered(line, queue, counts);
                            reader.interest()
                        });
                        queue.wake();
                    });
                }
                Err(end) => return end,
            }
        }
    }

    /// Reads the stream. A panic here is a bug of ours and must not break the user's pipe.
    fn catch_panics(
        &mut self,
        read: impl FnOnce(&mut StreamReader, &mut Prefilter, &EventQueue, &PipeCounts),
    ) {
        let Some(reader) = &mut self.reader else { return };
        let (prefilter, queue, counts) = (&mut self.prefilter, &self.queue, &self.counts);
        let read = AssertUnwindSafe(|| read(reader, prefilter, queue, counts));
        if catch_unwind(read).is_err() {
            self.reader = None;
            self.prefilter = Prefilter::default();
        }
    }
}

/// Reads lines and queues their events.
struct StreamReader {
    observer: Observer,
    agent_stream: AgentStreamReader,
    /// For events that may be spread over several lines.
    rejoiner: Option<Rejoiner>,
}

impl StreamReader {
    fn interest(&self) -> Interest {
        let all = self.rejoiner.is_some();
        let interest = self.observer.interest();
        Interest { all, whole: all || interest.whole, ..interest }
    }

    fn read_filtered(&mut self, line: FilteredLine<'_>, queue: &EventQueue, counts: &PipeCounts) {
        match (line, &mut self.rejoiner) {
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
        let buffered = self.rejoiner.as_mut().map(Rejoiner::finish);
        for line in buffered.unwrap_or_default() {
            self.read(&line.text, queue);
        }
    }

    fn read(&mut self, line: &[u8], queue: &EventQueue) {
        for mut line in read(line) {
            self.agent_stream.complete(&mut line);
            self.observer.observe(&line, |event| queue.put(event));
        }
    }
}
