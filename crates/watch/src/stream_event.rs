//! What the stream says that somebody here acts on.

use std::fmt;

use serde_json::value::RawValue;

/// The agent's id of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallId(pub(crate) String);

/// The agent's id of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AgentSessionId(pub(crate) String);

/// A call that changes a file.
#[derive(Clone, Debug)]
pub struct Change {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// The path as the model wrote it.
    pub path: String,
    /// The session it belongs to, as far as the stream told.
    pub session: Option<AgentSessionId>,
}

/// One thing the stream says.
#[derive(Clone, Debug)]
pub enum StreamEvent {
    /// Where the agent works, and what it may do there.
    Place {
        /// Its working directory.
        cwd: String,
        /// `default`, `acceptEdits`, …
        permission_mode: Option<String>,
    },
    /// The session goes by this id from here on.
    Session(AgentSessionId),
    /// A file is going to be changed; it is not changed yet.
    Announced {
        /// The call.
        change: Change,
        /// What the tool is given, where a hook wants it.
        input: Option<Box<RawValue>>,
    },
    /// The call that was announced is over.
    Settled {
        /// The call.
        change: Change,
        /// Whether the tool failed or was not allowed to run, so that nothing changed.
        failed: bool,
        /// What the tool was given, where a hook wants it.
        input: Option<Box<RawValue>>,
        /// What the tool gave back, where a hook wants it.
        response: Option<Box<RawValue>>,
    },
    /// A command of the shell is over, and may have changed anything.
    ShellEnded {
        /// The session it belongs to.
        session: Option<AgentSessionId>,
    },
    /// What the person asked for.
    Prompt(String),
    /// What the agent said.
    Words(String),
    /// The turn is over.
    TurnEnded,
    /// These calls will never have a result.
    Unfinished(Vec<Change>),
    /// All that was told so far was acted on by somebody before; what follows is new.
    Recalled,
    /// A place that is [passed](crate::LogLine::Passed) once all that was told so far is done with.
    PendingCheckpoint(u64),
    /// The stream is over, and these calls never had a result.
    Over {
        /// The calls, in the order they were made.
        unfinished: Vec<Change>,
    },
}

impl StreamEvent {
    /// How much it weighs beyond what must be kept of it.
    pub(crate) fn buffered_bytes(&self) -> usize {
        let weight = |body: &Option<Box<RawValue>>| body.as_ref().map_or(0, |it| it.get().len());
        match self {
            Self::Announced { input, .. } => weight(input),
            Self::Settled { input, response, .. } => weight(input) + weight(response),
            _ => 0,
        }
    }

    /// Leaves out what a hook can do without.
    pub(crate) fn drop_bodies(&mut self) {
        match self {
            Self::Announced { input, .. } => *input = None,
            Self::Settled { input, response, .. } => (*input, *response) = (None, None),
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
    /// Whether it has the form of a UUID, which some programs insist on.
    pub(crate) fn is_uuid(&self) -> bool {
        let dashes = [8, 13, 18, 23];
        self.0.len() == 36
            && self.0.bytes().enumerate().all(|(n, byte)| {
                if dashes.contains(&n) { byte == b'-' } else { byte.is_ascii_hexdigit() }
            })
    }
}
