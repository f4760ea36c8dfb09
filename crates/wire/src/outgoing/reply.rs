//! Replies to the agent's requests: permission decisions, answers to questions, errors.

use serde::{Deserialize, Serialize};

use super::{HookEventName, JsonObject};
use crate::json::Raw;
use crate::request_id::ReplyId;

/// A reply to a control request of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlReply {
    /// Allows the call. The input is always included, changed or not: 2.1.197 treats a reply
    /// without it as a denial.
    Allow {
        /// The input that the tool receives.
        updated_input: JsonObject,
        /// Rules that make the same request unnecessary next time.
        updated_permissions: Vec<PermissionUpdate>,
    },
    /// Denies the call.
    Deny(DenyReply),
    /// The output of a hook that the host registered with `initialize`.
    Hook(JsonObject),
    /// The JSON-RPC response of an MCP server that runs in the host.
    Mcp(JsonObject),
    /// The host does not support the request or failed to handle it.
    Error(String),
}

/// A denial. It always has a reason, because the CLI requires one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenyReply {
    message: String,
    interrupt: bool,
}

impl DenyReply {
    /// Denies the call and lets the turn continue; the model receives the reason.
    pub fn because(reason: &str) -> Self {
        let message = crate::consent::denial(reason);
        Self { message: message.to_owned(), interrupt: false }
    }

    /// Denies the call and ends the turn; the model does not receive the reason.
    pub fn and_interrupt(reason: &str) -> Self {
        Self { interrupt: true, ..Self::because(reason) }
    }
}

impl ControlReply {
    /// Allows a call without changes to the permission rules.
    pub fn allow(input: JsonObject) -> Self {
        Self::Allow { updated_input: input, updated_permissions: Vec::new() }
    }

    pub fn deny(reason: &str) -> Self {
        Self::Deny(DenyReply::because(reason))
    }

    /// The answer of a hook that has nothing to say: the call goes the usual way.
    pub fn continue_after_hook() -> Self {
        Self::Hook(JsonObject::empty())
    }

    /// The answer of a hook before a tool runs that denies the call. The model receives the reason.
    pub fn deny_by_hook(reason: &str) -> Self {
        Self::Hook(hook_denial(reason))
    }

    /// Whether it denies the call that it is about.
    pub fn denies(&self) -> bool {
        match self {
            Self::Deny(_) => true,
            Self::Hook(output) => {
                let output = output.as_raw();
                let is = |it: Option<Raw<'_>>, word: &str| {
                    it.and_then(Raw::text).is_some_and(|it| it == word)
                };
                let specific = output.get("hookSpecificOutput");
                is(specific.and_then(|it| it.get("permissionDecision")), "deny")
                    || is(output.get("decision"), "block")
                    || output.get("continue").and_then(Raw::boolean) == Some(false)
            }
            Self::Allow { .. } | Self::Mcp(_) | Self::Error(_) => false,
        }
    }

    pub(super) fn envelope<'a>(&'a self, request: &'a str) -> ReplyEnvelope<'a> {
        let request_id = ReplyId(request);
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

/// The output of a hook before a tool runs that denies the call. The model receives the reason.
#[expect(clippy::missing_panics_doc, reason = "texts always serialize")]
pub fn hook_denial(reason: &str) -> JsonObject {
    let output = HookDenial {
        hook_specific_output: PreToolUseDecision {
            hook_event_name: HookEventName::PreToolUse,
            permission_decision: "deny",
            permission_decision_reason: crate::consent::denial(reason),
        },
    };
    JsonObject::from_valid(serde_json::to_string(&output).expect("texts serialize"))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HookDenial<'a> {
    hook_specific_output: PreToolUseDecision<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PreToolUseDecision<'a> {
    hook_event_name: HookEventName,
    permission_decision: &'a str,
    permission_decision_reason: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "subtype", rename_all = "lowercase")]
pub(super) enum ReplyEnvelope<'a> {
    Success { request_id: ReplyId<'a>, response: ReplyPayload<'a> },
    Error { request_id: ReplyId<'a>, error: &'a str },
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

/// The user's answers to the questions of one `AskUserQuestion`.
///
/// The host answers by allowing the call with the answers added to the tool's input, keyed by the
/// text of the question. A missing question counts as not answered.
///
/// ```
/// use towpath_wire::outgoing::{QuestionAnswers, JsonObject};
///
/// let original = JsonObject::parse(r#"{"questions":[{"question":"Which?"}]}"#).unwrap();
/// let input = QuestionAnswers::default().choose("Which?", ["A", "C"]).note("Which?", "not B").input(&original);
/// assert_eq!(
///     input.as_str(),
///     r#"{"questions":[{"question":"Which?"}],"answers":{"Which?":"A, C"},"annotations":{"Which?":{"notes":"not B"}}}"#
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuestionAnswers {
    /// Question and answer. Several choices are joined in the same way as the CLI does it.
    answers: Vec<(String, String)>,
    notes: Vec<(String, String)>,
}

impl QuestionAnswers {
    /// Answers `question` with the labels of its options, or with the user's own text.
    #[must_use]
    pub fn choose<'a>(
        mut self,
        question: &str,
        choices: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let choices: Vec<&str> = choices.into_iter().collect();
        self.answers.push((question.to_owned(), choices.join(", ")));
        self
    }

    /// Adds a note to the answer to `question`.
    #[must_use]
    pub fn note(mut self, question: &str, note: &str) -> Self {
        self.notes.push((question.to_owned(), note.to_owned()));
        self
    }

    /// The tool's `original` input with the answers added, to be sent with [`ControlReply::allow`].
    pub fn input(&self, original: &JsonObject) -> JsonObject {
        #[derive(Serialize)]
        struct QuestionNote<'a> {
            notes: &'a str,
        }
        let answers =
            map(self.answers.iter().map(|(question, answer)| (question, answer.as_str())));
        let notes =
            map(self.notes.iter().map(|(question, notes)| (question, QuestionNote { notes })));
        let fields = original.as_raw().fields().filter_map(|(key, value)| {
            let key = key.decode().into_owned();
            (key != "answers" && key != "annotations").then_some((key, value))
        });
        let answers = ("answers".to_owned(), Raw::checked(&answers));
        let notes =
            (!self.notes.is_empty()).then(|| ("annotations".to_owned(), Raw::checked(&notes)));
        JsonObject::of(fields.chain([answers]).chain(notes))
    }
}

/// A JSON object with the entries in the given order.
fn map<'a>(entries: impl Iterator<Item = (&'a String, impl Serialize)>) -> String {
    let fields: Vec<String> = entries
        .map(|(key, value)| {
            let value = serde_json::to_string(&value).expect("strings serialize");
            format!("{}:{value}", serde_json::Value::from(key.as_str()))
        })
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// What the agent may do without asking for permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// Asks before writing files and before running commands with side effects.
    Default,
    /// Edits files without asking.
    AcceptEdits,
    /// Only reads and plans.
    Plan,
    /// Never asks. The CLI rejects this mode unless it was started with the flag that permits it.
    BypassPermissions,
    /// Denies whatever no rule allows, without asking.
    DontAsk,
    /// A classifier in the CLI decides.
    Auto,
}

impl PermissionMode {
    /// All modes in the order in which the user cycles through them.
    pub const ALL: [Self; 6] = [
        Self::Default,
        Self::AcceptEdits,
        Self::Plan,
        Self::DontAsk,
        Self::Auto,
        Self::BypassPermissions,
    ];

    /// The CLI's spelling.
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

    /// The mode with this spelling; `None` if there is none.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// A change to the permission rules, sent with a reply that allows a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum PermissionUpdate {
    AddRules {
        rules: Vec<PermissionRule>,
        behavior: Behavior,
        destination: Destination,
    },
    /// Replaces all rules with the same behavior.
    ReplaceRules {
        rules: Vec<PermissionRule>,
        behavior: Behavior,
        destination: Destination,
    },
    RemoveRules {
        rules: Vec<PermissionRule>,
        behavior: Behavior,
        destination: Destination,
    },
    SetMode {
        mode: PermissionMode,
        destination: Destination,
    },
    /// Lets the agent work in these directories.
    AddDirectories {
        directories: Vec<String>,
        destination: Destination,
    },
    /// No longer lets the agent work in these directories.
    RemoveDirectories {
        directories: Vec<String>,
        destination: Destination,
    },
}

/// A tool, and optionally a pattern for its calls: `Bash` with `touch:*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRule {
    pub tool_name: String,
    /// The pattern; `None` means all calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_content: Option<String>,
}

/// The effect of a rule on matching calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Behavior {
    /// Run without asking.
    Allow,
    /// Deny without asking.
    Deny,
    Ask,
}

/// Where a rule is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Destination {
    /// In memory, until the process ends.
    Session,
    /// `.claude/settings.local.json`
    LocalSettings,
    /// `.claude/settings.json`
    ProjectSettings,
    /// `~/.claude/settings.json`
    UserSettings,
}
