//! Whether a call may run, must be asked about, or is denied.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::bash::bash;
use super::mode::Mode;
use super::rules::{Behavior, Rules, Source, absolute};
use super::shell::{Command, Part};
use crate::play::wording;

/// What a decision depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances<'a> {
    pub(crate) mode: Mode,
    pub(crate) rules: &'a Rules,
    pub(crate) cwd: &'a Path,
    /// Further directories that may be worked in.
    pub(crate) directories: &'a [PathBuf],
    /// The file of the plan, which may always be written.
    pub(crate) plan: &'a Path,
}

/// What is decided.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Decision {
    /// It runs; who decided, and by what.
    Allow(&'static str, Option<&'static str>),
    /// It is denied.
    Deny {
        /// What the model is told.
        message: String,
        /// What the kind of denial is called.
        kind: &'static str,
        /// By what.
        reason: &'static str,
    },
    /// Somebody is to be asked.
    Ask(Box<Asking>),
}

/// What is asked, and what is said where nobody can be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Asking {
    pub(crate) description: Option<String>,
    pub(crate) suggestions: Option<Vec<Value>>,
    pub(crate) blocked: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) reason_type: Option<&'static str>,
    pub(crate) policy: bool,
    pub(crate) interaction: bool,
    /// What the model is told where nobody can be asked.
    pub(crate) denial: String,
}

/// Decides about a call.
pub(crate) fn decide(tool: &str, input: &Value, given: &Circumstances<'_>) -> Decision {
    if let Some(denial) = denied(tool, input, given) {
        return denial;
    }
    if matches!(tool, "AskUserQuestion" | "ExitPlanMode") {
        let denial =
            format!("Claude requested permissions to use {tool}, but you haven't granted it yet.");
        return Decision::Ask(Box::new(Asking { interaction: true, denial, ..Asking::default() }));
    }
    if given.mode == Mode::Bypass || given.mode == Mode::Auto {
        return Decision::Allow("config", Some("mode"));
    }
    let decision = match tool {
        "Bash" => bash(input, given),
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => edit(tool, input, given),
        "Read" | "Glob" | "Grep" => read(tool, input, given),
        "Task" | "EnterPlanMode" | "TodoWrite" | "TaskStop" | "ToolSearch" | "ListAgents" => {
            Decision::Allow("config", None)
        }
        _ => other(tool, input, given),
    };
    match decision {
        Decision::Ask(_) if given.mode == Mode::DontAsk => Decision::Deny {
            message: wording::do_not_ask(tool),
            kind: "permission-rule",
            reason: "mode",
        },
        decision => decision,
    }
}

fn denied(tool: &str, input: &Value, given: &Circumstances<'_>) -> Option<Decision> {
    let deny =
        |message: String, reason| Some(Decision::Deny { message, kind: "permission-rule", reason });
    if tool == "Bash" {
        let text = input["command"].as_str().unwrap_or_default();
        let command = Command::read(text, given.cwd, given.directories);
        let hit = |part: &Part| given.rules.command(Behavior::Deny, &part.text).is_some();
        let whole = given.rules.command(Behavior::Deny, text).is_some();
        if whole || command.parts.iter().any(hit) {
            let message = format!("Permission to use Bash with command {text} has been denied.");
            return deny(message, "subcommandResults");
        }
        return None;
    }
    let path = input["file_path"].as_str().or(input["path"].as_str())?;
    let path = absolute(path, given.cwd);
    given.rules.path(Behavior::Deny, tool, &path, given.cwd)?;
    deny("File is in a directory that is denied by your permission settings.".to_owned(), "rule")
}

/// How an allowing rule is reported.
pub(super) fn by_rule(source: Source) -> Decision {
    let who = if source == Source::Settings { "user_permanent" } else { "config" };
    Decision::Allow(who, Some("rule"))
}

/// Whether a path may be worked in.
pub(super) fn inside(path: &Path, given: &Circumstances<'_>) -> bool {
    path.starts_with(given.cwd) || given.directories.iter().any(|it| path.starts_with(it))
}

/// The path of a file as a person near it would say it.
fn near(path: &Path, given: &Circumstances<'_>) -> String {
    path.strip_prefix(given.cwd).unwrap_or(path).display().to_string()
}

fn edit(tool: &str, input: &Value, given: &Circumstances<'_>) -> Decision {
    let named = input["file_path"].as_str().or(input["notebook_path"].as_str()).unwrap_or_default();
    let path = absolute(named, given.cwd);
    if path == given.plan {
        return Decision::Allow("config", Some("other"));
    }
    if given.mode == Mode::Plan {
        return Decision::Ask(Box::new(Asking {
            description: Some(near(&path, given)),
            reason_type: Some("mode"),
            denial: format!("Cannot write to {} while in plan mode.", path.display()),
            ..Asking::default()
        }));
    }
    if let Some(source) = given.rules.path(Behavior::Allow, tool, &path, given.cwd) {
        return by_rule(source);
    }
    if given.mode == Mode::AcceptEdits && inside(&path, given) {
        return Decision::Allow("config", Some("mode"));
    }
    let mode = json!({ "type": "setMode", "mode": "acceptEdits", "destination": "session" });
    let denial = format!(
        "Claude requested permissions to write to {}, but you haven't granted it yet.",
        path.display()
    );
    let mut asking = Asking {
        description: Some(near(&path, given)),
        suggestions: Some(vec![mode]),
        policy: true,
        denial,
        ..Asking::default()
    };
    if !inside(&path, given) {
        let parent = path.parent().unwrap_or(&path).display().to_string();
        let directory =
            json!({ "type": "addDirectories", "directories": [parent], "destination": "session" });
        asking.suggestions.get_or_insert_default().push(directory);
        asking.reason = Some("Path is outside allowed working directories".to_owned());
        asking.reason_type = Some("workingDir");
    }
    Decision::Ask(Box::new(asking))
}

fn read(tool: &str, input: &Value, given: &Circumstances<'_>) -> Decision {
    let named = input["file_path"].as_str().or(input["path"].as_str()).unwrap_or(".");
    let path = absolute(named, given.cwd);
    if inside(&path, given) || path == given.plan {
        return Decision::Allow("config", Some("mode"));
    }
    if let Some(source) = given.rules.path(Behavior::Allow, tool, &path, given.cwd) {
        return by_rule(source);
    }
    let parent = path.parent().unwrap_or(&path).display();
    let rule = json!({ "toolName": "Read", "ruleContent": format!("/{parent}/**") });
    let rules = json!({ "type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session" });
    Decision::Ask(Box::new(Asking {
        description: Some(path.display().to_string()),
        suggestions: Some(vec![rules]),
        reason: Some("Path is outside allowed working directories".to_owned()),
        reason_type: Some("workingDir"),
        policy: true,
        denial: format!(
            "Claude requested permissions to read from {}, but you haven't granted it yet.",
            path.display()
        ),
        ..Asking::default()
    }))
}

fn other(tool: &str, input: &Value, given: &Circumstances<'_>) -> Decision {
    if let Some(source) = given.rules.whole(Behavior::Allow, tool) {
        return by_rule(source);
    }
    let host = input["url"].as_str().and_then(|url| url.split('/').nth(2));
    let rule = match (tool, host) {
        ("WebFetch", Some(host)) => {
            json!({ "toolName": tool, "ruleContent": format!("domain:{host}") })
        }
        _ => json!({ "toolName": tool }),
    };
    let rules = json!({ "type": "addRules", "rules": [rule], "behavior": "allow", "destination": "localSettings" });
    Decision::Ask(Box::new(Asking {
        description: input["url"].as_str().or(input["query"].as_str()).map(str::to_owned),
        suggestions: Some(vec![rules]),
        denial: format!(
            "Claude requested permissions to use {tool}, but you haven't granted it yet."
        ),
        ..Asking::default()
    }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::super::rules::{Behavior, Rule, Rules, Source};
    use super::{Circumstances, Decision, Mode, decide};

    fn decided(mode: Mode, rules: &[(Behavior, &str)], tool: &str, input: &Value) -> Decision {
        let mut all = Rules::default();
        for (behavior, rule) in rules {
            all.add(*behavior, Rule::read(rule), Source::Flag);
        }
        let given = Circumstances {
            mode,
            rules: &all,
            cwd: Path::new("/project"),
            directories: &[],
            plan: Path::new("/home/plans/p.md"),
        };
        decide(tool, input, &given)
    }

    fn asks(decision: &Decision) -> bool {
        matches!(decision, Decision::Ask(_))
    }

    #[test]
    fn modes_decide_as_the_captures_show() {
        let touch = json!({"command": "touch a"});
        let write = json!({"file_path": "/project/a", "content": ""});
        let outside = json!({"file_path": "/a", "content": ""});
        assert!(asks(&decided(Mode::Default, &[], "Bash", &touch)));
        assert!(asks(&decided(Mode::Default, &[], "Write", &write)));
        assert!(!asks(&decided(Mode::AcceptEdits, &[], "Bash", &touch)));
        assert!(!asks(&decided(Mode::AcceptEdits, &[], "Write", &write)));
        assert!(asks(&decided(Mode::AcceptEdits, &[], "Write", &outside)));
        assert!(asks(&decided(Mode::Plan, &[], "Write", &write)));
        assert!(matches!(decided(Mode::Plan, &[], "Bash", &touch), Decision::Deny { .. }));
        assert!(matches!(decided(Mode::DontAsk, &[], "Bash", &touch), Decision::Deny { .. }));
        assert!(matches!(decided(Mode::Bypass, &[], "Bash", &touch), Decision::Allow(..)));
        assert!(asks(&decided(Mode::Bypass, &[], "AskUserQuestion", &json!({}))));
    }

    #[test]
    fn a_denying_rule_wins_even_where_nothing_is_asked() {
        let rules = [(Behavior::Deny, "Bash(touch:*)")];
        let decision = decided(Mode::Bypass, &rules, "Bash", &json!({"command": "ls; touch a"}));
        assert!(matches!(decision, Decision::Deny { reason: "subcommandResults", .. }));
    }

    #[test]
    fn the_plan_may_be_written_while_planning() {
        let input = json!({"file_path": "/home/plans/p.md", "content": ""});
        assert_eq!(
            decided(Mode::Plan, &[], "Write", &input),
            Decision::Allow("config", Some("other"))
        );
    }
}
