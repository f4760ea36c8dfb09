//! The watcher's state for a session: how far it has come, and its last log lines.
//!
//! The watcher, which acts on changed files, is another part of the server. The gateway only reads
//! this follower state from the journal, to show it.

use journal::{Journal, SessionId};
use serde::{Deserialize, Serialize};
use wire::note::WatchConfig;

/// The follower state that holds a [`WatchState`] for each session, by session id.
pub const WATCH_STATE: &str = "watch";

/// How far the watcher has come with a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchState {
    /// When the session was created, in milliseconds since 1970: its id may be used again.
    pub created: u64,
    /// The last entry that was processed.
    pub after: u64,
    /// The watch configuration at that entry.
    #[serde(alias = "wish", skip_serializing_if = "Option::is_none")]
    pub config: Option<Box<WatchConfig>>,
    /// Earlier entries that must be read again to know what is in progress: calls without a result,
    /// files that wait for the end of the turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recall: Vec<u64>,
    /// Since when shell commands may have changed files that were not scanned for yet, in
    /// milliseconds since 1970.
    pub since: u64,
    /// The last log lines, oldest first.
    #[serde(alias = "said", skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<WatchLogLine>,
}

/// Something the watcher did, or that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchLogLine {
    /// In milliseconds since 1970.
    pub at: u64,
    /// Whether it is an error.
    #[serde(alias = "wrong")]
    pub error: bool,
    pub text: String,
}

impl WatchState {
    /// The state of a session; `None` if the watcher has not acted on it yet.
    pub(crate) async fn load(
        journal: &Journal,
        session: SessionId,
    ) -> Result<Option<Self>, journal::Error> {
        let name = session.to_string();
        let stored = journal.read_state(WATCH_STATE).await?.into_iter().find(|(it, _)| *it == name);
        Ok(stored.and_then(|(_, value)| serde_json::from_slice(&value).ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::WatchState;

    #[test]
    fn the_state_of_an_earlier_version_is_read() {
        let text = r#"{"created":1,"after":2,"wish":{},"said":[{"at":3,"wrong":true,"text":"x"}]}"#;
        let state: WatchState = serde_json::from_str(text).unwrap();
        assert!(state.config.is_some() && state.log[0].error);
    }
}
