//! The consent policy: what "Always" would remember, what a person must see before *Allow* can be
//! pressed, and the texts that go with it.
//!
//! Every client draws what this module derives and sends back the id of a rule, never a rule of its
//! own. So the page, the chat, the terminal and an editor cannot disagree about what was granted.
//!
//! A rule is never wider than its text, and its text is part of what must be visible:
//!
//! - A command is remembered literally. `rm -rf build` covers no other command.
//! - An edit is remembered for all files below the session's working directory, or for one file
//!   that lies elsewhere. Files that run code by themselves (`.git`, `.claude`, …) stay excluded.
//! - A rule covers only input fields this module knows. A call that sets another field, such as
//!   `dangerouslyDisableSandbox`, is asked again.
//! - What a pattern means is said by the [kind](RuleKind) of the rule and never by the pattern
//!   itself, because the agent chose its text: a file named `/etc/**` is a file.

mod path;
mod visible;

use serde::{Deserialize, Serialize};

use crate::json::{Raw, Shape};
use crate::outgoing::PermissionMode;

pub use visible::visible;

/// The tools that change files. A rule for edits covers all of them.
const EDIT_TOOLS: &[&str] = &["Edit", "MultiEdit", "NotebookEdit", "Write"];

/// What [`Rule::tool`] holds for a rule that covers every edit tool.
pub const ALL_EDIT_TOOLS: &str = "edits";

/// Input fields that do not change what a command may do.
const COMMAND_FIELDS: &[&str] = &["command", "description", "run_in_background", "timeout"];

/// A longer description is shown in full too, because clients cut it.
const SHORT_DESCRIPTION: usize = 200;

/// Input fields of the edit tools, beside the path.
const EDIT_FIELDS: &[&str] = &[
    "cell_id",
    "cell_type",
    "content",
    "edit_mode",
    "edits",
    "new_source",
    "new_string",
    "old_string",
    "replace_all",
];

/// Input fields of a tool that fetches one address.
const FETCH_FIELDS: &[&str] = &["prompt", "url"];

/// The denial sent to the agent when the user gives no reason.
pub const DENIED: &str = "The user denied this request.";

/// The denial sent to the agent when a request expires.
pub const EXPIRED: &str = "Denied because no answer came in time. The user has not decided against \
                           it: ask again if it is still needed.";

/// The denial sent to the agent when a client runs without a person who could answer.
pub const UNATTENDED: &str = "Denied because no user is present to answer.";

/// A rule that *Always* would remember, with the text a person must have seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub id: RuleId,
    /// The tool it covers, or [`ALL_EDIT_TOOLS`].
    pub tool: String,
    /// What the pattern is.
    #[serde(default)]
    pub kind: RuleKind,
    /// The calls of the tool it covers; all of them if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// What it allows, for a person: `Run exactly this command`.
    pub label: String,
}

/// Which of the offered rules a client chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleId {
    /// The same command, file or input again.
    Exact,
    /// Edits below the working directory.
    Directory,
    /// Pages of one host.
    Host,
    /// Every call of the tool.
    Tool,
}

/// What the pattern of a rule is compared with. It is stored beside the pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleKind {
    /// The pattern is a command.
    Command,
    /// The pattern is the path of a file that may be edited.
    File,
    /// The pattern is a directory below which files may be edited.
    Directory,
    /// The pattern is an address.
    Address,
    /// The pattern is the host of an address.
    Host,
    /// The pattern is the whole input, as JSON without white space.
    Input,
    /// There is no pattern: every call of the tool.
    Tool,
    /// A version that stored no kind wrote the rule, or a later one with other kinds. It covers nothing.
    #[default]
    #[serde(other)]
    Unknown,
}

impl RuleKind {
    const ALL: [Self; 8] = [
        Self::Command,
        Self::File,
        Self::Directory,
        Self::Address,
        Self::Host,
        Self::Input,
        Self::Tool,
        Self::Unknown,
    ];

    /// The name with which it is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::File => "file",
            Self::Directory => "directory",
            Self::Address => "address",
            Self::Host => "host",
            Self::Input => "input",
            Self::Tool => "tool",
            Self::Unknown => "unknown",
        }
    }

    /// The kind with a stored name.
    pub fn of_name(name: &str) -> Self {
        Self::ALL.into_iter().find(|kind| kind.name() == name).unwrap_or_default()
    }

    /// The id with which such a rule is offered.
    fn id(self) -> RuleId {
        match self {
            Self::Directory => RuleId::Directory,
            Self::Host => RuleId::Host,
            Self::Tool => RuleId::Tool,
            Self::Command | Self::File | Self::Address | Self::Input | Self::Unknown => {
                RuleId::Exact
            }
        }
    }
}

/// A fact about a call that a client shows in full before *Allow* can be pressed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disclosure {
    /// What it is: `Command`, `File`, `Address`, `Input`.
    pub label: String,
    pub text: String,
}

/// A permission mode as clients list it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeDescription {
    pub mode: PermissionMode,
    pub label: &'static str,
    pub description: &'static str,
}

/// All permission modes, the most careful ones first.
pub const MODES: [ModeDescription; 6] = [
    ModeDescription {
        mode: PermissionMode::Plan,
        label: "Plan",
        description: "Reads and plans; changes nothing",
    },
    ModeDescription {
        mode: PermissionMode::DontAsk,
        label: "Don't ask",
        description: "Denies everything that no rule allows, without asking",
    },
    ModeDescription {
        mode: PermissionMode::Default,
        label: "Ask",
        description: "Asks before edits and commands",
    },
    ModeDescription {
        mode: PermissionMode::AcceptEdits,
        label: "Accept edits",
        description: "Edits files without asking; asks before commands",
    },
    ModeDescription {
        mode: PermissionMode::Auto,
        label: "Auto",
        description: "The agent's own classifier decides what to ask",
    },
    ModeDescription {
        mode: PermissionMode::BypassPermissions,
        label: "Bypass permissions",
        description: "Runs everything without asking",
    },
];

/// The modes a person can continue in when a plan is approved, the suggested one first.
pub const PLAN_APPROVAL_MODES: [PermissionMode; 2] =
    [PermissionMode::AcceptEdits, PermissionMode::Default];

/// The label and description of a mode.
pub fn describe_mode(mode: PermissionMode) -> ModeDescription {
    let known = MODES.into_iter().find(|it| it.mode == mode);
    known.unwrap_or(ModeDescription { mode, label: mode.name(), description: "" })
}

/// The text of a denial: the user's reason, or [`DENIED`] if there is none.
pub fn denial(reason: &str) -> &str {
    if reason.trim().is_empty() { DENIED } else { reason }
}

/// The rules that *Always* offers for a call, the narrowest first. `input` is the call's input as
/// JSON, `directory` the working directory of the session.
///
/// Empty if nothing about the call can be remembered safely.
pub fn rules(tool: &str, input: &str, directory: &str) -> Vec<Rule> {
    let Some(input) = Raw::parse(input) else { return Vec::new() };
    let rule = |kind: RuleKind, tool: &str, pattern: Option<String>, label: String| Rule {
        id: kind.id(),
        tool: tool.to_owned(),
        kind,
        pattern,
        label,
    };
    match Scope::of(tool, input) {
        Scope::Command(command) => {
            let label = "Run exactly this command".to_owned();
            vec![rule(RuleKind::Command, tool, Some(command), label)]
        }
        // Another directory, another home or a moved link would make another file of the same text.
        Scope::Edit(path) if !path::is_unambiguous(&path) => Vec::new(),
        Scope::Edit(path) => {
            let directory = directory.trim_end_matches('/');
            let label = format!("Edit {}, whatever the change", visible(&path));
            let file = rule(RuleKind::File, ALL_EDIT_TOOLS, Some(path.clone()), label);
            if path::is_project_directory(directory) && path::is_below(directory, &path) {
                let label = format!("Edit any file in {}", visible(directory));
                let pattern = Some(directory.to_owned());
                vec![file, rule(RuleKind::Directory, ALL_EDIT_TOOLS, pattern, label)]
            } else {
                vec![file]
            }
        }
        Scope::Fetch(url) => {
            let label = "Fetch exactly this address".to_owned();
            let exact = rule(RuleKind::Address, tool, Some(url.clone()), label);
            match host(&url) {
                Some(host) => {
                    let label = format!("Fetch any page of {host}");
                    vec![exact, rule(RuleKind::Host, tool, Some(host), label)]
                }
                None => vec![exact],
            }
        }
        Scope::Other => {
            let name = one_line(tool);
            let exact = format!("Use {name} with exactly this input");
            vec![
                rule(RuleKind::Input, tool, Some(canonical(input)), exact),
                rule(RuleKind::Tool, tool, None, format!("Use {name} with any input")),
            ]
        }
        Scope::Unsafe => Vec::new(),
    }
}

/// Whether a remembered rule (`rule_tool`, `kind`, `pattern`) allows a call.
pub fn covers(
    rule_tool: &str,
    kind: RuleKind,
    pattern: Option<&str>,
    tool: &str,
    input: &str,
) -> bool {
    let Some(input) = Raw::parse(input) else { return false };
    let same_tool = match kind {
        RuleKind::File | RuleKind::Directory => rule_tool == ALL_EDIT_TOOLS,
        _ => rule_tool == tool,
    };
    if !same_tool {
        return false;
    }
    match (Scope::of(tool, input), kind, pattern) {
        (Scope::Command(command), RuleKind::Command, Some(pattern)) => pattern == command,
        (Scope::Edit(path), RuleKind::File, Some(pattern)) => {
            pattern == path && path::is_unambiguous(&path)
        }
        (Scope::Edit(path), RuleKind::Directory, Some(pattern)) => path::is_below(pattern, &path),
        (Scope::Fetch(url), RuleKind::Address, Some(pattern)) => pattern == url,
        (Scope::Fetch(url), RuleKind::Host, Some(pattern)) => {
            host(&url).as_deref() == Some(pattern)
        }
        (Scope::Other, RuleKind::Input, Some(pattern)) => pattern == canonical(input),
        (Scope::Other, RuleKind::Tool, None) => true,
        // A rule of one kind says nothing about calls of another, whatever its text is.
        (
            Scope::Command(_) | Scope::Edit(_) | Scope::Fetch(_) | Scope::Other | Scope::Unsafe,
            ..,
        ) => false,
    }
}

/// What a remembered rule allows, for a list of rules. The pattern is shown behind it.
pub fn describe_rule(rule_tool: &str, kind: RuleKind) -> String {
    let tool = one_line(rule_tool);
    match kind {
        RuleKind::Command => format!("Run with {tool} exactly"),
        RuleKind::File => "Edit the file".to_owned(),
        RuleKind::Directory => "Edit any file in".to_owned(),
        RuleKind::Address => "Fetch exactly".to_owned(),
        RuleKind::Host => "Fetch any page of".to_owned(),
        RuleKind::Input => format!("Use {tool} with exactly"),
        RuleKind::Tool => format!("Use {tool} with any input"),
        RuleKind::Unknown => format!("Nothing any more (made by another version): {tool}"),
    }
}

/// A name of a tool in the text of a rule, which must not look like another text.
fn one_line(name: &str) -> String {
    visible(name).replace('\n', "\\u{a}").replace('\r', "\\u{d}").replace('\t', "\\u{9}")
}

/// The file that a call changes, if it is a call that a rule for edits may cover. The path is as the
/// agent wrote it: only who can see the file system knows whether a link leads elsewhere.
pub fn edited_file(tool: &str, input: &str) -> Option<String> {
    match Scope::of(tool, Raw::parse(input)?) {
        Scope::Edit(path) => Some(path),
        _ => None,
    }
}

/// What a client must show in full, unshortened, before *Allow* can be pressed. Characters that would
/// not be seen are [made visible](visible).
pub fn disclosures(tool: &str, input: &str) -> Vec<Disclosure> {
    let disclosure =
        |label: &str, text: &str| Disclosure { label: label.to_owned(), text: visible(text) };
    let Some(parsed) = Raw::parse(input) else { return vec![disclosure("Input", input)] };
    let field = |name: &str| parsed.get(name).and_then(Raw::text).map(String::from);
    let mut shown = match Scope::of(tool, parsed) {
        Scope::Command(command) => vec![disclosure("Command", &command)],
        Scope::Edit(path) => vec![disclosure("File", &path)],
        Scope::Fetch(url) => vec![disclosure("Address", &url)],
        Scope::Other => {
            let names_file = ["file_path", "path"]
                .into_iter()
                .find(|key| field(key).is_some() && only_fields(parsed, &[key, "offset", "limit"]));
            match names_file.and_then(field) {
                Some(path) => vec![disclosure("File", &path)],
                None => return vec![disclosure("Input", input)],
            }
        }
        Scope::Unsafe => {
            let command = field("command").map(|it| disclosure("Command", &it));
            return command.into_iter().chain([disclosure("Input", input)]).collect();
        }
    };
    let description = field("description").filter(|it| it.chars().count() > SHORT_DESCRIPTION);
    shown.extend(description.map(|it| disclosure("Description", &it)));
    shown
}

/// The part of a call that a rule is about.
enum Scope {
    Command(String),
    Edit(String),
    Fetch(String),
    Other,
    /// It sets something no rule accounts for, so it is asked every time.
    Unsafe,
}

impl Scope {
    fn of(tool: &str, input: Raw<'_>) -> Self {
        // Nothing can be said about an unknown tool, or an input that is not a set of fields.
        if tool.is_empty() || input.shape() != Shape::Object {
            return Self::Unsafe;
        }
        let field = |name: &str| input.get(name).and_then(Raw::text).map(String::from);
        let known = |fields, scope| if only_fields(input, fields) { scope } else { Self::Unsafe };
        if let Some(command) = field("command") {
            return known(COMMAND_FIELDS, Self::Command(command));
        }
        if EDIT_TOOLS.contains(&tool) {
            // A path in the field of another tool would be shown while this one writes elsewhere.
            let key = if tool == "NotebookEdit" { "notebook_path" } else { "file_path" };
            let fields: Vec<&str> = EDIT_FIELDS.iter().copied().chain([key]).collect();
            return match field(key) {
                Some(path) if only_fields(input, &fields) => Self::Edit(path),
                _ => Self::Unsafe,
            };
        }
        match (tool, field("url")) {
            ("WebFetch", Some(url)) => known(FETCH_FIELDS, Self::Fetch(url)),
            // A command in another shape than a string, or a shell without one.
            _ if tool == "Bash" || input.get("command").is_some() => Self::Unsafe,
            _ => Self::Other,
        }
    }
}

fn only_fields(input: Raw<'_>, known: &[&str]) -> bool {
    let mut seen = Vec::new();
    input.fields().all(|(name, _)| {
        let name = name.decode();
        // Readers disagree about which of two equal keys counts.
        let fresh = !seen.contains(&name);
        let allowed = known.contains(&&*name);
        seen.push(name);
        fresh && allowed
    })
}

/// The host of a plain address; none if the address has a user, a port or anything unusual.
fn host(url: &str) -> Option<String> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let host = rest.split(['/', '?', '#']).next()?;
    let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '-');
    (!host.is_empty() && host.chars().all(plain)).then(|| host.to_ascii_lowercase())
}

/// The input without insignificant white space, so that equal calls compare equal.
fn canonical(input: Raw<'_>) -> String {
    let (mut quoted, mut escaped) = (false, false);
    let significant = |it: &char| {
        let keep = quoted || !it.is_ascii_whitespace();
        if *it == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = quoted && !escaped && *it == '\\';
        keep
    };
    input.as_str().chars().filter(significant).collect()
}

#[cfg(test)]
mod tests;
