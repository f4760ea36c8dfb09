//! Scenarios of the Agent Client Protocol: the lines that steps write, how a session is opened, and
//! the text of a message, which every agent divides into other chunks.

use serde_json::{Value, json};
use tokio::time::{Instant, timeout, timeout_at};
use uuid::Uuid;

use super::runner::{EXIT_AFTER_OUTPUT, VerifyRunner};
use super::steps::{PIXEL, find_request, generated_id};
use super::transcript::has_kind;
use super::{VerifyDifference, VerifyFailure};
use crate::scenario::{
    ScenarioExpectation, ScenarioItem, ScenarioOrder, ScenarioVariables, Step, contains_text,
};

/// The steps that open a session, for a scenario with the line `session`.
pub(super) fn opening_steps(line: usize) -> Vec<ScenarioItem<Step>> {
    let request = |name: &str, method: &str, params: Value| Step::Request {
        request: json!({"method": method, "params": params}),
        name: Some(name.to_owned()),
    };
    let response = |pattern: Value| Step::Expect {
        expectation: ScenarioExpectation { kind: "response/result".to_owned(), pattern },
        name: None,
        order: ScenarioOrder::InOrder,
    };
    let client = json!({"protocolVersion": 1, "clientCapabilities": {},
        "clientInfo": {"name": "towpath-verify", "version": env!("CARGO_PKG_VERSION")}});
    let steps = [
        request("initialize", "initialize", client),
        response(json!({"id": "$initialize", "result": {"protocolVersion": 1}})),
        request("new", "session/new", json!({"cwd": "$cwd", "mcpServers": []})),
        response(json!({"id": "$new", "result": {"sessionId": "$session"}})),
    ];
    steps.map(|step| ScenarioItem::unconditional(line, step)).into()
}

/// The bytes that an input step writes.
pub(super) fn acp_input_bytes(
    step: &Step,
    variables: &mut ScenarioVariables,
    requests: &[(Option<String>, Value)],
) -> Result<Vec<u8>, String> {
    const PERMISSION: &str = "session/request_permission";
    let message = match step {
        Step::Prompt { text, uuid, priority: None, image, with } => {
            let mut prompt = vec![json!({"type": "text", "text": variables.expand(text)})];
            if *image {
                prompt.push(json!({"type": "image", "mimeType": "image/png", "data": PIXEL}));
            }
            let session = variables.get("session").unwrap_or_default();
            let mut params = json!({"sessionId": session, "prompt": prompt});
            for (key, value) in with.iter().filter_map(Value::as_object).flatten() {
                params[key] = variables.expand_value(value);
            }
            let id = request_id(uuid.as_deref(), variables);
            json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params})
        }
        Step::Request { request, name } => {
            let mut message = variables.expand_value(request);
            message["jsonrpc"] = "2.0".into();
            message["id"] = request_id(name.as_deref(), variables).into();
            message
        }
        Step::Allow { input: None, permissions: None, target } => {
            choose(find_request(target, requests, Some(PERMISSION))?, "allow_once")?
        }
        // The protocol has no place for the message.
        Step::Deny { interrupt: false, target, .. } => {
            choose(find_request(target, requests, Some(PERMISSION))?, "reject_once")?
        }
        Step::Answer { payload, target } => {
            let request = find_request(target, requests, None)?;
            result(request, &variables.expand_value(payload))
        }
        Step::Fail { message, target } => {
            let id = &find_request(target, requests, None)?["id"];
            let error = json!({"code": -32603, "message": variables.expand(message)});
            json!({"jsonrpc": "2.0", "id": id, "error": error})
        }
        Step::Line(line) => variables.expand_value(line),
        Step::Raw(text) => return Ok(variables.expand(text).into_bytes()),
        _ => return Err("the Agent Client Protocol has no such input".to_owned()),
    };
    Ok(format!("{message}\n").into_bytes())
}

fn request_id(name: Option<&str>, variables: &mut ScenarioVariables) -> String {
    match name {
        Some(name) => generated_id(name, variables),
        None => Uuid::new_v4().to_string(),
    }
}

fn result(request: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result})
}

/// Answers a request for permission with the first option of a kind.
fn choose(request: &Value, kind: &str) -> Result<Value, String> {
    let options = request["params"]["options"].as_array();
    let option = options.into_iter().flatten().find(|option| option["kind"] == kind);
    let option = option.ok_or_else(|| format!("the agent offers no option `{kind}`"))?;
    let outcome = json!({"outcome": "selected", "optionId": option["optionId"]});
    Ok(result(request, &json!({ "outcome": outcome })))
}

impl VerifyRunner<'_> {
    /// Waits until the chunks of the agent's message contain a text, after the line that the
    /// previous expectation matched.
    pub(super) async fn check_says(
        &mut self,
        line: usize,
        text: &str,
    ) -> Result<(), VerifyFailure> {
        let from = self.position();
        let deadline = Instant::now() + self.timeout;
        let mut changes = self.transcript.subscribe();
        let mut message = VerifyMessage { next: from, text: String::new(), chunks: Vec::new() };
        loop {
            // This is read before the search: if it is true, all output is in the transcript.
            let is_done = self.current().process.is_stdout_done();
            self.collect_message(&mut message);
            let contains = |said: &str| contains_text(text, said, &self.variables);
            if contains(&message.text) {
                // The chunk with which the text was complete: what follows it was not matched yet.
                let is_early = |(_, end): &(usize, usize)| !contains(&message.text[..*end]);
                let complete = message.chunks.partition_point(is_early);
                let index = message.chunks.get(complete).map_or(message.next, |chunk| chunk.0);
                return self.advance(index + 1);
            }
            if is_done || timeout_at(deadline, changes.changed()).await.is_err() {
                let _ = timeout(EXIT_AFTER_OUTPUT, self.current().process.wait()).await;
                let limit = self.timeout.as_secs();
                let mut difference =
                    VerifyDifference::new(line, &format!("not said within {limit} s"));
                difference.expected = Some(format!("says {text:?}"));
                difference.actual = Some(self.normalizer().text(&message.text));
                difference.stderr = self.current().process.stderr();
                difference.received = self.received_kinds(from);
                return Err(self.judge_late(difference.into()).await);
            }
        }
    }

    /// Adds the chunks that were received since the last time.
    fn collect_message(&self, message: &mut VerifyMessage) {
        let process = self.current().process.number;
        let entries = self.transcript.entries();
        while let Some(entry) = entries.get(message.next) {
            let index = message.next;
            message.next += 1;
            if entry.is_output_of(process) && has_kind(&entry.value, "update/agent_message_chunk") {
                let chunk = &entry.value["params"]["update"]["content"]["text"];
                message.text.push_str(chunk.as_str().unwrap_or_default());
                message.chunks.push((index, message.text.len()));
            }
        }
    }
}

/// The agent's message, put together.
struct VerifyMessage {
    /// The index in the transcript from which on nothing was read yet.
    next: usize,
    text: String,
    /// The index of each chunk in the transcript, and where it ends in the text.
    chunks: Vec<(usize, usize)>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::acp_input_bytes;
    use crate::scenario::{Scenario, ScenarioVariables};

    fn lines(steps: &str) -> Vec<Result<Value, String>> {
        let scenario = Scenario::parse("x", &format!("# T\n\nacp\n\n{steps}\n")).unwrap();
        let request = |id: u64| {
            json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params":
                {"options": [{"kind": "allow_always", "optionId": "a"},
                    {"kind": "allow_once", "optionId": "b"}]}})
        };
        let requests = [(Some("first".to_owned()), request(1)), (None, request(2))];
        let mut variables = ScenarioVariables::default();
        variables.set("session", "s-1");
        variables.set("stop", "id-1");
        let steps = scenario.runs[0].value.steps.iter();
        let lines = steps.map(|step| acp_input_bytes(&step.value, &mut variables, &requests));
        lines.map(|line| line.map(|line| serde_json::from_slice(&line).unwrap())).collect()
    }

    #[test]
    fn a_prompt_and_a_request_have_ids() {
        let lines = lines(
            "> user \"hi\" uuid stop image\n> request {\"method\":\"x\",\"params\":{\"a\":\"$session\"}} as stop",
        );
        let first = lines[0].as_ref().unwrap();
        assert_eq!((&first["id"], &first["method"]), (&json!("id-1"), &json!("session/prompt")));
        assert_eq!(first["params"]["sessionId"], "s-1");
        assert_eq!(first["params"]["prompt"][0], json!({"type": "text", "text": "hi"}));
        assert_eq!(first["params"]["prompt"][1]["type"], "image");
        let second = json!({"jsonrpc": "2.0", "id": "id-1", "method": "x", "params": {"a": "s-1"}});
        assert_eq!(lines[1], Ok(second));
    }

    #[test]
    fn an_answer_chooses_an_option_that_the_agent_offers() {
        let lines =
            lines("> allow\n> allow to first\n> deny \"no\"\n> answer {\"x\":1}\n> fail \"no\"");
        let chosen = |id: u64| {
            let outcome = json!({"outcome": {"outcome": "selected", "optionId": "b"}});
            Ok(json!({"jsonrpc": "2.0", "id": id, "result": outcome}))
        };
        assert_eq!(lines[..2], [chosen(2), chosen(1)]);
        assert_eq!(lines[2], Err("the agent offers no option `reject_once`".to_owned()));
        assert_eq!(lines[3], Ok(json!({"jsonrpc": "2.0", "id": 2, "result": {"x": 1}})));
        assert_eq!(lines[4].as_ref().unwrap()["error"]["message"], "no");
    }

    #[test]
    fn what_only_the_other_protocol_has_is_an_error() {
        for step in ["> user \"x\" priority now", "> allow {\"a\":1}", "> deny \"x\" interrupt"] {
            assert!(lines(step)[0].is_err(), "{step}");
        }
    }
}
