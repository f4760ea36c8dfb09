//! What those who act have to say: the last of it for whoever asks, what went wrong for the log.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use ::watch::{Loudness, Remark};
use anstream::eprintln;
use gateway::watch_state::WatchLogLine;
use journal::SessionId;

use crate::clock::now;

/// How many remarks are remembered.
const LAST: usize = 20;

/// How many bytes of each.
const LONG: usize = 400;

/// The last remarks on a session. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Remarks {
    session: SessionId,
    last: Arc<Mutex<VecDeque<WatchLogLine>>>,
}

impl Remarks {
    pub(super) fn new(session: SessionId, said: Vec<WatchLogLine>) -> Self {
        Self { session, last: Arc::new(Mutex::new(said.into())) }
    }

    pub(super) fn note(&self, remark: &Remark) {
        let passing = matches!(remark, Remark::Progress { .. });
        if passing || remark.loudness() > Loudness::Normal {
            return;
        }
        let wrong = remark.loudness() == Loudness::Quiet;
        let mut text = remark.to_string();
        text.truncate(text.floor_char_boundary(LONG));
        if wrong {
            eprintln!("note: session {}: {text}", crate::sessions::short(self.session));
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() >= LAST {
            last.pop_front();
        }
        last.push_back(WatchLogLine { at: now(), error: wrong, text });
    }

    pub(super) fn last(&self) -> Vec<WatchLogLine> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.iter().cloned().collect()
    }
}
