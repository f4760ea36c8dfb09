//! Tool calls, from the first character of their input to their result, and the requests to a person
//! that some of them wait for.

use serde::{Deserialize, Serialize};
use wire::acp::PermissionChoice;
use wire::consent::{self, Disclosure, Rule};
use wire::note::{Actor, RequestKind};

use crate::item::ItemId;
use crate::tool::ToolAction;
use crate::usage::TokenCounts;

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The tool's name, as the protocol spells it.
    pub tool: String,
    pub action: ToolAction,
    /// What it does, in the agent's words. Claude Code does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it works on: a path, a command, a pattern; empty if the input does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target: String,
    /// The tool's input as JSON. While the item is open, the part received so far.
    pub input: String,
    pub state: CallState,
    /// When the agent made the call, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<u64>,
    /// When its result came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// Only while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<CallProgress>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<CallResult>,
    /// The permission request for it and its outcome. Questions to the user and approvals of plans
    /// are permission requests too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<CallPermission>,
    /// The sub-agent or background task it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<SubAgent>,
    /// The files that its diffs change, if the agent says so apart from the input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Its input is still being written.
    Writing,
    /// It waits for a person's permission or answer.
    Waiting,
    Running,
    Done,
    Failed,
    /// It was not permitted to run.
    Denied,
    /// Its turn ended without a result.
    Unanswered,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallProgress {
    /// How long it has been running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// What it is doing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// The text given to the model. May contain ANSI colours; cut at 256 KiB.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// How many bytes were cut from the end of `text`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_bytes: u64,
    /// The images in it, in order. Their bytes are in the entry `seq`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ResultImage>,
    /// The hunks of an edit (`structuredPatch`) as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunks: Option<String>,
    /// The entry it came with.
    pub seq: u64,
}

/// An image or a document in a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultImage {
    pub media_type: String,
    /// Its size, estimated from the length of its base64.
    pub bytes: u64,
}

/// The permission request for a call, and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallPermission {
    /// The agent's id of the request; `None` if no person was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    pub kind: RequestKind,
    /// `None` while the request is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<wire::note::Outcome>,
    /// Who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Actor>,
    /// The reason given with a denial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The answers to questions, by the question's text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<(String, String)>,
    /// The name of the agent's own choice that was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
}

/// A sub-agent, or a shell in the background. The items it produces have the call as their `parent`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SubAgent {
    /// The CLI's id of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    pub state: SubAgentState,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Also included in the turn's tokens.
    pub tokens: TokenCounts,
    /// How many tool calls it has made.
    pub calls: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubAgentState {
    #[default]
    Running,
    Completed,
    Failed,
    Stopped,
}

/// A request that waits for a person's answer.
///
/// Clients show it at its call and again above the composer, so it carries everything a card needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The agent's id of it.
    pub id: String,
    /// The call it is about, if the conversation has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<ItemId>,
    #[serde(alias = "wants")]
    pub kind: RequestKind,
    pub tool: String,
    pub action: ToolAction,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target: String,
    /// The tool's input as JSON.
    pub input: String,
    /// What the call is for, in the model's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Why the CLI asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The path that made the CLI ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_path: Option<String>,
    /// The CLI's suggestions of permission rules, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<String>,
    /// When it was opened, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// When it will be denied if there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// The rules that *Always* offers, the narrowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// The answers that the agent offers, in its own words, in place of *Allow*, *Always* and *Deny*.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<PermissionChoice>,
}

impl Call {
    /// A running call of which only the tool is known.
    pub(crate) fn new(tool: String) -> Self {
        Self {
            action: ToolAction::of(&tool),
            tool,
            title: None,
            target: String::new(),
            input: "{}".to_owned(),
            state: CallState::Running,
            started: None,
            ended: None,
            progress: None,
            result: None,
            permission: None,
            agent: None,
            files: Vec::new(),
        }
    }

    /// How long it took, if both times are known.
    pub fn duration_ms(&self) -> Option<u64> {
        Some(self.ended?.saturating_sub(self.started?))
    }
}

impl CallState {
    /// Whether a result is still to come.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Writing | Self::Waiting | Self::Running)
    }

    /// The state of a call once no result can come any more.
    pub(crate) fn abandoned(self) -> Self {
        if self.is_open() { Self::Unanswered } else { self }
    }
}

impl CallPermission {
    pub(crate) fn new(request: Option<String>, kind: RequestKind) -> Self {
        Self {
            request,
            kind,
            outcome: None,
            by: None,
            message: None,
            answers: Vec::new(),
            choice: None,
        }
    }
}

impl Request {
    /// What a client must show in full before *Allow* can be pressed.
    pub fn disclosures(&self) -> Vec<Disclosure> {
        // The name of an unknown request is not that of a tool.
        let tool = if self.kind == RequestKind::Unknown { "" } else { &self.tool };
        consent::disclosures(tool, &self.input)
    }

    /// The call it is about, as far as the request describes it.
    pub fn call(&self) -> Call {
        Call {
            action: self.action,
            title: self.description.clone().filter(|_| self.tool.is_empty()),
            target: self.target.clone(),
            input: self.input.clone(),
            state: CallState::Waiting,
            ..Call::new(self.tool.clone())
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
