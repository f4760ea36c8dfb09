//! The end of a turn: its `result` line, and what follows from it.

use serde_json::{Value, json};

use super::Session;
use super::lines::into_object;
use super::talk::Speaker;
use super::turn::Turn;
use crate::play::clock;
use crate::play::effect::Effect;
use crate::play::tally::Tokens;

/// How a result differs from another.
struct Ending {
    subtype: &'static str,
    failed: bool,
    reason: Option<&'static str>,
    fields: Value,
    /// What becomes of the prompts.
    prompts: &'static str,
    /// Whether the model was asked and answered.
    answered: bool,
}

impl Session {
    /// The model has nothing more to say.
    pub(super) fn stop_turn(&mut self) {
        if !self.hook_stop() {
            self.stopped();
        }
    }

    /// Hooks have seen the end of the turn.
    pub(super) fn stopped(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        if let Some(feedback) = turn.context.pop() {
            turn.held = true;
            turn.context.clear();
            self.urge_with(&Speaker::Main, &feedback, json!({}), |session| {
                let text = "Stop hook error occurred · ctrl+o to see";
                let fields =
                    json!({ "key": "stop-hook-error", "text": text, "priority": "immediate" });
                session.system("notification", fields);
            });
            return;
        }
        let text = turn.text.clone();
        self.finish(&Ending {
            subtype: "success",
            failed: false,
            reason: Some("completed"),
            fields: json!({ "api_error_status": null, "result": text }),
            prompts: "completed",
            answered: true,
        });
    }

    /// A turn that never asked the model.
    pub(super) fn finish_quietly(&mut self, text: &str, command: Option<&str>) {
        let mut fields = json!({ "result": text });
        if let Some(command) = command {
            fields["local_command"] = command.into();
        }
        let subtype = "success";
        let (prompts, answered) = ("completed", false);
        self.finish(&Ending { subtype, failed: false, reason: None, fields, prompts, answered });
    }

    /// A more urgent prompt waits.
    pub(super) fn finish_for_urgent(&mut self) {
        self.finish(&Ending {
            subtype: "success",
            failed: false,
            reason: Some("aborted_tools"),
            fields: json!({ "api_error_status": null, "result": "" }),
            prompts: "cancelled",
            answered: true,
        });
    }

    /// As many rounds as were allowed are over.
    pub(super) fn finish_after_turns(&mut self, turns: u32) {
        let error = format!("Reached maximum number of turns ({turns})");
        self.finish_with_errors("error_max_turns", "max_turns", &error);
    }

    /// As much money as was allowed is spent.
    pub(super) fn finish_over_budget(&mut self) {
        let budget = self.arguments.max_budget.unwrap_or_default();
        let error = format!("Reached maximum budget (${budget})");
        if let Some(turn) = &mut self.turn {
            turn.user_lines = 0;
        }
        self.finish_with_errors("error_max_budget_usd", "budget_exhausted", &error);
    }

    /// Somebody pressed stop.
    pub(super) fn finish_interrupted(&mut self, reason: &'static str) {
        let stop = self.turn.as_ref().and_then(|turn| turn.stop_reason.clone());
        let stop = if reason == "aborted_tools" { Some("tool_use".to_owned()) } else { stop };
        if let Some(turn) = &mut self.turn {
            turn.stop_reason.clone_from(&stop);
        }
        let stop = stop.as_deref().unwrap_or("null");
        let error =
            format!("[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={stop}");
        self.finish_with_errors("error_during_execution", reason, &error);
    }

    fn finish_with_errors(&mut self, subtype: &'static str, reason: &'static str, error: &str) {
        self.finish(&Ending {
            subtype,
            failed: true,
            reason: Some(reason),
            fields: json!({ "errors": [error] }),
            prompts: "cancelled",
            answered: false,
        });
    }

    /// The API failed.
    pub(super) fn finish_failed(&mut self, text: &str, error: &Value, reason: &'static str) {
        let mut fields = json!({ "api_error_status": error["api_error_status"], "result": text });
        for key in ["api_error_type", "api_error"] {
            if let Some(value) = error.get(key) {
                fields[key] = value.clone();
            }
        }
        if let Some(turn) = &mut self.turn {
            turn.stop_reason = Some("stop_sequence".to_owned());
        }
        let (subtype, prompts) = ("success", "completed");
        let reason = Some(reason);
        self.finish(&Ending { subtype, failed: true, reason, fields, prompts, answered: false });
    }

    fn finish(&mut self, ending: &Ending) {
        let Some(turn) = self.turn.take() else { return };
        for prompt in turn.folded.iter().filter(|prompt| prompt.stamped) {
            self.lifecycle(&prompt.uuid, ending.prompts);
        }
        self.talk.asked = None;
        self.talk.message = None;
        self.talk.calls.clear();
        self.failed = ending.failed;
        let line = self.result(&turn, ending);
        self.print(line);
        self.record_cost();
        for prompt in turn.prompts.iter().filter(|prompt| prompt.stamped) {
            self.lifecycle(&prompt.uuid, ending.prompts);
        }
    }

    fn result(&mut self, turn: &Turn, ending: &Ending) -> Value {
        let since_start = |time: Option<std::time::SystemTime>| {
            clock::between(turn.began, time.unwrap_or(self.now))
        };
        let quiet = ending.reason.is_none();
        let num_turns = if quiet { 0 } else { turn.user_lines + 1 };
        let mut line = into_object(ending.fields.clone());
        let mut put = |key: &str, value: Value| drop(line.insert(key.to_owned(), value));
        put("type", "result".into());
        put("subtype", ending.subtype.into());
        put("is_error", ending.failed.into());
        put("duration_ms", since_start(None).into());
        put("duration_api_ms", turn.api_millis.into());
        put("num_turns", num_turns.into());
        put("stop_reason", turn.stop_reason.clone().into());
        put("session_id", self.id.clone().into());
        put("total_cost_usd", self.tally.cost().into());
        put("usage", turn.tokens.usage());
        put("modelUsage", self.tally.by_model());
        put("permission_denials", turn.denials.clone().into());
        put("fast_mode_state", "off".into());
        put("fast_mode_disabled_reason", "sdk_opt_in_required".into());
        put("subagent_stats", self.tasks.stats());
        put("safety_stops", turn.safety_stops.into());
        put("queued_turn_count", 0.into());
        put("result_index", self.results.into());
        put("model_usage_since_last_result", self.tally.since_last());
        if let Some(reason) = ending.reason {
            put("terminal_reason", reason.into());
        }
        if let Some(origin) = &turn.origin {
            put("origin", origin.clone());
        }
        if let Some(uuid) = turn.uuid() {
            put("user_message_uuid", uuid.into());
            put("user_message_uuids", turn.uuids().into());
        }
        if ending.answered {
            put("ttft_ms", since_start(turn.first_answer).into());
            put("ttft_stream_ms", since_start(turn.first_event).into());
            put("time_to_request_ms", since_start(turn.first_request).into());
            put("first_content_frame_ms", since_start(turn.first_event).into());
            if turn.uuid().is_some() {
                let tokens = turn.first_tokens.unwrap_or_default();
                let sent = turn.first_request.unwrap_or(turn.began);
                put("request_sent_wall_ms", clock::millis(sent).into());
                put("first_request_input_tokens", tokens.input.into());
                put("first_request_cache_read_input_tokens", tokens.cache_read.into());
            }
        }
        self.results += 1;
        put("uuid", self.ids.uuid().into());
        Value::Object(line)
    }

    /// Ends before anything began: there is no such conversation.
    pub(crate) fn missing(&mut self, error: &str) -> Vec<Effect> {
        let line = json!({
            "type": "result", "subtype": "error_during_execution", "is_error": true,
            "duration_ms": 0, "duration_api_ms": 0, "num_turns": 0, "stop_reason": null,
            "session_id": self.id, "total_cost_usd": 0, "usage": Tokens::default().usage(),
            "modelUsage": {}, "permission_denials": [], "uuid": self.ids.uuid(),
            "errors": [error], "result_index": 0,
        });
        self.leaving = true;
        vec![Effect::Print(line), Effect::Complain(error.to_owned()), Effect::End(1)]
    }
}
