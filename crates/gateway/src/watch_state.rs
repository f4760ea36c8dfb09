//! The watcher's state for a session: how far it has come, and its last log lines.
//!
//! The watcher, which acts on changed files, is another part of the server. The gateway only reads
//! this follower state from the journal, to show it.

use journal::{Journal, SessionId};
use serde::{Deserialize, Serialize};
use wire::note::WatchChoice;

/// The follower state that holds a [`WatchState`] for each session, by session id, and its log, by
/// [`log_key`].
pub const WATCH_STATE: &str = "watch";

/// The key of the log of a session.
pub fn log_key(session: SessionId) -> String {
    format!("log:{session}")
}

/// How far the watcher has come with a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchState {
    /// When the session was created, in milliseconds since 1970: its id may be used again.
    pub created: u64,
    /// The last entry that was processed.
    pub after: u64,
    /// The watch configuration at that entry.
    #[serde(alias = "wish", skip_serializing_if = "WatchChoice::is_inherit")]
    pub config: WatchChoice,
    /// Earlier entries that must be read again to know what is in progress: calls without a result,
    /// files that wait for the end of the turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recall: Vec<u64>,
    /// Since when shell commands may have changed files that were not scanned for yet, in
    /// milliseconds since 1970.
    pub since: u64,
    /// The log of earlier versions, which stored it here.
    #[serde(alias = "said", skip_serializing)]
    pub log: Vec<WatchLogLine>,
}

/// Something the watcher did, or that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchLogLine {
    /// In milliseconds since 1970.
    pub at: u64,
    /// Whether it is an error.
    #[serde(alias = "wrong", default, skip_serializing_if = "std::ops::Not::not")]
    pub error: bool,
    #[serde(default)]
    pub kind: WatchLogKind,
    pub text: String,
    /// The file it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The id of a commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// What a log line is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchLogKind {
    Commit,
    #[default]
    Sync,
    Hook,
}

impl WatchState {
    /// The state of a session, if the watcher has acted on it, and its log, oldest line first.
    pub(crate) async fn load(
        journal: &Journal,
        session: SessionId,
    ) -> Result<(Option<Self>, Vec<WatchLogLine>), journal::Error> {
        let (name, log) = (session.to_string(), log_key(session));
        let stored = journal.read_state(WATCH_STATE).await?;
        let value = |key: &str| stored.iter().find(|(it, _)| it == key).map(|(_, value)| value);
        let state = value(&name).and_then(|value| serde_json::from_slice::<Self>(value).ok());
        let log = value(&log).and_then(|value| serde_json::from_slice(value).ok());
        let earlier = || state.as_ref().map(|state| state.log.clone());
        let log = log.or_else(earlier).unwrap_or_default();
        Ok((state, log))
    }
}

#[cfg(test)]
mod tests {
    use wire::note::WatchChoice;

    use super::WatchState;

    #[test]
    fn the_state_of_an_earlier_version_is_read() {
        let text = r#"{"created":1,"after":2,"wish":{},"said":[{"at":3,"wrong":true,"text":"x"}]}"#;
        let state: WatchState = serde_json::from_str(text).unwrap();
        assert!(matches!(state.config, WatchChoice::Own(_)) && state.log[0].error);
    }
}
