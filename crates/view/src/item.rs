//! Items: the smallest things a person sees as one.
//!
//! An item's id comes from what the protocol itself calls the thing, never from its text, so it is
//! the same after a restart, after the deltas were dropped, and in a page folded years later.

use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::prompt::Prompt;

/// Something a person sees as one thing: a prompt, a paragraph of answer, a call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// What it is called for as long as the session exists.
    pub id: ItemId,
    /// The turn it belongs to; 0 for what came before the first.
    pub turn: u64,
    /// The call whose sub-agent said or did it; nothing for the main agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ItemId>,
    /// Where it stands. Items are shown in the order of their places.
    pub place: Place,
    /// When it last changed.
    pub rev: Revision,
    /// The entry it was first told by. Together with `rev`, the lines to show when somebody asks
    /// for the raw JSON of it.
    pub first: u64,
    /// When it came, in milliseconds since 1970, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// It is still being written: what it says so far may yet change, and it stands at the end.
    #[serde(default, skip_serializing_if = "is_false")]
    pub open: bool,
    /// Its long parts were let go to save memory; an older page has them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shed: bool,
    /// What it says.
    pub body: Body,
}

/// What an item is called. Opaque; made of the protocol's own ids.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ItemId(String);

/// Where an item stands among all others: the number of the entry it came with, then its rank there.
///
/// Written as an array of two numbers, both exact in JavaScript.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place(pub u64, pub u32);

/// A state of the document: the one after the entry of that number. 0 is before all entries, so
/// entries are numbered from 1 on.
///
/// Revisions are the journal's own numbers, so they mean the same after a restart.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Revision(pub u64);

/// What an item says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Body {
    /// Somebody's words to the agent.
    Prompt(Prompt),
    /// The agent's words, in Markdown.
    Text {
        /// The words.
        text: String,
    },
    /// The agent's thoughts, in Markdown; often withheld, then the text is empty.
    Thinking {
        /// The thoughts.
        text: String,
        /// How much was thought, estimated, where the agent says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
    },
    /// A tool is used. Also how sub-agents, questions and plans come about.
    Call(Box<Call>),
    /// A hook of the user's ran.
    Hook(HookRun),
    /// The history before was summarised.
    Compaction(Compaction),
    /// The API failed and was asked again.
    Retry(Retry),
    /// The agent could not go on; the words it has for it.
    Failure {
        /// What sort of error, as the protocol spells it: `rate_limit`, `server_error`, ….
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// What it says to a person.
        text: String,
    },
    /// Somebody stopped the agent here.
    Interruption,
    /// Something the agent's program or Towpath wants a person to know.
    Notice(Notice),
    /// The agent process came or went.
    Agent(AgentNews),
    /// The conversation was begun anew: nothing before it is remembered.
    Reset,
    /// A picture or a document in the conversation.
    Media {
        /// `image`, `document`, or what else the protocol calls it.
        name: String,
    },
    /// Something that has no other form here, shown as it is.
    Raw(Raw),
}

/// A run of a hook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HookRun {
    /// The hook.
    pub name: String,
    /// What it hooks into: `PreToolUse`, `SessionStart`, ….
    pub event: String,
    /// What it printed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// What it exited with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// `success`, `error`, `cancelled`; nothing while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// The history before was summarised.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Compaction {
    /// `manual` or `auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// Tokens of context before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Tokens of context after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// What the agent goes on with.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
}

/// The API failed and was asked again. Attempts in a row are one item, which tells of the last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// Which attempt failed, from 1 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u64>,
    /// How many there will be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// Milliseconds until the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// The HTTP status, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u64>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// Something a person should know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// How much it matters.
    pub level: Level,
    /// What it says. May be Markdown, and may hold ANSI colours.
    pub text: String,
}

/// How much a notice matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Good to know.
    Info,
    /// Something is not as it should be.
    Warning,
    /// Something went wrong.
    Error,
}

/// The agent process came or went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "news", rename_all = "snake_case")]
pub enum AgentNews {
    /// It was started.
    Started {
        /// Whether it took up the conversation of another process.
        resumed: bool,
    },
    /// It is gone.
    Gone {
        /// Why.
        cause: wire::note::Cause,
    },
}

/// A line that has no other form here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Raw {
    /// What it says it is: `type/subtype`; empty for what is no event.
    pub name: String,
    /// Why it is shown raw.
    pub reason: RawReason,
    /// The line, or the block of it; cut at 16 KiB, the whole is in the entry `first` of the item.
    pub text: String,
}

/// Why something is shown raw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum RawReason {
    /// Nobody here has met its kind.
    Unknown,
    /// Its kind is known, its shape is not.
    Mismatch {
        /// Where and how it differs.
        reason: String,
    },
    /// It is no event at all.
    Noise,
}

impl ItemId {
    pub(crate) fn block(message: &str, ordinal: u32) -> Self {
        Self(format!("m:{message}.{ordinal}"))
    }

    /// The call with that id.
    pub fn call(tool_use: &str) -> Self {
        Self(format!("c:{tool_use}"))
    }

    /// The prompt with that id.
    pub fn prompt(uuid: &str) -> Self {
        Self(format!("p:{uuid}"))
    }

    pub(crate) fn hook(run: &str) -> Self {
        Self(format!("h:{run}"))
    }

    pub(crate) fn line(place: Place) -> Self {
        Self(format!("l:{}.{}", place.0, place.1))
    }

    /// It as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for ItemId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Place {
    /// The largest whole number that JavaScript holds exactly: where items stand that are still
    /// being written, which is behind all others.
    pub const OPEN: u64 = (1 << 53) - 1;
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !*flag
}
