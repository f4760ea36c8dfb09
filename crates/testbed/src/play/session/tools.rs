//! Tools that the session carries out itself, and what is wrong with calls of any.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Session;
use crate::play::effect::Effect;
use crate::play::input::{Marked, Outcome};
use crate::play::permission::Mode;
use crate::play::wording;

/// Parameters of a tool: those it needs, and those it takes.
fn parameters(tool: &str) -> Option<(&'static [&'static str], &'static [&'static str])> {
    Some(match tool {
        "Bash" => (
            &["command"],
            &["description", "timeout", "run_in_background", "dangerouslyDisableSandbox"],
        ),
        "Read" => (&["file_path"], &["offset", "limit", "pages", "allow_large"]),
        "Write" => (&["file_path", "content"], &[]),
        "Edit" => (&["file_path", "old_string", "new_string"], &["replace_all"]),
        "MultiEdit" => (&["file_path", "edits"], &[]),
        "NotebookEdit" => {
            (&["notebook_path", "new_source"], &["cell_id", "cell_type", "edit_mode"])
        }
        "Glob" => (&["pattern"], &["path"]),
        "TodoWrite" => (&["todos"], &[]),
        "Task" => (
            &["description", "prompt"],
            &[
                "subagent_type",
                "run_in_background",
                "model",
                "name",
                "team_name",
                "mode",
                "isolation",
            ],
        ),
        "AskUserQuestion" => (&["questions"], &["answers", "annotations", "metadata"]),
        _ => return None,
    })
}

/// What is wrong with the input of a call, if anything is.
pub(super) fn misuse(tool: &str, input: &Value) -> Option<Outcome> {
    if tool == "Bash" && input["run_in_background"] != true {
        let command = input["command"].as_str().unwrap_or_default();
        if let Some(text) = sleeps(command) {
            return Some(Outcome::misuse(&text));
        }
    }
    let (needed, taken) = parameters(tool)?;
    let missing = needed.iter().filter(|name| input.get(**name).is_none());
    let given = input.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let strange = given.filter(|name| !needed.contains(name) && !taken.contains(name));
    let mut issues = String::new();
    let mut report = Vec::new();
    for name in missing {
        let _ = write!(issues, "\nThe required parameter `{name}` is missing");
        report.push(json!({
            "expected": "string", "code": "invalid_type", "path": [name],
            "message": "Invalid input: expected string, received undefined",
        }));
    }
    if issues.is_empty() {
        return None;
    }
    for name in strange {
        let _ = write!(issues, "\nAn unexpected parameter `{name}` was provided");
        report.push(json!({
            "code": "unrecognized_keys", "keys": [name], "path": [],
            "message": format!("Unrecognized key: \"{name}\""),
        }));
    }
    let text = format!("InputValidationError: {tool} failed due to the following issues:{issues}");
    let report = serde_json::to_string_pretty(&report).unwrap_or_default();
    let mut outcome = Outcome::misuse(&text);
    outcome.report = format!("InputValidationError: {report}").into();
    Some(outcome)
}

/// Why a command that begins by sleeping is not run.
fn sleeps(command: &str) -> Option<String> {
    let rest = command.trim().strip_prefix("sleep ")?;
    let end = rest.find([';', '&', '|', '\n']).unwrap_or(rest.len());
    let seconds: f64 = rest[..end].trim().parse().ok()?;
    // 2.1.325 let two seconds pass and blocked thirty.
    if seconds <= 20.0 {
        return None;
    }
    let behind = rest[end..].trim_start_matches([';', '&', '|', '\n', ' ']);
    let what = if behind.is_empty() {
        format!("sleep {seconds}")
    } else {
        format!("sleep {seconds} followed by: {behind}")
    };
    Some(format!(
        "Blocked: {what}. To wait for a condition, use Monitor with an until-loop (e.g. `until \
         <check>; do sleep 2; done`). To wait for a command you started, use run_in_background: \
         true. Do not chain shorter sleeps to work around this block."
    ))
}

/// What a tool that is not there answers.
pub(super) fn unavailable(tool: &str) -> Outcome {
    let more = match tool {
        "Glob" => {
            ". Glob is not available in this session — find files with `find` via the Bash tool instead."
        }
        "Grep" => {
            ". Grep is not available in this session — search file contents with `grep` via the Bash tool instead."
        }
        "TodoWrite" | "AskUserQuestion" | "EnterPlanMode" | "ExitPlanMode" | "Bash" | "Read"
        | "Write" | "Edit" | "NotebookEdit" | "WebFetch" | "WebSearch" | "Task" => {
            let text = format!(
                "Error: No such tool available: {tool}. {tool} is disabled for this session, in \
                 subagents as well as here."
            );
            return Outcome::misuse(&text);
        }
        _ => "",
    };
    Outcome::misuse(&format!("Error: No such tool available: {tool}{more}"))
}

impl Session {
    /// Carries a call out.
    pub(super) fn run(&mut self, id: &str) {
        let work = self.work(id);
        match work.tool.as_str() {
            "EnterPlanMode" => {
                self.change_mode(Mode::Plan);
                let content = format!("{}{}", wording::PLANNING, wording::PLANNING_RULES);
                self.done(id, Outcome::plain(content, json!({ "message": wording::PLANNING })));
            }
            "ExitPlanMode" => self.approve_plan(id, &work.input),
            "AskUserQuestion" => {
                let outcome = answers(&work.input);
                self.done(id, outcome);
            }
            "Task" => self.start_helper(id, &work.input),
            "TaskStop" => {
                let task = work.input["task_id"].as_str().unwrap_or_default().to_owned();
                let outcome = if self.stop_task(&task) {
                    Outcome::plain(format!("Stopped task {task}"), json!({ "task_id": task }))
                } else {
                    Outcome::failure(&format!("No task found with ID: {task}"))
                };
                self.done(id, outcome);
            }
            tool if tool.starts_with("mcp__") => self.call_server(id, tool, &work.input),
            "Bash" if work.input["run_in_background"] == true => self.start_background(id, work),
            _ => self.effects.push(Effect::Run(work)),
        }
    }

    fn approve_plan(&mut self, id: &str, input: &Value) {
        let path = self.plan_path().display().to_string();
        let mode = self.mode_before_plan;
        self.change_mode(mode);
        let edited = input["edited"].as_str();
        let outcome = match edited.or(input["plan"].as_str()) {
            None => Outcome::plain(
                "User has approved exiting plan mode. You can now proceed.",
                json!({ "plan": null, "isAgent": false, "filePath": path }),
            ),
            Some(plan) => {
                let note = if edited.is_some() { " (edited by user)" } else { "" };
                let content = format!(
                    "User has approved your plan. You can now start coding. Start with updating \
                     your todo list if applicable\n\nYour plan has been saved to: {path}\nYou can \
                     refer back to it if needed during implementation.\n\n## Approved \
                     Plan{note}:\n{plan}"
                );
                let mut report = json!({ "plan": plan, "isAgent": false, "filePath": path });
                if edited.is_some() {
                    report["planWasEdited"] = true.into();
                }
                Outcome::plain(content, report)
            }
        };
        self.done(id, outcome);
    }
}

/// What the model is told about the answers to its questions.
fn answers(input: &Value) -> Outcome {
    let questions = input["questions"].as_array().cloned().unwrap_or_default();
    let given = input["answers"].as_object().cloned().unwrap_or_default();
    let mut report = json!({ "questions": questions, "answers": given });
    if !input["annotations"].is_null() {
        report["annotations"] = input["annotations"].clone();
    }
    let plain = |content: String| Outcome { content: content.into(), marked: Marked::Not, report };
    if given.is_empty() {
        return plain("The user did not answer the questions.".to_owned());
    }
    let mut said = Vec::new();
    let mut by_label = given.len() == questions.len();
    for question in &questions {
        let text = question["question"].as_str().unwrap_or_default();
        let Some(answer) = given.get(text) else { continue };
        let words = match answer {
            Value::String(words) => words.clone(),
            Value::Array(words) => {
                words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
            }
            other => other.to_string(),
        };
        by_label &= is_choice(question, answer);
        let notes = input["annotations"][text]["notes"].as_str();
        by_label &= notes.is_none();
        let notes = notes.map(|notes| format!(" notes: {notes}")).unwrap_or_default();
        said.push(format!("\"{text}\"=\"{words}\"{notes}"));
    }
    let said = said.join(", ");
    plain(if by_label {
        format!(
            "Your questions have been answered: {said}. You can now continue with these answers in \
             mind."
        )
    } else {
        format!(
            "The user answered: {said}. Read the answers carefully — they may request \
             clarification, changes, or that you not proceed — and follow what they actually say."
        )
    })
}

/// Whether an answer only names options.
fn is_choice(question: &Value, answer: &Value) -> bool {
    let options = question["options"].as_array().into_iter().flatten();
    let labels: Vec<&str> = options.filter_map(|option| option["label"].as_str()).collect();
    let Some(answer) = answer.as_str() else { return false };
    labels.contains(&answer)
        || (question["multiSelect"] == true
            && answer.split(", ").all(|choice| labels.contains(&choice)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{answers, misuse, sleeps};

    #[test]
    fn a_call_without_what_it_needs_is_told_what_is_missing() {
        let outcome = misuse("Bash", &json!({"cmd": 1})).unwrap();
        let text = "<tool_use_error>InputValidationError: Bash failed due to the following issues:\n\
                    The required parameter `command` is missing\n\
                    An unexpected parameter `cmd` was provided</tool_use_error>";
        assert_eq!(outcome.content, text);
        assert!(misuse("Bash", &json!({"command": "ls"})).is_none());
    }

    #[test]
    fn long_sleeps_are_blocked_and_short_ones_are_not() {
        assert!(
            sleeps("sleep 30; echo done").unwrap().contains("sleep 30 followed by: echo done.")
        );
        assert!(sleeps("sleep 2; echo done").is_none());
        assert!(sleeps("echo sleep 30").is_none());
    }

    #[test]
    fn answers_by_label_and_in_own_words_are_told_apart() {
        let question = |answers: Value| {
            let option = |label: &str| json!({"label": label, "description": ""});
            let input = json!({"questions": [
                {"question": "Which?", "options": [option("A"), option("B")], "multiSelect": true},
            ], "answers": answers});
            answers_text(&input)
        };
        assert!(
            question(json!({"Which?": "A, B"}))
                .starts_with("Your questions have been answered: \"Which?\"=\"A, B\".")
        );
        assert!(
            question(json!({"Which?": "neither"}))
                .starts_with("The user answered: \"Which?\"=\"neither\".")
        );
        assert!(
            question(json!({"Which?": ["A", "B"]}))
                .starts_with("The user answered: \"Which?\"=\"A,B\".")
        );
        assert_eq!(question(json!({})), "The user did not answer the questions.");
    }

    fn answers_text(input: &Value) -> String {
        answers(input).content.as_str().unwrap_or_default().to_owned()
    }
}
