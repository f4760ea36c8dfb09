//! What the bridge remembers from one life to the next.
//!
//! Kept in a drawer of the journal: the updates that were taken and not yet carried out, and for
//! every place how far its people have been told. Everything else is folded again.

use std::collections::BTreeMap;

use journal::SessionId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use view::Conversation;

use crate::place::{Kind, MessageId, Place};

/// What is remembered of a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlaceMemory {
    /// The place.
    pub place: Place,
    /// What sort of chat it is.
    pub kind: Kind,
    /// The session it shows.
    pub session: SessionId,
    /// How much is told: 0 answers, 1 what is said on the way too, 2 tools too.
    pub verbosity: u8,
    /// Entries up to this one need not be folded again: all that they tell is told, and nothing of
    /// it waits for anybody. Folding more does no harm.
    pub from: u64,
    /// Items up to this place are told, or are not for telling.
    pub told: view::Place,
    /// The turn whose end was told last.
    pub turn: u64,
    /// A text of several messages, some of which are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sending: Option<Sending>,
    /// The message that shows what is going on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<MessageId>,
    /// Requests that are shown, by the agent's id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cards: BTreeMap<String, CardMemory>,
    /// Prompts that may still be reworded, by the message they came with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prompts: BTreeMap<MessageId, Uuid>,
}

/// A text of several messages, some of which are sent. What it says is folded again; how it is cut
/// depends on nothing but that and what is kept here.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sending {
    /// The last item that is in it; the first is the one after [`PlaceMemory::told`].
    pub through: view::Place,
    /// The turn whose end it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// How much was to be told when it was begun.
    #[serde(default)]
    pub verbosity: u8,
    /// How many messages are sent.
    pub sent: usize,
}

/// A request that is shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CardMemory {
    /// The message that shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// What it is about, in a line, for when the request itself is gone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// What the document was when it was sent: an older one does not know of the request.
    #[serde(default)]
    pub since: u64,
    /// Answers so far, where several questions are asked: by the question's text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<(String, String)>,
    /// Choices ticked so far in a question that takes several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ticked: Vec<usize>,
    /// The message that asks for words: an answer of one's own, or why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asking: Option<(MessageId, Asking)>,
    /// Whether it shows what would be allowed for good.
    #[serde(default, skip_serializing_if = "is_false")]
    pub choosing: bool,
    /// Whether its outcome is shown.
    #[serde(default, skip_serializing_if = "is_false")]
    pub settled: bool,
    /// What came of it, for those who tap later.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub outcome: String,
}

impl PlaceMemory {
    /// A place that shows a session from its beginning.
    pub fn new(place: Place, kind: Kind, session: SessionId) -> Self {
        Self {
            place,
            kind,
            session,
            verbosity: 1,
            from: 0,
            told: view::Place(0, 0),
            turn: 0,
            sending: None,
            progress: None,
            cards: BTreeMap::new(),
            prompts: BTreeMap::new(),
        }
    }

    /// A place that shows a session from here on: what was said before is not told again, but who
    /// waits for a person does so here too.
    pub fn from_here(
        place: Place,
        kind: Kind,
        session: SessionId,
        conversation: &Conversation,
    ) -> Self {
        let ended = conversation.turns.iter().filter(|turn| turn.end.is_some());
        Self {
            told: view::Place(conversation.revision.0, u32::MAX),
            turn: ended.map(|turn| turn.number).max().unwrap_or(0),
            ..Self::new(place, kind, session)
        }
    }
}

/// What words are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asking {
    /// An answer to the question shown.
    Answer,
    /// Why not.
    Reason,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}
