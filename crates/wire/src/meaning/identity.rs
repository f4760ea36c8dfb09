//! Which session the stream belongs to, and when that changes.

use crate::event::{Body, Event, Signal};

/// The CLI's id of the running session.
///
/// It changes within one process: `/clear` begins a new conversation under a new id, which
/// 2.1.325 announces with `conversation_reset` and earlier versions not at all.
#[derive(Debug, Default)]
pub struct Identity {
    current: Option<String>,
}

/// The stream goes on under another id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionChange {
    /// The id before, if there was one.
    pub before: Option<String>,
    /// The id from here on.
    pub after: String,
}

impl Identity {
    /// The id as of the last event.
    pub fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    /// Says if the event begins a session or changes its id.
    pub fn observe(&mut self, event: &Event<'_>) -> Option<SessionChange> {
        let announced = match &event.body {
            Body::Signal(Signal::ConversationReset(id)) => *id,
            _ => None,
        };
        let id = announced.or(event.envelope.session_id)?;
        if id.is_empty() || self.current.as_deref().is_some_and(|current| id == *current) {
            return None;
        }
        let after = id.decode().into_owned();
        let before = self.current.replace(after.clone());
        Some(SessionChange { before, after })
    }
}
