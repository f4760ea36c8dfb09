//! Items: the units of a conversation, such as a prompt, a paragraph of an answer or a tool call.
//!
//! An item's id is made of the protocol's own ids, never of its text. It is therefore the same after
//! a restart, after the deltas were dropped, and when old entries are folded again.

use serde::{Deserialize, Serialize};
use wire::note::{Actor, Delivery, ExitCause, PromptState};

use crate::call::Call;

/// One unit of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Stable for as long as the session exists.
    pub id: ItemId,
    /// The turn it belongs to; 0 for what came before the first.
    pub turn: u64,
    /// The call whose sub-agent produced it; `None` for the main agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ItemId>,
    /// Items are displayed in the order of their positions.
    pub position: Position,
    /// When it last changed.
    pub rev: Revision,
    /// The entry that created it. The entries from `first` to `rev` are its raw JSON.
    pub first: u64,
    /// In milliseconds since 1970, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// It is still being written: its text may change, and it stays behind all finished items.
    #[serde(default, skip_serializing_if = "is_false")]
    pub open: bool,
    /// Its long texts were dropped to save memory; an older page has them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub trimmed: bool,
    pub body: ItemBody,
}

/// An opaque id, made of the protocol's own ids.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ItemId(String);

/// The position of an item: the number of its entry, then its rank within that entry.
///
/// Serialized as an array of two numbers, both exact in JavaScript.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position(pub u64, pub u32);

/// The state of the document after the entry with this number. Entries are numbered from 1, so 0 is
/// the empty document.
///
/// Revisions are the journal's sequence numbers, so they stay valid after a restart.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Revision(pub u64);

/// What an item holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ItemBody {
    Prompt(PromptItem),
    /// The agent's answer, in Markdown.
    Text {
        text: String,
    },
    /// The agent's thinking, in Markdown. Often withheld; then the text is empty.
    Thinking {
        text: String,
        /// The agent's estimate of its length.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<u64>,
    },
    /// A tool call. Sub-agents, questions and plans are tool calls too.
    Call(Box<Call>),
    /// One of the user's hooks ran.
    Hook(HookRun),
    /// The history so far was summarised.
    Compaction(CompactionItem),
    /// An API request failed and is repeated.
    Retry(RetryItem),
    /// The agent could not continue.
    Failure {
        /// The kind of error, as the protocol spells it: `rate_limit`, `server_error`, ….
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        text: String,
    },
    /// The user interrupted the agent here.
    Interruption,
    /// A message of the CLI or of Towpath to the user.
    Notice(NoticeItem),
    /// The agent process started or stopped.
    Agent(AgentProcessEvent),
    /// The conversation was cleared: the agent remembers nothing before this.
    Reset,
    /// An image or a document.
    Media {
        /// `image`, `document`, or what else the protocol calls it.
        name: String,
    },
    /// A line that has no other form here.
    Raw(RawItem),
}

/// A message to the agent that is part of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptItem {
    pub text: String,
    /// How many images came with it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub images: usize,
    /// Always accepted or done in a session that Towpath did not drive.
    pub state: PromptState,
    pub author: PromptAuthor,
    /// Who sent it, and with which client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Actor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptAuthor {
    /// A person, or a program on their behalf.
    User,
    /// The CLI, which adds the texts of skills, hooks and notifications as user messages.
    Cli,
    /// The main agent, to its sub-agent.
    Agent,
}

/// A prompt that waits to be sent to the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueuedPrompt {
    /// Chosen by the sender.
    pub id: String,
    pub text: String,
    /// How many images go with it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub images: usize,
    pub delivery: Delivery,
    /// Queued, or already written to the agent.
    pub state: PromptState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Actor>,
    /// When it was queued, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
}

/// A run of a hook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HookRun {
    pub name: String,
    /// The event it is attached to: `PreToolUse`, `SessionStart`, ….
    pub event: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// `success`, `error`, `cancelled`; `None` while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// A summary that replaced the history before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompactionItem {
    /// `manual` or `auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// Tokens of context before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Tokens of context after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
}

/// A failed API request that is repeated. Consecutive attempts are one item, which shows the last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RetryItem {
    /// The attempt that failed, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u64>,
    /// Milliseconds until the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// The HTTP status, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u64>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// A message to the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoticeItem {
    pub level: NoticeLevel,
    /// May be Markdown, and may contain ANSI colours.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeLevel {
    Info,
    Warning,
    Error,
}

/// A start or stop of the agent process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum AgentProcessEvent {
    Started {
        /// Whether it resumed the conversation of an earlier process.
        resumed: bool,
    },
    Stopped {
        cause: ExitCause,
    },
}

/// A line that has no other form here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RawItem {
    /// Its `type/subtype`; empty if it is not an event.
    pub name: String,
    pub reason: RawReason,
    /// The line, or the block of it. Cut at 16 KiB; the whole line is the entry `first` of the item.
    pub text: String,
}

/// Why a line is shown raw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RawReason {
    /// Its kind is not known.
    Unknown,
    /// Its kind is known, but its shape is unexpected.
    Mismatch { detail: String },
    /// It is not an event.
    Noise,
}

impl ItemId {
    pub(crate) fn block(message: &str, ordinal: u32) -> Self {
        Self(format!("m:{message}.{ordinal}"))
    }

    /// A message that has no rank.
    pub(crate) fn message(name: &str) -> Self {
        Self(format!("m:{name}"))
    }

    /// Whether it is made of a position, because the protocol has no id for it.
    pub(crate) fn is_line(&self) -> bool {
        self.0.starts_with("l:")
    }

    pub fn call(tool_use: &str) -> Self {
        Self(format!("c:{tool_use}"))
    }

    pub fn prompt(uuid: &str) -> Self {
        Self(format!("p:{uuid}"))
    }

    pub(crate) fn hook(run: &str) -> Self {
        Self(format!("h:{run}"))
    }

    pub(crate) fn line(position: Position) -> Self {
        Self(format!("l:{}.{}", position.0, position.1))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for ItemId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Position {
    /// The entry number of open items, which puts them behind all others: the largest integer that
    /// is exact in JavaScript.
    pub const OPEN: u64 = (1 << 53) - 1;
}

impl ItemBody {
    /// The text that grows while the item is open.
    pub(crate) fn streamed_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } | Self::Thinking { text, .. } => Some(text),
            Self::Call(call) => Some(&call.input),
            _ => None,
        }
    }

    pub(crate) fn streamed_text_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Text { text } | Self::Thinking { text, .. } => Some(text),
            Self::Call(call) => Some(&mut call.input),
            _ => None,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !*flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}
