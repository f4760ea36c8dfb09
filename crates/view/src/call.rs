//! Calls of tools, from the first character of their input to their result.

use serde::{Deserialize, Serialize};
use wire::note::{Actor, Wants};

use crate::subject::Verb;
use crate::usage::Tokens;

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The tool, as the protocol spells it.
    pub tool: String,
    /// What it does, in a word for a person.
    pub verb: Verb,
    /// What it does it to: a path, a command, a pattern; empty where the input does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target: String,
    /// What the tool is given, as JSON. While the item is open, what came of it so far.
    pub input: String,
    /// Where it stands.
    pub state: CallState,
    /// When the agent asked for it, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<u64>,
    /// When its result came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// How far it is, while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Who was asked whether it may be made, and what came of that. A question to the user and the
    /// approval of a plan are this too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Permission>,
    /// The sub-agent or background task it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<SubAgent>,
}

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Its input is still being written.
    Writing,
    /// Somebody has to allow or answer it.
    Waiting,
    /// It runs.
    Running,
    /// It went well.
    Done,
    /// The tool says it failed.
    Failed,
    /// It was not allowed to run.
    Denied,
    /// Its turn ended without a result.
    Unanswered,
}

/// How far a call is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// For how long it has been running, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// What it is doing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// What came of a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What the model was told. May hold ANSI colours; cut at 256 KiB.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// How many bytes were cut from the end of `text`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: u64,
    /// Pictures in it, in their order. Their bytes are in the entry `seq`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<Picture>,
    /// What the tool says of the change it made: the hunks of an edit (`structuredPatch`) as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunks: Option<String>,
    /// The entry it came with.
    pub seq: u64,
}

/// A picture or a document in a result or a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Picture {
    /// `image/png`, ….
    pub media_type: String,
    /// Its size in bytes, as far as its base64 tells.
    pub bytes: u64,
}

/// Who was asked, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Permission {
    /// The agent's id of the request; nothing where nobody was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// What sort of answer it wants.
    pub wants: Wants,
    /// What came of it; nothing while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<wire::note::Outcome>,
    /// Who gave the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Actor>,
    /// What was said with it: the reason of a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The answers to a question, by the question's text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<(String, String)>,
}

/// A sub-agent, or a shell in the background. What it says and does are items whose `parent` is
/// the call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SubAgent {
    /// The CLI's id of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Where it stands.
    pub state: SubAgentState,
    /// What came of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Its own tokens, which are also in those of the turn.
    pub tokens: Tokens,
    /// How many tools it has used.
    pub calls: u32,
}

/// Where a sub-agent stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubAgentState {
    /// It works.
    #[default]
    Running,
    /// It is done.
    Completed,
    /// It failed.
    Failed,
    /// Somebody stopped it.
    Stopped,
}

impl Call {
    /// How long it took, in milliseconds, where both ends are known.
    pub fn duration_ms(&self) -> Option<u64> {
        Some(self.ended?.saturating_sub(self.began?))
    }
}

impl CallState {
    /// Whether something is still to come.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Writing | Self::Waiting | Self::Running)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}
