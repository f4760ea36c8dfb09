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

use serde::{Deserialize, Serialize};

use crate::json::{Raw, Shape};
use crate::outgoing::PermissionMode;

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

/// Input fields that do not change what a command may do.
const COMMAND_FIELDS: &[&str] = &["command", "description", "run_in_background", "timeout"];

/// Input fields of the edit tools.
const EDIT_FIELDS: &[&str] = &[
    "cell_id",
    "cell_type",
    "content",
    "edit_mode",
    "edits",
    "file_path",
    "new_source",
    "new_string",
    "notebook_path",
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
                format!("Edit {path}, whatever the change"),
            );
            if is_project_directory(directory) && covers_path(&below, &path) {
                let label = format!("Edit any file in {directory}");
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

/// What a client must show in full, unshortened, before *Allow* can be pressed.
pub fn disclosures(tool: &str, input: &str) -> Vec<Disclosure> {
    let disclosure =
        |label: &str, text: &str| Disclosure { label: label.to_owned(), text: text.to_owned() };
    let Some(parsed) = Raw::parse(input) else { return vec![disclosure("Input", input)] };
    let field = |name: &str| parsed.get(name).and_then(Raw::text).map(String::from);
    match Scope::of(tool, parsed) {
        Scope::Command(command) => vec![disclosure("Command", &command)],
        Scope::Edit(path) => vec![disclosure("File", &path)],
        Scope::Fetch(url) => vec![disclosure("Address", &url)],
        Scope::Other => match field("file_path").or_else(|| field("path")) {
            Some(path) if only_fields(parsed, &["file_path", "path", "offset", "limit"]) => {
                vec![disclosure("File", &path)]
            }
            _ => vec![disclosure("Input", input)],
        },
        Scope::Unsafe => {
            let command = field("command").map(|it| disclosure("Command", &it));
            command.into_iter().chain([disclosure("Input", input)]).collect()
        }
    }
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
            return match field("file_path").or_else(|| field("notebook_path")) {
                Some(path) => known(EDIT_FIELDS, Self::Edit(path)),
                None => Self::Unsafe,
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
        && rest.split('/').all(|part| {
            // File systems of macOS and Windows ignore case.
            let part = part.to_lowercase();
            !matches!(part.as_str(), "" | "." | "..") && !PROTECTED.contains(&part.as_str())
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
mod tests {
    use serde_json::{Value, json};

    use super::{RuleId, covers, disclosures, rules};

    /// Whether the rule `id` offered for a call covers another one.
    #[expect(clippy::needless_pass_by_value, reason = "tests build calls in place")]
    fn covered(id: RuleId, call: (&str, Value), other: (&str, Value)) -> bool {
        let offered = rules(call.0, &call.1.to_string(), "/home/ann/project");
        let Some(rule) = offered.iter().find(|rule| rule.id == id) else { return false };
        covers(&rule.tool, rule.pattern.as_deref(), other.0, &other.1.to_string())
    }

    fn offered(tool: &str, input: &Value, directory: &str) -> Vec<RuleId> {
        rules(tool, &input.to_string(), directory).iter().map(|rule| rule.id).collect()
    }

    #[test]
    fn a_command_is_remembered_literally() {
        let bash = |command: &str| ("Bash", json!({ "command": command, "description": "x" }));
        assert!(covered(RuleId::Exact, bash("rm -rf build"), bash("rm -rf build")));
        for other in ["rm -rf /", "rm -rf build /", "rm -rf build; id", " rm -rf build", "rm"] {
            assert!(!covered(RuleId::Exact, bash("rm -rf build"), bash(other)), "{other}");
        }
        assert_eq!(offered("Bash", &bash("ls").1, "/p/q"), [RuleId::Exact]);
        // A prefix that an earlier version stored does not cover anything any more.
        let input = json!({ "command": "git diff --stat" }).to_string();
        assert!(!covers("Bash", Some("git diff:*"), "Bash", &input));
        assert!(!covers("Bash", None, "Bash", &input));
    }

    #[test]
    fn a_field_no_rule_accounts_for_is_asked_every_time() {
        let plain = ("Bash", json!({ "command": "make" }));
        let unconfined = ("Bash", json!({ "command": "make", "dangerouslyDisableSandbox": true }));
        assert!(!covered(RuleId::Exact, plain, unconfined.clone()));
        assert!(offered(unconfined.0, &unconfined.1, "/p/q").is_empty());
        assert!(offered("Bash", &json!({ "command": ["sh"] }), "/p/q").is_empty());
        let twice = r#"{"command":"ls","command":"rm -rf /"}"#;
        assert!(rules("Bash", twice, "/p/q").is_empty());
        assert!(!covers("Bash", Some("ls"), "Bash", twice));
    }

    #[test]
    fn an_edit_in_the_project_covers_the_project_and_nothing_beside_it() {
        let edit = |path: &str| ("Edit", json!({ "file_path": path, "old_string": "a" }));
        let write = |path: &str| ("Write", json!({ "file_path": path, "content": "a" }));
        let inside = || edit("/home/ann/project/src/a.rs");
        assert!(covered(RuleId::Directory, inside(), edit("/home/ann/project/b/c.rs")));
        assert!(covered(RuleId::Directory, inside(), write("/home/ann/project/new")));
        for path in [
            "/home/ann/.bashrc",
            "/home/ann/project",
            "/home/ann/projects/a",
            "/home/ann/project/../.ssh/id",
            "/home/ann/project/./../x",
            "/home/ann/project//etc",
            "/home/ann/project/.git/hooks/pre-commit",
            "/home/ann/project/sub/.GIT/config",
            "/home/ann/project/.claude/settings.json",
            "project/a",
        ] {
            assert!(!covered(RuleId::Directory, inside(), write(path)), "{path}");
        }
        let bash = ("Bash", json!({ "command": "/home/ann/project/a" }));
        assert!(!covered(RuleId::Directory, inside(), bash));
    }

    #[test]
    fn an_edit_elsewhere_covers_that_file_alone() {
        let write = |path: &str| ("Write", json!({ "file_path": path, "content": "a" }));
        let bashrc = || write("/home/ann/.bashrc");
        assert_eq!(offered("Write", &bashrc().1, "/home/ann/project"), [RuleId::Exact]);
        assert!(covered(RuleId::Exact, bashrc(), bashrc()));
        assert!(!covered(RuleId::Exact, bashrc(), write("/home/ann/.ssh/authorized_keys")));
        // A working directory that is a home or the root is too wide for a rule.
        for directory in ["/", "", "/root", "/home/ann", "/Users/ann", "/home", "relative", "/p/.."]
        {
            let below = json!({ "file_path": format!("{directory}/a"), "content": "" });
            assert_eq!(offered("Write", &below, directory), [RuleId::Exact], "{directory}");
        }
    }

    #[test]
    fn a_host_covers_its_own_pages() {
        let fetch = |url: &str| ("WebFetch", json!({ "url": url, "prompt": "x" }));
        assert!(covered(
            RuleId::Host,
            fetch("https://example.org/a"),
            fetch("http://EXAMPLE.org/b")
        ));
        for url in [
            "https://example.org.evil.com/",
            "https://example.org@evil.com/",
            "https://example.org:8443/",
            "https://evil.com/?example.org",
            "ftp://example.org/",
        ] {
            assert!(!covered(RuleId::Host, fetch("https://example.org/a"), fetch(url)), "{url}");
        }
        let odd = fetch("https://a@b.org/x");
        assert_eq!(offered(odd.0, &odd.1, "/p/q"), [RuleId::Exact]);
    }

    #[test]
    fn other_tools_are_remembered_by_their_input_or_whole() {
        let call = |name: &str| ("mcp__db__query", json!({ "name": name }));
        assert!(covered(RuleId::Exact, call("a"), call("a")));
        assert!(!covered(RuleId::Exact, call("a"), call("b")));
        assert!(covered(RuleId::Tool, call("a"), call("b")));
        assert!(!covered(RuleId::Tool, call("a"), ("mcp__db__drop", json!({ "name": "a" }))));
        // A tool that takes a command is a shell, whatever its name.
        let shell = ("mcp__x__shell", json!({ "command": "ls" }));
        assert_eq!(offered(shell.0, &shell.1, "/p/q"), [RuleId::Exact]);
    }

    #[test]
    fn what_must_be_seen_is_never_shortened() {
        let command = format!("echo {}; rm -rf ~", "x".repeat(5000));
        let shown = disclosures("Bash", &json!({ "command": command }).to_string());
        assert_eq!(shown[0].text, command);
        let odd = json!({ "command": "ls", "dangerouslyDisableSandbox": true }).to_string();
        assert!(disclosures("Bash", &odd).iter().any(|it| it.text == odd));
        assert_eq!(disclosures("Bash", "not json")[0].text, "not json");
    }
}
