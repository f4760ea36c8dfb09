//! What users have marked sessions with: pinned, archived. All clients see the same.

use std::collections::HashMap;

use journal::{Journal, SessionId, StateChange};
use serde::{Deserialize, Serialize};

/// The name under which the journal stores the marks.
const FOLLOWER: &str = "session-marks";

/// The marks of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SessionMarks {
    /// It is listed before all others.
    pub(super) pinned: bool,
    /// It is listed only if someone asks for it.
    pub(super) archived: bool,
}

impl SessionMarks {
    /// The marks of all sessions that have some.
    pub(super) async fn load(
        journal: &Journal,
    ) -> Result<HashMap<SessionId, Self>, journal::Error> {
        let stored = journal.read_state(FOLLOWER).await?;
        let marks = |(key, value): (String, Vec<u8>)| {
            // What a newer version wrote counts as no mark.
            Some((SessionId(key.parse().ok()?), serde_json::from_slice(&value).ok()?))
        };
        Ok(stored.into_iter().filter_map(marks).collect())
    }

    /// Stores the marks of a session.
    pub(super) async fn store(
        self,
        journal: &Journal,
        id: SessionId,
    ) -> Result<(), journal::Error> {
        let value = (self != Self::default()).then(|| serde_json::to_vec(&self).ok()).flatten();
        let change = StateChange { key: id.0.to_string(), value };
        journal.write_state(FOLLOWER, vec![change]).await
    }
}
