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

mod visible;

use serde::{Deserialize, Serialize};

use crate::json::{Raw, Shape};
use crate::outgoing::PermissionMode;

pub use visible::visible;

/// The tools that change files. A rule for edits covers all of them.
const EDIT_TOOLS: &[&str] = &["Edit", "MultiEdit", "NotebookEdit", "Write"];

/// What [`Rule::tool`] holds for a rule that covers every edit tool.
pub const ALL_EDIT_TOOLS: &str = "edits";

/// Names that a rule for a directory never covers, at any depth: tools execute what is written
/// there without asking again.
const PROTECTED: &[&str] = &[
    ".bash_profile",
    ".bashrc",
    ".claude",
    ".devcontainer",
    ".envrc",
    ".git",
    ".gitconfig",
    ".gitmodules",
    ".husky",
    ".idea",
    ".mcp.json",
    ".profile",
    ".ssh",
    ".vscode",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    "towpath.toml",
];

/// The short names that Windows gives to protected ones.
const SHORT_NAMES: &[&str] = &["git~1", "claude~1", "gitmod~1", "vscode~1", "ssh~1"];

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
    let rule = |id, tool: &str, pattern: Option<String>, label: String| Rule {
        id,
        tool: tool.to_owned(),
        pattern,
        label,
    };
    match Scope::of(tool, input) {
        Scope::Command(command) => {
            let label = "Run exactly this command".to_owned();
            vec![rule(RuleId::Exact, tool, Some(command), label)]
        }
        Scope::Edit(path) => {
            let directory = directory.trim_end_matches('/');
            let below = format!("{directory}/**");
            let exact = rule(
                RuleId::Exact,
                ALL_EDIT_TOOLS,
                Some(path.clone()),
                format!("Edit {}, whatever the change", visible(&path)),
            );
            if is_project_directory(directory) && covers_path(&below, &path) {
                let label = format!("Edit any file in {}", visible(directory));
                vec![exact, rule(RuleId::Directory, ALL_EDIT_TOOLS, Some(below), label)]
            } else {
                vec![exact]
            }
        }
        Scope::Fetch(url) => {
            let exact =
                rule(RuleId::Exact, tool, Some(url.clone()), "Fetch exactly this address".into());
            match host(&url) {
                Some(host) => {
                    let label = format!("Fetch any page of {host}");
                    let pattern = Some(format!("domain:{host}"));
                    vec![exact, rule(RuleId::Host, tool, pattern, label)]
                }
                None => vec![exact],
            }
        }
        Scope::Other => {
            vec![
                rule(
                    RuleId::Exact,
                    tool,
                    Some(format!("input:{}", canonical(input))),
                    format!("Use {tool} with exactly this input"),
                ),
                rule(RuleId::Tool, tool, None, format!("Use {tool} with any input")),
            ]
        }
        Scope::Unsafe => Vec::new(),
    }
}

/// Whether a remembered rule (`tool`, `pattern`) allows a call.
pub fn covers(rule_tool: &str, pattern: Option<&str>, tool: &str, input: &str) -> bool {
    let Some(input) = Raw::parse(input) else { return false };
    let same_tool = rule_tool == tool || rule_tool == ALL_EDIT_TOOLS && EDIT_TOOLS.contains(&tool);
    if !same_tool {
        return false;
    }
    match (Scope::of(tool, input), pattern) {
        (Scope::Command(command), Some(pattern)) => pattern == command,
        (Scope::Edit(path), Some(pattern)) => covers_path(pattern, &path),
        (Scope::Fetch(url), Some(pattern)) => match pattern.strip_prefix("domain:") {
            Some(domain) => host(&url).as_deref() == Some(domain),
            None => pattern == url,
        },
        (Scope::Other, Some(pattern)) => {
            pattern.strip_prefix("input:").is_some_and(|it| it == canonical(input))
        }
        (Scope::Other, None) => true,
        // A grant without a pattern predates this policy: no rule for a command, an edit or an
        // address is that wide.
        (Scope::Unsafe, _) | (Scope::Command(_) | Scope::Edit(_) | Scope::Fetch(_), None) => false,
    }
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

/// Whether a rule may cover everything below a directory: not the root, nor a home directory.
fn is_project_directory(directory: &str) -> bool {
    let mut parts = directory.split('/');
    if parts.next() != Some("") {
        return false;
    }
    let parts: Vec<&str> = parts.collect();
    if parts.iter().any(|part| part.is_empty() || *part == "." || *part == "..") {
        return false;
    }
    !matches!(
        parts.as_slice(),
        [] | ["root" | "home" | "Users" | "etc" | "usr" | "var" | "opt" | "bin" | "tmp"]
            | ["home" | "Users", _]
    )
}

/// `/p/src/main.rs` covers that file, `/p/src/**` what lies below, except protected names.
fn covers_path(pattern: &str, path: &str) -> bool {
    let Some(directory) = pattern.strip_suffix("/**") else { return pattern == path };
    let Some(rest) = path.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/')) else {
        return false;
    };
    path.starts_with('/')
        // A NUL ends the path for the system, and Windows separates with backslashes.
        && !path.contains(['\0', '\\'])
        && rest.split('/').all(|part| {
            let name = folded(part);
            // Windows ignores blanks and dots at the end.
            let name = name.trim_end_matches([' ', '.']);
            !name.is_empty() && !PROTECTED.contains(&name) && !SHORT_NAMES.contains(&name)
        })
}

/// A name as file systems compare it: those of macOS and Windows ignore case, and the older one of
/// macOS ignores characters that cannot be seen.
fn folded(name: &str) -> String {
    let seen: String = name.chars().filter(|&c| !visible::is_hidden(c)).collect();
    seen.to_uppercase().to_lowercase()
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
