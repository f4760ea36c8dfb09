//! The frames that WebSocket clients are sent.
//!
//! Parts that go to many clients are serialised once, as [`SharedJson`], and copied into frames.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::super::consent::RequestCard;
use super::super::sessions::SessionResponse;
use super::item::ItemResponse;
use super::parts::{
    HeadResponse, QueuedPromptResponse, StatusResponse, TodoResponse, TurnResponse, UsageResponse,
};

/// What a client that follows a session is sent.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "frame", rename_all = "snake_case")]
#[schema(as = Frame)]
pub(crate) enum ConversationFrame {
    /// The newest part of the conversation.
    Snapshot(Box<Snapshot>),
    /// The changes between two revisions.
    Update(UpdateFrame),
    /// The connection is alive.
    Heartbeat(Heartbeat),
    /// The session was deleted.
    Deleted,
    /// The session cannot be shown, for this reason. The connection is closed; a later one may work.
    Failed { detail: String },
}

/// The newest part of a conversation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Snapshot {
    pub(super) revision: u64,
    pub(super) head: HeadResponse,
    pub(super) status: StatusResponse,
    pub(super) queue: Vec<QueuedPromptResponse>,
    pub(super) requests: Vec<RequestCard>,
    pub(super) todos: Vec<TodoResponse>,
    pub(super) usage: UsageResponse,
    #[schema(value_type = Vec<TurnResponse>)]
    pub(super) turns: Vec<SharedJson>,
    #[schema(value_type = Vec<ItemResponse>)]
    pub(super) items: Vec<SharedJson>,
    /// There are older items.
    pub(super) more: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UpdateFrame {
    /// The oldest revision it can be applied to.
    pub(super) from: u64,
    /// The revision after it is applied.
    pub(super) to: u64,
    pub(super) patches: Vec<PatchFrame>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Heartbeat {
    /// The server's time.
    pub(super) at: u64,
}

/// A change of a conversation. All but `append` carry the whole new value.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "patch", rename_all = "snake_case")]
#[schema(as = Patch)]
pub(crate) enum PatchFrame {
    Item {
        #[schema(value_type = ItemResponse)]
        item: SharedJson,
    },
    /// More of an item that is being written.
    Append {
        id: String,
        rev: u64,
        /// The length of the stable HTML before, in UTF-16 code units.
        offset: u64,
        /// Stable HTML, to be appended.
        html: String,
        /// HTML that may still change, to be replaced.
        tail: String,
    },
    Removed {
        id: String,
    },
    Turn {
        #[schema(value_type = TurnResponse)]
        turn: SharedJson,
    },
    Head {
        head: Box<HeadResponse>,
    },
    Status {
        status: StatusResponse,
    },
    Queue {
        queue: Vec<QueuedPromptResponse>,
    },
    Requests {
        requests: Vec<RequestCard>,
    },
    Todos {
        todos: Vec<TodoResponse>,
    },
    Usage {
        usage: UsageResponse,
    },
}

/// What a client that follows the session list is sent.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub(crate) enum SessionListFrame {
    /// All sessions.
    Sessions {
        sessions: Vec<SessionResponse>,
    },
    /// A session that is new or changed.
    Session {
        session: Box<SessionResponse>,
    },
    SessionDeleted {
        id: uuid::Uuid,
    },
    /// The connection is alive.
    Heartbeat {
        at: u64,
    },
}

/// JSON that was serialised before. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct SharedJson(Arc<RawValue>);

impl SharedJson {
    pub(super) fn new(value: &impl Serialize) -> Self {
        let raw = serde_json::value::to_raw_value(value);
        // Structs of numbers, strings and lists always serialise.
        Self(raw.unwrap_or_else(|_| RawValue::NULL.to_owned()).into())
    }

    /// In bytes.
    pub(super) fn len(&self) -> usize {
        self.0.get().len()
    }
}

impl Serialize for SharedJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SharedJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Box::<RawValue>::deserialize(deserializer)?.into()))
    }
}
