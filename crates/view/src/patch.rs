//! What changed, in a form that does no harm when it comes twice or late.

use serde::{Deserialize, Serialize};

use crate::conversation::{Conversation, Head};
use crate::item::{Body, Item, ItemId, Revision};
use crate::prompt::WaitingPrompt;
use crate::request::Request;
use crate::status::Status;
use crate::todo::Todo;
use crate::turn::Turn;
use crate::usage::Usage;

/// All that changed between two revisions. It brings a document of any revision from `from` up to
/// `to`; one that is already there ignores it, one that is older has a [`Gap`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// The oldest document it fits.
    pub from: Revision,
    /// What the document is afterwards.
    pub to: Revision,
    /// The changes. Their order does not matter.
    pub patches: Vec<Patch>,
}

/// A change. Everything but [`Patch::Append`] carries the whole new value of what it changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "patch", rename_all = "snake_case")]
pub enum Patch {
    /// An item is new or not what it was. One with the same or a later `rev` is left alone.
    Item {
        /// The item, whole.
        item: Box<Item>,
    },
    /// The text of an item grew: that of a text or of thoughts, or the input of a call.
    Append {
        /// Which item.
        id: ItemId,
        /// The item's revision afterwards; one that has it or a later one is left alone.
        rev: Revision,
        /// Where the text goes, counted in UTF-16 code units as JavaScript's `length` does.
        /// Whatever stands behind that place is cut off first.
        offset: u64,
        /// The text.
        text: String,
    },
    /// An item is no more: what was being written was given up.
    Gone {
        /// Which.
        id: ItemId,
    },
    /// A turn began or changed.
    Turn {
        /// The turn, whole.
        turn: Box<Turn>,
    },
    /// The session is something else.
    Head {
        /// What it is.
        head: Box<Head>,
    },
    /// The session does something else.
    Status {
        /// What it does.
        status: Status,
    },
    /// The waiting prompts changed.
    Queue {
        /// All of them.
        queue: Vec<WaitingPrompt>,
    },
    /// The requests that wait for a person changed.
    Requests {
        /// All of them.
        requests: Vec<Request>,
    },
    /// The agent's list of what is to be done changed.
    Todos {
        /// All of it.
        todos: Vec<Todo>,
    },
    /// More was used.
    Usage {
        /// All that was used so far.
        usage: Usage,
    },
}

/// A document is too old for an update: what lies between is missing. Take a whole one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the document is of revision `{}`, the update needs `{}`", have.0, need.0)]
pub struct Gap {
    /// What the document is.
    pub have: Revision,
    /// What the update needs.
    pub need: Revision,
}

impl Conversation {
    /// Brings the document forward. An update that comes twice or late changes nothing.
    ///
    /// This is what a browser does with an update, written down once: the web UI's own version is
    /// tested against it.
    pub fn apply(&mut self, update: &Update) -> Result<(), Gap> {
        if update.to <= self.revision {
            return Ok(());
        }
        if update.from > self.revision {
            return Err(Gap { have: self.revision, need: update.from });
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
                    if let Some(grown) = item.body.growing() {
                        grown.truncate(byte_of(grown, *offset));
                        grown.push_str(text);
                    }
                }
            }
            Patch::Gone { id } => self.items.retain(|item| item.id != *id),
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
            Patch::Status { status } => self.status.clone_from(status),
            Patch::Queue { queue } => self.queue.clone_from(queue),
            Patch::Requests { requests } => self.requests.clone_from(requests),
            Patch::Todos { todos } => self.todos.clone_from(todos),
            Patch::Usage { usage } => self.usage.clone_from(usage),
        }
    }

    /// Takes in an item; its place may have changed.
    fn put(&mut self, item: &Item) {
        if let Some(at) = self.items.iter().rposition(|known| known.id == item.id) {
            if self.items[at].rev >= item.rev {
                return;
            }
            if self.items[at].place == item.place {
                self.items[at] = item.clone();
                return;
            }
            self.items.remove(at);
        } else if self.more && self.items.first().is_some_and(|first| item.place < first.place) {
            // It belongs to a part that this document does not show.
            return;
        }
        let at = self.items.partition_point(|known| known.place < item.place);
        self.items.insert(at, item.clone());
    }
}

impl Body {
    /// The text that grows while the item is open.
    pub(crate) fn grown(&self) -> Option<&str> {
        match self {
            Self::Text { text } | Self::Thinking { text, .. } => Some(text),
            Self::Call(call) => Some(&call.input),
            _ => None,
        }
    }

    /// The same, to let it grow.
    pub(crate) fn growing(&mut self) -> Option<&mut String> {
        match self {
            Self::Text { text } | Self::Thinking { text, .. } => Some(text),
            Self::Call(call) => Some(&mut call.input),
            _ => None,
        }
    }
}

/// The byte at which the character of that UTF-16 offset begins.
fn byte_of(text: &str, offset: u64) -> usize {
    let mut units = 0;
    for (at, char) in text.char_indices() {
        if units >= offset {
            return at;
        }
        units += char.len_utf16() as u64;
    }
    text.len()
}
