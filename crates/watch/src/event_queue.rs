//! The way from the thread that passes bytes on to those that act.
//!
//! Telling never waits: the lock is held for the length of a push. So the feed has no bound but what
//! the report must name anyway, one entry for a call; bodies for hooks are what could grow, and
//! beyond [`MAX_BUFFERED`] they are left out, which hooks are told by their absence.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::stream_event::StreamEvent;

/// How many bytes of inputs and results may wait for hooks.
const MAX_BUFFERED: usize = 2 << 20;

/// StreamEvent on their way.
#[derive(Debug, Default)]
pub struct EventQueue {
    waiting: Mutex<QueuedEvents>,
    told: Notify,
}

#[derive(Debug, Default)]
struct QueuedEvents {
    news: VecDeque<StreamEvent>,
    buffered_bytes: usize,
}

impl EventQueue {
    /// Hands on what the stream says. After [`StreamEvent::EndOfStream`] nothing is heard any more.
    pub fn tell(&self, news: StreamEvent) {
        self.put(news);
        self.wake();
    }

    /// Wakes whoever acts, if there is something to hear.
    pub(crate) fn wake(&self) {
        if !self.lock().news.is_empty() {
            self.told.notify_one();
        }
    }

    /// Leaves news for whoever acts to find. Waking costs a call to the system on either side, more
    /// than all the rest, so the thread that passes bytes on does it once for all it has read.
    pub(crate) fn put(&self, mut news: StreamEvent) {
        let mut waiting = self.lock();
        if waiting.buffered_bytes + news.buffered_bytes() > MAX_BUFFERED {
            news.drop_bodies();
        }
        waiting.buffered_bytes += news.buffered_bytes();
        match (&news, waiting.news.back_mut()) {
            // Only the last words count, so words that nobody has heard yet are replaced.
            (StreamEvent::Text(_), Some(last @ StreamEvent::Text(_)))
            | (StreamEvent::Prompt(_), Some(last @ StreamEvent::Prompt(_))) => *last = news,
            _ => waiting.news.push_back(news),
        }
    }

    pub(crate) async fn next(&self) -> StreamEvent {
        loop {
            if let Some(news) = self.take() {
                return news;
            }
            self.told.notified().await;
        }
    }

    pub(crate) fn take(&self) -> Option<StreamEvent> {
        let mut waiting = self.lock();
        let news = waiting.news.pop_front()?;
        waiting.buffered_bytes -= news.buffered_bytes();
        Some(news)
    }

    fn lock(&self) -> MutexGuard<'_, QueuedEvents> {
        // A queue is whole after any push or pop, also where the thread that did it panicked.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::{MAX_BUFFERED, EventQueue};
    use crate::stream_event::{CallId, Change, StreamEvent};

    #[test]
    fn bodies_are_left_out_rather_than_piled_up_and_no_change_is() {
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
            feed.tell(StreamEvent::Announced { change, input });
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
    fn only_the_last_of_words_in_a_row_waits() {
        let feed = EventQueue::default();
        for n in 0..1000 {
            feed.tell(StreamEvent::Text(n.to_string()));
        }
        feed.tell(StreamEvent::TurnEnded);
        assert!(matches!(feed.take(), Some(StreamEvent::Text(words)) if words == "999"));
        assert!(matches!(feed.take(), Some(StreamEvent::TurnEnded)));
        assert!(feed.take().is_none());
    }
}
