//! How much of its session each chat has been sent, as the journal stores it.
//!
//! A checkpoint holds only what cannot be derived from the session's journal. Everything else about
//! a chat is folded again after a restart. Fields that had another name in earlier versions are
//! still read under it.

use std::collections::BTreeMap;

use journal::SessionId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use view::Conversation;

use crate::address::{ChatAddress, ChatKind, MessageId};

/// What is stored for a chat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatCheckpoint {
    #[serde(alias = "place")]
    pub address: ChatAddress,
    pub kind: ChatKind,
    /// The session that the chat shows.
    pub session: SessionId,
    /// How much is posted: 0 answers only, 1 also messages between tool calls, 2 also tool calls.
    pub verbosity: u8,
    /// Entries up to this one need not be folded again: they are delivered, and none of them waits
    /// for a user. Folding earlier entries as well does no harm.
    pub from: u64,
    /// Items up to this position are delivered or skipped.
    #[serde(alias = "told")]
    pub delivered: view::Position,
    /// Items up to this position were never posted here, because the chat started to show the
    /// session later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<view::Position>,
    /// The last turn whose end was posted.
    pub turn: u64,
    /// A post of several messages that is partly sent.
    #[serde(default, alias = "sending", skip_serializing_if = "Option::is_none")]
    pub post: Option<PostProgress>,
    /// The progress message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<MessageId>,
    /// Cards, by the agent's id of their request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cards: BTreeMap<String, CardState>,
    /// Prompts that an edit of their message may still change.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prompts: BTreeMap<MessageId, Uuid>,
}

/// A post of several messages that is partly sent. Its text is folded again after a restart; where
/// it is split depends only on that text and on these fields.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PostProgress {
    /// The last item of the post. The first one follows [`ChatCheckpoint::delivered`].
    pub through: view::Position,
    /// The turn whose end is part of the post.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// The verbosity when the post was started.
    #[serde(default)]
    pub verbosity: u8,
    /// The number of messages sent so far.
    pub sent: usize,
}

/// The card of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CardState {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// One line about the request, for when the request itself is gone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The document's revision when the card was sent. An older document lacks the request.
    #[serde(default)]
    pub since: u64,
    /// Answers so far to a request with several questions: question and answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<(String, String)>,
    /// The options selected so far in a multiple-choice question.
    #[serde(default, alias = "ticked", skip_serializing_if = "Vec::is_empty")]
    pub selected: Vec<usize>,
    /// The message whose reply is the user's own answer or reason.
    #[serde(default, alias = "asking", skip_serializing_if = "Option::is_none")]
    pub awaited_reply: Option<(MessageId, ReplyPurpose)>,
    /// Whether the card lists the rules that *Always* offers.
    #[serde(default, alias = "choosing", skip_serializing_if = "is_false")]
    pub choosing_rule: bool,
    /// The hash of what the user was shown in full, on the card or in messages of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disclosed: Option<Uuid>,
    /// Whether the card shows the outcome.
    #[serde(default, alias = "settled", skip_serializing_if = "is_false")]
    pub closed: bool,
    /// The outcome, for taps that come later.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub outcome: String,
}

impl ChatCheckpoint {
    /// A chat that shows a session from its beginning.
    pub fn new(address: ChatAddress, kind: ChatKind, session: SessionId) -> Self {
        Self {
            address,
            kind,
            session,
            verbosity: 1,
            from: 0,
            delivered: view::Position(0, 0),
            start: None,
            turn: 0,
            post: None,
            progress: None,
            cards: BTreeMap::new(),
            prompts: BTreeMap::new(),
        }
    }

    /// A chat that shows what happens in a session from now on, and its open requests.
    pub fn from_now(
        address: ChatAddress,
        kind: ChatKind,
        session: SessionId,
        conversation: &Conversation,
    ) -> Self {
        let ended = conversation.turns.iter().filter(|turn| turn.end.is_some());
        let start = view::Position(conversation.revision.0, u32::MAX);
        Self {
            delivered: start,
            start: Some(start),
            turn: ended.map(|turn| turn.number).max().unwrap_or(0),
            ..Self::new(address, kind, session)
        }
    }
}

/// What a user's reply to one of the bot's messages is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyPurpose {
    /// An answer to the question on the card.
    Answer,
    /// The reason of a denial.
    Reason,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

#[cfg(test)]
mod tests {
    use super::{ChatCheckpoint, ReplyPurpose};
    use crate::address::{MessageId, TopicId};

    #[test]
    fn a_checkpoint_of_an_earlier_version_is_read() {
        let old = r#"{"place":{"chat":-5,"thread":9},"kind":"group",
            "session":"00000000-0000-0000-0000-000000000001","verbosity":2,"from":7,"told":[8,1],
            "turn":3,"sending":{"through":[9,0],"turn":4,"verbosity":2,"sent":1},"progress":12,
            "cards":{"r1":{"message":11,"title":"Run ls","since":8,"ticked":[1],
            "asking":[13,"reason"],"choosing":true,"settled":true,"outcome":"done"}},
            "prompts":{"5":"00000000-0000-0000-0000-000000000002"}}"#;
        let read: ChatCheckpoint = serde_json::from_str(old).unwrap();
        assert_eq!(read.address.topic, Some(TopicId(9)));
        assert_eq!((read.delivered, read.post.unwrap().sent), (view::Position(8, 1), 1));
        let card = &read.cards["r1"];
        assert_eq!(card.awaited_reply, Some((MessageId(13), ReplyPurpose::Reason)));
        assert!(
            card.selected == [1] && card.choosing_rule && card.closed && card.disclosed.is_none()
        );
        let again = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<ChatCheckpoint>(&again).unwrap(), read);
    }
}
