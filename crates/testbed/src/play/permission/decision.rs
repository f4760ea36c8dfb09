//! Decides whether a call may run, is denied, or needs an answer of the host.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::play::permission::PlayerMode;
use crate::play::permission::rules::{PlayerRules, RuleBehavior, RuleSource, absolute};
use crate::play::permission::shell::{ShellCommandLine, ShellCommandPart, decide_bash};
use crate::play::release::{PlayerBehavior, PlayerRelease};
use crate::play::texts;

/// What a decision depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PermissionContext<'a> {
    pub(crate) mode: PlayerMode,
    pub(crate) rules: &'a PlayerRules,
    pub(crate) cwd: &'a Path,
    /// More directories that tools may work in.
    pub(crate) directories: &'a [PathBuf],
    /// The plan file, which may always be written.
    pub(crate) plan: &'a Path,
    pub(crate) release: PlayerRelease,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PlayerPermissionDecision {
    /// The call runs. The fields are the `source` and the `reason_type` of the decision.
    Allow(&'static str, Option<&'static str>),
    Deny {
        /// The text for the model.
        message: String,
        /// The `non_execution_kind` of the result.
        kind: &'static str,
        /// The `reason_type` of the decision.
        reason: &'static str,
    },
    Ask(Box<PlayerPermissionQuestion>),
}

/// A permission request to the host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlayerPermissionQuestion {
    pub(crate) description: Option<String>,
    pub(crate) suggestions: Option<Vec<Value>>,
    pub(crate) blocked: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) reason_type: Option<&'static str>,
    pub(crate) policy: bool,
    pub(crate) interaction: bool,
    /// The text for the model if no host answers permission requests.
    pub(crate) denial: String,
}

pub(crate) fn decide(
    tool: &str,
    input: &Value,
    context: &PermissionContext<'_>,
) -> PlayerPermissionDecision {
    if let Some(denial) = denial_by_rule(tool, input, context) {
        return denial;
    }
    if matches!(tool, "AskUserQuestion" | "ExitPlanMode") {
        let denial = if context.release.has(PlayerBehavior::AsksWithoutPrompts)
            && tool == "AskUserQuestion"
        {
            "Answer questions?".to_owned()
        } else {
            format!("Claude requested permissions to use {tool}, but you haven't granted it yet.")
        };
        return PlayerPermissionDecision::Ask(Box::new(PlayerPermissionQuestion {
            interaction: true,
            denial,
            ..PlayerPermissionQuestion::default()
        }));
    }
    if context.mode == PlayerMode::Bypass || context.mode == PlayerMode::Auto {
        return PlayerPermissionDecision::Allow("config", Some("mode"));
    }
    let decision = match tool {
        "Bash" => decide_bash(input, context),
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => decide_edit(tool, input, context),
        "Read" | "Glob" | "Grep" => decide_read(tool, input, context),
        "Task" | "EnterPlanMode" | "StructuredOutput" | "TodoWrite" | "TeamCreate"
        | "TeamDelete" => PlayerPermissionDecision::Allow("config", None),
        _ => decide_other(tool, input, context),
    };
    match decision {
        PlayerPermissionDecision::Ask(_) if context.mode == PlayerMode::DontAsk => {
            PlayerPermissionDecision::Deny {
                message: texts::denied_by_mode(tool),
                kind: "permission-rule",
                reason: "mode",
            }
        }
        decision => decision,
    }
}

fn denial_by_rule(
    tool: &str,
    input: &Value,
    context: &PermissionContext<'_>,
) -> Option<PlayerPermissionDecision> {
    let deny = |message: String, reason| {
        Some(PlayerPermissionDecision::Deny { message, kind: "permission-rule", reason })
    };
    if tool == "Bash" {
        let text = input["command"].as_str().unwrap_or_default();
        let command = ShellCommandLine::parse(text, context.cwd, context.directories);
        let part_denied = |part: &ShellCommandPart| {
            context.rules.for_command(RuleBehavior::Deny, &part.text).is_some()
        };
        let line_denied = context.rules.for_command(RuleBehavior::Deny, text).is_some();
        if line_denied || command.parts.iter().any(part_denied) {
            let message = format!("Permission to use Bash with command {text} has been denied.");
            return deny(message, "subcommandResults");
        }
        return None;
    }
    let path = input["file_path"].as_str()?;
    let path = absolute(path, context.cwd);
    context.rules.for_path(RuleBehavior::Deny, tool, &path, context.cwd)?;
    deny("File is in a directory that is denied by your permission settings.".to_owned(), "rule")
}

/// The decision to allow a call because of a rule.
pub(crate) fn allow_by_rule(source: RuleSource) -> PlayerPermissionDecision {
    let decided_by = if source == RuleSource::Settings { "user_permanent" } else { "config" };
    PlayerPermissionDecision::Allow(decided_by, Some("rule"))
}

/// Whether a path is in the working directory or one of the other directories.
pub(crate) fn inside(path: &Path, context: &PermissionContext<'_>) -> bool {
    path.starts_with(context.cwd) || context.directories.iter().any(|it| path.starts_with(it))
}

/// A path relative to the working directory if it is inside.
fn display_path(path: &Path, context: &PermissionContext<'_>) -> String {
    path.strip_prefix(context.cwd).unwrap_or(path).display().to_string()
}

fn decide_edit(
    tool: &str,
    input: &Value,
    context: &PermissionContext<'_>,
) -> PlayerPermissionDecision {
    let named = input["file_path"].as_str().or(input["notebook_path"].as_str()).unwrap_or_default();
    let path = absolute(named, context.cwd);
    if path == context.plan {
        return PlayerPermissionDecision::Allow("config", Some("other"));
    }
    if context.mode == PlayerMode::Plan {
        return PlayerPermissionDecision::Ask(Box::new(PlayerPermissionQuestion {
            description: Some(display_path(&path, context)),
            reason_type: Some("mode"),
            denial: if context.release.has(PlayerBehavior::PlanModeDenial) {
                format!("Cannot write to {} while in plan mode.", path.display())
            } else {
                ungranted_write(&path)
            },
            ..PlayerPermissionQuestion::default()
        }));
    }
    if let Some(source) = context.rules.for_path(RuleBehavior::Allow, tool, &path, context.cwd) {
        return allow_by_rule(source);
    }
    if context.mode == PlayerMode::AcceptEdits && inside(&path, context) {
        return PlayerPermissionDecision::Allow("config", Some("mode"));
    }
    let mode = json!({ "type": "setMode", "mode": "acceptEdits", "destination": "session" });
    let denial = ungranted_write(&path);
    let mut question = PlayerPermissionQuestion {
        description: Some(display_path(&path, context)),
        suggestions: Some(vec![mode]),
        policy: true,
        denial,
        ..PlayerPermissionQuestion::default()
    };
    if !inside(&path, context) {
        let parent = path.parent().unwrap_or(&path).display().to_string();
        let directory =
            json!({ "type": "addDirectories", "directories": [parent], "destination": "session" });
        question.suggestions.get_or_insert_default().push(directory);
        question.reason = Some("Path is outside allowed working directories".to_owned());
        question.reason_type = Some("workingDir");
    }
    PlayerPermissionDecision::Ask(Box::new(question))
}

fn ungranted_write(path: &Path) -> String {
    format!(
        "Claude requested permissions to write to {}, but you haven't granted it yet.",
        path.display()
    )
}

fn decide_read(
    tool: &str,
    input: &Value,
    context: &PermissionContext<'_>,
) -> PlayerPermissionDecision {
    let named = input["file_path"].as_str().or(input["path"].as_str()).unwrap_or(".");
    let path = absolute(named, context.cwd);
    if inside(&path, context) || path == context.plan {
        return PlayerPermissionDecision::Allow("config", Some("mode"));
    }
    if let Some(source) = context.rules.for_path(RuleBehavior::Allow, tool, &path, context.cwd) {
        return allow_by_rule(source);
    }
    let parent = path.parent().unwrap_or(&path).display();
    let rule = json!({ "toolName": "Read", "ruleContent": format!("/{parent}/**") });
    let rules = json!({ "type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session" });
    PlayerPermissionDecision::Ask(Box::new(PlayerPermissionQuestion {
        description: Some(path.display().to_string()),
        suggestions: Some(vec![rules]),
        reason: Some("Path is outside allowed working directories".to_owned()),
        reason_type: Some("workingDir"),
        policy: true,
        denial: format!(
            "Claude requested permissions to read from {}, but you haven't granted it yet.",
            path.display()
        ),
        ..PlayerPermissionQuestion::default()
    }))
}

fn decide_other(
    tool: &str,
    input: &Value,
    context: &PermissionContext<'_>,
) -> PlayerPermissionDecision {
    if let Some(source) = context.rules.for_tool(RuleBehavior::Allow, tool) {
        return allow_by_rule(source);
    }
    let host = input["url"].as_str().and_then(|url| url.split('/').nth(2));
    let rule = match (tool, host) {
        ("WebFetch", Some(host)) => {
            json!({ "toolName": tool, "ruleContent": format!("domain:{host}") })
        }
        _ => json!({ "toolName": tool }),
    };
    let rules = json!({ "type": "addRules", "rules": [rule], "behavior": "allow", "destination": "localSettings" });
    PlayerPermissionDecision::Ask(Box::new(PlayerPermissionQuestion {
        description: input["url"].as_str().map(str::to_owned),
        suggestions: Some(vec![rules]),
        denial: format!(
            "Claude requested permissions to use {tool}, but you haven't granted it yet."
        ),
        ..PlayerPermissionQuestion::default()
    }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::super::rules::{PlayerRule, PlayerRules, RuleBehavior, RuleSource};
    use super::{PermissionContext, PlayerMode, PlayerPermissionDecision, decide};

    fn decided(
        mode: PlayerMode,
        rules: &[(RuleBehavior, &str)],
        tool: &str,
        input: &Value,
    ) -> PlayerPermissionDecision {
        let mut all = PlayerRules::default();
        for (behavior, rule) in rules {
            all.add(*behavior, PlayerRule::parse(rule), RuleSource::Flag);
        }
        let context = PermissionContext {
            mode,
            rules: &all,
            cwd: Path::new("/project"),
            directories: &[],
            plan: Path::new("/home/plans/p.md"),
            release: crate::play::release::PlayerRelease::default(),
        };
        decide(tool, input, &context)
    }

    fn host_requests(decision: &PlayerPermissionDecision) -> bool {
        matches!(decision, PlayerPermissionDecision::Ask(_))
    }

    #[test]
    fn modes_decide_as_in_the_captures() {
        let touch = json!({"command": "touch a"});
        let write = json!({"file_path": "/project/a", "content": ""});
        let outside = json!({"file_path": "/a", "content": ""});
        assert!(host_requests(&decided(PlayerMode::Default, &[], "Bash", &touch)));
        assert!(host_requests(&decided(PlayerMode::Default, &[], "Write", &write)));
        assert!(!host_requests(&decided(PlayerMode::AcceptEdits, &[], "Bash", &touch)));
        assert!(!host_requests(&decided(PlayerMode::AcceptEdits, &[], "Write", &write)));
        assert!(host_requests(&decided(PlayerMode::AcceptEdits, &[], "Write", &outside)));
        assert!(host_requests(&decided(PlayerMode::Plan, &[], "Write", &write)));
        assert!(matches!(
            decided(PlayerMode::Plan, &[], "Bash", &touch),
            PlayerPermissionDecision::Deny { .. }
        ));
        assert!(matches!(
            decided(PlayerMode::DontAsk, &[], "Bash", &touch),
            PlayerPermissionDecision::Deny { .. }
        ));
        assert!(matches!(
            decided(PlayerMode::Bypass, &[], "Bash", &touch),
            PlayerPermissionDecision::Allow(..)
        ));
        assert!(host_requests(&decided(PlayerMode::Bypass, &[], "AskUserQuestion", &json!({}))));
    }

    #[test]
    fn a_deny_rule_applies_in_every_mode() {
        let rules = [(RuleBehavior::Deny, "Bash(touch:*)")];
        let decision =
            decided(PlayerMode::Bypass, &rules, "Bash", &json!({"command": "ls; touch a"}));
        assert!(matches!(
            decision,
            PlayerPermissionDecision::Deny { reason: "subcommandResults", .. }
        ));
    }

    #[test]
    fn the_plan_file_may_be_written_in_plan_mode() {
        let input = json!({"file_path": "/home/plans/p.md", "content": ""});
        assert_eq!(
            decided(PlayerMode::Plan, &[], "Write", &input),
            PlayerPermissionDecision::Allow("config", Some("other"))
        );
    }
}
