//! The way from the thread that passes bytes on to those that act.
//!
//! Telling never waits: the lock is held for the length of a push. So the feed has no bound but what
//! the report must name anyway, one entry for a call; bodies for hooks are what could grow, and
//! beyond [`BALLAST`] they are left out, which hooks are told by their absence.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::news::News;

/// How many bytes of inputs and results may wait for hooks.
const BALLAST: usize = 2 << 20;

/// News on their way.
#[derive(Debug, Default)]
pub struct Feed {
    waiting: Mutex<Waiting>,
    told: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    news: VecDeque<News>,
    ballast: usize,
}

impl Feed {
    /// Hands on what the stream says. After [`News::Over`] nothing is heard any more.
    pub fn tell(&self, news: News) {
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
    pub(crate) fn put(&self, mut news: News) {
        let mut waiting = self.lock();
        if waiting.ballast + news.ballast() > BALLAST {
            news.lighten();
        }
        waiting.ballast += news.ballast();
        match (&news, waiting.news.back_mut()) {
            // Only the last words count, so words that nobody has heard yet are replaced.
            (News::Words(_), Some(last @ News::Words(_)))
            | (News::Prompt(_), Some(last @ News::Prompt(_))) => *last = news,
            _ => waiting.news.push_back(news),
        }
    }

    pub(crate) async fn next(&self) -> News {
        loop {
            if let Some(news) = self.take() {
                return news;
            }
            self.told.notified().await;
        }
    }

    pub(crate) fn take(&self) -> Option<News> {
        let mut waiting = self.lock();
        let news = waiting.news.pop_front()?;
        waiting.ballast -= news.ballast();
        Some(news)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // A queue is whole after any push or pop, also where the thread that did it panicked.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::{BALLAST, Feed};
    use crate::news::{CallId, Change, News};

    #[test]
    fn bodies_are_left_out_rather_than_piled_up_and_no_change_is() {
        let feed = Feed::default();
        let body = format!("\"{}\"", "x".repeat(BALLAST / 4));
        for n in 0..100 {
            let change = Change {
                call: CallId(n.to_string()),
                tool: "Write".to_owned(),
                path: "a".to_owned(),
                session: None,
            };
            let input = Some(RawValue::from_string(body.clone()).unwrap());
            feed.tell(News::Announced { change, input });
        }
        let mut bodies = 0;
        for n in 0..100 {
            let Some(News::Announced { change, input }) = feed.take() else { panic!("{n}") };
            assert_eq!(change.call.0, n.to_string());
            bodies += usize::from(input.is_some());
        }
        assert_eq!(bodies, 3);
        assert_eq!(feed.lock().ballast, 0);
    }

    #[test]
    fn only_the_last_of_words_in_a_row_waits() {
        let feed = Feed::default();
        for n in 0..1000 {
            feed.tell(News::Words(n.to_string()));
        }
        feed.tell(News::TurnEnded);
        assert!(matches!(feed.take(), Some(News::Words(words)) if words == "999"));
        assert!(matches!(feed.take(), Some(News::TurnEnded)));
        assert!(feed.take().is_none());
    }
}
