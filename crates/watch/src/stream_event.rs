//! The events of a stream that this crate acts on, and the queue from the pipe thread to the actions.
//!
//! Adding to the queue never waits: the lock is held only for one push. The number of events is bounded
//! by the number of calls, which the report lists anyway. The bodies for hooks are bounded in bytes:
//! beyond [`MAX_BUFFERED`] they are dropped.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::Notify;

/// The agent's id of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallId(pub(crate) String);

/// The agent's id of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AgentSessionId(pub(crate) String);

/// A call that changes a file.
#[derive(Clone, Debug)]
pub struct Change {
    pub call: CallId,
    pub tool: String,
    /// The path as the model wrote it.
    pub path: String,
    /// The session it belongs to, if known.
    pub session: Option<AgentSessionId>,
}

/// An event of the stream.
#[derive(Clone, Debug)]
pub enum StreamEvent {
    /// The agent's working directory and permissions.
    Directory {
        cwd: String,
        /// `default`, `acceptEdits`, …
        permission_mode: Option<String>,
    },
    /// The session has this id from now on.
    Session(AgentSessionId),
    /// A file is about to be changed.
    Announced {
        change: Change,
        /// The input of the tool, if a hook needs it.
        input: Option<Box<RawValue>>,
    },
    /// An announced call has finished.
    Finished {
        change: Change,
        /// The tool failed or was denied, so nothing changed.
        failed: bool,
        /// The input of the tool, if a hook needs it.
        input: Option<Box<RawValue>>,
        /// The result of the tool, if a hook needs it.
        response: Option<Box<RawValue>>,
    },
    /// A shell command has finished and may have changed any file.
    ShellEnded {
        session: Option<AgentSessionId>,
    },
    /// The user's prompt.
    Prompt(String),
    /// The agent's answer.
    Text(String),
    TurnEnded,
    /// These calls will never get a result.
    Unfinished(Vec<Change>),
    /// An earlier process acted on all events before this one; the following ones are new.
    Replayed,
    /// A position that is [logged](crate::LogLine::Checkpoint) once everything before it is done.
    Checkpoint(u64),
    /// The stream has ended.
    EndOfStream {
        /// The calls without a result, in order.
        unfinished: Vec<Change>,
    },
}

impl StreamEvent {
    /// The size of the bodies that it carries for hooks.
    pub(crate) fn buffered_bytes(&self) -> usize {
        let size = |body: &Option<Box<RawValue>>| body.as_ref().map_or(0, |it| it.get().len());
        match self {
            Self::Announced { input, .. } => size(input),
            Self::Finished { input, response, .. } => size(input) + size(response),
            _ => 0,
        }
    }

    /// Drops the bodies. Hooks can do without them.
    pub(crate) fn drop_bodies(&mut self) {
        match self {
            Self::Announced { input, .. } => *input = None,
            Self::Finished { input, response, .. } => (*input, *response) = (None, None),
            _ => {}
        }
    }
}

impl fmt::Display for AgentSessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

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

    use super::{CallId, Change, EventQueue, MAX_BUFFERED, StreamEvent};

    #[test]
    fn bodies_are_dropped_beyond_the_limit_but_no_event_is() {
        let queue = EventQueue::default();
        let body = format!("\"{}\"", "x".repeat(MAX_BUFFERED / 4));
        for n in 0..100 {
            let change = Change {
                call: CallId(n.to_string()),
                tool: "Write".to_owned(),
                path: "a".to_owned(),
                session: None,
            };
            let input = Some(RawValue::from_string(body.clone()).unwrap());
            queue.push(StreamEvent::Announced { change, input });
        }
        let mut bodies = 0;
        for n in 0..100 {
            let Some(StreamEvent::Announced { change, input }) = queue.take() else {
                panic!("{n}")
            };
            assert_eq!(change.call.0, n.to_string());
            bodies += usize::from(input.is_some());
        }
        assert_eq!(bodies, 3);
        assert_eq!(queue.lock().buffered_bytes, 0);
    }

    #[test]
    fn consecutive_texts_are_replaced_by_the_last() {
        let queue = EventQueue::default();
        for n in 0..1000 {
            queue.push(StreamEvent::Text(n.to_string()));
        }
        queue.push(StreamEvent::TurnEnded);
        assert!(matches!(queue.take(), Some(StreamEvent::Text(text)) if text == "999"));
        assert!(matches!(queue.take(), Some(StreamEvent::TurnEnded)));
        assert!(queue.take().is_none());
    }
}
