//! The hooks that run before a file changes while the agent waits for their answer.
//!
//! They have the semantics of the CLI's own `PreToolUse` hooks. A program denies the call with exit
//! code 2 and a reason on stderr, or with exit code 0 and JSON on stdout that says so. Everything
//! else that goes wrong, a timeout included, is logged and lets the call go the usual way.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;
use wire::outgoing::{JsonObject, hook_denial};

use crate::hooks::{HookSettings, gitbutler_session};
use crate::process::{Program, ProgramOutput};
use crate::project::{PathRejection, Project, Selection};
use crate::report::LogLine;

/// The exit code with which a hook denies a call.
const DENIED: i32 = 2;

/// Whether the installed GitButler has hooks, once that is known.
static GITBUTLER: OnceCell<bool> = OnceCell::const_new();

/// The hooks of a session that run before a file changes.
#[derive(Clone, Debug)]
pub struct PreHook {
    pub settings: HookSettings,
    /// For which files of the project they run. They run for all files outside of it.
    pub selection: Selection,
    pub project: PathBuf,
}

/// What the hooks decided, and what is to be logged.
#[derive(Debug, Default)]
pub struct PreHookResult {
    /// The answer for the agent; none if the call goes the usual way.
    pub output: Option<JsonObject>,
    pub log: Vec<LogLine>,
}

/// The call that the hooks are about.
struct CheckedCall {
    tool: String,
    path: String,
    cwd: PathBuf,
    input: Value,
}

impl PreHook {
    /// Runs the hooks, with `input` as the agent sent it.
    pub async fn run(&self, input: &str) -> PreHookResult {
        let mut result = PreHookResult::default();
        let call = CheckedCall::of(input, &self.project);
        let file = Project::at(&self.project)
            .map_err(|_| PathRejection::Outside)
            .and_then(|project| project.resolve(&call.path, &call.cwd));
        if file.as_ref().is_ok_and(|file| !self.selection.matches(&file.relative)) {
            return result;
        }
        if let Some(line) = &self.settings.pre {
            let program = Program::shell(line, &[]).stdin(input.as_bytes().to_vec());
            let program = program.directory(&call.cwd);
            self.run_program(program, &call, &mut result).await;
        }
        let denied = result.output.is_some();
        if !denied && file.is_ok() {
            self.run_gitbutler(&call, &mut result).await;
        }
        result
    }

    async fn run_program(&self, program: Program, call: &CheckedCall, result: &mut PreHookResult) {
        let path = Some(call.path.clone());
        match program.run(self.settings.timeout).await {
            Ok(output) => match answer_of(&output) {
                HookVerdict::Continue => {
                    let text = format!("the hook before {} accepted it", call.name());
                    result.log.push(LogLine::Hook { text, path });
                }
                HookVerdict::Answer { output, denial } => {
                    let text = match denial {
                        Some(reason) => format!("the hook denied {}: {reason}", call.name()),
                        None => format!("the hook decided on {}", call.name()),
                    };
                    result.log.push(LogLine::Hook { text, path });
                    result.output = Some(output);
                }
                HookVerdict::Failed => {
                    let (status, message) = (output.status, output.message());
                    let text = format!(
                        "the hook before {} failed ({status}), and the call went on: {message}",
                        call.name()
                    );
                    result.log.push(LogLine::Problem(text));
                }
            },
            Err(error) => {
                let text = format!("hook: {error}; {} went on without it", call.name());
                result.log.push(LogLine::Problem(text));
            }
        }
    }

    /// Runs GitButler's hook. It decides nothing.
    async fn run_gitbutler(&self, call: &CheckedCall, result: &mut PreHookResult) {
        let Some(but) = &self.settings.gitbutler else { return };
        let has_hooks = GITBUTLER.get_or_init(async || {
            let probe = Program::new(but).args(["claude", "pre-tool", "--help"]);
            probe.run_checked(self.settings.timeout).await.is_ok()
        });
        // That they are missing is logged when the other hooks are started.
        if !*has_hooks.await {
            return;
        }
        let mut input = call.input.clone();
        let session = input["session_id"].as_str().unwrap_or_default().to_owned();
        if let Some(derived) = gitbutler_session(&session) {
            input["session_id"] = json!(derived.to_string());
        }
        if call.tool == "NotebookEdit" {
            input["tool_input"] = json!({ "file_path": call.path });
        }
        let name = format!("{} claude pre-tool", but.display());
        let program = Program::new(but).args(["claude", "pre-tool"]).named(name);
        let program = program.directory(&call.cwd).stdin(input.to_string().into_bytes());
        if let Err(error) = program.run_checked(self.settings.timeout).await {
            result.log.push(LogLine::Problem(format!("hook: {error}")));
        }
    }
}

impl CheckedCall {
    fn of(input: &str, project: &std::path::Path) -> Self {
        let input: Value = serde_json::from_str(input).unwrap_or_default();
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let tool = text(&input["tool_name"]);
        let key = if tool == "NotebookEdit" { "notebook_path" } else { "file_path" };
        let path = text(&input["tool_input"][key]);
        let cwd = Some(PathBuf::from(text(&input["cwd"]))).filter(|it| it.is_dir());
        let cwd = cwd.unwrap_or_else(|| project.to_owned());
        Self { tool, path, cwd, input }
    }

    /// For a person: `Write of /p/a.txt`.
    fn name(&self) -> String {
        format!("{} of {}", self.tool, self.path)
    }
}

/// What the output of a hook means.
enum HookVerdict {
    /// It has nothing to say.
    Continue,
    Answer {
        output: JsonObject,
        denial: Option<String>,
    },
    /// It neither accepted nor denied the call.
    Failed,
}

fn answer_of(output: &ProgramOutput) -> HookVerdict {
    match output.status.code() {
        Some(0) => match serde_json::from_slice(&output.stdout) {
            Ok(Value::Object(fields)) => answer_of_json(&fields),
            _ => HookVerdict::Continue,
        },
        Some(DENIED) => {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            HookVerdict::Answer { output: hook_denial(&reason), denial: Some(reason) }
        }
        _ => HookVerdict::Failed,
    }
}

/// The answer that a hook printed. It is built from the fields that the CLI documents: the CLI
/// ignores an answer with a field of the wrong type as a whole, and with it a denial.
fn answer_of_json(fields: &Map<String, Value>) -> HookVerdict {
    let none = Map::new();
    let specific = fields.get("hookSpecificOutput").and_then(Value::as_object).unwrap_or(&none);
    let text = |from: &Map<String, Value>, key: &str| from.get(key)?.as_str().map(str::to_owned);
    let stops = fields.get("continue") == Some(&Value::Bool(false));
    let decision = match (text(fields, "decision").as_deref(), stops) {
        (Some("block"), _) | (_, true) => Some("deny".to_owned()),
        (Some("approve"), _) => Some("allow".to_owned()),
        _ => text(specific, "permissionDecision"),
    };
    let decision = decision.filter(|it| ["allow", "ask", "deny"].contains(&it.as_str()));
    let reason = text(specific, "permissionDecisionReason")
        .or_else(|| text(fields, "reason"))
        .or_else(|| text(fields, "stopReason"));
    if decision.as_deref() == Some("deny") && !stops {
        let reason = reason.unwrap_or_default();
        return HookVerdict::Answer { output: hook_denial(&reason), denial: Some(reason) };
    }
    let mut inner = json!({ "hookEventName": "PreToolUse" });
    if let Some(decision) = &decision {
        inner["permissionDecision"] = json!(decision);
    }
    if let Some(reason) = &reason {
        inner["permissionDecisionReason"] = json!(reason);
    }
    for key in ["updatedInput", "additionalContext"] {
        let fits =
            |it: &&Value| if key == "updatedInput" { it.is_object() } else { it.is_string() };
        if let Some(value) = specific.get(key).filter(fits) {
            inner[key] = value.clone();
        }
    }
    let mut outer = Map::new();
    if inner.as_object().is_some_and(|it| it.len() > 1) {
        outer.insert("hookSpecificOutput".to_owned(), inner);
    }
    for key in ["stopReason", "systemMessage"] {
        outer.extend(
            fields.get(key).filter(|it| it.is_string()).map(|it| (key.to_owned(), it.clone())),
        );
    }
    for key in ["continue", "suppressOutput"] {
        outer.extend(
            fields.get(key).filter(|it| it.is_boolean()).map(|it| (key.to_owned(), it.clone())),
        );
    }
    match JsonObject::parse(&Value::Object(outer).to_string()) {
        Ok(output) if output.as_str() != "{}" => {
            HookVerdict::Answer { output, denial: stops.then(|| reason.unwrap_or_default()) }
        }
        _ => HookVerdict::Continue,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::PreHook;
    use crate::hooks::HookSettings;
    use crate::project::Selection;
    use crate::report::LogLine;

    fn run(
        line: &str,
        timeout: Duration,
        path: &str,
        content: &str,
    ) -> (Option<String>, Vec<LogLine>) {
        let project = tempfile::tempdir().unwrap();
        let project = project.path().canonicalize().unwrap();
        let pre = Some(line.to_owned());
        let hook = PreHook {
            settings: HookSettings { pre, timeout, ..HookSettings::default() },
            selection: Selection::new(&["*.rs".to_owned()], &[]).unwrap(),
            project: project.clone(),
        };
        let path = project.join(path);
        let input = serde_json::json!({
            "hook_event_name": "PreToolUse", "tool_name": "Write", "cwd": project,
            "tool_input": { "file_path": path, "content": content },
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let result = runtime.block_on(hook.run(&input.to_string()));
        (result.output.map(|it| it.as_str().to_owned()), result.log)
    }

    fn answer(line: &str) -> Option<String> {
        run(line, Duration::from_secs(20), "a.rs", "x").0
    }

    fn denial(reason: &str) -> String {
        format!(
            r#"{{"hookSpecificOutput":{{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"{reason}"}}}}"#
        )
    }

    #[test]
    fn a_hook_denies_with_exit_code_2_or_with_json() {
        assert_eq!(answer("echo 'not here' >&2; exit 2"), Some(denial("not here")));
        assert_eq!(answer("exit 2"), Some(denial("The user denied this request.")));
        let json = |text: &str| answer(&format!("echo '{text}'"));
        let specific = r#"{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"no","hookEventName":7}}"#;
        assert_eq!(json(specific), Some(denial("no")));
        assert_eq!(json(r#"{"decision":"block","reason":"no"}"#), Some(denial("no")));
        let stop = json(r#"{"continue":false,"stopReason":"enough"}"#).unwrap();
        assert!(stop.contains(r#""continue":false"#) && stop.contains(r#""deny""#), "{stop}");
    }

    #[test]
    fn a_hook_may_allow_ask_and_change_the_input() {
        let text = r#"{"hookSpecificOutput":{"permissionDecision":"ask","updatedInput":{"content":"y"}},"systemMessage":"hm","bad":[]}"#;
        let output = answer(&format!("echo '{text}'")).unwrap();
        assert!(output.contains(r#""permissionDecision":"ask""#), "{output}");
        assert!(output.contains(r#""updatedInput":{"content":"y"}"#) && !output.contains("bad"));
        let approved = answer(r#"echo '{"decision":"approve"}'"#).unwrap();
        assert!(approved.contains(r#""permissionDecision":"allow""#), "{approved}");
    }

    #[test]
    fn what_is_no_denial_lets_the_call_go_on() {
        for line in ["true", "echo fine", "echo '{}'", "echo '[1]'", "echo '{\"decision\":7}'"] {
            assert_eq!(answer(line), None, "{line}");
        }
        let (output, log) = run("echo broken >&2; exit 1", Duration::from_secs(20), "a.rs", "");
        assert_eq!(output, None);
        assert!(matches!(&log[..], [LogLine::Problem(text)] if text.contains("broken")), "{log:?}");
    }

    #[test]
    fn a_hook_that_takes_too_long_is_logged_and_lets_the_call_go_on() {
        let start = Instant::now();
        let (output, log) = run("sleep 60", Duration::from_millis(200), "a.rs", "");
        assert!(output.is_none() && start.elapsed() < Duration::from_secs(30));
        assert!(
            matches!(&log[..], [LogLine::Problem(text)] if text.contains("took longer")),
            "{log:?}"
        );
    }

    #[test]
    fn a_hook_runs_for_selected_files_and_for_those_outside_the_project() {
        let deny = "exit 2";
        let output = |path| run(deny, Duration::from_secs(20), path, "x").0;
        assert!(output("a.rs").is_some());
        assert!(output("a.txt").is_none(), "it is not selected");
        assert!(output("/etc/passwd").is_some());
        assert!(output("../elsewhere.txt").is_some());
    }

    #[test]
    fn a_hook_gets_an_input_of_any_size() {
        let content = "x".repeat(8 << 20);
        let count = r#"test "$(wc -c)" -gt 8388608 || exit 2"#;
        let (output, log) = run(count, Duration::from_mins(1), "a.rs", &content);
        assert!(output.is_none(), "{log:?}");
        let (output, _) = run("exit 2", Duration::from_mins(1), "a.rs", &content);
        assert!(output.is_some(), "it need not read its input");
    }
}
