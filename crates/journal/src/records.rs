//! What the journal stores: entries, sessions, prompts, requests, grants and follower state.
//!
//! Times are milliseconds since 1970.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use wire::acp::PermissionChoice;
use wire::consent::RuleKind;
use wire::note::{Actor, Delivery, Outcome, PromptState, RequestKind};
use wire::{Origin, RecordedLine};

use crate::change::path_json;
use crate::id::{Seq, SessionId};

/// A line of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub seq: Seq,
    pub at: u64,
    pub origin: Origin,
    /// The line without its newline, exactly as it came. It may be a slice of a larger buffer;
    /// copy it to keep it for long.
    pub bytes: Bytes,
    /// The line is longer than an entry and goes on in the next one.
    pub continues: bool,
    /// How many more bytes the entry has, if it was too long for the reader. `bytes` is then its
    /// beginning; [`Journal::read_part`](crate::Journal::read_part) reads the rest.
    pub omitted: usize,
}

/// What is known of an entry without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryHead {
    pub(crate) seq: Seq,
    pub(crate) at: u64,
    pub(crate) origin: Origin,
    pub(crate) continues: bool,
    /// The number of its bytes.
    pub(crate) size: u64,
}

/// A line to be appended to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    pub origin: Origin,
    /// The line without its newline.
    pub bytes: Bytes,
    /// The entry may be lost if the machine goes down, because a later line repeats its content.
    pub transient: bool,
}

impl Entry {
    pub(crate) fn head(&self) -> EntryHead {
        let Self { seq, at, origin, ref bytes, continues, omitted } = *self;
        EntryHead { seq, at, origin, continues, size: (bytes.len() + omitted) as u64 }
    }

    /// The entry as readers of any journal get it.
    pub fn line(&self) -> RecordedLine<'_> {
        RecordedLine { seq: self.seq.0, at: self.at, origin: self.origin, bytes: &self.bytes }
    }
}

/// How an origin is stored. A note is never longer than an entry.
pub(crate) fn origin_code(origin: Origin, continues: bool) -> u8 {
    match (origin, continues) {
        (Origin::Agent, false) => 0,
        (Origin::Towpath, _) => 1,
        (Origin::Agent, true) => 2,
        (Origin::Transcript, false) => 3,
        (Origin::Transcript, true) => 4,
        (Origin::Sent, _) => 5,
    }
}

/// The origin of an entry, and whether its line goes on in the next one.
pub(crate) fn origin_from_code(code: u8) -> Option<(Origin, bool)> {
    match code {
        0 => Some((Origin::Agent, false)),
        1 => Some((Origin::Towpath, false)),
        2 => Some((Origin::Agent, true)),
        3 => Some((Origin::Transcript, false)),
        4 => Some((Origin::Transcript, true)),
        5 => Some((Origin::Sent, false)),
        _ => None,
    }
}

/// A session to be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSession {
    pub id: SessionId,
    /// The working directory of the agent.
    #[serde(with = "path_json")]
    pub directory: PathBuf,
    pub title: Option<String>,
    /// How the agent is started: JSON that the journal does not interpret.
    pub options: String,
    pub at: u64,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    pub id: SessionId,
    pub title: Option<String>,
    /// The working directory of the agent.
    pub directory: PathBuf,
    pub status: SessionStatus,
    /// How the agent is started: JSON that the journal does not interpret.
    pub options: String,
    pub created: u64,
    /// When it was last written to.
    pub active: u64,
    /// The number of its last entry.
    pub last: Seq,
    /// The ids the agent gave the session, oldest first.
    pub agent_ids: Vec<String>,
    /// How much of the agent's output is in the journal.
    pub spool: SpoolPosition,
    /// How many lines were written to the agent.
    pub writes: u64,
    /// The number of the last turn that started.
    pub turn: u64,
    /// The number of the last turn that ended.
    pub turn_ended: u64,
    /// How many numbers of turns belong to what was imported. Towpath's own turns follow.
    pub imported_turns: u64,
    /// What was agreed with the agent's process, as JSON that the journal does not interpret. Only agents
    /// over the Agent Client Protocol have it.
    pub agent_state: Option<String>,
    /// What could not be read of the session. Its status is then [`SessionStatus::Failed`], and
    /// unreadable texts are empty. It can be read, exported and deleted, but must not be driven:
    /// its options may be the ones that restrict the agent.
    pub damage: Option<String>,
}

/// A position in the output of an agent process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolPosition {
    /// The number of the process in its session.
    pub run: u64,
    /// How many bytes of its output are in the journal.
    pub offset: u64,
}

/// What a session is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// It waits for a prompt.
    #[default]
    Idle,
    /// The agent is working.
    Running,
    /// The agent waits for a person.
    Waiting,
    /// The agent has exited and can be resumed.
    Dead,
    /// The agent has exited and could not be resumed.
    Failed,
}

/// A prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptRecord {
    /// Assigned by the sender.
    pub id: Uuid,
    /// Its position in the queue: the smallest goes first.
    pub position: i64,
    pub text: String,
    /// Attachments: JSON that the journal does not interpret.
    pub content: Option<String>,
    pub delivery: Delivery,
    pub state: PromptState,
    pub by: Actor,
    /// The turn it became part of.
    pub turn: Option<u64>,
    pub created: u64,
    pub changed: u64,
}

/// A request of an agent to a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Assigned by the agent.
    pub id: String,
    pub kind: RequestKind,
    pub tool_name: String,
    pub tool_use_id: Option<String>,
    /// The input of the tool: JSON that the journal does not interpret.
    pub input: String,
    /// The rules the agent suggests to remember, as JSON.
    pub suggestions: Option<String>,
    /// The answers that the agent offers, in its own words.
    pub choices: Vec<PermissionChoice>,
    /// The sub-agent that asks; none for the main agent.
    pub agent: Option<String>,
    pub opened: u64,
    /// When it is denied if no answer came by then.
    pub expires: Option<u64>,
    /// The outcome; none while the request is open.
    pub resolution: Option<Resolution>,
}

/// The tool name of requests that a hook answers, and not a person.
const HOOK_REQUEST: &str = "hook_callback";

impl RequestRecord {
    /// A request of the agent that a hook answers: it runs before a tool, and the agent waits for it.
    /// It is stored like an unknown request, so that a version without hooks lets a person refuse it.
    pub fn of_hook(id: String, input: String, opened: u64) -> Self {
        Self {
            id,
            kind: RequestKind::Unknown,
            tool_name: HOOK_REQUEST.to_owned(),
            tool_use_id: None,
            input,
            suggestions: None,
            choices: Vec::new(),
            agent: None,
            opened,
            expires: None,
            resolution: None,
        }
    }

    /// Whether a hook answers it, and not a person.
    pub fn is_for_hook(&self) -> bool {
        self.kind == RequestKind::Unknown && self.tool_name == HOOK_REQUEST
    }
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    pub outcome: Outcome,
    pub by: Option<Actor>,
    /// The reason given with the answer.
    pub message: Option<String>,
    pub at: u64,
}

/// A permission that allows calls without asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub id: Uuid,
    /// The session it is limited to. It is deleted with the session.
    pub session: Option<SessionId>,
    /// The working directory it is limited to.
    #[serde(with = "path_json::optional")]
    pub directory: Option<PathBuf>,
    /// The tool it allows, see [`wire::consent`].
    pub tool: String,
    /// What the pattern is. Other machines of a fleet may have stored the grant without it.
    #[serde(default)]
    pub kind: RuleKind,
    /// The calls of the tool it allows; all if there is none.
    pub pattern: Option<String>,
    /// When it expires.
    pub until: Option<u64>,
    pub by: Actor,
    pub created: u64,
}

impl Grant {
    /// Whether it is about a session, or about all sessions in its directory. One that is limited to
    /// nothing was not made by any version, and allows nothing.
    pub fn applies_in(&self, session: SessionId, directory: &Path) -> bool {
        (self.session.is_some() || self.directory.is_some())
            && self.session.is_none_or(|it| it == session)
            && self.directory.as_deref().is_none_or(|it| it == directory)
    }
}

/// A change to the persistent state of a follower, such as how far it got and what it has sent.
///
/// Each follower has keys of its own and alone knows what the values mean. The state is in the same
/// file as the sessions, so it is as durable and is part of the same backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    pub key: String,
    /// The new value; the key is removed if there is none.
    pub value: Option<Vec<u8>>,
}
