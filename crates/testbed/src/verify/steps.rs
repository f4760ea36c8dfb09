//! The steps of a scenario: checks of requests, files, processes and exits, and the input lines.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use super::process::describe_exit;
use super::runner::{SETTLE_TIME, VerifyRunner};
use super::transcript::has_kind;
use super::{VerifyDifference, VerifyFailure};
use crate::api::ApiRequestKind;
use crate::scenario::{
    ScenarioItem, ScenarioRequestTarget, ScenarioVariables, Step, contains_text, match_request,
    matches_text,
};

/// How often files and processes are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long a file may take to get its content: this long, or a part of what other steps may wait.
const FILE_TIMEOUT: Duration = Duration::from_secs(3);
const FILE_SHARE: u32 = 5;

impl VerifyRunner<'_> {
    /// Checks files or processes of the sandbox.
    pub(super) async fn check_surroundings(
        &self,
        line: usize,
        step: &Step,
    ) -> Result<(), VerifyFailure> {
        match step {
            Step::FileIs { path, content } => self.check_file(line, path, content).await,
            Step::FileIsNot(path) => match self.sandbox.files(path, &self.variables).first() {
                None => Ok(()),
                Some(file) => {
                    let actual = format!("`{}` exists", file.display());
                    Err(self.difference(line, &format!("no file `{path}`"), &actual))
                }
            },
            Step::WaitFile(path) => {
                let exists = || !self.sandbox.files(path, &self.variables).is_empty();
                if poll(self.timeout, exists).await {
                    return Ok(());
                }
                let failure =
                    self.timeout_difference(line, &format!("a file `{path}`"), "no such file");
                Err(self.judge_late(failure).await)
            }
            Step::Gone(text) => {
                let is_gone = || self.find_processes(text).is_empty();
                if poll(self.timeout, is_gone).await {
                    return Ok(());
                }
                let actual = self.find_processes(text).join("\n");
                Err(self.timeout_difference(line, &format!("no process with `{text}`"), &actual))
            }
            Step::Left(text) => {
                sleep(SETTLE_TIME).await;
                // A new process has the command line of its parent until it calls `exec`.
                if poll(self.timeout, || !self.find_processes(text).is_empty()).await {
                    return Ok(());
                }
                let actual = match self.find_processes("").join("\n") {
                    none if none.is_empty() => "no processes".to_owned(),
                    others => others,
                };
                let failure = self.difference(line, &format!("a process with `{text}`"), &actual);
                Err(self.judge_late(failure).await)
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn check_request(
        &mut self,
        line: usize,
        number: usize,
        pattern: &Value,
    ) -> Result<(), VerifyFailure> {
        let request = timeout(self.timeout, self.server.main_request(number)).await;
        let Ok(Some(request)) = request else {
            let actual = format!("{} requests", self.count_requests());
            let expected = format!("request {number} to the API");
            let failure = self.timeout_difference(line, &expected, &actual);
            return Err(self.judge_late(failure).await);
        };
        match match_request(pattern, &request.body, &self.variables) {
            Ok(variables) => {
                self.variables = variables;
                Ok(())
            }
            Err(mismatch) => {
                let message = format!("request {number} does not match");
                let mut difference = VerifyDifference::new(line, &message);
                difference.expected = Some(pattern.to_string());
                let closest = self.normalizer().closest_line(&mismatch, &request.body);
                difference.closest = Some(closest);
                Err(difference.into())
            }
        }
    }

    pub(super) async fn check_request_count(
        &mut self,
        line: usize,
        expected: usize,
    ) -> Result<(), VerifyFailure> {
        // This waits for the expected requests. Additional ones cannot be waited for.
        let _ = timeout(self.timeout, async {
            if expected > 0 {
                self.server.main_request(expected).await;
            }
        })
        .await;
        let actual = self.count_requests();
        if actual == expected {
            return Ok(());
        }
        let is_late = actual < expected;
        let expected = format!("{expected} requests to the API");
        let failure = self.difference(line, &expected, &actual.to_string());
        Err(if is_late { self.judge_late(failure).await } else { failure })
    }

    fn count_requests(&self) -> usize {
        let requests = self.server.requests();
        requests.iter().filter(|request| request.kind == ApiRequestKind::Main).count()
    }

    pub(super) async fn check_exit(
        &mut self,
        line: usize,
        step: &Step,
    ) -> Result<(), VerifyFailure> {
        let expected = match step {
            Step::Exit(Some(code)) => format!("exit code {code}"),
            Step::ExitBySignal(signal) => format!("signal {}", signal.number()),
            _ => "an exit".to_owned(),
        };
        let Ok(Some(status)) = timeout(self.timeout, self.current().process.wait()).await else {
            let failure = self.timeout_difference(line, &expected, "the agent is still running");
            return Err(self.judge_late(failure).await);
        };
        let actual = describe_exit(status);
        if matches!(step, Step::Exit(None)) || expected == actual {
            return Ok(());
        }
        let mut failure = self.difference(line, &expected, &actual);
        if let VerifyFailure::Differs(difference) = &mut failure {
            difference.stderr = self.current().process.stderr();
        }
        Err(failure)
    }

    async fn check_file(
        &self,
        line: usize,
        path: &str,
        content: &str,
    ) -> Result<(), VerifyFailure> {
        let read = || {
            let files = self.sandbox.files(path, &self.variables);
            files.into_iter().map(|file: PathBuf| {
                let bytes = std::fs::read(file).unwrap_or_default();
                String::from_utf8_lossy(&bytes).into_owned()
            })
        };
        let matches = || read().any(|text| matches_text(content, &text, &self.variables));
        // An agent that is slow to answer is also slow to write.
        let limit = FILE_TIMEOUT.max(self.timeout / FILE_SHARE).min(self.timeout);
        if poll(limit, matches).await {
            return Ok(());
        }
        let expected = format!("`{path}` with {}", json!(content));
        let actual =
            read().next().map_or_else(|| "no such file".to_owned(), |text| json!(text).to_string());
        let failure = self.difference(line, &expected, &actual);
        Err(self.judge_late(failure).await)
    }

    /// The command lines that contain a text.
    fn find_processes(&self, text: &str) -> Vec<String> {
        let commands = self.sandbox.processes().into_iter().map(|process| process.command);
        commands.filter(|command| contains_text(text, command, &self.variables)).collect()
    }

    /// Performs a check for the end of a run.
    pub(super) fn check_end(&self, item: &ScenarioItem<Step>) -> Result<(), VerifyFailure> {
        let process = &self.current().process;
        match &item.value {
            Step::Count { kind, times } => {
                let entries = self.transcript.entries();
                let lines = entries.iter().filter(|entry| {
                    entry.is_output_of(process.number) && has_kind(&entry.value, kind)
                });
                let count = lines.count();
                drop(entries);
                if count == *times {
                    return Ok(());
                }
                let expected = format!("{times} × {kind}");
                Err(self.difference(item.line, &expected, &format!("{count} × {kind}")))
            }
            Step::Stderr(text) => {
                let stderr = process.stderr();
                if contains_text(text, &stderr, &self.variables) {
                    return Ok(());
                }
                let expected = format!("{} on stderr", json!(text));
                Err(self.difference(item.line, &expected, &json!(stderr).to_string()))
            }
            _ => Ok(()),
        }
    }
}

/// Repeats a check until it succeeds or the time is over.
async fn poll(limit: Duration, check: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if check() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// A PNG of one red pixel.
pub(super) const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

/// The control requests of the agent that were expected, with the names that the scenario gave them.
/// The latest is the last.
pub(super) type VerifyControlRequests = Vec<(Option<String>, Value)>;

/// The bytes that a step writes. Generated ids are stored in variables.
///
/// An answer goes to the control request that was expected last, not to the one that was received
/// last, because the order of simultaneous requests is not determined.
pub(super) fn input_bytes(
    step: &Step,
    variables: &mut ScenarioVariables,
    requests: &[(Option<String>, Value)],
) -> Result<Vec<u8>, String> {
    let line = match step {
        Step::Prompt { text, uuid, priority, image, with } => {
            let text = variables.expand(text);
            let content = if *image {
                let source = json!({"type": "base64", "media_type": "image/png", "data": PIXEL});
                json!([{"type": "image", "source": source}, {"type": "text", "text": text}])
            } else {
                Value::String(text)
            };
            let mut line = json!({"type": "user", "message": {"role": "user", "content": content}});
            if let Some(name) = uuid {
                line["uuid"] = generated_id(name, variables).into();
            }
            if let Some(priority) = priority {
                line["priority"] = priority.as_str().into();
            }
            for (key, value) in with.iter().filter_map(Value::as_object).flatten() {
                line[key] = variables.expand_value(value);
            }
            line
        }
        Step::Request { request, name } => {
            let id = match name {
                Some(name) => generated_id(name, variables),
                None => Uuid::new_v4().to_string(),
            };
            let request = variables.expand_value(request);
            json!({"type": "control_request", "request_id": id, "request": request})
        }
        Step::Allow { input, permissions, target } => {
            let request = find_request(target, requests, Some("control_request/can_use_tool"))?;
            let input = input.as_ref().map(|input| variables.expand_value(input));
            let input = input.unwrap_or_else(|| request["request"]["input"].clone());
            let mut payload = json!({"behavior": "allow", "updatedInput": input});
            if let Some(permissions) = permissions {
                payload["updatedPermissions"] = variables.expand_value(permissions);
            }
            success(request, &payload)
        }
        Step::Deny { message, interrupt, target } => {
            let request = find_request(target, requests, Some("control_request/can_use_tool"))?;
            let mut payload = json!({"behavior": "deny", "message": variables.expand(message)});
            if *interrupt {
                payload["interrupt"] = true.into();
            }
            success(request, &payload)
        }
        Step::Answer { payload, target } => {
            success(find_request(target, requests, None)?, &variables.expand_value(payload))
        }
        Step::Fail { message, target } => {
            let id = &find_request(target, requests, None)?["request_id"];
            let response =
                json!({"subtype": "error", "request_id": id, "error": variables.expand(message)});
            json!({"type": "control_response", "response": response})
        }
        Step::Line(line) => variables.expand_value(line),
        Step::Raw(text) => return Ok(variables.expand(text).into_bytes()),
        other => return Err(format!("{other:?} is not an input step")),
    };
    Ok(format!("{line}\n").into_bytes())
}

/// The id in a variable. A new one is generated if the variable is not set.
pub(super) fn generated_id(name: &str, variables: &mut ScenarioVariables) -> String {
    if let Some(known) = variables.get(name) {
        return known.to_owned();
    }
    let id = Uuid::new_v4().to_string();
    variables.set(name, &id);
    id
}

fn success(request: &Value, payload: &Value) -> Value {
    let id = &request["request_id"];
    let response = json!({"subtype": "success", "request_id": id, "response": payload});
    json!({"type": "control_response", "response": response})
}

pub(super) fn find_request<'a>(
    target: &ScenarioRequestTarget,
    requests: &'a [(Option<String>, Value)],
    kind: Option<&str>,
) -> Result<&'a Value, String> {
    let fits = |request: &Value| kind.is_none_or(|expected| has_kind(request, expected));
    let mut latest_first = requests.iter().rev();
    match target {
        ScenarioRequestTarget::Latest => {
            let mut found = latest_first.map(|(_, request)| request);
            found.find(|request| fits(request)).ok_or_else(|| {
                let kind = kind.map_or("control request", |it| it.rsplit('/').next().unwrap_or(it));
                format!("there is no `{kind}` to answer: none was expected before this step")
            })
        }
        ScenarioRequestTarget::Named(target) => latest_first
            .find(|(name, _)| name.as_ref() == Some(target))
            .map(|(_, request)| request)
            .ok_or_else(|| format!("no control request was named `{target}`")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::input_bytes;
    use crate::scenario::{Scenario, ScenarioVariables};

    fn lines(steps: &str) -> Vec<Value> {
        let scenario = Scenario::parse("x", &format!("# T\n\n{steps}\n")).unwrap();
        let request = |id: &str, command: &str| {
            json!({"type": "control_request", "request_id": id,
                "request": {"subtype": "can_use_tool", "input": {"command": command}}})
        };
        let requests =
            [(Some("first".to_owned()), request("r1", "ls")), (None, request("r2", "pwd"))];
        let mut variables = ScenarioVariables::default();
        variables.set("cwd", "/p");
        let steps = scenario.runs[0].value.steps.iter();
        let lines = steps.map(|step| input_bytes(&step.value, &mut variables, &requests).unwrap());
        lines.map(|line| serde_json::from_slice(&line).unwrap()).collect()
    }

    #[test]
    fn an_answer_goes_to_the_latest_request_or_the_named_one() {
        let lines = lines(
            "> allow\n> allow {\"command\":\"$cwd\"} to first\n> deny \"no\" interrupt\n> fail \"x\" to first",
        );
        assert_eq!(
            lines,
            [
                json!({"type": "control_response", "response": {"subtype": "success", "request_id": "r2",
                    "response": {"behavior": "allow", "updatedInput": {"command": "pwd"}}}}),
                json!({"type": "control_response", "response": {"subtype": "success", "request_id": "r1",
                    "response": {"behavior": "allow", "updatedInput": {"command": "/p"}}}}),
                json!({"type": "control_response", "response": {"subtype": "success", "request_id": "r2",
                    "response": {"behavior": "deny", "message": "no", "interrupt": true}}}),
                json!({"type": "control_response", "response": {"subtype": "error", "request_id": "r1",
                    "error": "x"}}),
            ]
        );
    }

    #[test]
    fn a_generated_id_is_reused() {
        let lines = lines(
            "> user \"a\" uuid one\n> user \"b\" uuid one priority later with {\"x\":\"$one\"}\n> user \"c\" image",
        );
        assert_eq!(lines[0]["uuid"], lines[1]["uuid"]);
        assert_eq!(lines[1]["x"], lines[0]["uuid"]);
        assert_eq!(lines[1]["priority"], "later");
        assert_eq!(lines[2]["message"]["content"][1], json!({"type": "text", "text": "c"}));
    }
}
