//! Control requests of the host: changes, queries and the interrupt.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::play::event::{PlayerEffect, ToolOutcome};
use crate::play::permission::PlayerMode;
use crate::play::release::PlayerBehavior;
use crate::play::session::PlayerSession;
use crate::play::session::calls::{PlayerCall, PlayerCallPhase};
use crate::play::session::catalog::models;
use crate::play::session::conversation::{PlayerAgent, PlayerHistoryEntry};
use crate::play::texts;

/// The part of the context that is kept free for a summary.
const BUFFER: usize = 33_000;

impl PlayerSession {
    /// Answers a control request.
    pub(crate) fn respond(&mut self, id: &Value, payload: Value) {
        let mut response = json!({ "subtype": "success" });
        if !id.is_null() {
            response["request_id"] = id.clone();
        }
        if !payload.is_null() {
            response["response"] = payload;
        }
        self.print(json!({ "type": "control_response", "response": response }));
    }

    /// Answers a control request with an error.
    pub(crate) fn respond_error(&mut self, id: &Value, error: &str, code: Option<&str>) {
        let mut response = json!({ "subtype": "error", "request_id": id, "error": error });
        if let Some(code) = code {
            response["error_code"] = code.into();
        }
        self.print(json!({ "type": "control_response", "response": response }));
    }

    pub(crate) fn on_control_request(&mut self, id: &Value, request: &Value) {
        let subtype = request["subtype"].as_str().unwrap_or("undefined");
        match subtype {
            "initialize" => self.initialize(id, request),
            "interrupt" => self.interrupt(id, request),
            "set_permission_mode" => self.set_permission_mode(id, request),
            "set_model" => {
                self.set_model(request["model"].as_str());
                let model = self.model();
                self.respond(id, json!({ "model": model }));
            }
            "set_max_thinking_tokens" => {
                self.thinking_budget = request["max_thinking_tokens"].as_u64();
                self.respond(id, Value::Null);
            }
            "apply_flag_settings" if !request["settings"].is_object() => {
                let kind = request.get("settings").map_or("undefined", kind_of);
                let error =
                    format!("apply_flag_settings requires `settings` to be an object, got {kind}");
                self.respond_error(id, &error, None);
            }
            "apply_flag_settings" => {
                if let Some(settings) = request["settings"].as_object() {
                    self.apply_flag_settings(settings);
                }
                self.respond(id, Value::Null);
            }
            "cancel_async_message" => {
                let uuid = request["message_uuid"].as_str().unwrap_or_default();
                let cancelled = self.queue.cancel(uuid);
                if cancelled {
                    self.print_lifecycle(uuid, "cancelled");
                }
                self.respond(id, json!({ "cancelled": cancelled }));
            }
            "rewind_files" => self.rewind_files(id, request),
            "rewind_conversation" => self.rewind_conversation(id, request),
            "stop_task" => match request["task_id"].as_str() {
                // A task that does not exist has stopped, too.
                Some(task) => {
                    self.stop_task(task);
                    self.respond(id, json!({}));
                }
                None => self.respond_error(id, "stop_task: task_id must be a string", None),
            },
            "side_question" => self.ask_side_question(id, request),
            "end_session" => {
                self.respond(id, Value::Null);
                self.exiting = true;
                self.effects.push(PlayerEffect::Exit(0));
            }
            "mcp_status" => {
                let servers = self.servers.status();
                self.respond(id, json!({ "mcpServers": servers }));
            }
            _ => {
                if let Some(answer) = self.answer_query(subtype, request) {
                    self.respond(id, answer);
                } else if !self.answer_project_request(id, subtype, request)
                    && self.has(PlayerBehavior::RefusesUnknownControl)
                {
                    let error = format!("Unsupported control request subtype: {subtype}");
                    self.respond_error(id, &error, Some("unsupported_request"));
                }
            }
        }
    }

    fn set_permission_mode(&mut self, id: &Value, request: &Value) {
        let name = request["mode"].as_str().unwrap_or_default();
        let launched = self.args.skip_permissions
            || self.args.allow_skip_permissions
            || self.settings.mode == PlayerMode::Bypass;
        match PlayerMode::from_name(name) {
            None if !self.has(PlayerBehavior::ChecksModeNames) => {
                self.respond(id, json!({ "mode": name }));
            }
            None => self.respond_error(id, &format!("Invalid permission mode: {name}"), None),
            Some(PlayerMode::Bypass)
                if !launched && self.has(PlayerBehavior::BypassNeedsLaunch) =>
            {
                let error = "Cannot set permission mode to bypassPermissions because the session \
                             was not launched with --dangerously-skip-permissions";
                self.respond_error(id, error, Some("bypass_not_launched"));
            }
            Some(mode) => {
                self.respond(id, json!({ "mode": mode.name() }));
                self.set_mode(mode);
                if self.has(PlayerBehavior::SetModeStatus) {
                    self.print_mode();
                }
            }
        }
    }

    fn rewind_files(&mut self, id: &Value, request: &Value) {
        if !self.environment.checkpoints {
            let error = "File rewinding is not enabled.";
            if request["dry_run"] == true {
                self.respond(id, json!({ "canRewind": false, "error": error }));
            } else {
                self.respond_error(id, error, None);
            }
            return;
        }
        let prompt = request["user_message_id"].as_str().unwrap_or_default().to_owned();
        let dry_run = request["dry_run"] == true;
        self.effects.push(PlayerEffect::RewindFiles { request: id.clone(), prompt, dry_run });
    }

    fn rewind_conversation(&mut self, id: &Value, request: &Value) {
        let Some(target) = request["target_message_uuid"].as_str() else {
            let error = "rewind_conversation: target_message_uuid must be a string";
            self.respond_error(id, error, None);
            return;
        };
        let Some((prompt, before)) = self.conversation.history.rewind(target) else {
            let error = format!("No message found with ID: {target}");
            self.respond(id, json!({ "rewound": false, "error": error }));
            return;
        };
        self.record(json!({ "type": "play-rewind", "uuid": target, "sessionId": self.id }));
        self.respond(
            id,
            json!({
                "rewound": true, "targetMessageUuid": target, "prefillText": prompt.content,
                "precedingAssistantUuid": before,
            }),
        );
    }

    /// Runs a shell command of the host and adds it to the history.
    pub(crate) fn run_host_shell(&mut self, line: &Map<String, Value>) {
        let command = line.get("command").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(uuid) = line.get("uuid").and_then(Value::as_str) {
            self.print_lifecycle(uuid, "started");
            self.print_lifecycle(uuid, "completed");
        }
        let escaped = command.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let text: Value = format!("<bash-input>{escaped}</bash-input>").into();
        self.add_shell_history(text);
        self.effects.push(PlayerEffect::RunHostShell { command });
    }

    /// Adds the output of the host's shell command to the history.
    pub(crate) fn on_host_shell_done(&mut self, output: &Value) {
        let field = |key: &str| output[key].as_str().unwrap_or_default().to_owned();
        let text = format!(
            "<bash-stdout>{}</bash-stdout><bash-stderr>{}</bash-stderr><bash-exit-code>{}\
             </bash-exit-code>",
            field("stdout"),
            field("stderr"),
            output["code"]
        );
        self.add_shell_history(text.into());
    }

    /// Adds a part of a host's shell command. The host is shown it even without `--replay-user-messages`.
    fn add_shell_history(&mut self, content: Value) {
        let uuid = self.ids.uuid();
        self.print_echo(&uuid, &content);
        self.add_history(PlayerHistoryEntry {
            uuid,
            role: "user".to_owned(),
            content,
            prompt: false,
        });
    }

    /// Interrupts the turn at the host's request.
    pub(crate) fn interrupt(&mut self, id: &Value, request: &Value) {
        let cancelled =
            if self.turn.is_some() { self.cancel_permission_requests() } else { Vec::new() };
        let mut interrupted = Vec::new();
        if self.turn.is_some() && !self.keep_sub_agents {
            interrupted = self.replying_sub_agents();
            self.kill_sub_agents();
        }
        let removed =
            if request["cancel_queued"] == true { self.queue.cancel_all() } else { Vec::new() };
        let mut response = json!({});
        let cancelled_ids: Vec<String> =
            removed.iter().filter(|prompt| prompt.has_host_id).map(|it| it.uuid.clone()).collect();
        for uuid in &cancelled_ids {
            self.print_lifecycle(uuid, "cancelled");
        }
        if self.has(PlayerBehavior::InterruptListsQueue) {
            response["still_queued"] = self.queue.host_ids().into();
        }
        if request["cancel_queued"] == true {
            response["cancelled"] = cancelled_ids.into();
        }
        self.respond(id, response);
        if self.turn.is_some() {
            for call in cancelled {
                self.record_denial(&call);
            }
            self.interrupted_sub_agents = interrupted;
            self.interrupt_turn();
        }
    }

    /// Ends the turn at once.
    pub(crate) fn interrupt_turn(&mut self) {
        self.cancel_permission_requests();
        let streaming = self.conversation.pending.is_some();
        let pending = self.conversation.pending.take();
        if let Some(pending) = &pending {
            self.effects.push(PlayerEffect::CancelRequest(pending.number));
        }
        let busy = !self.conversation.calls.is_empty();
        if streaming && !busy {
            self.conversation.pending = pending;
            self.end_stream();
            self.conversation.pending = None;
            self.finish_interrupted("aborted_streaming");
            return;
        }
        if let Some(message) = &mut self.conversation.message {
            message.abandon();
        }
        let calls = self.stop_calls(&PlayerAgent::Main);
        if !calls.is_empty() {
            self.add_call_results(&PlayerAgent::Main, &calls);
        }
        self.print_interrupted("[Request interrupted by user for tool use]");
        self.finish_interrupted("aborted_tools");
    }

    /// Prints the partial reply and closes the events of its stream.
    fn end_stream(&mut self) {
        let parts = self.conversation.message.as_mut().map(|message| {
            let (partial, open) = message.abandon();
            (partial, open, message.id.clone(), message.blocks.len())
        });
        if let Some((Some(block), ..)) = &parts
            && self.has(PlayerBehavior::InterruptKeepsReply)
        {
            self.print_block(&PlayerAgent::Main, block, json!({ "aborted": true }));
        }
        self.print_interrupted("[Request interrupted by user]");
        if let Some((_, open, id, blocks)) = parts
            && self.has(PlayerBehavior::InterruptClosesStream)
        {
            if let Some(index) = open {
                let stop = json!({ "type": "content_block_stop", "index": index });
                self.print_stream_event(&PlayerAgent::Main, &stop, json!({}));
            }
            let delta = json!({
                "container": null, "stop_details": null, "stop_reason": null, "stop_sequence": null,
            });
            let usage = json!({ "output_tokens": 0 });
            let event = json!({
                "type": "message_delta", "delta": delta, "usage": usage,
                "context_management": null,
            });
            self.print_stream_event(&PlayerAgent::Main, &event, json!({}));
            let abandoned = json!({ "api_message_id": id, "from_block_index": blocks });
            let fields = json!({ "abandoned_blocks": abandoned });
            self.print_stream_event(&PlayerAgent::Main, &json!({ "type": "message_stop" }), fields);
        }
    }

    fn print_interrupted(&mut self, text: &str) {
        self.flush_replay(&PlayerAgent::Main);
        let content = json!([{ "type": "text", "text": text }]);
        let uuid = self.print_user(&PlayerAgent::Main, &content, json!({}));
        self.count_line(&PlayerAgent::Main);
        self.add_history(PlayerHistoryEntry {
            uuid,
            role: "user".to_owned(),
            content,
            prompt: false,
        });
    }

    /// Stops all calls of the main agent without results.
    pub(crate) fn drop_calls(&mut self) {
        for call in std::mem::take(&mut self.conversation.calls) {
            if call.phase == PlayerCallPhase::Running {
                self.effects.push(PlayerEffect::StopTool(call.id));
            }
        }
    }

    /// Stops all calls of an agent and gives results to those without one.
    pub(crate) fn stop_calls(&mut self, agent: &PlayerAgent) -> Vec<PlayerCall> {
        let Some(conversation) = self.conversation(agent) else { return Vec::new() };
        conversation.message = None;
        let mut calls = std::mem::take(&mut conversation.calls);
        for call in &mut calls {
            if call.is_done() {
                continue;
            }
            let running = call.phase == PlayerCallPhase::Running;
            if running {
                self.effects.push(PlayerEffect::StopTool(call.id.clone()));
            }
            let suffix = if running { texts::STOPPED } else { "" };
            let mut outcome = ToolOutcome::failure(&format!("{}{suffix}", texts::REJECTED));
            outcome.report = "User rejected tool use".into();
            let block = call.result_block(&outcome);
            call.result = Some(block.clone());
            let meta = json!([{ "id": call.id, "non_execution_kind": "user-rejected" }]);
            let fields = json!({ "tool_use_result": outcome.report, "tool_result_meta": meta });
            self.print_user(agent, &json!([block]), fields);
            self.count_line(agent);
        }
        calls
    }

    /// The answer to a query, or `None` if the subtype is not supported.
    pub(crate) fn answer_query(&mut self, subtype: &str, request: &Value) -> Option<Value> {
        Some(match subtype {
            "get_context_usage" => self.context_usage(),
            "get_session_cost" => json!({ "text": self.cost_text() }),
            "get_binary_version" => json!({ "version": self.args.release.to_string() }),
            "get_settings" => self.settings_report(),
            "get_status" => json!({ "sections": [{ "title": "Session", "rows": [
                { "label": "Version", "value": self.args.release.to_string() },
                { "label": "Session ID", "value": self.id },
                { "label": "cwd", "value": self.environment.cwd.display().to_string() },
                { "label": "Model", "value": self.model() },
            ] }] }),
            "list_models" => json!({ "models": models() }),
            "list_permission_rules" => self.permission_rules(),
            "export_conversation" => self.exported_conversation(),
            "rename_session" => {
                self.set_title(&request["title"]);
                Value::Null
            }
            _ => return None,
        })
    }

    fn context_usage(&self) -> Value {
        let chars: usize = self
            .conversation
            .history
            .entries()
            .iter()
            .map(|entry| entry.content.to_string().len())
            .sum();
        let messages = chars / 4;
        let used = 2154 + messages;
        let category = |id: &str, name: &str, tokens: usize, color: &str, kind: &str| json!({ "id": id, "name": name, "tokens": tokens, "color": color, "kind": kind });
        let model = self.model();
        let is_small = model.contains("haiku");
        let (size, source) =
            if is_small { (200_000, "auto") } else { (1_000_000, "model-default") };
        let free = (size - BUFFER).saturating_sub(used);
        json!({
            "categories": [
                category("system_prompt", "System prompt", 90, "promptBorder", "used"),
                category("skills", "Skills", 2064, "warning", "used"),
                category("messages", "Messages", messages, "purple_FOR_SUBAGENTS_ONLY", "used"),
                category("autocompact_buffer", "Autocompact buffer", BUFFER, "inactive", "buffer"),
                category("free_space", "Free space", free, "promptBorder", "free"),
            ],
            "totalTokens": used, "maxTokens": size, "rawMaxTokens": size,
            "autocompactSource": source, "percentage": used * 100 / size, "gridRows": [],
            "model": model,
        })
    }

    /// The output of `/cost`.
    pub(crate) fn cost_text(&self) -> String {
        let usage = self.usage.by_model();
        let count = |key: &str| {
            let models = usage.as_object().into_iter().flatten();
            models.filter_map(|(_, model)| model[key].as_u64()).sum::<u64>()
        };
        format!(
            "Total cost:            ${:.4}\nTotal duration (API):  0s\nTotal duration (wall): \
             0s\nTotal code changes:    0 lines added, 0 lines removed\nUsage:                 {} \
             input, {} output, {} cache read, {} cache write",
            self.usage.cost(),
            count("inputTokens"),
            count("outputTokens"),
            count("cacheReadInputTokens"),
            count("cacheCreationInputTokens")
        )
    }

    fn exported_conversation(&self) -> Value {
        let mut exported = String::new();
        for entry in self.conversation.history.entries() {
            let text = match &entry.content {
                Value::String(text) => text.clone(),
                blocks => {
                    let blocks = blocks.as_array().into_iter().flatten();
                    blocks.filter_map(|it| it["text"].as_str()).collect::<Vec<_>>().join("\n")
                }
            };
            let mark = if entry.role == "assistant" { "●" } else { "❯" };
            let _ = write!(exported, "\n{mark} {text}\n");
        }
        json!({ "text": exported, "default_filename": "conversation.txt" })
    }
}

/// The type of a value, as JavaScript names it.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
