//! Whether a shell command may run, and what is asked about it.

use std::path::Path;

use serde_json::{Value, json};

use super::decision::{Asking, Circumstances, Decision, by_rule, inside};
use super::mode::Mode;
use super::rules::Behavior;
use super::shell::{Command, Does, Part};
use crate::play::wording;

/// Decides about a command.
pub(super) fn bash(input: &Value, given: &Circumstances<'_>) -> Decision {
    let text = input["command"].as_str().unwrap_or_default();
    if let Some(source) = given.rules.whole(Behavior::Allow, "Bash")
        && given.rules.whole(Behavior::Ask, "Bash").is_none()
    {
        return by_rule(source);
    }
    let command = Command::read(text, given.cwd, given.directories);
    let fine = |part: &&Part| {
        given.rules.command(Behavior::Allow, &part.text).is_some()
            || part.does == Does::Reads
            || (given.mode == Mode::AcceptEdits
                && match &part.does {
                    Does::Changes(_, path) | Does::Redirects(path) => inside(path, given),
                    _ => false,
                })
    };
    let asked: Vec<&Part> = command.parts.iter().filter(|part| !fine(part)).collect();
    let exact = given.rules.command(Behavior::Allow, text).is_some();
    let must = given.rules.command(Behavior::Ask, text).is_some();
    if exact || (asked.is_empty() && command.unclear.is_none() && !must) {
        return Decision::Allow("config", Some("subcommandResults"));
    }
    if given.mode == Mode::Plan {
        return Decision::Deny {
            message: wording::UNCHECKED.to_owned(),
            kind: "automode-unavailable",
            reason: "classifier",
        };
    }
    let mut asking = question(text, &command, &asked, given);
    asking.description = input["description"].as_str().map(str::to_owned);
    Decision::Ask(Box::new(asking))
}

fn question(text: &str, command: &Command, asked: &[&Part], given: &Circumstances<'_>) -> Asking {
    let rules = |rules: Vec<String>| {
        let rule = |content| json!({ "toolName": "Bash", "ruleContent": content });
        let rules: Vec<Value> = rules.into_iter().map(rule).collect();
        json!({ "type": "addRules", "rules": rules, "behavior": "allow", "destination": "localSettings" })
    };
    if let Some(reason) = command.unclear {
        return Asking {
            suggestions: Some(Vec::new()),
            reason: Some(reason.to_owned()),
            reason_type: Some("other"),
            denial: reason.to_owned(),
            ..Asking::default()
        };
    }
    let single = command.parts.len() == 1 || asked.len() == 1;
    let directory = |path: &Path| {
        let parent = path.parent().unwrap_or(path).display().to_string();
        json!({ "type": "addDirectories", "directories": [parent], "destination": "session" })
    };
    match asked {
        [part] if single => match &part.does {
            Does::Changes(verb, path) => {
                let mode =
                    json!({ "type": "setMode", "mode": "acceptEdits", "destination": "session" });
                Asking {
                    suggestions: Some(vec![rules(vec![part.rule()]), directory(path), mode]),
                    blocked: Some(path.display().to_string()),
                    denial: approval(&format!("{verb} in"), path, given),
                    ..Asking::default()
                }
            }
            Does::Redirects(path) => {
                let rule = part.rule();
                let rule = if rule == part.text { text.to_owned() } else { rule };
                Asking {
                    suggestions: Some(vec![rules(vec![rule]), directory(path)]),
                    blocked: Some(path.display().to_string()),
                    denial: approval("Output redirection to", path, given),
                    ..Asking::default()
                }
            }
            Does::ReadsOutside(verb, path) => {
                let parent = path.parent().unwrap_or(path).display();
                let read = json!({ "toolName": "Read", "ruleContent": format!("/{parent}/**") });
                let read = json!({ "type": "addRules", "rules": [read], "behavior": "allow", "destination": "session" });
                Asking {
                    suggestions: Some(vec![rules(vec![text.to_owned()]), read]),
                    reason_type: (command.parts.len() > 1).then_some("subcommandResults"),
                    blocked: (command.parts.len() == 1).then(|| path.display().to_string()),
                    denial: format!(
                        "{verb} in '{}' was blocked. For security, Claude Code may only read files \
                         from the allowed working directories for this session: '{}'.",
                        path.display(),
                        given.cwd.display()
                    ),
                    ..Asking::default()
                }
            }
            Does::Reads | Does::Anything => Asking {
                suggestions: Some(vec![rules(vec![part.rule()])]),
                reason: Some("This command requires approval".to_owned()),
                reason_type: Some("other"),
                denial: "This command requires approval".to_owned(),
                ..Asking::default()
            },
        },
        _ => {
            let texts: Vec<&str> = asked.iter().map(|part| part.text.as_str()).collect();
            Asking {
                suggestions: Some(vec![rules(asked.iter().map(|part| part.rule()).collect())]),
                reason_type: Some("subcommandResults"),
                denial: format!(
                    "This Bash command contains multiple operations. The following parts require \
                     approval: {}",
                    texts.join(", ")
                ),
                ..Asking::default()
            }
        }
    }
}

fn approval(what: &str, path: &Path, given: &Circumstances<'_>) -> String {
    let (path_text, cwd) = (path.display(), given.cwd.display());
    if inside(path, given) {
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
