//! What those who act have to say: the last of it for whoever asks, what went wrong for the log.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use ::watch::{Verbosity, LogLine};
use anstream::eprintln;
use gateway::watching::Said;
use journal::SessionId;

use crate::clock::now;

/// How many log are remembered.
const LAST: usize = 20;

/// How many bytes of each.
const LONG: usize = 400;

/// The last log on a session. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct LogLines {
    session: SessionId,
    last: Arc<Mutex<VecDeque<Said>>>,
}

impl LogLines {
    pub(super) fn new(session: SessionId, said: Vec<Said>) -> Self {
        Self { session, last: Arc::new(Mutex::new(said.into())) }
    }

    pub(super) fn note(&self, line: &LogLine) {
        let passing = matches!(line, LogLine::Progress { .. });
        if passing || line.verbosity() > Verbosity::Normal {
            return;
        }
        let wrong = line.verbosity() == Verbosity::Quiet;
        let mut text = line.to_string();
        text.truncate(text.floor_char_boundary(LONG));
        if wrong {
            eprintln!("note: session {}: {text}", crate::sessions::short(self.session));
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() >= LAST {
            last.pop_front();
        }
        last.push_back(Said { at: now(), wrong, text });
    }

    pub(super) fn last(&self) -> Vec<Said> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.iter().cloned().collect()
    }
}
