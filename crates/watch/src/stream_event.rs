//! The events of a stream that this crate acts on.

use std::fmt;

use serde_json::value::RawValue;

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
    /// Everything before was acted on by an earlier process; what follows is new.
    Replayed,
    /// A position that is [reported](crate::LogLine::Passed) once everything before it is done.
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

impl AgentSessionId {
    /// Whether it has the form of a UUID, which some programs require.
    pub(crate) fn is_uuid(&self) -> bool {
        let dashes = [8, 13, 18, 23];
        self.0.len() == 36
            && self.0.bytes().enumerate().all(|(n, byte)| {
                if dashes.contains(&n) { byte == b'-' } else { byte.is_ascii_hexdigit() }
            })
    }
}
