//! Rules such as `Bash(git:*)`: what they mean, and which of them speak about a call.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

/// A tool, and which of its uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) tool: String,
    pub(crate) content: Option<String>,
}

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behavior {
    Allow,
    Deny,
    Ask,
}

/// Whence a rule comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A flag.
    Flag,
    /// A settings file.
    Settings,
    /// This session.
    Session,
}

/// All rules of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    rules: Vec<(Behavior, Rule, Source)>,
}

impl Rule {
    /// Reads `Tool` or `Tool(content)`.
    pub(crate) fn read(text: &str) -> Self {
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

    /// Reads `{"toolName", "ruleContent"}`.
    pub(crate) fn from_update(rule: &Value) -> Option<Self> {
        let tool = rule["toolName"].as_str()?.to_owned();
        Some(Self { tool, content: rule["ruleContent"].as_str().map(str::to_owned) })
    }

    /// As settings write it.
    pub(crate) fn text(&self) -> String {
        match &self.content {
            Some(content) => format!("{}({content})", self.tool),
            None => self.tool.clone(),
        }
    }

    /// Whether it is about a tool at all.
    fn is_about(&self, tool: &str) -> bool {
        let edits = ["Edit", "Write", "MultiEdit", "NotebookEdit"];
        let reads = ["Read", "Glob", "Grep"];
        self.tool == tool
            || (self.tool == "Edit" && self.content.is_some() && edits.contains(&tool))
            || (self.tool == "Read" && self.content.is_some() && reads.contains(&tool))
            || (self.tool == "Agent" && tool == "Task")
            || (self.tool.starts_with("mcp__")
                && tool.strip_prefix(&self.tool).is_some_and(|rest| rest.starts_with("__")))
    }

    /// Whether it speaks about a part of a shell command.
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

    /// Whether it speaks about a path.
    fn covers_path(&self, path: &Path, cwd: &Path) -> bool {
        let Some(content) = &self.content else { return true };
        let pattern = if let Some(absolute) = content.strip_prefix("//") {
            format!("/{absolute}")
        } else {
            let near = content.strip_prefix("./").unwrap_or(content);
            cwd.join(near.trim_start_matches('/')).display().to_string()
        };
        matches(&pattern, &path.display().to_string())
    }
}

impl Rules {
    /// Adds a rule.
    pub(crate) fn add(&mut self, behavior: Behavior, rule: Rule, source: Source) {
        self.rules.push((behavior, rule, source));
    }

    /// Removes a rule.
    pub(crate) fn remove(&mut self, behavior: Behavior, rule: &Rule) {
        self.rules.retain(|(it, other, _)| !(*it == behavior && other == rule));
    }

    /// Whether a tool is denied altogether, and so not offered.
    pub(crate) fn hides(&self, tool: &str) -> bool {
        self.of(Behavior::Deny).any(|(rule, _)| rule.content.is_none() && rule.is_about(tool))
    }

    /// What a rule without content says about a tool.
    pub(crate) fn whole(&self, behavior: Behavior, tool: &str) -> Option<Source> {
        let mut rules = self.of(behavior);
        rules.find(|(rule, _)| rule.content.is_none() && rule.is_about(tool)).map(|(_, it)| it)
    }

    /// What rules say about a part of a shell command.
    pub(crate) fn command(&self, behavior: Behavior, command: &str) -> Option<Source> {
        let mut rules = self.of(behavior).filter(|(rule, _)| rule.is_about("Bash"));
        rules.find(|(rule, _)| rule.covers_command(command)).map(|(_, source)| source)
    }

    /// What rules say about a tool and a path.
    pub(crate) fn path(
        &self,
        behavior: Behavior,
        tool: &str,
        path: &Path,
        cwd: &Path,
    ) -> Option<Source> {
        let mut rules = self.of(behavior).filter(|(rule, _)| rule.is_about(tool));
        rules.find(|(rule, _)| rule.covers_path(path, cwd)).map(|(_, source)| source)
    }

    /// Every rule, as settings write them.
    pub(crate) fn texts(&self, behavior: Behavior) -> Vec<String> {
        self.of(behavior).map(|(rule, _)| rule.text()).collect()
    }

    fn of(&self, behavior: Behavior) -> impl Iterator<Item = (&Rule, Source)> {
        let same = move |(it, _, _): &&(Behavior, Rule, Source)| *it == behavior;
        self.rules.iter().filter(same).map(|(_, rule, source)| (rule, *source))
    }
}

/// Whether a pattern with `*` (and `**`) matches a text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*').filter(|part| !part.is_empty()).peekable();
    let mut rest = text;
    if !pattern.starts_with('*')
        && let Some(first) = parts.next()
    {
        match rest.strip_prefix(first) {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() && !pattern.ends_with('*') {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(place) => rest = &rest[place + part.len()..],
            None => return false,
        }
    }
    pattern.ends_with('*') || rest.is_empty()
}

/// A path without `.` and `..`, made absolute.
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

    use super::{Behavior, Rule, Rules, Source};

    fn command(rule: &str, command: &str) -> bool {
        let mut rules = Rules::default();
        rules.add(Behavior::Allow, Rule::read(rule), Source::Flag);
        rules.command(Behavior::Allow, command).is_some()
    }

    #[test]
    fn command_rules_are_whole_commands_prefixes_or_patterns() {
        assert!(command("Bash", "anything"));
        assert!(command("Bash(git:*)", "git log"));
        assert!(command("Bash(git:*)", "git"));
        assert!(!command("Bash(git:*)", "gitx"));
        assert!(command("Bash(npm install *)", "npm install left-pad"));
        assert!(command("Bash(npm install *)", "npm install"));
        assert!(!command("Bash(npm install *)", "npm test"));
        assert!(command("Bash(rm a.txt)", "rm a.txt"));
        assert!(!command("Bash(rm a.txt)", "rm b.txt"));
        assert!(!command("Read", "ls"));
    }

    #[test]
    fn path_rules_are_absolute_or_below_the_working_directory() {
        let mut rules = Rules::default();
        rules.add(Behavior::Allow, Rule::read("Read(//etc/**)"), Source::Session);
        rules.add(Behavior::Deny, Rule::read("Edit(src/**)"), Source::Settings);
        let (etc, cwd) = (Path::new("/etc/hosts"), Path::new("/project"));
        assert!(rules.path(Behavior::Allow, "Read", etc, cwd).is_some());
        assert!(rules.path(Behavior::Allow, "Write", etc, cwd).is_none());
        assert!(rules.path(Behavior::Deny, "Write", Path::new("/project/src/a.rs"), cwd).is_some());
    }

    #[test]
    fn a_rule_about_a_server_is_about_its_tools() {
        let mut rules = Rules::default();
        rules.add(Behavior::Allow, Rule::read("mcp__calc"), Source::Flag);
        assert!(rules.whole(Behavior::Allow, "mcp__calc__add").is_some());
        assert!(rules.whole(Behavior::Allow, "mcp__calculus__add").is_none());
    }
}
