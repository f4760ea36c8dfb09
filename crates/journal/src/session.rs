//! What is known of a session as a whole.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::id::{Seq, SessionId};

/// A session that is to be.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Its name.
    pub id: SessionId,
    /// Where the agent works.
    pub directory: PathBuf,
    /// What a person calls it.
    pub title: Option<String>,
    /// How the agent is started, as JSON that nothing here looks into.
    pub options: String,
    /// When, in milliseconds since 1970.
    pub at: u64,
}

/// A session as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// Its name.
    pub id: SessionId,
    /// What a person calls it.
    pub title: Option<String>,
    /// Where the agent works.
    pub directory: PathBuf,
    /// What it does, as last written.
    pub status: Status,
    /// How the agent is started, as JSON that nothing here looks into.
    pub options: String,
    /// When it was created, in milliseconds since 1970.
    pub created: u64,
    /// When it was last written to.
    pub active: u64,
    /// The number of its last entry.
    pub last: Seq,
    /// The agent's own ids of it, oldest first.
    pub agent_ids: Vec<String>,
    /// How much of the agent's output is in the journal.
    pub spool: SpoolMark,
    /// How many lines were written to the agent.
    pub writes: u64,
    /// The number of the last turn that began.
    pub turn: u64,
    /// The number of the last turn that is over.
    pub turn_over: u64,
}

/// How far the spool of an agent process is in the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpoolMark {
    /// The number of the process in its session.
    pub run: u64,
    /// How many bytes of its spool are written down.
    pub offset: u64,
}

/// What a session does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It waits for a prompt.
    #[default]
    Idle,
    /// The agent is at work.
    Running,
    /// The agent waits for a person.
    Waiting,
    /// The agent is gone, and can be resumed.
    Dead,
    /// The agent is gone, and could not be resumed.
    Failed,
}
