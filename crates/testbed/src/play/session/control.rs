//! What a host asks of the session.

use serde_json::{Map, Value, json};

use super::Session;
use crate::play::effect::Effect;
use crate::play::history::Entry;
use crate::play::permission::Mode;

impl Session {
    /// Answers with success.
    pub(super) fn succeed(&mut self, id: &Value, payload: Value) {
        let mut response = json!({ "subtype": "success" });
        if !id.is_null() {
            response["request_id"] = id.clone();
        }
        if !payload.is_null() {
            response["response"] = payload;
        }
        self.print(json!({ "type": "control_response", "response": response }));
    }

    /// Answers with an error.
    pub(super) fn fail(&mut self, id: &Value, error: &str, code: Option<&str>) {
        let mut response = json!({ "subtype": "error", "request_id": id, "error": error });
        if let Some(code) = code {
            response["error_code"] = code.into();
        }
        self.print(json!({ "type": "control_response", "response": response }));
    }

    /// The host wants something.
    pub(super) fn requested(&mut self, id: &Value, request: &Value) {
        let subtype = request["subtype"].as_str().unwrap_or("undefined");
        match subtype {
            "initialize" => self.initialize(id, request),
            "interrupt" => self.interrupt(id, request),
            "set_permission_mode" => self.set_permission_mode(id, request),
            "set_model" => {
                let model = request["model"].as_str().filter(|model| *model != "default");
                self.model = model.map(str::to_owned);
                let model = self.model();
                self.succeed(id, json!({ "model": model }));
            }
            "set_max_thinking_tokens" => self.succeed(id, Value::Null),
            "apply_flag_settings" => {
                if let Some(effort) = request["settings"]["effortLevel"].as_str() {
                    effort.clone_into(&mut self.effort);
                }
                self.succeed(id, Value::Null);
            }
            "cancel_async_message" => {
                let uuid = request["message_uuid"].as_str().unwrap_or_default();
                let cancelled = self.queue.cancel(uuid);
                if cancelled {
                    self.lifecycle(uuid, "cancelled");
                }
                self.succeed(id, json!({ "cancelled": cancelled }));
            }
            "rewind_files" => self.rewind_files(id, request),
            "rewind_conversation" => self.rewind_conversation(id, request),
            "stop_task" => {
                let task = request["task_id"].as_str().unwrap_or_default();
                if self.stop_task(task) {
                    self.succeed(id, json!({}));
                } else {
                    self.fail(id, &format!("No task found with ID: {task}"), None);
                }
            }
            "side_question" => self.ask_aside(id, request),
            "end_session" => {
                self.succeed(id, Value::Null);
                self.leaving = true;
                self.effects.push(Effect::End(0));
            }
            "mcp_status" => {
                let servers = self.servers.status();
                self.succeed(id, json!({ "mcpServers": servers }));
            }
            _ => match self.query(subtype, request) {
                Some(Ok(answer)) => self.succeed(id, answer),
                Some(Err(error)) => self.fail(id, &error, None),
                None => {
                    let error = format!("Unsupported control request subtype: {subtype}");
                    self.fail(id, &error, Some("unsupported_request"));
                }
            },
        }
    }

    fn set_permission_mode(&mut self, id: &Value, request: &Value) {
        let name = request["mode"].as_str().unwrap_or_default();
        let launched = self.arguments.skip_permissions
            || self.arguments.allow_skip
            || self.settings.mode == Mode::Bypass;
        match Mode::named(name) {
            None => self.fail(id, &format!("Invalid permission mode: {name}"), None),
            Some(Mode::Bypass) if !launched => {
                let error = "Cannot set permission mode to bypassPermissions because the session \
                             was not launched with --dangerously-skip-permissions";
                self.fail(id, error, Some("bypass_not_launched"));
            }
            Some(mode) => {
                self.succeed(id, json!({ "mode": mode.name() }));
                self.change_mode(mode);
            }
        }
    }

    fn rewind_files(&mut self, id: &Value, request: &Value) {
        if !self.around.checkpoints {
            let error = "File rewinding is not enabled.";
            self.succeed(id, json!({ "canRewind": false, "error": error }));
            return;
        }
        let prompt = request["user_message_id"].as_str().unwrap_or_default().to_owned();
        let dry = request["dry_run"] == true;
        self.effects.push(Effect::Rewind { request: id.clone(), prompt, dry });
    }

    fn rewind_conversation(&mut self, id: &Value, request: &Value) {
        let Some(target) = request["target_message_uuid"].as_str() else {
            let error = "rewind_conversation: target_message_uuid must be a string";
            self.fail(id, error, None);
            return;
        };
        let Some((prompt, before)) = self.talk.history.rewind(target) else {
            let error = format!("No message found with ID: {target}");
            self.succeed(id, json!({ "rewound": false, "error": error }));
            return;
        };
        self.record(json!({ "type": "play-rewind", "uuid": target, "sessionId": self.id }));
        self.succeed(
            id,
            json!({
                "rewound": true, "targetMessageUuid": target, "prefillText": prompt.content,
                "precedingAssistantUuid": before,
            }),
        );
    }

    /// The host runs a command itself.
    pub(super) fn shell(&mut self, line: &Map<String, Value>) {
        let command = line.get("command").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(uuid) = line.get("uuid").and_then(Value::as_str) {
            self.lifecycle(uuid, "started");
            self.lifecycle(uuid, "completed");
        }
        let shown = command.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let text: Value = format!("<bash-input>{shown}</bash-input>").into();
        self.keep_shell(text);
        self.effects.push(Effect::Shell { command });
    }

    /// A command of the host is done.
    pub(super) fn shell_done(&mut self, output: &Value) {
        let field = |key: &str| output[key].as_str().unwrap_or_default().to_owned();
        let text = format!(
            "<bash-stdout>{}</bash-stdout><bash-stderr>{}</bash-stderr><bash-exit-code>{}\
             </bash-exit-code>",
            field("stdout"),
            field("stderr"),
            output["code"]
        );
        self.keep_shell(text.into());
    }

    fn keep_shell(&mut self, content: Value) {
        let uuid = self.ids.uuid();
        self.replay(&uuid, &content);
        self.keep(Entry { uuid, role: "user".to_owned(), content, prompt: false });
    }
}
