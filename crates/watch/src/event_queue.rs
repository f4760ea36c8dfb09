//! The queue from the pipe thread to the actions.
//!
//! Adding to it never waits: the lock is held for the length of a push. Events are bounded by the
//! number of calls, which the report lists anyway. The bodies for hooks are bounded in bytes: beyond
//! [`MAX_BUFFERED`] they are dropped.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::stream_event::StreamEvent;

/// How many bytes of inputs and results may wait for hooks.
const MAX_BUFFERED: usize = 2 << 20;

/// Events that wait for the actions.
#[derive(Debug, Default)]
pub struct EventQueue {
    queued: Mutex<QueuedEvents>,
    added: Notify,
}

#[derive(Debug, Default)]
struct QueuedEvents {
    events: VecDeque<StreamEvent>,
    buffered_bytes: usize,
}

impl EventQueue {
    /// Adds an event. Events after [`StreamEvent::EndOfStream`] are ignored.
    pub fn push(&self, event: StreamEvent) {
        self.put(event);
        self.wake();
    }

    /// Wakes the receiver if there are events.
    pub(crate) fn wake(&self) {
        if !self.lock().events.is_empty() {
            self.added.notify_one();
        }
    }

    /// Adds an event without waking the receiver. Waking costs a system call on either side, more than
    /// everything else, so the pipe thread does it once for all it has read.
    pub(crate) fn put(&self, mut event: StreamEvent) {
        let mut queued = self.lock();
        if queued.buffered_bytes + event.buffered_bytes() > MAX_BUFFERED {
            event.drop_bodies();
        }
        queued.buffered_bytes += event.buffered_bytes();
        match (&event, queued.events.back_mut()) {
            // Only the last text counts, so one that is still queued is replaced.
            (StreamEvent::Text(_), Some(last @ StreamEvent::Text(_)))
            | (StreamEvent::Prompt(_), Some(last @ StreamEvent::Prompt(_))) => *last = event,
            _ => queued.events.push_back(event),
        }
    }

    pub(crate) async fn next(&self) -> StreamEvent {
        loop {
            if let Some(event) = self.take() {
                return event;
            }
            self.added.notified().await;
        }
    }

    pub(crate) fn take(&self) -> Option<StreamEvent> {
        let mut queued = self.lock();
        let event = queued.events.pop_front()?;
        queued.buffered_bytes -= event.buffered_bytes();
        Some(event)
    }

    fn lock(&self) -> MutexGuard<'_, QueuedEvents> {
        // A queue is whole after any push or pop, even if the thread panicked.
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::{EventQueue, MAX_BUFFERED};
    use crate::stream_event::{CallId, Change, StreamEvent};

    #[test]
    fn bodies_are_dropped_beyond_the_limit_but_no_event_is() {
        let feed = EventQueue::default();
        let body = format!("\"{}\"", "x".repeat(MAX_BUFFERED / 4));
        for n in 0..100 {
            let change = Change {
                call: CallId(n.to_string()),
                tool: "Write".to_owned(),
                path: "a".to_owned(),
                session: None,
            };
            let input = Some(RawValue::from_string(body.clone()).unwrap());
            feed.push(StreamEvent::Announced { change, input });
        }
        let mut bodies = 0;
        for n in 0..100 {
            let Some(StreamEvent::Announced { change, input }) = feed.take() else { panic!("{n}") };
            assert_eq!(change.call.0, n.to_string());
            bodies += usize::from(input.is_some());
        }
        assert_eq!(bodies, 3);
        assert_eq!(feed.lock().buffered_bytes, 0);
    }

    #[test]
    fn consecutive_texts_are_replaced_by_the_last() {
        let feed = EventQueue::default();
        for n in 0..1000 {
            feed.push(StreamEvent::Text(n.to_string()));
        }
        feed.push(StreamEvent::TurnEnded);
        assert!(matches!(feed.take(), Some(StreamEvent::Text(text)) if text == "999"));
        assert!(matches!(feed.take(), Some(StreamEvent::TurnEnded)));
        assert!(feed.take().is_none());
    }
}
