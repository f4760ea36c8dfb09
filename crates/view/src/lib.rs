//! Folds the lines of a session into a conversation, and renders it for people.
//!
//! A [`Fold`] takes the entries of a session one by one, in order, and maintains a document of
//! [turns](Turn) and [items](Item). At any time it gives the newest part of the document (a
//! [`Conversation`]), the changes since a [`Revision`] (an [`Update`]), or older parts
//! ([`OlderItems`]). Clients display what the fold says and merge nothing themselves, so the browser,
//! Telegram, the terminal and the HTML export always agree.
//!
//! ```
//! use towpath_view::{Fold, ItemBody, Patch};
//!
//! let mut fold = Fold::new();
//! fold.push_line(1, br#"{"type":"system","subtype":"init","session_id":"s1"}"#);
//! let seen = fold.conversation(200);
//!
//! fold.push_line(2, br#"{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"Hi"}]}}"#);
//! let update = fold.patches(seen.revision).expect("the revision is recent");
//! assert!(update.patches.iter().any(|patch| matches!(patch,
//!     Patch::Item { item } if matches!(&item.body, ItemBody::Text { text } if text == "Hi"))));
//! ```
//!
//! The crate is pure: no I/O, no clock, no globals. Times come with the entries.
//!
//! The document does not depend on how the session was recorded. A live journal with notes and
//! deltas, the same journal after its deltas were dropped, the output of `claude -p`, a file under
//! `~/.claude/projects` and the streams of old versions and other dialects all give documents of the
//! same shape, with the same ids for the same things.

mod agent_info;
mod agent_menu;
pub mod ansi;
mod call;
mod card;
mod conversation;
pub mod diff;
mod document;
mod fold;
pub mod handover;
pub mod highlight;
pub mod html;
mod item;
pub mod markdown;
mod patch;
mod status;
pub mod telegram;
pub mod terminal;
mod tool;
mod tool_text;
mod usage;
pub mod wording;

pub use agent_info::{AgentFact, AgentInfo, BoundedList, McpServerStatus};
pub use agent_menu::{AgentMenu, MenuMatch, MenuValue};
pub use call::{
    Call, CallPermission, CallProgress, CallResult, CallState, Request, ResultImage, SubAgent,
    SubAgentState,
};
pub use card::{Card, relative_path};
pub use conversation::{Conversation, ConversationHead, FileEdits, Todo, TodoState, Turn, TurnEnd};
pub use document::{HiddenLine, ViewDocument};
pub use fold::{
    DEFAULT_BUDGET, Fold, HistoryPage, OlderItems, OutlinePrompt, RestoreError, Visibility,
};
pub use item::{
    AgentProcessEvent, CompactionItem, HookRun, Item, ItemBody, ItemId, NoticeItem, NoticeLevel,
    Position, PromptAuthor, PromptItem, QueuedPrompt, RawItem, RawReason, RetryItem, Revision,
};
pub use patch::{Patch, RevisionGap, Update};
pub use status::{ConversationStatus, SessionPhase, SignInNeed};
pub use tool::{Question, QuestionOption, Replacement, ToolAction, ToolInput};
pub use usage::{PlanLimit, SessionUsage, TokenCounts};
pub use wording::SystemMessage;
