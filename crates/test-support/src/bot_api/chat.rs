//! A chat: who is in it, what was said, its topics and drafts.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::ids::{ChatId, MessageId, ThreadId, UserId};
use super::message::Message;
use super::rich::Rich;

/// A chat with the bot in it.
#[derive(Debug)]
pub(super) struct Chat {
    pub(super) id: ChatId,
    pub(super) kind: Kind,
    pub(super) messages: BTreeMap<MessageId, Message>,
    pub(super) topics: BTreeMap<ThreadId, Topic>,
    pub(super) drafts: BTreeMap<(Option<ThreadId>, i64), Sketch>,
    pub(super) pinned: Vec<MessageId>,
    /// The bot was blocked, or thrown out.
    pub(super) shut: bool,
    /// The last number that was given to a message.
    last: i64,
}

/// What kind of chat it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// With one person, with topics or without.
    Private { topics: bool },
    /// With several, in topics or without.
    Group { title: String, members: Vec<UserId>, forum: bool },
}

/// A topic of a forum.
#[derive(Clone, Debug)]
pub(super) struct Topic {
    pub(super) name: String,
    pub(super) closed: bool,
}

/// A draft on the screen.
#[derive(Clone, Debug)]
pub(super) struct Sketch {
    pub(super) rich: Rich,
    /// When it was last changed.
    pub(super) at: Duration,
}

impl Chat {
    pub(super) fn new(id: ChatId, kind: Kind) -> Self {
        // The first message of a group is the note that it was made. It keeps topics, which are
        // named after messages, from being called 1 like the general one.
        let last = i64::from(matches!(kind, Kind::Group { .. }));
        Self {
            id,
            kind,
            messages: BTreeMap::new(),
            topics: BTreeMap::new(),
            drafts: BTreeMap::new(),
            pinned: Vec::new(),
            shut: false,
            last,
        }
    }

    pub(super) fn is_private(&self) -> bool {
        matches!(self.kind, Kind::Private { .. })
    }

    pub(super) fn has_topics(&self) -> bool {
        matches!(self.kind, Kind::Private { topics: true } | Kind::Group { forum: true, .. })
    }

    pub(super) fn next_id(&mut self) -> MessageId {
        self.last += 1;
        MessageId(self.last)
    }

    /// A message that is there to be seen.
    pub(super) fn message(&self, id: MessageId) -> Option<&Message> {
        self.messages.get(&id).filter(|it| !it.deleted)
    }

    pub(super) fn message_mut(&mut self, id: MessageId) -> Option<&mut Message> {
        self.messages.get_mut(&id).filter(|it| !it.deleted)
    }

    /// Takes a topic away with everything in it.
    pub(super) fn delete_topic(&mut self, thread: ThreadId) -> bool {
        let there = self.topics.remove(&thread).is_some();
        if there {
            self.drafts.retain(|(place, _), _| *place != Some(thread));
            for message in self.messages.values_mut().filter(|it| it.thread == Some(thread)) {
                message.deleted = true;
            }
        }
        there
    }

    /// The chat as a message names it.
    pub(super) fn json(&self, first_name: &str, username: Option<&str>) -> Value {
        match &self.kind {
            Kind::Private { .. } => {
                let mut chat =
                    json!({"id": self.id.0, "first_name": first_name, "type": "private"});
                if let Some(username) = username {
                    chat["username"] = username.into();
                }
                chat
            }
            Kind::Group { title, forum, .. } => {
                let mut chat = json!({"id": self.id.0, "title": title, "type": "supergroup"});
                if *forum {
                    chat["is_forum"] = true.into();
                }
                chat
            }
        }
    }
}
