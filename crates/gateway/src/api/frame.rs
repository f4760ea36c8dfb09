//! What is sent over a WebSocket.
//!
//! Parts that many followers are sent are serialised once, as [`Piece`]s, and copied into frames.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use view::{Head, Request, Status, Todo, Usage, WaitingPrompt};

use super::session::ShownSession;

/// JSON that was made before.
#[derive(Clone, Debug)]
pub(crate) struct Piece(Arc<RawValue>);

/// What a follower of a session is sent.
#[derive(Debug, Serialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub(crate) enum Frame {
    /// The newest part of the conversation, whole.
    Snapshot(Box<Snapshot>),
    /// What changed.
    Update {
        /// The oldest document it fits.
        from: u64,
        /// What the document is afterwards.
        to: u64,
        patches: Vec<ShownPatch>,
    },
    /// The connection lives.
    Heartbeat {
        /// The server's time.
        at: u64,
    },
    /// The session was deleted.
    Gone,
}

/// The newest part of a conversation.
#[derive(Debug, Serialize)]
pub(crate) struct Snapshot {
    pub(crate) revision: u64,
    pub(crate) head: Head,
    pub(crate) status: Status,
    pub(crate) queue: Vec<WaitingPrompt>,
    pub(crate) requests: Vec<ShownAsk>,
    pub(crate) todos: Vec<Todo>,
    pub(crate) usage: Usage,
    pub(crate) turns: Vec<Piece>,
    pub(crate) items: Vec<Piece>,
    pub(crate) more: bool,
}

/// A change of a conversation. All but `Grow` carry the whole new value.
#[derive(Debug, Serialize)]
#[serde(tag = "patch", rename_all = "snake_case")]
pub(crate) enum ShownPatch {
    Item {
        item: Piece,
    },
    /// More of an item that is being written.
    Grow {
        id: String,
        rev: u64,
        /// How long the settled HTML was before, in UTF-16 code units.
        at: u64,
        /// HTML that is settled from here on, to be added.
        settled: String,
        /// HTML that may still change, to be replaced.
        open: String,
    },
    Gone {
        id: String,
    },
    Turn {
        turn: Piece,
    },
    Head {
        head: Box<Head>,
    },
    Status {
        status: Status,
    },
    Queue {
        queue: Vec<WaitingPrompt>,
    },
    Requests {
        requests: Vec<ShownAsk>,
    },
    Todos {
        todos: Vec<Todo>,
    },
    Usage {
        usage: Usage,
    },
}

/// A request that waits for a person, with the body of the call it is about.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ShownAsk {
    #[serde(flatten)]
    pub(crate) request: Request,
    /// What the call would do, to be shown in a card.
    pub(crate) html: String,
}

/// What a follower of all sessions is sent.
#[derive(Debug, Serialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub(crate) enum LobbyFrame {
    /// All of them.
    Sessions { sessions: Vec<ShownSession> },
    /// One that is new or changed.
    Session { session: Box<ShownSession> },
    /// One that is no more.
    SessionGone { id: uuid::Uuid },
    /// The connection lives.
    Heartbeat { at: u64 },
}

impl Piece {
    /// Serialises a part.
    pub(crate) fn of(value: &impl Serialize) -> Self {
        let raw = serde_json::value::to_raw_value(value);
        // Numbers, strings and lists of them serialise.
        Self(raw.unwrap_or_else(|_| RawValue::NULL.to_owned()).into())
    }

    /// How many bytes it takes.
    pub(crate) fn len(&self) -> usize {
        self.0.get().len()
    }
}

impl Serialize for Piece {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Piece {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Box::<RawValue>::deserialize(deserializer)?.into()))
    }
}
