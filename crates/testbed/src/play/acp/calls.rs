//! Tool calls: permission, what the call does, and what a client sees of it.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::play::acp::misbehavior::AcpMisbehavior;
use crate::play::acp::script::PlayedCall;
use crate::play::acp::turn::{AcpTurn, AcpTurnEnd, new_id};

/// After how many chunks' time an open permission request is withdrawn.
const WITHDRAWN_AFTER: u32 = 20;

/// What was decided about a call.
enum CallDecision {
    Allowed,
    Denied,
    /// The client ended the turn instead.
    Cancelled,
    Withdrawn,
}

/// The result of a call.
struct PlayedOutcome {
    succeeded: bool,
    content: Value,
    raw: Value,
    meta: Option<Value>,
}

impl PlayedOutcome {
    fn failure(text: &str) -> Self {
        Self { succeeded: false, content: text_content(text), raw: json!(text), meta: None }
    }
}

fn text_content(text: &str) -> Value {
    json!([{ "type": "content", "content": { "type": "text", "text": text } }])
}

impl AcpTurn {
    /// Makes calls at the same time: all of them ask before the first one is made.
    pub(crate) async fn call(&mut self, calls: Vec<PlayedCall>) -> Option<AcpTurnEnd> {
        let calls: Vec<(String, PlayedCall)> =
            calls.into_iter().map(|call| (format!("call_{}", new_id()), call)).collect();
        for (id, call) in &calls {
            self.open_calls.push(id.clone());
            if !self.does(AcpMisbehavior::PermissionFirst) {
                self.announce(id, call).await;
            }
        }
        let mut asked = Vec::new();
        for (id, call) in &calls {
            let needs = {
                let state = self.session.state();
                state.options.mode() == "ask" && !state.always.contains(&call.kind())
            };
            if needs {
                self.ask(id, call).await;
            }
            asked.push(needs);
        }
        for ((id, call), asked) in calls.iter().zip(asked) {
            let decision = if asked { self.decision(call).await } else { CallDecision::Allowed };
            let outcome = match decision {
                CallDecision::Allowed => self.make(id, call).await,
                CallDecision::Denied | CallDecision::Cancelled => {
                    PlayedOutcome::failure("The user rejected this call.")
                }
                CallDecision::Withdrawn => PlayedOutcome::failure("The request was withdrawn."),
            };
            self.complete(id, call, outcome).await;
            let ends = matches!(decision, CallDecision::Cancelled)
                || matches!(decision, CallDecision::Denied)
                    && self.does(AcpMisbehavior::DenyCancels);
            if ends {
                return Some(AcpTurnEnd::Stopped("cancelled"));
            }
        }
        None
    }

    /// The fields of a call that are known before it is made.
    fn describe(&self, id: &str, call: &PlayedCall) -> Value {
        let mut fields = json!({
            "toolCallId": id, "title": call.title(), "name": call.name(), "kind": call.kind(),
            "status": "pending", "rawInput": call.input(), "content": diff(call),
        });
        if let Some(path) = call.path() {
            fields["locations"] = json!([{ "path": path }]);
        }
        if matches!(call, PlayedCall::Shell(_)) && self.does(AcpMisbehavior::TerminalOutput) {
            fields["content"] = json!([{ "type": "terminal", "terminalId": id }]);
            let info = json!({ "terminal_id": id, "cwd": self.session.cwd });
            fields["_meta"] = json!({ "terminal_info": info });
        }
        fields
    }

    async fn announce(&self, id: &str, call: &PlayedCall) {
        let mut update = self.describe(id, call);
        if self.does(AcpMisbehavior::EmptyInputFirst) {
            let start = json!({
                "sessionUpdate": "tool_call", "toolCallId": id, "title": call.name(),
                "kind": call.kind(), "status": "pending", "rawInput": {}, "content": [],
            });
            self.update(&start).await;
            update["sessionUpdate"] = json!("tool_call_update");
        } else {
            update["sessionUpdate"] = json!("tool_call");
        }
        self.update(&update).await;
    }

    async fn ask(&mut self, id: &str, call: &PlayedCall) {
        let mut shown = self.describe(id, call);
        if self.does(AcpMisbehavior::PermissionFirst)
            && let Some(fields) = shown.as_object_mut()
        {
            fields.remove("rawInput");
        }
        let option = |id: &str, name: &str, kind: &str| json!({ "optionId": id, "name": name, "kind": kind });
        let mut options = vec![option("yes", "Allow", "allow_once")];
        if self.does(AcpMisbehavior::TwoAlways) {
            options.push(option("session", "Allow for this session", "allow_always"));
            options.push(option("project", "Always allow in this project", "allow_always"));
        } else {
            let name = format!("Allow every `{}` in this session", call.name());
            options.push(option("session", &name, "allow_always"));
        }
        options.push(option("no", "Reject", "reject_once"));
        let params = json!({ "sessionId": self.session.id, "toolCall": shown, "options": options });
        let request = self.player.output.request("session/request_permission", params).await;
        self.open_requests.push(request);
    }

    /// Waits for the answer to the oldest open request.
    async fn decision(&mut self, call: &PlayedCall) -> CallDecision {
        let response = if self.does(AcpMisbehavior::WithdrawsPermission) {
            let limit = self.player.pace * WITHDRAWN_AFTER;
            let response = tokio::time::timeout(limit, self.next_response()).await;
            let Ok(response) = response else {
                let request = self.open_requests.remove(0);
                let params = json!({ "requestId": request.id });
                self.player.output.notify("$/cancel_request", params).await;
                return CallDecision::Withdrawn;
            };
            response
        } else {
            self.next_response().await
        };
        let outcome = &response["result"]["outcome"];
        if outcome["outcome"] == "cancelled" {
            return CallDecision::Cancelled;
        }
        match outcome["optionId"].as_str() {
            Some("yes") => CallDecision::Allowed,
            Some("session" | "project") => {
                self.session.state().always.push(call.kind());
                CallDecision::Allowed
            }
            _ => CallDecision::Denied,
        }
    }

    async fn make(&mut self, id: &str, call: &PlayedCall) -> PlayedOutcome {
        if self.session.state().options.mode() == "plan" {
            return PlayedOutcome::failure("Nothing is changed while a plan is made.");
        }
        if !self.does(AcpMisbehavior::PermissionFirst) {
            let update = json!({
                "sessionUpdate": "tool_call_update", "toolCallId": id, "status": "in_progress",
            });
            self.update(&update).await;
        }
        match call {
            PlayedCall::Shell(command) => self.run(id, command).await,
            PlayedCall::Write { path, content } => {
                let old = std::fs::read_to_string(path).ok();
                self.replace(path, old.as_deref(), content).await
            }
            PlayedCall::Edit { path, old, new } => match std::fs::read_to_string(path) {
                Ok(text) if text.contains(old) => {
                    let changed = text.replacen(old, new, 1);
                    self.replace(path, Some(&text), &changed).await
                }
                Ok(_) => PlayedOutcome::failure("The text to replace was not found."),
                Err(error) => PlayedOutcome::failure(&format!("{path}: {error}")),
            },
        }
    }

    async fn run(&self, id: &str, command: &str) -> PlayedOutcome {
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec 2>&1; eval \"$1\"", "sh", command]);
        shell.current_dir(&self.session.cwd).stdin(Stdio::null()).kill_on_drop(true);
        let output = match shell.output().await {
            Ok(output) => output,
            Err(error) => return PlayedOutcome::failure(&format!("could not run: {error}")),
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let code = output.status.code();
        let (content, meta) = if self.does(AcpMisbehavior::TerminalOutput) {
            let meta = json!({
                "terminal_output": { "terminal_id": id, "data": text },
                "terminal_exit": { "terminal_id": id, "exit_code": code, "signal": null },
            });
            (json!([{ "type": "terminal", "terminalId": id }]), Some(meta))
        } else {
            (text_content(&text), None)
        };
        let raw = json!({ "output": text, "exitCode": code });
        PlayedOutcome { succeeded: output.status.success(), content, raw, meta }
    }

    async fn replace(&mut self, path: &str, old: Option<&str>, new: &str) -> PlayedOutcome {
        let mut written = false;
        if self.does(AcpMisbehavior::UninvitedFs) {
            let params = json!({ "sessionId": self.session.id, "path": path, "content": new });
            let request = self.player.output.request("fs/write_text_file", params).await;
            written = request.response.await.is_ok_and(|it| it.get("result").is_some());
        }
        if !written && let Err(error) = std::fs::write(path, new) {
            return PlayedOutcome::failure(&format!("{path}: {error}"));
        }
        let content = json!([{ "type": "diff", "path": path, "oldText": old, "newText": new }]);
        PlayedOutcome { succeeded: true, content, raw: json!({ "written": new.len() }), meta: None }
    }

    /// Shows and records the result of a call.
    async fn complete(&mut self, id: &str, call: &PlayedCall, outcome: PlayedOutcome) {
        self.open_calls.retain(|it| it != id);
        let status = if outcome.succeeded { "completed" } else { "failed" };
        let mut recorded = self.describe(id, call);
        recorded["sessionUpdate"] = json!("tool_call");
        recorded["status"] = json!(status);
        recorded["content"] = outcome.content.clone();
        let mut update = json!({
            "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status,
            "content": outcome.content,
        });
        if self.does(AcpMisbehavior::PermissionFirst) {
            update["title"] = json!(call.title());
            update["kind"] = json!(call.kind());
            if matches!(call, PlayedCall::Shell(_)) {
                update["content"] = json!([]);
            }
        } else {
            update["rawOutput"] = outcome.raw.clone();
            recorded["rawOutput"] = outcome.raw;
        }
        if let Some(meta) = outcome.meta {
            update["_meta"] = meta.clone();
            recorded["_meta"] = meta;
        }
        self.update(&update).await;
        self.record(&recorded);
    }
}

/// What a call would change, as far as that is known before it is made.
fn diff(call: &PlayedCall) -> Value {
    match call {
        PlayedCall::Shell(_) => json!([]),
        PlayedCall::Write { path, content } => {
            let old = std::fs::read_to_string(path).ok();
            json!([{ "type": "diff", "path": path, "oldText": old, "newText": content }])
        }
        PlayedCall::Edit { path, old, new } => {
            json!([{ "type": "diff", "path": path, "oldText": old, "newText": new }])
        }
    }
}
