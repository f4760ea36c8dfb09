//! A turn: from the prompts it starts with to its `result` line.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use crate::play::event::PlayerEffect;
use crate::play::release::PlayerBehavior;
use crate::play::session::conversation::{
    FailureCounts, PlayerAgent, PlayerHistoryEntry, PlayerTokens,
};
use crate::play::session::output::into_object;
use crate::play::session::queue::PlayerPrompt;
use crate::play::session::structured_output::StructuredOutput;
use crate::play::session::{PlayerSession, PlayerState};
use crate::play::stamps;

/// The running turn.
#[derive(Clone, Debug)]
pub(crate) struct PlayerTurn {
    pub(crate) prompts: Vec<PlayerPrompt>,
    /// Prompts that joined the turn while it was running.
    pub(crate) joined: Vec<PlayerPrompt>,
    pub(crate) started_at: SystemTime,
    pub(crate) origin: Option<Value>,
    /// `user` lines printed since the start, which `num_turns` counts.
    pub(crate) user_lines: u32,
    /// Replies with tool calls.
    pub(crate) rounds: u32,
    pub(crate) denials: Vec<Value>,
    pub(crate) tokens: PlayerTokens,
    pub(crate) first_tokens: Option<PlayerTokens>,
    pub(crate) first_request: Option<SystemTime>,
    pub(crate) first_event: Option<SystemTime>,
    pub(crate) first_answer: Option<SystemTime>,
    pub(crate) api_millis: u64,
    pub(crate) stop_reason: Option<String>,
    /// The text of the last reply.
    pub(crate) text: String,
    /// Whether a line of the reply has listed the ids of the prompts.
    pub(crate) prompts_named: bool,
    /// Context from hooks.
    pub(crate) context: Vec<String>,
    /// The reason of a hook that blocked the prompt.
    pub(crate) blocked: Option<String>,
    /// The reason of a hook that stopped the turn.
    pub(crate) stopped: Option<String>,
    /// Whether a hook has kept the turn from end.
    pub(crate) stop_blocked: bool,
    /// The id of the prompt in the input of hooks.
    pub(crate) prompt_id: String,
    /// How often a safety classifier stopped the model.
    pub(crate) safety_stops: u32,
    pub(crate) structured_output: StructuredOutput,
}

impl PlayerTurn {
    pub(crate) fn new(
        prompts: Vec<PlayerPrompt>,
        started_at: SystemTime,
        prompt_id: String,
    ) -> Self {
        let origin = prompts.first().and_then(|prompt| prompt.origin.clone());
        Self {
            prompts,
            joined: Vec::new(),
            started_at,
            origin,
            user_lines: 0,
            rounds: 0,
            denials: Vec::new(),
            tokens: PlayerTokens::default(),
            first_tokens: None,
            first_request: None,
            first_event: None,
            first_answer: None,
            api_millis: 0,
            stop_reason: None,
            text: String::new(),
            prompts_named: false,
            context: Vec::new(),
            blocked: None,
            stopped: None,
            stop_blocked: false,
            prompt_id,
            safety_stops: 0,
            structured_output: StructuredOutput::default(),
        }
    }

    /// Ids of the prompts whose id is the host's.
    pub(crate) fn uuids(&self) -> Vec<String> {
        let prompts = self.prompts.iter().chain(&self.joined);
        prompts.filter(|prompt| prompt.has_host_id).map(|prompt| prompt.uuid.clone()).collect()
    }

    /// The id of the last prompt whose id is the host's.
    pub(crate) fn uuid(&self) -> Option<String> {
        let mut prompts = self.prompts.iter().rev();
        prompts.find(|prompt| prompt.has_host_id).map(|prompt| prompt.uuid.clone())
    }
}

/// How a turn ended.
struct PlayerTurnEnd {
    subtype: &'static str,
    failed: bool,
    reason: Option<&'static str>,
    fields: Value,
    /// The last lifecycle state of the prompts.
    prompt_state: &'static str,
    /// Whether the model replied.
    answered: bool,
}

impl PlayerSession {
    /// Queues a prompt of the host, unless it is a duplicate.
    pub(crate) fn on_prompt(&mut self, line: &Map<String, Value>) {
        let new_id = self.ids.uuid();
        let mut prompt = PlayerPrompt::parse(line, new_id);
        prompt.wants_reply |= !self.has(PlayerBehavior::PromptsWithoutReply);
        if prompt.has_host_id && self.seen_prompts.contains(&prompt.uuid) {
            self.print_duplicate_replay(&prompt.uuid, &prompt.content);
            if self.resumed_prompts.contains(&prompt.uuid) {
                self.print_lifecycle(&prompt.uuid, "completed");
            }
            return;
        }
        if prompt.has_host_id {
            self.seen_prompts.insert(prompt.uuid.clone());
            self.print_lifecycle(&prompt.uuid, "queued");
        }
        self.record_queue("enqueue", Some(&prompt.text()));
        self.queue.push(prompt);
    }

    /// Adds a message of the host to the history unchanged.
    pub(crate) fn on_history_message(&mut self, line: &Map<String, Value>) {
        let Some(message) = line.get("message") else { return };
        let role = message["role"].as_str().unwrap_or("assistant").to_owned();
        let host_id = line.get("uuid").and_then(Value::as_str).map(str::to_owned);
        if let Some(uuid) = &host_id {
            self.print_lifecycle(uuid, "completed");
        }
        let uuid = host_id.unwrap_or_else(|| self.ids.uuid());
        self.add_history(PlayerHistoryEntry {
            uuid,
            role,
            content: message["content"].clone(),
            prompt: false,
        });
    }

    /// Starts a turn with the next prompts of the queue.
    pub(crate) fn start_turn(&mut self) {
        let prompts = self.queue.next_turn(self.has(PlayerBehavior::MergesQueuedPrompts));
        let Some(last) = prompts.last().cloned() else { return };
        self.set_state(PlayerState::Running);
        self.started = true;
        self.record_queue("dequeue", None);
        for prompt in prompts[..prompts.len() - 1].iter().filter(|prompt| prompt.has_host_id) {
            self.print_replay(&prompt.uuid, &prompt.content);
        }
        for prompt in prompts.iter().filter(|prompt| prompt.has_host_id) {
            self.print_lifecycle(&prompt.uuid, "started");
        }
        let prompt_id = self.ids.uuid();
        self.turn = Some(PlayerTurn::new(prompts, self.now, prompt_id));
        if !last.wants_reply {
            self.print_init();
            self.add_turn_prompts();
            self.print_replay(&last.uuid, &last.content);
            self.finish_without_model("", None);
        } else if let Some((name, arguments)) = last.slash_command()
            && self.run_slash_command(&name, &arguments, &last)
        {
        } else if self.expand_defined_prompt(&last) {
            if !self.start_prompt_hooks(&last.text()) {
                self.send_turn();
            }
        } else if last.origin.is_some() || !self.start_prompt_hooks(&last.text()) {
            self.send_turn();
        }
    }

    /// Sends the prompts of the turn to the model.
    pub(crate) fn send_turn(&mut self) {
        self.print_init();
        let content = self.add_turn_prompts();
        let Some(turn) = &mut self.turn else { return };
        let hook_context = std::mem::take(&mut turn.context);
        let echoed = turn.prompts.last().filter(|prompt| prompt.origin.is_none()).cloned();
        for text in hook_context {
            let text = format!("<system-reminder>\n{text}\n</system-reminder>");
            let uuid = self.ids.uuid();
            self.add_history(PlayerHistoryEntry {
                uuid,
                role: "user".into(),
                content: text.into(),
                prompt: false,
            });
        }
        self.conversation.failures = FailureCounts::default();
        self.request_model(&PlayerAgent::Main);
        if let Some(prompt) = echoed
            && !is_tool_result(&content)
        {
            self.pending_replay = Some((prompt.uuid, content));
        }
    }

    /// Echoes the prompt once the model replies. 2.1.325 reports a failed attempt before the echo.
    pub(crate) fn flush_replay(&mut self, agent: &PlayerAgent) {
        if *agent == PlayerAgent::Main
            && let Some((uuid, content)) = self.pending_replay.take()
        {
            self.print_replay(&uuid, &content);
        }
    }

    /// Adds the prompts of the turn to the history as one message.
    pub(crate) fn add_turn_prompts(&mut self) -> Value {
        let Some(turn) = &self.turn else { return Value::Null };
        let content = merge_contents(&turn.prompts);
        let uuids: Vec<String> = turn.prompts.iter().map(|prompt| prompt.uuid.clone()).collect();
        let uuid = uuids.last().cloned().unwrap_or_default();
        if self.environment.checkpoints {
            self.effects.push(PlayerEffect::Checkpoint(uuid.clone()));
        }
        let entry = PlayerHistoryEntry {
            uuid,
            role: "user".to_owned(),
            content: content.clone(),
            prompt: true,
        };
        self.add_prompt_history(entry, &uuids);
        content
    }

    /// Ends the turn, unless a hook keeps it from ending.
    pub(crate) fn stop_turn(&mut self) {
        if !self.start_stop_hooks() {
            self.on_stop_hooks_done();
        }
    }

    /// All stop hooks have answered.
    pub(crate) fn on_stop_hooks_done(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        let is_stopped = turn.stopped.is_some();
        if let Some(feedback) = turn.context.pop().filter(|_| !is_stopped) {
            turn.stop_blocked = true;
            turn.context.clear();
            self.ask_to_continue_with(&PlayerAgent::Main, &feedback, json!({}), |session| {
                let text = "Stop hook error occurred · ctrl+o to see";
                let fields =
                    json!({ "key": "stop-hook-error", "text": text, "priority": "immediate" });
                session.print_system("notification", fields);
            });
            return;
        }
        let mut fields = json!({ "api_error_status": null, "result": turn.text });
        if let Some(value) = &turn.structured_output.value {
            fields["result"] = value.to_string().into();
            fields["structured_output"] = value.clone();
        }
        self.finish(&PlayerTurnEnd {
            subtype: "success",
            failed: false,
            reason: Some(if is_stopped { "stop_hook_prevented" } else { "completed" }),
            fields,
            prompt_state: "completed",
            answered: true,
        });
    }

    /// Ends a turn in which the model gave no value that matches the schema.
    pub(crate) fn finish_without_structured_output(&mut self, error: &str) {
        let reason = "structured_output_retry_exhausted";
        self.finish_with_errors("error_max_structured_output_retries", reason, error);
    }

    /// Ends a turn without a request to the model.
    pub(crate) fn finish_without_model(&mut self, text: &str, command: Option<&str>) {
        let mut fields = json!({ "result": text });
        if let Some(command) = command {
            fields["local_command"] = command.into();
        }
        let subtype = "success";
        let (prompt_state, answered) = ("completed", false);
        self.finish(&PlayerTurnEnd {
            subtype,
            failed: false,
            reason: None,
            fields,
            prompt_state,
            answered,
        });
    }

    /// Ends the turn because a hook of a tool has stopped it.
    pub(crate) fn finish_stopped(&mut self) {
        self.finish(&PlayerTurnEnd {
            subtype: "success",
            failed: false,
            reason: Some("hook_stopped"),
            fields: json!({ "api_error_status": null, "result": "" }),
            prompt_state: "completed",
            answered: true,
        });
    }

    /// Ends the turn because a hook has left a call to the host.
    pub(crate) fn finish_deferred(&mut self, call: &Value) {
        if let Some(turn) = &mut self.turn {
            turn.stop_reason = Some("tool_deferred".to_owned());
        }
        self.finish(&PlayerTurnEnd {
            subtype: "success",
            failed: false,
            reason: Some("tool_deferred"),
            fields: json!({ "result": "", "deferred_tool_use": call }),
            prompt_state: "completed",
            answered: true,
        });
    }

    /// Ends the turn for a more urgent prompt.
    pub(crate) fn finish_for_urgent(&mut self) {
        self.finish(&PlayerTurnEnd {
            subtype: "success",
            failed: false,
            reason: Some("aborted_tools"),
            fields: json!({ "api_error_status": null, "result": "" }),
            prompt_state: "cancelled",
            answered: true,
        });
    }

    /// Ends the turn at the limit of `--max-turns`.
    pub(crate) fn finish_at_turn_limit(&mut self, turns: u32) {
        let error = format!("Reached maximum number of turns ({turns})");
        self.finish_with_errors("error_max_turns", "max_turns", &error);
    }

    /// Ends the turn at the limit of `--max-budget-usd`.
    pub(crate) fn finish_at_budget_limit(&mut self) {
        let budget = self.args.max_budget.unwrap_or_default();
        let error = format!("Reached maximum budget (${budget})");
        if let Some(turn) = &mut self.turn {
            turn.user_lines = 0;
        }
        self.finish_with_errors("error_max_budget_usd", "budget_exhausted", &error);
    }

    /// Ends the turn after an interrupt.
    pub(crate) fn finish_interrupted(&mut self, reason: &'static str) {
        let stop = self.turn.as_ref().and_then(|turn| turn.stop_reason.clone());
        let stop = if reason == "aborted_tools" { Some("tool_use".to_owned()) } else { stop };
        if let Some(turn) = &mut self.turn {
            turn.stop_reason.clone_from(&stop);
        }
        self.print_interrupted_sub_agents();
        let stop = stop.as_deref().unwrap_or("null");
        let error =
            format!("[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={stop}");
        self.finish_with_errors("error_during_execution", reason, &error);
    }

    /// Ends a turn in which the model said nothing.
    pub(crate) fn finish_empty(&mut self) {
        self.finish_with_errors("error_during_execution", "completed", "");
    }

    fn finish_with_errors(&mut self, subtype: &'static str, reason: &'static str, error: &str) {
        self.finish(&PlayerTurnEnd {
            subtype,
            failed: self.has(PlayerBehavior::ErrorsAreFailures),
            reason: Some(reason),
            fields: json!({ "errors": [error] }),
            prompt_state: "cancelled",
            answered: false,
        });
    }

    /// Ends the turn after a failure of the API.
    pub(crate) fn finish_failed(&mut self, text: &str, error: &Value, reason: &'static str) {
        let mut fields = json!({ "api_error_status": error["api_error_status"], "result": text });
        for key in ["api_error_type", "api_error"] {
            if let Some(value) = error.get(key) {
                fields[key] = value.clone();
            }
        }
        if let Some(turn) = &mut self.turn {
            turn.stop_reason = Some("stop_sequence".to_owned());
        }
        let (subtype, prompt_state) = ("success", "completed");
        let reason = Some(reason);
        self.finish(&PlayerTurnEnd {
            subtype,
            failed: true,
            reason,
            fields,
            prompt_state,
            answered: false,
        });
    }

    fn finish(&mut self, end: &PlayerTurnEnd) {
        let Some(turn) = self.turn.take() else { return };
        for prompt in turn.joined.iter().filter(|prompt| prompt.has_host_id) {
            self.print_lifecycle(&prompt.uuid, end.prompt_state);
        }
        self.conversation.pending = None;
        self.conversation.message = None;
        self.conversation.calls.clear();
        self.last_turn_failed = end.failed;
        let line = self.result_line(&turn, end);
        self.print(line);
        self.record_cost();
        for prompt in turn.prompts.iter().filter(|prompt| prompt.has_host_id) {
            self.print_lifecycle(&prompt.uuid, end.prompt_state);
        }
    }

    fn result_line(&mut self, turn: &PlayerTurn, end: &PlayerTurnEnd) -> Value {
        let since_start = |time: Option<std::time::SystemTime>| {
            stamps::millis_between(turn.started_at, time.unwrap_or(self.now))
        };
        let local = end.reason.is_none();
        let num_turns = if local { 0 } else { turn.user_lines + 1 };
        let mut line = into_object(end.fields.clone());
        let mut put = |key: &str, value: Value| drop(line.insert(key.to_owned(), value));
        put("type", "result".into());
        put("subtype", end.subtype.into());
        put("is_error", end.failed.into());
        put("duration_ms", since_start(None).into());
        put("duration_api_ms", turn.api_millis.into());
        put("num_turns", num_turns.into());
        put("stop_reason", turn.stop_reason.clone().into());
        put("session_id", self.id.clone().into());
        put("total_cost_usd", self.usage.cost().into());
        put("usage", turn.tokens.usage());
        put("modelUsage", self.usage.by_model());
        put("permission_denials", turn.denials.clone().into());
        put("fast_mode_state", "off".into());
        put("fast_mode_disabled_reason", "sdk_opt_in_required".into());
        put("subagent_stats", self.tasks.stats());
        put("safety_stops", turn.safety_stops.into());
        put("queued_turn_count", 0.into());
        put("result_index", self.result_count.into());
        put("model_usage_since_last_result", self.usage.take_since_last());
        if let Some(reason) = end.reason {
            put("terminal_reason", reason.into());
        }
        if let Some(origin) = &turn.origin {
            put("origin", origin.clone());
        }
        if let Some(uuid) = turn.uuid() {
            put("user_message_uuid", uuid.into());
            put("user_message_uuids", turn.uuids().into());
        }
        if end.answered {
            put("ttft_ms", since_start(turn.first_answer).into());
            put("ttft_stream_ms", since_start(turn.first_event).into());
            put("time_to_request_ms", since_start(turn.first_request).into());
            put("first_content_frame_ms", since_start(turn.first_event).into());
            if turn.uuid().is_some() {
                let tokens = turn.first_tokens.unwrap_or_default();
                let sent = turn.first_request.unwrap_or(turn.started_at);
                put("request_sent_wall_ms", stamps::millis(sent).into());
                put("first_request_input_tokens", tokens.input.into());
                put("first_request_cache_read_input_tokens", tokens.cache_read.into());
            }
        }
        self.result_count += 1;
        put("uuid", self.ids.uuid().into());
        Value::Object(line)
    }

    /// Exits with an error because the session to resume does not exist.
    pub(crate) fn fail_to_resume(&mut self, error: &str) -> Vec<PlayerEffect> {
        let line = json!({
            "type": "result", "subtype": "error_during_execution", "is_error": true,
            "duration_ms": 0, "duration_api_ms": 0, "num_turns": 0, "stop_reason": null,
            "session_id": self.id, "total_cost_usd": 0, "usage": PlayerTokens::default().usage(),
            "modelUsage": {}, "permission_denials": [], "uuid": self.ids.uuid(),
            "errors": [error], "result_index": 0,
        });
        self.exiting = true;
        let has_result = self.has(PlayerBehavior::MissingSessionResult);
        if has_result {
            self.print(line);
        }
        if !has_result || self.has(PlayerBehavior::MissingSessionOnStderr) {
            self.effects.push(PlayerEffect::PrintError(error.to_owned()));
        }
        self.effects.push(PlayerEffect::Exit(1));
        std::mem::take(&mut self.effects)
    }
}

/// Merges the contents of several prompts.
fn merge_contents(prompts: &[PlayerPrompt]) -> Value {
    if let [prompt] = prompts {
        return prompt.content.clone();
    }
    if prompts.iter().all(|prompt| prompt.content.is_string()) {
        let texts: Vec<String> = prompts.iter().map(PlayerPrompt::text).collect();
        return texts.join("\n").into();
    }
    let blocks = prompts.iter().flat_map(|prompt| match &prompt.content {
        Value::String(text) => vec![json!({ "type": "text", "text": text })],
        Value::Array(blocks) => blocks.clone(),
        _ => Vec::new(),
    });
    Value::Array(blocks.collect())
}

fn is_tool_result(content: &Value) -> bool {
    content
        .as_array()
        .is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "tool_result"))
}
