//! Changes of a document, in a form that can be applied twice or late without harm.

use serde::{Deserialize, Serialize};

use crate::agent_info::AgentInfo;
use crate::call::Request;
use crate::conversation::{Conversation, ConversationHead, Todo, Turn};
use crate::item::{Item, ItemId, QueuedPrompt, Revision};
use crate::status::ConversationStatus;
use crate::usage::SessionUsage;

/// All changes between two revisions.
///
/// It brings a document of any revision from `from` on to `to`. A document that is already there
/// ignores it; for an older one it is a [`RevisionGap`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// The oldest document it fits.
    pub from: Revision,
    pub to: Revision,
    /// Their order does not matter.
    pub patches: Vec<Patch>,
}

/// A change. Everything but [`Patch::Append`] carries the whole new value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "patch", rename_all = "snake_case")]
pub enum Patch {
    /// A new or changed item. It is ignored if the document has the same or a later `rev` of it.
    Item {
        item: Box<Item>,
    },
    /// The streamed text of an item grew: that of a text or of thinking, or the input of a call.
    Append {
        id: ItemId,
        /// The item's revision afterwards; ignored if the document has the same or a later one.
        rev: Revision,
        /// Where the text goes, counted in UTF-16 code units as JavaScript's `length` does. The text
        /// behind that offset is cut off first.
        offset: u64,
        text: String,
    },
    /// An item was removed, because the model's half-written message was discarded.
    Removed {
        id: ItemId,
    },
    Turn {
        turn: Box<Turn>,
    },
    Head {
        head: Box<ConversationHead>,
    },
    /// The agent described itself.
    Agent {
        agent: Box<AgentInfo>,
    },
    Status {
        status: ConversationStatus,
    },
    Queue {
        queue: Vec<QueuedPrompt>,
    },
    Requests {
        requests: Vec<Request>,
    },
    Todos {
        todos: Vec<Todo>,
    },
    Usage {
        usage: SessionUsage,
    },
}

/// The document is too old for an update. The client needs a whole new document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the document is at revision `{}`, but the update starts at `{}`", have.0, need.0)]
pub struct RevisionGap {
    pub have: Revision,
    pub need: Revision,
}

impl Conversation {
    /// Applies an update. One that comes twice or late changes nothing.
    ///
    /// This is the reference for what the web UI does with an update, which is tested against it.
    pub fn apply(&mut self, update: &Update) -> Result<(), RevisionGap> {
        if update.to <= self.revision {
            return Ok(());
        }
        if update.from > self.revision {
            return Err(RevisionGap { have: self.revision, need: update.from });
        }
        for patch in &update.patches {
            self.apply_patch(patch);
        }
        self.revision = update.to;
        Ok(())
    }

    fn apply_patch(&mut self, patch: &Patch) {
        match patch {
            Patch::Item { item } => self.put(item),
            Patch::Append { id, rev, offset, text } => {
                if let Some(item) = self.items.iter_mut().rfind(|item| item.id == *id)
                    && item.rev < *rev
                {
                    item.rev = *rev;
                    if let Some(streamed) = item.body.streamed_text_mut() {
                        streamed.truncate(byte_offset(streamed, *offset));
                        streamed.push_str(text);
                    }
                }
            }
            Patch::Removed { id } => self.items.retain(|item| item.id != *id),
            Patch::Turn { turn } => {
                match self.turns.iter_mut().rfind(|known| known.number == turn.number) {
                    Some(known) if known.rev < turn.rev => known.clone_from(turn),
                    Some(_) => {}
                    None => {
                        let at = self.turns.partition_point(|known| known.number < turn.number);
                        self.turns.insert(at, (**turn).clone());
                    }
                }
            }
            Patch::Head { head } => self.head.clone_from(head),
            Patch::Agent { agent } => self.agent = Some((**agent).clone()),
            Patch::Status { status } => self.status.clone_from(status),
            Patch::Queue { queue } => self.queue.clone_from(queue),
            Patch::Requests { requests } => self.requests.clone_from(requests),
            Patch::Todos { todos } => self.todos.clone_from(todos),
            Patch::Usage { usage } => self.usage.clone_from(usage),
        }
    }

    /// Inserts or replaces an item; its position may have changed.
    fn put(&mut self, item: &Item) {
        if let Some(at) = self.items.iter().rposition(|known| known.id == item.id) {
            if self.items[at].rev >= item.rev {
                return;
            }
            if self.items[at].position == item.position {
                self.items[at] = item.clone();
                return;
            }
            self.items.remove(at);
        } else if self.more
            && self.items.first().is_some_and(|first| item.position < first.position)
        {
            // It belongs to a part that this document does not have.
            return;
        }
        let at = self.items.partition_point(|known| known.position < item.position);
        self.items.insert(at, item.clone());
    }
}

/// The byte offset of a UTF-16 offset.
fn byte_offset(text: &str, offset: u64) -> usize {
    let mut units = 0;
    for (at, char) in text.char_indices() {
        if units >= offset {
            return at;
        }
        units += char.len_utf16() as u64;
    }
    text.len()
}
