//! Permission rules such as `Bash(git:*)`, and which of them apply to a call.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

/// A rule about a tool, or about some of its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlayerRule {
    pub(crate) tool: String,
    pub(crate) content: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleBehavior {
    Allow,
    Deny,
    Ask,
}

/// Where a rule comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleSource {
    Flag,
    Settings,
    /// Settings that the host has applied to the running session.
    FlagSettings,
    /// An answer of the host during the session.
    Session,
}

impl RuleBehavior {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Ask => "ask",
        }
    }
}

impl RuleSource {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Flag => "cliArg",
            Self::Settings => "projectSettings",
            Self::FlagSettings => "flagSettings",
            Self::Session => "session",
        }
    }
}

/// All rules of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlayerRules {
    rules: Vec<(RuleBehavior, PlayerRule, RuleSource)>,
}

impl PlayerRule {
    /// Parses `Tool` or `Tool(content)`.
    pub(crate) fn parse(text: &str) -> Self {
        let text = text.trim();
        let content = text.split_once('(').and_then(|(tool, rest)| {
            rest.strip_suffix(')').map(|content| (tool, content.to_owned()))
        });
        match content {
            Some((tool, content)) if content != "*" && !content.is_empty() => {
                Self { tool: tool.to_owned(), content: Some(content) }
            }
            Some((tool, _)) => Self { tool: tool.to_owned(), content: None },
            None => Self { tool: text.to_owned(), content: None },
        }
    }

    /// Parses `{"toolName", "ruleContent"}`.
    pub(crate) fn from_update(rule: &Value) -> Option<Self> {
        let tool = rule["toolName"].as_str()?.to_owned();
        Some(Self { tool, content: rule["ruleContent"].as_str().map(str::to_owned) })
    }

    /// The rule as settings files write it.
    pub(crate) fn text(&self) -> String {
        match &self.content {
            Some(content) => format!("{}({content})", self.tool),
            None => self.tool.clone(),
        }
    }

    /// Whether the rule is about a tool, or about some of its calls.
    fn is_about(&self, tool: &str) -> bool {
        let edits = ["Edit", "Write", "NotebookEdit"];
        self.tool == tool
            || (self.tool == "Edit" && self.content.is_some() && edits.contains(&tool))
            || (self.tool == "Agent" && tool == "Task")
            || (self.tool.starts_with("mcp__")
                && tool.strip_prefix(&self.tool).is_some_and(|rest| rest.starts_with("__")))
    }

    /// Whether the rule covers one part of a shell command.
    fn covers_command(&self, command: &str) -> bool {
        match &self.content {
            None => true,
            Some(content) => match content.strip_suffix(":*") {
                Some(prefix) => {
                    command == prefix
                        || command.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(' '))
                }
                None if content.contains('*') => {
                    matches(content, command)
                        || content.strip_suffix(" *").is_some_and(|prefix| prefix == command)
                }
                None => content == command,
            },
        }
    }

    /// Whether the rule covers a path.
    fn covers_path(&self, path: &Path, cwd: &Path) -> bool {
        let Some(content) = &self.content else { return true };
        let pattern = if let Some(absolute) = content.strip_prefix("//") {
            format!("/{absolute}")
        } else {
            let relative = content.strip_prefix("./").unwrap_or(content);
            cwd.join(relative.trim_start_matches('/')).display().to_string()
        };
        matches(&pattern, &path.display().to_string())
    }
}

impl PlayerRules {
    pub(crate) fn add(&mut self, behavior: RuleBehavior, rule: PlayerRule, source: RuleSource) {
        self.rules.push((behavior, rule, source));
    }

    /// Whether every call of a tool is denied. The model is not offered such a tool.
    pub(crate) fn hides(&self, tool: &str) -> bool {
        self.of(RuleBehavior::Deny).any(|(rule, _)| rule.content.is_none() && rule.is_about(tool))
    }

    /// The source of a rule that covers every call of a tool.
    pub(crate) fn for_tool(&self, behavior: RuleBehavior, tool: &str) -> Option<RuleSource> {
        let mut rules = self.of(behavior);
        rules.find(|(rule, _)| rule.content.is_none() && rule.is_about(tool)).map(|(_, it)| it)
    }

    /// The source of a rule that covers one part of a shell command.
    pub(crate) fn for_command(&self, behavior: RuleBehavior, command: &str) -> Option<RuleSource> {
        let mut rules = self.of(behavior).filter(|(rule, _)| rule.is_about("Bash"));
        rules.find(|(rule, _)| rule.covers_command(command)).map(|(_, source)| source)
    }

    /// The source of a rule that covers a tool and a path.
    pub(crate) fn for_path(
        &self,
        behavior: RuleBehavior,
        tool: &str,
        path: &Path,
        cwd: &Path,
    ) -> Option<RuleSource> {
        let mut rules = self.of(behavior).filter(|(rule, _)| rule.is_about(tool));
        rules.find(|(rule, _)| rule.covers_path(path, cwd)).map(|(_, source)| source)
    }

    /// All rules.
    pub(crate) fn all(&self) -> impl Iterator<Item = (RuleBehavior, &PlayerRule, RuleSource)> {
        self.rules.iter().map(|(behavior, rule, source)| (*behavior, rule, *source))
    }

    fn of(&self, behavior: RuleBehavior) -> impl Iterator<Item = (&PlayerRule, RuleSource)> {
        let same = move |(it, _, _): &&(RuleBehavior, PlayerRule, RuleSource)| *it == behavior;
        self.rules.iter().filter(same).map(|(_, rule, source)| (rule, *source))
    }
}

/// Whether a pattern with `*` or `**` matches a text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*').filter(|part| !part.is_empty()).peekable();
    let mut rest = text;
    if !pattern.starts_with('*')
        && let Some(first) = parts.next()
    {
        match rest.strip_prefix(first) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() && !pattern.ends_with('*') {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(position) => rest = &rest[position + part.len()..],
            None => return false,
        }
    }
    pattern.ends_with('*') || rest.is_empty()
}

/// An absolute path without `.` and `..`.
pub(crate) fn absolute(path: &str, cwd: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for component in cwd.join(path).components() {
        match component {
            Component::ParentDir => drop(whole.pop()),
            Component::CurDir => {}
            other => whole.push(other),
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{PlayerRule, PlayerRules, RuleBehavior, RuleSource};

    fn allows(rule: &str, command: &str) -> bool {
        let mut rules = PlayerRules::default();
        rules.add(RuleBehavior::Allow, PlayerRule::parse(rule), RuleSource::Flag);
        rules.for_command(RuleBehavior::Allow, command).is_some()
    }

    #[test]
    fn command_rules_are_whole_commands_prefixes_or_patterns() {
        assert!(allows("Bash", "anything"));
        assert!(allows("Bash(git:*)", "git log"));
        assert!(allows("Bash(git:*)", "git"));
        assert!(!allows("Bash(git:*)", "gitx"));
        assert!(allows("Bash(npm install *)", "npm install left-pad"));
        assert!(allows("Bash(npm install *)", "npm install"));
        assert!(!allows("Bash(npm install *)", "npm test"));
        assert!(allows("Bash(rm a.txt)", "rm a.txt"));
        assert!(!allows("Bash(rm a.txt)", "rm b.txt"));
        assert!(!allows("Read", "ls"));
    }

    #[test]
    fn path_rules_are_absolute_or_relative_to_the_working_directory() {
        let mut rules = PlayerRules::default();
        rules.add(RuleBehavior::Allow, PlayerRule::parse("Read(//etc/**)"), RuleSource::Session);
        rules.add(RuleBehavior::Deny, PlayerRule::parse("Edit(src/**)"), RuleSource::Settings);
        let (etc, cwd) = (Path::new("/etc/hosts"), Path::new("/project"));
        assert!(rules.for_path(RuleBehavior::Allow, "Read", etc, cwd).is_some());
        assert!(rules.for_path(RuleBehavior::Allow, "Write", etc, cwd).is_none());
        assert!(
            rules
                .for_path(RuleBehavior::Deny, "Write", Path::new("/project/src/a.rs"), cwd)
                .is_some()
        );
    }

    #[test]
    fn a_rule_about_a_server_is_about_its_tools() {
        let mut rules = PlayerRules::default();
        rules.add(RuleBehavior::Allow, PlayerRule::parse("mcp__calc"), RuleSource::Flag);
        assert!(rules.for_tool(RuleBehavior::Allow, "mcp__calc__add").is_some());
        assert!(rules.for_tool(RuleBehavior::Allow, "mcp__calculus__add").is_none());
    }
}
