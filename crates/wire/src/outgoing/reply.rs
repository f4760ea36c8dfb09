//! Replies to the agent's requests: permissions, answers to questions, errors.

use serde::{Deserialize, Serialize};

use super::JsonObject;
use crate::json::Raw;

/// An answer to a control request of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlReply {
    /// The call may be made. The input is always said, changed or not: 2.1.197 takes an allowance
    /// without it for a denial.
    Allow {
        /// What the tool is given.
        updated_input: JsonObject,
        /// Rules that spare the question next time.
        updated_permissions: Vec<PermissionUpdate>,
    },
    /// The call may not be made.
    Deny(DenyReply),
    /// What a hook registered with `initialize` decided.
    Hook(JsonObject),
    /// What an MCP server of the host answered, as JSON-RPC.
    Mcp(JsonObject),
    /// The question was not understood or could not be answered.
    Error(String),
}

/// Why a call may not be made. There is always a reason: the CLI needs one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenyReply {
    message: String,
    interrupt: bool,
}

impl DenyReply {
    /// Refuses and lets the turn go on; the model is told why, in these words.
    pub fn because(reason: &str) -> Self {
        let message = if reason.trim().is_empty() { "The user said no." } else { reason };
        Self { message: message.to_owned(), interrupt: false }
    }

    /// Refuses and ends the turn; the model is not told why.
    pub fn and_interrupt(reason: &str) -> Self {
        Self { interrupt: true, ..Self::because(reason) }
    }
}

impl ControlReply {
    /// Allows a call as it was asked for.
    pub fn allow(input: JsonObject) -> Self {
        Self::Allow { updated_input: input, updated_permissions: Vec::new() }
    }

    /// Refuses a call.
    pub fn deny(reason: &str) -> Self {
        Self::Deny(DenyReply::because(reason))
    }

    pub(super) fn envelope<'a>(&'a self, request_id: &'a str) -> ReplyEnvelope<'a> {
        let payload = match self {
            Self::Allow { updated_input, updated_permissions } => {
                ReplyPayload::Decision(ReplyDecision::Allow { updated_input, updated_permissions })
            }
            Self::Deny(DenyReply { message, interrupt }) => {
                ReplyPayload::Decision(ReplyDecision::Deny { message, interrupt: *interrupt })
            }
            Self::Hook(output) => ReplyPayload::Verbatim(output),
            Self::Mcp(message) => ReplyPayload::Mcp { mcp_response: message },
            Self::Error(error) => return ReplyEnvelope::Error { request_id, error },
        };
        ReplyEnvelope::Success { request_id, response: payload }
    }
}

#[derive(Serialize)]
#[serde(tag = "subtype", rename_all = "lowercase")]
pub(super) enum ReplyEnvelope<'a> {
    Success { request_id: &'a str, response: ReplyPayload<'a> },
    Error { request_id: &'a str, error: &'a str },
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ReplyPayload<'a> {
    Decision(ReplyDecision<'a>),
    Verbatim(&'a JsonObject),
    Mcp { mcp_response: &'a JsonObject },
}

#[derive(Serialize)]
#[serde(tag = "behavior", rename_all = "lowercase")]
pub(super) enum ReplyDecision<'a> {
    Allow {
        #[serde(rename = "updatedInput")]
        updated_input: &'a JsonObject,
        #[serde(rename = "updatedPermissions", skip_serializing_if = "<[_]>::is_empty")]
        updated_permissions: &'a [PermissionUpdate],
    },
    Deny {
        message: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        interrupt: bool,
    },
}

/// What a person answered to the questions of one `AskUserQuestion`.
///
/// The tool is answered by allowing it with the answers added to its input, keyed by the text of
/// the question. Questions that are left out count as not answered.
///
/// ```
/// use towpath_wire::outgoing::{QuestionAnswers, JsonObject};
///
/// let asked = JsonObject::parse(r#"{"questions":[{"question":"Which?"}]}"#).unwrap();
/// let input = QuestionAnswers::default().choose("Which?", ["A", "C"]).note("Which?", "not B").input(&asked);
/// assert_eq!(
///     input.as_str(),
///     r#"{"questions":[{"question":"Which?"}],"answers":{"Which?":"A, C"},"annotations":{"Which?":{"notes":"not B"}}}"#
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuestionAnswers {
    /// Question and answer; several choices are joined as the CLI itself joins them.
    given: Vec<(String, String)>,
    notes: Vec<(String, String)>,
}

impl QuestionAnswers {
    /// QuestionAnswers `question` with the labels of its options, or with words of one's own.
    #[must_use]
    pub fn choose<'a>(
        mut self,
        question: &str,
        choices: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let choices: Vec<&str> = choices.into_iter().collect();
        self.given.push((question.to_owned(), choices.join(", ")));
        self
    }

    /// Adds a remark to the answer to `question`.
    #[must_use]
    pub fn note(mut self, question: &str, note: &str) -> Self {
        self.notes.push((question.to_owned(), note.to_owned()));
        self
    }

    /// The input to allow the tool with.
    pub fn input(&self, asked: &JsonObject) -> JsonObject {
        #[derive(Serialize)]
        struct QuestionNote<'a> {
            notes: &'a str,
        }
        let answers = map(self.given.iter().map(|(question, answer)| (question, answer.as_str())));
        let notes =
            map(self.notes.iter().map(|(question, notes)| (question, QuestionNote { notes })));
        let kept = asked.as_raw().fields().filter_map(|(key, value)| {
            let key = key.decode().into_owned();
            (key != "answers" && key != "annotations").then_some((key, value))
        });
        let answers = ("answers".to_owned(), Raw::checked(&answers));
        let notes =
            (!self.notes.is_empty()).then(|| ("annotations".to_owned(), Raw::checked(&notes)));
        JsonObject::of(kept.chain([answers]).chain(notes))
    }
}

/// A JSON object in the order given.
fn map<'a>(entries: impl Iterator<Item = (&'a String, impl Serialize)>) -> String {
    let fields: Vec<String> = entries
        .map(|(key, value)| {
            let value = serde_json::to_string(&value).expect("strings serialise");
            format!("{}:{value}", serde_json::Value::from(key.as_str()))
        })
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// How much the agent may do without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// Ask before writing and before commands with effects.
    Default,
    /// Files may be edited unasked.
    AcceptEdits,
    /// Read and plan only.
    Plan,
    /// Everything unasked; refused unless the CLI was started with the flag that permits it.
    BypassPermissions,
    /// What is not allowed by a rule is denied, unasked.
    DontAsk,
    /// A classifier of the CLI decides.
    Auto,
}

impl PermissionMode {
    /// All of them, in the order a person would step through them.
    pub const ALL: [Self; 6] = [
        Self::Default,
        Self::AcceptEdits,
        Self::Plan,
        Self::DontAsk,
        Self::Auto,
        Self::BypassPermissions,
    ];

    /// As the CLI spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::BypassPermissions => "bypassPermissions",
            Self::DontAsk => "dontAsk",
            Self::Auto => "auto",
        }
    }

    /// The mode the CLI spells so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// A change to the rules, to be sent with an allowance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum PermissionUpdate {
    /// More rules.
    AddRules {
        /// The rules.
        rules: Vec<PermissionRule>,
        /// What they do.
        behavior: Behavior,
        /// Where they are kept.
        destination: Destination,
    },
    /// These rules instead of all others of that behavior.
    ReplaceRules {
        /// The rules.
        rules: Vec<PermissionRule>,
        /// What they do.
        behavior: Behavior,
        /// Where they are kept.
        destination: Destination,
    },
    /// Fewer rules.
    RemoveRules {
        /// The rules.
        rules: Vec<PermissionRule>,
        /// What they did.
        behavior: Behavior,
        /// Where they were kept.
        destination: Destination,
    },
    /// Another mode.
    SetMode {
        /// The mode.
        mode: PermissionMode,
        /// Where it is kept.
        destination: Destination,
    },
    /// Directories the agent may work in.
    AddDirectories {
        /// The directories.
        directories: Vec<String>,
        /// Where they are kept.
        destination: Destination,
    },
    /// Directories the agent may no longer work in.
    RemoveDirectories {
        /// The directories.
        directories: Vec<String>,
        /// Where they were kept.
        destination: Destination,
    },
}

/// A tool, and optionally which of its calls: `Bash` with `touch:*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRule {
    /// The tool.
    pub tool_name: String,
    /// Which calls; all where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_content: Option<String>,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Behavior {
    /// Runs unasked.
    Allow,
    /// Is refused unasked.
    Deny,
    /// Asks.
    Ask,
}

/// Where a rule is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Destination {
    /// Until the process ends.
    Session,
    /// `.claude/settings.local.json`
    LocalSettings,
    /// `.claude/settings.json`
    ProjectSettings,
    /// `~/.claude/settings.json`
    UserSettings,
}
