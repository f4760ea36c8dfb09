//! What whoever acts on a session's changes remembers of it, and what it has to say.
//!
//! Acting is not the gateway's: another part of the server follows the journal and acts. The two
//! share nothing but this drawer of the journal, which outlives both.

use journal::{Journal, SessionId};
use serde::{Deserialize, Serialize};
use wire::note::WatchWish;

/// The drawer; in it a [`Watching`] for each session, by its id.
pub const DRAWER: &str = "watch";

/// How far the acting on a session's changes has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Watching {
    /// When the session was created, in milliseconds since 1970: another may get its id.
    pub created: u64,
    /// The last entry that is done with.
    pub after: u64,
    /// What is wished for there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wish: Option<Box<WatchWish>>,
    /// Entries up to there that must be heard again to know what is under way: calls without a
    /// result, files that wait for the end of the turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recall: Vec<u64>,
    /// Since when the shell may have changed files that nobody has looked for, in milliseconds since
    /// 1970.
    pub since: u64,
    /// What was said last, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<Said>,
}

/// Something that was done, or went wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// Whether it went wrong.
    pub wrong: bool,
    /// In a line.
    pub text: String,
}

impl Watching {
    /// What is remembered of a session; nothing where nobody acted on it yet.
    pub(crate) async fn of(
        journal: &Journal,
        session: SessionId,
    ) -> Result<Option<Self>, journal::Error> {
        let name = session.to_string();
        let kept = journal.kept(DRAWER).await?.into_iter().find(|(it, _)| *it == name);
        Ok(kept.and_then(|(_, value)| serde_json::from_slice(&value).ok()))
    }
}
