//! Tools that the session runs itself, and the validation of calls.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::play::event::{PlayerEffect, ToolErrorFlag, ToolOutcome};
use crate::play::permission::PlayerMode;
use crate::play::release::{PlayerBehavior, PlayerRelease};
use crate::play::session::PlayerSession;
use crate::play::session::conversation::PlayerAgent;
use crate::play::session::structured_output::STRUCTURED_OUTPUT;
use crate::play::texts;

impl PlayerSession {
    pub(crate) fn run_call(&mut self, id: &str) {
        let invocation = self.invocation(id);
        match invocation.tool.as_str() {
            "EnterPlanMode" => {
                self.change_mode(PlayerMode::Plan);
                let content = format!("{}{}", texts::PLAN_MODE, texts::PLAN_MODE_RULES);
                self.finish_call(
                    id,
                    ToolOutcome::plain(content, json!({ "message": texts::PLAN_MODE })),
                );
            }
            "ExitPlanMode" => self.approve_plan(id, &invocation.input),
            "AskUserQuestion" => {
                let outcome = question_outcome(&invocation.input, self.args.release);
                self.finish_call(id, outcome);
            }
            STRUCTURED_OUTPUT => self.take_structured_output(id, &invocation.input),
            "Task" => self.start_sub_agent(id, &invocation.input),
            tool if tool.starts_with("mcp__") => self.call_mcp_tool(id, tool, &invocation.input),
            "Bash" if invocation.input["run_in_background"] == true => {
                let is_main = self.call(id).is_some_and(|call| call.agent == PlayerAgent::Main);
                if is_main && self.is_streaming() {
                    self.late_commands.push(invocation);
                } else {
                    self.start_background(id, invocation);
                }
            }
            _ => self.effects.push(PlayerEffect::RunTool(invocation)),
        }
    }

    fn approve_plan(&mut self, id: &str, input: &Value) {
        let path = self.plan_path().display().to_string();
        let mode = self.mode_before_plan;
        self.change_mode(mode);
        let edited = input["edited"].as_str();
        let ignored = edited.is_some() && !self.has(PlayerBehavior::EditedPlans);
        let outcome = match edited.or(input["plan"].as_str()).filter(|_| !ignored) {
            None => ToolOutcome::plain(
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
                ToolOutcome::plain(content, report)
            }
        };
        self.finish_call(id, outcome);
    }
}

/// The required and the optional parameters of a tool.
fn parameters(tool: &str) -> Option<(&'static [&'static str], &'static [&'static str])> {
    Some(match tool {
        "Bash" => (
            &["command"],
            &["description", "timeout", "run_in_background", "dangerouslyDisableSandbox"],
        ),
        "Read" => (&["file_path"], &["offset", "limit", "pages", "allow_large"]),
        "Write" => (&["file_path", "content"], &[]),
        "Edit" => (&["file_path", "old_string", "new_string"], &["replace_all"]),
        "NotebookEdit" => {
            (&["notebook_path", "new_source"], &["cell_id", "cell_type", "edit_mode"])
        }
        "MultiEdit" => (&["file_path", "edits"], &[]),
        "Glob" => (&["pattern"], &["path"]),
        "Grep" => (&["pattern"], &["path", "glob", "output_mode", "-i", "-n", "head_limit"]),
        "TeamCreate" => (&["team_name"], &["description", "agent_type"]),
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

/// The error for a call with an invalid input.
pub(crate) fn invalid_input(tool: &str, input: &Value) -> Option<ToolOutcome> {
    if tool == "Bash" && input["run_in_background"] != true {
        let command = input["command"].as_str().unwrap_or_default();
        if let Some(text) = blocked_sleep(command) {
            return Some(ToolOutcome::invalid_call(&text));
        }
    }
    let (required, optional) = parameters(tool)?;
    let missing = required.iter().filter(|name| input.get(**name).is_none());
    let given = input.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let unexpected = given.filter(|name| !required.contains(name) && !optional.contains(name));
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
    for name in unexpected {
        let _ = write!(issues, "\nAn unexpected parameter `{name}` was provided");
        report.push(json!({
            "code": "unrecognized_keys", "keys": [name], "path": [],
            "message": format!("Unrecognized key: \"{name}\""),
        }));
    }
    let text = format!("InputValidationError: {tool} failed due to the following issues:{issues}");
    let report = serde_json::to_string_pretty(&report).unwrap_or_default();
    let mut outcome = ToolOutcome::invalid_call(&text);
    outcome.report = format!("InputValidationError: {report}").into();
    Some(outcome)
}

/// The error for a command that starts with a long `sleep`.
fn blocked_sleep(command: &str) -> Option<String> {
    let rest = command.trim().strip_prefix("sleep ")?;
    let end = rest.find([';', '&', '|', '\n']).unwrap_or(rest.len());
    let seconds: f64 = rest[..end].trim().parse().ok()?;
    // 2.1.325 ran a command with two seconds and blocked one with thirty.
    if seconds <= 20.0 {
        return None;
    }
    let remainder = rest[end..].trim_start_matches([';', '&', '|', '\n', ' ']);
    let what = if remainder.is_empty() {
        format!("sleep {seconds}")
    } else {
        format!("sleep {seconds} followed by: {remainder}")
    };
    Some(format!(
        "Blocked: {what}. To wait for a condition, use Monitor with an until-loop (e.g. `until \
         <check>; do sleep 2; done`). To wait for a command you started, use run_in_background: \
         true. Do not chain shorter sleeps to work around this block."
    ))
}

/// The error for a call of an unavailable tool.
pub(crate) fn unavailable(tool: &str) -> ToolOutcome {
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
            return ToolOutcome::invalid_call(&text);
        }
        _ => "",
    };
    ToolOutcome::invalid_call(&format!("Error: No such tool available: {tool}{more}"))
}

/// The outcome of `AskUserQuestion`.
fn question_outcome(input: &Value, release: PlayerRelease) -> ToolOutcome {
    let questions = input["questions"].as_array().cloned().unwrap_or_default();
    let given = input["answers"].as_object().cloned().unwrap_or_default();
    let mut report = json!({ "questions": questions, "answers": given });
    if !input["annotations"].is_null() {
        report["annotations"] = input["annotations"].clone();
    }
    let plain = |content: String| ToolOutcome {
        content: content.into(),
        error_flag: ToolErrorFlag::Absent,
        report,
    };
    let is_of_user = release.has(PlayerBehavior::QuestionsOfUser);
    if given.is_empty() && !is_of_user {
        return plain("The user did not answer the questions.".to_owned());
    }
    let mut parts = Vec::new();
    let mut by_label = given.len() == questions.len();
    for question in &questions {
        let text = question["question"].as_str().unwrap_or_default();
        let Some(answer) = given.get(text) else { continue };
        let choice = match answer {
            Value::String(text) => text.clone(),
            Value::Array(texts) => {
                texts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
            }
            other => other.to_string(),
        };
        by_label &= is_choice(question, answer);
        let notes = input["annotations"][text]["notes"].as_str();
        let notes = notes.filter(|_| release.has(PlayerBehavior::QuestionNotes));
        by_label &= notes.is_none();
        let notes = notes.map(|notes| format!(" notes: {notes}")).unwrap_or_default();
        parts.push(format!("\"{text}\"=\"{choice}\"{notes}"));
    }
    let answers = parts.join(", ");
    plain(if is_of_user {
        format!(
            "User has answered your questions: {answers}. You can now continue with the user's \
             answers in mind."
        )
    } else if by_label {
        format!(
            "Your questions have been answered: {answers}. You can now continue with these answers in \
             mind."
        )
    } else {
        format!(
            "The user answered: {answers}. Read the answers carefully — they may request \
             clarification, changes, or that you not proceed — and follow what they actually say."
        )
    })
}

/// Whether an answer consists of option labels only.
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

    use super::{PlayerRelease, blocked_sleep, invalid_input, question_outcome};

    #[test]
    fn a_missing_parameter_is_reported() {
        let outcome = invalid_input("Bash", &json!({"cmd": 1})).unwrap();
        let text = "<tool_use_error>InputValidationError: Bash failed due to the following issues:\n\
                    The required parameter `command` is missing\n\
                    An unexpected parameter `cmd` was provided</tool_use_error>";
        assert_eq!(outcome.content, text);
        assert!(invalid_input("Bash", &json!({"command": "ls"})).is_none());
    }

    #[test]
    fn long_sleeps_are_blocked_and_short_ones_are_not() {
        assert!(
            blocked_sleep("sleep 30; echo done")
                .unwrap()
                .contains("sleep 30 followed by: echo done.")
        );
        assert!(blocked_sleep("sleep 2; echo done").is_none());
        assert!(blocked_sleep("echo sleep 30").is_none());
    }

    #[test]
    fn answers_by_label_and_free_text_are_told_apart() {
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
        question_outcome(input, PlayerRelease::default())
            .content
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}
