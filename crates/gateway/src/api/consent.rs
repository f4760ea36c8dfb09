//! Requests of an agent, with the consent policy a client has to draw: what must be shown before
//! *Allow*, the rules that *Always* offers, and the modes a plan can continue in.
//!
//! Clients send back the id of a rule. They never write a rule of their own.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use view::ToolAction;
use wire::acp::{PermissionChoice, PermissionChoiceKind};
use wire::consent::{self, Disclosure, MODES, ModeDescription, PLAN_APPROVAL_MODES, Rule, RuleId};
use wire::note::RequestKind;
use wire::outgoing::PermissionMode;

/// A request in a conversation, with all a card needs.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Request)]
pub(crate) struct RequestCard {
    /// The agent's id of it.
    id: String,
    /// The item of the call it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<String>,
    kind: RequestKindName,
    tool: String,
    /// What the tool does: `read`, `edit`, `run`, ….
    #[schema(value_type = String)]
    action: ToolAction,
    /// What it would do it to.
    target: String,
    /// The input of the call, as JSON.
    input: String,
    /// What the call is for, in the model's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Why the CLI asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The path that made it ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_path: Option<String>,
    /// The agent's own choices, in its order. One of them is the answer; without any, the answer is
    /// *Allow* or *Deny*.
    choices: Vec<ChoiceResponse>,
    /// When it was made, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
    /// When it will be denied if no answer comes in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
    #[serde(flatten)]
    consent: ConsentResponse,
    /// The body of the call: diff, command, questions or plan.
    html: String,
}

/// A choice that the agent offers.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Choice)]
pub(crate) struct ChoiceResponse {
    id: String,
    /// In the agent's words. It says for how long the choice counts.
    name: String,
    kind: ChoiceKindName,
}

/// What a choice means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ChoiceKind)]
pub(crate) enum ChoiceKindName {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
}

/// What a client shows and offers when it asks a user.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[schema(as = Consent)]
pub(crate) struct ConsentResponse {
    /// The rules that *Always* offers, the narrowest first.
    rules: Vec<RuleResponse>,
    /// What must be shown in full before *Allow* can be pressed.
    disclosures: Vec<DisclosureResponse>,
    /// The modes to continue in when a plan is approved, the suggested one first.
    modes: Vec<ModeResponse>,
}

/// What kind of answer a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = RequestKind)]
pub(crate) enum RequestKindName {
    Permission,
    Question,
    Plan,
    /// Something that Towpath does not know. It can only be denied.
    Unknown,
}

/// A rule that *Always* would remember.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Rule)]
pub(crate) struct RuleResponse {
    id: RuleIdName,
    /// The tool it covers, or `edits` for all tools that edit files.
    tool: String,
    /// The command, file, directory, address, host or input that it is about; none if it covers all calls
    /// of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<String>,
    /// What it allows, for a person.
    label: String,
}

/// The id of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = RuleId)]
pub(crate) enum RuleIdName {
    /// The same command, file or input.
    Exact,
    /// Edits in the working directory.
    Directory,
    /// Pages of one host.
    Host,
    /// Every call of the tool.
    Tool,
}

/// A fact about a call that is shown in full.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Disclosure)]
pub(crate) struct DisclosureResponse {
    label: String,
    text: String,
}

/// A permission mode.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Mode)]
pub(crate) struct ModeResponse {
    /// As the CLI spells it.
    id: &'static str,
    label: &'static str,
    description: &'static str,
    /// A keyboard shortcut may switch to it. The others are only chosen from a menu.
    shortcut: bool,
}

impl RequestCard {
    pub(crate) fn new(request: view::Request, html: String) -> Self {
        let kind = RequestKindName::from(request.kind);
        let has_choices = !request.choices.is_empty();
        let disclosures = match kind {
            RequestKindName::Permission | RequestKindName::Unknown => request.disclosures(),
            RequestKindName::Plan if has_choices => request.disclosures(),
            RequestKindName::Question | RequestKindName::Plan => Vec::new(),
        };
        // The agent remembers by itself what its own choices say.
        let rules = if has_choices { Vec::new() } else { request.rules };
        Self {
            id: request.id,
            item: request.item.map(|it| it.to_string()),
            kind,
            tool: request.tool,
            action: request.action,
            target: request.target,
            input: request.input,
            description: request.description,
            reason: request.reason,
            blocked_path: request.blocked_path,
            choices: request.choices.into_iter().map(ChoiceResponse::from).collect(),
            at: request.at,
            expires: request.expires,
            consent: ConsentResponse::new(kind, rules, disclosures),
            html,
        }
    }
}

impl ConsentResponse {
    fn new(kind: RequestKindName, rules: Vec<Rule>, disclosures: Vec<Disclosure>) -> Self {
        Self {
            rules: rules.into_iter().map(RuleResponse::from).collect(),
            disclosures: disclosures.into_iter().map(DisclosureResponse::from).collect(),
            modes: match kind {
                RequestKindName::Plan => {
                    let modes = PLAN_APPROVAL_MODES.into_iter();
                    modes.map(|it| ModeResponse::from(consent::describe_mode(it))).collect()
                }
                RequestKindName::Permission
                | RequestKindName::Question
                | RequestKindName::Unknown => Vec::new(),
            },
        }
    }

    /// The consent policy for a call in a working directory.
    pub(crate) fn of_call(kind: RequestKindName, tool: &str, input: &str, directory: &str) -> Self {
        let (rules, disclosures) = match kind {
            RequestKindName::Permission => {
                (consent::rules(tool, input, directory), consent::disclosures(tool, input))
            }
            RequestKindName::Unknown => (Vec::new(), consent::disclosures("", input)),
            RequestKindName::Question | RequestKindName::Plan => (Vec::new(), Vec::new()),
        };
        Self::new(kind, rules, disclosures)
    }
}

impl ModeResponse {
    /// All modes, the most careful ones first.
    pub(crate) fn all() -> Vec<Self> {
        MODES.into_iter().map(Self::from).collect()
    }
}

impl From<ModeDescription> for ModeResponse {
    fn from(it: ModeDescription) -> Self {
        let shortcut = match it.mode {
            PermissionMode::Plan | PermissionMode::Default | PermissionMode::AcceptEdits => true,
            PermissionMode::Auto | PermissionMode::BypassPermissions | PermissionMode::DontAsk => {
                false
            }
        };
        Self { id: it.mode.name(), label: it.label, description: it.description, shortcut }
    }
}

impl From<RequestKind> for RequestKindName {
    fn from(kind: RequestKind) -> Self {
        match kind {
            RequestKind::Permission => Self::Permission,
            RequestKind::Question => Self::Question,
            RequestKind::Plan => Self::Plan,
            RequestKind::Unknown => Self::Unknown,
        }
    }
}

impl From<Rule> for RuleResponse {
    fn from(it: Rule) -> Self {
        let id = match it.id {
            RuleId::Exact => RuleIdName::Exact,
            RuleId::Directory => RuleIdName::Directory,
            RuleId::Host => RuleIdName::Host,
            RuleId::Tool => RuleIdName::Tool,
        };
        Self { id, tool: it.tool, pattern: it.pattern, label: it.label }
    }
}

impl From<RuleIdName> for RuleId {
    fn from(id: RuleIdName) -> Self {
        match id {
            RuleIdName::Exact => Self::Exact,
            RuleIdName::Directory => Self::Directory,
            RuleIdName::Host => Self::Host,
            RuleIdName::Tool => Self::Tool,
        }
    }
}

impl From<PermissionChoice> for ChoiceResponse {
    fn from(it: PermissionChoice) -> Self {
        let kind = match it.kind {
            PermissionChoiceKind::AllowOnce => ChoiceKindName::AllowOnce,
            PermissionChoiceKind::AllowAlways => ChoiceKindName::AllowAlways,
            PermissionChoiceKind::RejectOnce => ChoiceKindName::RejectOnce,
            PermissionChoiceKind::RejectAlways => ChoiceKindName::RejectAlways,
        };
        Self { id: it.id, name: it.name, kind }
    }
}

impl From<Disclosure> for DisclosureResponse {
    fn from(it: Disclosure) -> Self {
        Self { label: it.label, text: it.text }
    }
}
