//! What a person sees: the lines of a session folded into a conversation, and its renderings.
//!
//! A [`Fold`] is shown the entries of a session one by one, in order, and keeps a document of
//! [turns](Turn) and [items](Item). It can be asked at any time for the newest part of it (a
//! [`Conversation`]), for what changed since a [`Revision`] (an [`Update`]), or for older parts (a
//! [`Page`]). Every follower shows what the fold says and merges nothing itself, which is why the
//! browser, Telegram, the terminal and the export cannot disagree.
//!
//! ```
//! use towpath_view::{Body, Fold, Patch};
//!
//! let mut fold = Fold::new();
//! fold.push_line(1, br#"{"type":"system","subtype":"init","session_id":"s1"}"#);
//! let seen = fold.conversation(200);
//!
//! fold.push_line(2, br#"{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"Hi"}]}}"#);
//! let update = fold.patches(seen.revision).expect("it was not long ago");
//! assert!(update.patches.iter().any(|patch| matches!(patch,
//!     Patch::Item { item } if matches!(&item.body, Body::Text { text } if text == "Hi"))));
//! ```
//!
//! Pure: no I/O, no clock, no globals. Times come with the entries.
//!
//! What the document is made of does not depend on how the session was recorded. A live journal
//! with notes and deltas, the same journal after its deltas were dropped, the bare output of
//! `claude -p`, a file under `~/.claude/projects` and the streams of old versions and other
//! dialects give documents of one shape, with the same ids for the same things.

pub mod ansi;
mod call;
mod card;
mod conversation;
pub mod diff;
mod fold;
pub mod highlight;
pub mod html;
mod item;
pub mod markdown;
mod patch;
pub mod phrase;
mod prompt;
mod reindent;
mod remark;
mod request;
mod status;
mod subject;
pub mod telegram;
pub mod terminal;
mod timestamp;
mod todo;
mod told;
mod turn;
mod usage;
mod verb;

pub use call::{Call, CallState, Outcome, Permission, Picture, Progress, SubAgent, SubAgentState};
pub use card::{Card, shortened};
pub use conversation::{Conversation, Head};
pub use fold::{DEFAULT_BUDGET, Entry, Fold, Heard, Older, Page, Source, Unreadable};
pub use item::{
    AgentNews, Body, Compaction, HookRun, Item, ItemId, Level, Notice, Place, Raw, RawReason,
    Retry, Revision,
};
pub use patch::{Gap, Patch, Update};
pub use prompt::{Prompt, Speaker, WaitingPrompt};
pub use remark::Remark;
pub use request::Request;
pub use status::{Gone, Phase, Status};
pub use subject::{Change, Choice, Question, Subject};
pub use todo::{Todo, TodoState};
pub use turn::{FileTouched, Turn, TurnEnd};
pub use usage::{PlanLimit, Tokens, Usage};
pub use verb::Verb;
