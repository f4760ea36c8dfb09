//! What the model answers to one request.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use super::Names;

/// A reply of the Messages API.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The blocks, in order; none where the request fails outright.
    pub blocks: Vec<Block>,
    /// The stop reason, where it is not the obvious one.
    pub stop: Option<String>,
    /// Token counts that differ from the usual ones.
    pub usage: Option<Map<String, Value>>,
    /// Only for a request whose newest message holds these words.
    pub only_for: Option<String>,
    /// Whether a reply for certain words is used any number of times.
    pub always: bool,
    /// Where it stops until it is let go.
    pub hold: Option<Hold>,
    /// Time between deltas.
    pub pace: Duration,
    /// What goes wrong.
    pub fault: Option<Fault>,
    /// A recorded reply to give instead, byte for byte and at its own pace.
    pub replay: Option<PathBuf>,
}

impl Reply {
    /// The reply with `$name` filled in wherever it stands in a call or a block.
    #[must_use]
    pub fn filled(&self, names: &Names) -> Self {
        let mut reply = self.clone();
        for block in &mut reply.blocks {
            match block {
                Block::Tool { input: value, .. } | Block::Raw(value) => {
                    *value = names.fill_value(value);
                }
                Block::Text(_) | Block::Thinking(_) => {}
            }
        }
        reply
    }

    /// Whether every call has its id, so that the reply is the same each time it is given.
    pub fn names_its_calls(&self) -> bool {
        !self.blocks.iter().any(|block| matches!(block, Block::Tool { id: None, .. }))
    }
}

/// A content block to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Words.
    Text(String),
    /// Thoughts.
    Thinking(String),
    /// A call.
    Tool {
        /// The tool.
        name: String,
        /// What it is given.
        input: Value,
        /// Its id, where it matters.
        id: Option<String>,
    },
    /// A block as it stands.
    Raw(Value),
}

/// A place in a reply where it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// What the step that lets it go calls it.
    pub name: String,
    /// After so many deltas; before the first byte where nothing is said.
    pub after: Option<usize>,
}

/// What goes wrong with a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// An HTTP error instead of a reply.
    Status {
        /// The status.
        status: u16,
        /// The type of the error: `overloaded_error`.
        kind: String,
        /// What it says.
        message: String,
        /// Further headers.
        headers: Vec<(String, String)>,
    },
    /// Something in the middle.
    After {
        /// After so many deltas.
        deltas: usize,
        /// What.
        trouble: Trouble,
    },
}

/// What goes wrong in the middle of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// An `error` event.
    SseError {
        /// The type of the error.
        kind: String,
        /// What it says.
        message: String,
    },
    /// The connection breaks.
    Disconnect,
    /// The stream ends politely, but too early.
    Truncate,
    /// Nothing more comes.
    Stall,
    /// Something comes that is no event.
    Garbage,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Block, Names, Reply};

    #[test]
    fn names_are_filled_in_where_a_call_uses_them() {
        let input = json!({"file_path": "$cwd/a", "more": [{"in": "$cwdx $home"}], "n": 1});
        let call = |input| Block::Tool { name: "Read".to_owned(), input, id: None };
        let blocks = vec![Block::Text("costs $home".to_owned()), call(input)];
        let mut names = Names::default();
        for (name, text) in [("cwd", "/w"), ("cwdx", "/x"), ("home", "/h")] {
            names.set(name, text);
        }
        let filled = Reply { blocks, ..Reply::default() }.filled(&names);
        let input = json!({"file_path": "/w/a", "more": [{"in": "/x /h"}], "n": 1});
        assert_eq!(filled.blocks, [Block::Text("costs $home".to_owned()), call(input)]);
    }
}
