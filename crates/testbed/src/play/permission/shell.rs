//! What a shell command would do, as far as its text shows, and whether it may run.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::play::permission::PlayerMode;
use crate::play::permission::decision::{
    PermissionContext, PlayerPermissionDecision, PlayerPermissionQuestion, allow_by_rule, inside,
};
use crate::play::permission::rules::{RuleBehavior, absolute};
use crate::play::texts;

/// Commands that only read files.
const READERS: &[&str] = &[
    "ls", "cat", "head", "tail", "echo", "pwd", "grep", "rg", "find", "wc", "sort", "uniq", "true",
    "false", "date", "which", "printf", "sleep", "stat", "file", "du", "df", "basename", "dirname",
    "realpath", "diff", "cut", "tr", "test", "[", "tree", "cd", "whoami", "uname", "id", "seq",
];

/// Commands that change the files they name.
const MODIFIERS: &[&str] = &["touch", "mkdir", "rm", "rmdir", "mv", "cp", "sed"];

const GIT_READERS: &[&str] = &["status", "log", "diff", "show", "branch", "rev-parse", "blame"];

/// A parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShellCommandLine {
    /// The commands between `&&`, `||`, `;`, `|` and newlines.
    pub(crate) parts: Vec<ShellCommandPart>,
    /// Why the effect of the command cannot be determined from its text.
    pub(crate) unclear: Option<&'static str>,
}

/// One command of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShellCommandPart {
    /// The text without redirections.
    pub(crate) text: String,
    pub(crate) access: ShellAccess,
}

/// The files that a command would access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ShellAccess {
    /// Reads inside the working directory.
    Reads,
    /// The command and the path that it reads.
    ReadsOutside(String, PathBuf),
    /// The command and the path that it changes.
    Modifies(String, PathBuf),
    /// Redirects its output to a file.
    Redirects(PathBuf),
    Unknown,
}

impl ShellCommandLine {
    pub(crate) fn parse(text: &str, cwd: &Path, directories: &[PathBuf]) -> Self {
        let unclear = unclear(text);
        let parts = split(text).into_iter().filter(|part| !part.trim().is_empty());
        let parts =
            parts.map(|part| ShellCommandPart::parse(part.trim(), cwd, directories)).collect();
        Self { parts, unclear }
    }
}

impl ShellCommandPart {
    fn parse(text: &str, cwd: &Path, directories: &[PathBuf]) -> Self {
        let mut words = words(text);
        let redirection = words.iter().position(|word| {
            let word = word.trim_start_matches(|character: char| character.is_ascii_digit());
            word.starts_with('>') && !word.starts_with(">&")
        });
        if let Some(position) = redirection {
            let inline =
                words[position].trim_start_matches(|it: char| it.is_ascii_digit() || it == '>');
            let target = if inline.is_empty() { words.get(position + 1) } else { None };
            let target = target.map_or(inline, String::as_str);
            if target != "/dev/null" {
                let before = words[..position].join(" ");
                return Self {
                    text: before,
                    access: ShellAccess::Redirects(absolute(target, cwd)),
                };
            }
            words.truncate(position);
        }
        let inside = |path: &Path| {
            path.starts_with(cwd) || directories.iter().any(|directory| path.starts_with(directory))
        };
        let paths = || {
            let operands = words.iter().skip(1).filter(|word| !word.starts_with('-'));
            operands.map(|word| absolute(word.trim_matches(['\'', '"']), cwd)).collect::<Vec<_>>()
        };
        let mut name = words.first().map_or("", String::as_str);
        if name == "timeout" {
            name = words.get(2).map_or("", String::as_str);
        }
        let access = match name {
            "sed" if !words.iter().any(|word| word == "-i") => ShellAccess::Reads,
            "sed" => ShellAccess::Modifies(name.to_owned(), paths().pop().unwrap_or_default()),
            "find" if words.iter().any(|it| it == "-exec" || it == "-delete") => {
                ShellAccess::Unknown
            }
            "git" if words.get(1).is_some_and(|it| GIT_READERS.contains(&it.as_str())) => {
                ShellAccess::Reads
            }
            _ if MODIFIERS.contains(&name) => {
                ShellAccess::Modifies(name.to_owned(), paths().first().cloned().unwrap_or_default())
            }
            "echo" | "printf" | "date" | "seq" | "sleep" | "test" | "[" => ShellAccess::Reads,
            _ if READERS.contains(&name) => {
                let mut operands = words.iter().filter(|word| word.starts_with('/'));
                let outside = operands.find(|word| !inside(Path::new(word.as_str())));
                outside.map_or(ShellAccess::Reads, |path| {
                    ShellAccess::ReadsOutside(name.to_owned(), PathBuf::from(path))
                })
            }
            _ => ShellAccess::Unknown,
        };
        Self { text: text.to_owned(), access }
    }

    /// The rule to suggest: the command and its subcommand, if the second word looks like one, or the
    /// whole text.
    pub(crate) fn rule(&self) -> String {
        let words = words(&self.text);
        let subcommand = |word: &String| {
            word.starts_with(|it: char| it.is_ascii_lowercase())
                && word
                    .chars()
                    .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-')
        };
        match words.as_slice() {
            [name, second, ..] if subcommand(second) => format!("{name} {second} *"),
            _ => self.text.clone(),
        }
    }
}

/// Decides whether a `Bash` call may run.
pub(crate) fn decide_bash(
    input: &Value,
    context: &PermissionContext<'_>,
) -> PlayerPermissionDecision {
    let text = input["command"].as_str().unwrap_or_default();
    if let Some(source) = context.rules.for_tool(RuleBehavior::Allow, "Bash")
        && context.rules.for_tool(RuleBehavior::Ask, "Bash").is_none()
    {
        return allow_by_rule(source);
    }
    let command = ShellCommandLine::parse(text, context.cwd, context.directories);
    let is_approved = |part: &&ShellCommandPart| {
        context.rules.for_command(RuleBehavior::Allow, &part.text).is_some()
            || part.access == ShellAccess::Reads
            || (context.mode == PlayerMode::AcceptEdits
                && match &part.access {
                    ShellAccess::Modifies(_, path) | ShellAccess::Redirects(path) => {
                        inside(path, context)
                    }
                    _ => false,
                })
    };
    let unapproved: Vec<&ShellCommandPart> =
        command.parts.iter().filter(|part| !is_approved(part)).collect();
    let allowed = context.rules.for_command(RuleBehavior::Allow, text).is_some();
    let ask = context.rules.for_command(RuleBehavior::Ask, text).is_some();
    if allowed || (unapproved.is_empty() && command.unclear.is_none() && !ask) {
        return PlayerPermissionDecision::Allow("config", Some("subcommandResults"));
    }
    if context.mode == PlayerMode::Plan {
        return PlayerPermissionDecision::Deny {
            message: texts::NO_SAFETY_CHECK.to_owned(),
            kind: "automode-unavailable",
            reason: "classifier",
        };
    }
    let mut question = question(text, &command, &unapproved, context);
    question.description = input["description"].as_str().map(str::to_owned);
    PlayerPermissionDecision::Ask(Box::new(question))
}

fn question(
    text: &str,
    command: &ShellCommandLine,
    unapproved: &[&ShellCommandPart],
    context: &PermissionContext<'_>,
) -> PlayerPermissionQuestion {
    let rules = |rules: Vec<String>| {
        let rule = |content| json!({ "toolName": "Bash", "ruleContent": content });
        let rules: Vec<Value> = rules.into_iter().map(rule).collect();
        json!({ "type": "addRules", "rules": rules, "behavior": "allow", "destination": "localSettings" })
    };
    if let Some(reason) = command.unclear {
        return PlayerPermissionQuestion {
            suggestions: Some(Vec::new()),
            reason: Some(reason.to_owned()),
            reason_type: Some("other"),
            denial: reason.to_owned(),
            ..PlayerPermissionQuestion::default()
        };
    }
    let single = command.parts.len() == 1 || unapproved.len() == 1;
    let directory = |path: &Path| {
        let parent = path.parent().unwrap_or(path).display().to_string();
        json!({ "type": "addDirectories", "directories": [parent], "destination": "session" })
    };
    match unapproved {
        [part] if single => match &part.access {
            ShellAccess::Modifies(verb, path) => {
                let mode =
                    json!({ "type": "setMode", "mode": "acceptEdits", "destination": "session" });
                PlayerPermissionQuestion {
                    suggestions: Some(vec![rules(vec![part.rule()]), directory(path), mode]),
                    blocked: Some(path.display().to_string()),
                    denial: approval_text(&format!("{verb} in"), path, context),
                    ..PlayerPermissionQuestion::default()
                }
            }
            ShellAccess::Redirects(path) => {
                let rule = part.rule();
                let rule = if rule == part.text { text.to_owned() } else { rule };
                PlayerPermissionQuestion {
                    suggestions: Some(vec![rules(vec![rule]), directory(path)]),
                    blocked: Some(path.display().to_string()),
                    denial: approval_text("Output redirection to", path, context),
                    ..PlayerPermissionQuestion::default()
                }
            }
            ShellAccess::ReadsOutside(verb, path) => {
                let parent = path.parent().unwrap_or(path).display();
                let read = json!({ "toolName": "Read", "ruleContent": format!("/{parent}/**") });
                let read = json!({ "type": "addRules", "rules": [read], "behavior": "allow", "destination": "session" });
                PlayerPermissionQuestion {
                    suggestions: Some(vec![rules(vec![text.to_owned()]), read]),
                    reason_type: (command.parts.len() > 1).then_some("subcommandResults"),
                    blocked: (command.parts.len() == 1).then(|| path.display().to_string()),
                    denial: format!(
                        "{verb} in '{}' was blocked. For security, Claude Code may only read files \
                         from the allowed working directories for this session: '{}'.",
                        path.display(),
                        context.cwd.display()
                    ),
                    ..PlayerPermissionQuestion::default()
                }
            }
            ShellAccess::Reads | ShellAccess::Unknown => PlayerPermissionQuestion {
                suggestions: Some(vec![rules(vec![part.rule()])]),
                reason: Some("This command requires approval".to_owned()),
                reason_type: Some("other"),
                denial: "This command requires approval".to_owned(),
                ..PlayerPermissionQuestion::default()
            },
        },
        _ => {
            let texts: Vec<&str> = unapproved.iter().map(|part| part.text.as_str()).collect();
            PlayerPermissionQuestion {
                suggestions: Some(vec![rules(unapproved.iter().map(|part| part.rule()).collect())]),
                reason_type: Some("subcommandResults"),
                denial: format!(
                    "This Bash command contains multiple operations. The following parts require \
                     approval: {}",
                    texts.join(", ")
                ),
                ..PlayerPermissionQuestion::default()
            }
        }
    }
}

fn approval_text(what: &str, path: &Path, context: &PermissionContext<'_>) -> String {
    let (path_text, cwd) = (path.display(), context.cwd.display());
    if inside(path, context) {
        format!(
            "{what} '{path_text}' needs approval. The path is inside the working directories for \
             this session ('{cwd}'), and Claude Code asks before a shell command creates, changes or \
             removes files there."
        )
    } else {
        format!(
            "{what} '{path_text}' needs approval. The path is outside the working directories for \
             this session ('{cwd}'). Allowing runs the command as written."
        )
    }
}

/// Why the effect of a command cannot be determined from its text.
fn unclear(text: &str) -> Option<&'static str> {
    let (mut quoted, mut chars) = (false, text.chars().peekable());
    let mut variable = false;
    while let Some(character) = chars.next() {
        match character {
            '\'' => quoted = !quoted,
            '`' if !quoted => {
                return Some("A nested command in this command can't be checked before it runs");
            }
            '$' if !quoted => match chars.peek() {
                Some('(') => {
                    return Some(
                        "A nested command in this command can't be checked before it runs",
                    );
                }
                Some(next) if next.is_alphabetic() || *next == '{' || *next == '_' => {
                    variable = true;
                }
                _ => {}
            },
            _ => {}
        }
    }
    variable.then_some("A variable in this command can't be checked before it runs")
}

/// Splits a command line into its commands.
fn split(text: &str) -> Vec<String> {
    let (mut parts, mut part, mut quote) = (Vec::new(), String::new(), None);
    let mut chars = text.chars().peekable();
    while let Some(character) = chars.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '&') if part.ends_with('>') || chars.peek() == Some(&'>') => {}
            (None, ';' | '\n' | '|' | '&') => {
                while chars.next_if(|next| matches!(next, '|' | '&')).is_some() {}
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(character);
    }
    parts.push(part);
    parts
}

/// Splits a command into words. Quotes keep a word together and are not removed.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for character in text.chars() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, character) if character.is_whitespace() => {
                words.push(std::mem::take(&mut word));
                continue;
            }
            _ => {}
        }
        word.push(character);
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{ShellAccess, ShellCommandLine};

    fn parse(text: &str) -> ShellCommandLine {
        ShellCommandLine::parse(text, Path::new("/project"), &[])
    }

    #[test]
    fn the_access_of_each_command_is_determined() {
        let path = |path: &str| PathBuf::from(path);
        let access =
            |text: &str| parse(text).parts.into_iter().map(|it| it.access).collect::<Vec<_>>();
        assert_eq!(
            access("ls -la && cat a.txt | wc -l"),
            [ShellAccess::Reads, ShellAccess::Reads, ShellAccess::Reads]
        );
        assert_eq!(access("echo 'a && b; c'"), [ShellAccess::Reads]);
        assert_eq!(access("git status"), [ShellAccess::Reads]);
        assert_eq!(access("git commit -m x"), [ShellAccess::Unknown]);
        assert_eq!(
            access("touch p1"),
            [ShellAccess::Modifies("touch".into(), path("/project/p1"))]
        );
        assert_eq!(access("echo x >> /tmp/z"), [ShellAccess::Redirects(path("/tmp/z"))]);
        assert_eq!(access("ls 2>&1"), [ShellAccess::Reads]);
        assert_eq!(access("ls > /dev/null"), [ShellAccess::Reads]);
        let outside = ShellAccess::ReadsOutside("cat".into(), path("/etc/passwd"));
        assert_eq!(access("cat /etc/passwd | head -1"), [outside, ShellAccess::Reads]);
    }

    #[test]
    fn suggested_rules_are_those_of_2_1_325() {
        let rules = [
            ("npm install left-pad", "npm install *"),
            ("git commit -m 'x'", "git commit *"),
            ("touch p1", "touch p1 *"),
            ("touch made.txt", "touch made.txt"),
            ("mkdir -p zzz", "mkdir -p zzz"),
            ("./run.sh arg", "./run.sh arg *"),
            ("make", "make"),
            ("python3 -c 'print(1)'", "python3 -c 'print(1)'"),
        ];
        for (command, rule) in rules {
            assert_eq!(parse(command).parts[0].rule(), rule, "{command}");
        }
    }

    #[test]
    fn expansions_make_a_command_unclear() {
        assert!(parse("echo $(date)").unclear.is_some_and(|it| it.starts_with("A nested command")));
        assert!(parse("echo $HOME").unclear.is_some_and(|it| it.starts_with("A variable")));
        assert!(parse("echo '$HOME'").unclear.is_none());
    }
}
