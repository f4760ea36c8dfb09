//! Failed requests: retries, replies that broke off, and the errors that are reported.

use std::time::Duration;

use serde_json::{Value, json};

use crate::play::event::{ModelFailure, PlayerEffect, PlayerTimer};
use crate::play::release::PlayerBehavior;
use crate::play::session::PlayerSession;
use crate::play::session::conversation::{PlayerAgent, PlayerHistoryEntry};
use crate::play::session::output::into_object;
use crate::play::{stamps, texts};

/// The default number of attempts after the first.
const DEFAULT_RETRIES: u32 = 10;

/// How many features 2.1.325 removes from a request that the API rejects.
const MAX_REDUCTIONS: u32 = 5;

/// Failed streams after which the request is sent without a stream.
const STREAM_ATTEMPTS: u32 = 3;

impl PlayerSession {
    /// Handles a request without a reply: retries it or reports the failure.
    pub(crate) fn request_failed(&mut self, agent: &PlayerAgent, failure: &ModelFailure) {
        let most = self.environment.max_retries.unwrap_or(DEFAULT_RETRIES);
        if self.retry_reduced(agent, failure) {
            return;
        }
        let Some(conversation) = self.conversation(agent) else { return };
        let used = if conversation.failures.broken_streams >= STREAM_ATTEMPTS {
            STREAM_ATTEMPTS
        } else {
            0
        };
        let most = most.saturating_sub(used);
        if !is_transient(failure) || conversation.failures.retries >= most {
            self.give_up(agent, failure);
            return;
        }
        conversation.failures.retries += 1;
        let attempt = conversation.failures.retries;
        let Some(pending) = &mut conversation.pending else { return };
        pending.paused = true;
        let number = pending.number;
        let base = 500_u64.saturating_mul(1 << (attempt - 1).min(6)).min(32_000);
        let delay = failure.retry_after.unwrap_or_else(|| base + self.ids.below(base / 4));
        self.print_system(
            "api_retry",
            json!({
                "attempt": attempt, "max_retries": most, "retry_delay_ms": delay,
                "error_status": failure.status, "error": retry_error_name(failure.status),
            }),
        );
        let (timer, after) = (PlayerTimer::Retry(number), Duration::from_millis(delay));
        self.effects.push(PlayerEffect::StartTimer { timer, after });
    }

    /// Sends a reduced request at once. 2.1.325 removes one beta feature after another if the API
    /// rejects the request, and the stream if the model does not exist.
    fn retry_reduced(&mut self, agent: &PlayerAgent, failure: &ModelFailure) -> bool {
        let Some(conversation) = self.conversation(agent) else { return false };
        let Some(pending) = &conversation.pending else { return false };
        let (mut body, mut streaming) = (pending.body.clone(), pending.streaming);
        match failure.status {
            Some(400) if failure.message.contains("prompt is too long") => return false,
            Some(400) if conversation.failures.reductions < MAX_REDUCTIONS => {}
            Some(404) if streaming => {
                body["stream"] = false.into();
                streaming = false;
            }
            _ => return false,
        }
        conversation.failures.reductions += 1;
        self.send_request(agent, body, streaming);
        true
    }

    pub(crate) fn on_timer(&mut self, timer: PlayerTimer) {
        match timer {
            PlayerTimer::Retry(number) => self.retry(number),
            PlayerTimer::Hook(request) => self.on_hook_timeout(&request),
        }
    }

    fn retry(&mut self, number: u64) {
        let conversations = std::iter::once(&self.conversation)
            .chain(self.sub_agents.values().map(|it| &it.conversation));
        let mut paused = conversations.filter_map(|conversation| {
            let pending =
                conversation.pending.as_ref().filter(|it| it.number == number && it.paused)?;
            Some((conversation.agent.clone(), pending.body.clone(), pending.streaming))
        });
        let next = paused.next();
        if let Some((agent, body, streaming)) = next {
            self.send_request(&agent, body, streaming);
        }
    }

    /// Handles a reply that broke off.
    pub(crate) fn stream_failed(&mut self, agent: &PlayerAgent, failure: &ModelFailure) {
        let most = self.environment.max_retries.unwrap_or(DEFAULT_RETRIES);
        let retries_streams = self.has(PlayerBehavior::RetriesStreams);
        let Some(conversation) = self.conversation(agent) else { return };
        let started =
            conversation.message.as_ref().is_some_and(|it| it.is_open() || !it.blocks.is_empty());
        if !conversation.calls.is_empty() {
            self.end_partial_reply(agent);
            self.finish_round(agent);
            return;
        }
        // A partial reply is discarded after a broken connection and kept after an error of the API.
        if failure.status.is_none() && failure.kind.is_none() {
            if started {
                self.discard_reply(agent);
            }
            self.request_failed(agent, failure);
            return;
        }
        if failure.kind.as_deref() == Some("garbage") {
            let text = format!("Could not parse message into JSON: {}", failure.message);
            self.effects.push(PlayerEffect::PrintError(text));
        }
        let Some(conversation) = self.conversation(agent) else { return };
        if conversation.message.as_ref().is_some_and(|message| !message.blocks.is_empty()) {
            self.end_partial_reply(agent);
            self.continue_reply(agent);
            return;
        }
        if started {
            self.discard_reply(agent);
            self.request_without_stream(agent);
            return;
        }
        let Some(conversation) = self.conversation(agent) else { return };
        conversation.message = None;
        conversation.failures.broken_streams += 1;
        let streams = conversation.failures.broken_streams;
        let Some(pending) = &mut conversation.pending else { return };
        if retries_streams && streams <= most.min(STREAM_ATTEMPTS - 1) {
            pending.paused = true;
            let timer = PlayerTimer::Retry(pending.number);
            let after = Duration::from_millis(500 * u64::from(streams));
            self.effects.push(PlayerEffect::StartTimer { timer, after });
        } else {
            self.request_without_stream(agent);
        }
    }

    /// Sends the same request without a stream.
    fn request_without_stream(&mut self, agent: &PlayerAgent) {
        let Some(conversation) = self.conversation(agent) else { return };
        conversation.failures.broken_streams = STREAM_ATTEMPTS;
        let Some(pending) = &conversation.pending else { return };
        let mut body = pending.body.clone();
        body["stream"] = false.into();
        if !self.has(PlayerBehavior::RetriesStreams)
            && let Some(body) = body.as_object_mut()
        {
            body.remove("stream");
        }
        self.send_request(agent, body, false);
    }

    /// Closes the stream of a reply that will be requested again.
    fn discard_reply(&mut self, agent: &PlayerAgent) {
        let Some(message) =
            self.conversation(agent).and_then(|conversation| conversation.message.as_mut())
        else {
            return;
        };
        let (_, open) = message.abandon();
        let abandoned = json!({ "api_message_id": message.id, "from_block_index": 0 });
        if let Some(index) = open {
            let stop = json!({ "type": "content_block_stop", "index": index });
            self.print_stream_event(agent, &stop, json!({}));
        }
        let fields = json!({ "abandoned_blocks": abandoned });
        self.print_stream_event(agent, &json!({ "type": "message_stop" }), fields);
        if let Some(conversation) = self.conversation(agent) {
            conversation.message = None;
        }
    }

    /// Prints the partial reply and closes its stream.
    fn end_partial_reply(&mut self, agent: &PlayerAgent) {
        let Some(message) =
            self.conversation(agent).and_then(|conversation| conversation.message.as_mut())
        else {
            return;
        };
        let (partial, open) = message.abandon();
        message.complete = true;
        let blocks = message.blocks.len();
        let id = message.id.clone();
        if let Some(block) = partial {
            self.print_block(agent, &block, json!({}));
        }
        if let Some(index) = open {
            let stop = json!({ "type": "content_block_stop", "index": index });
            self.print_stream_event(agent, &stop, json!({}));
        }
        let abandoned = json!({ "api_message_id": id, "from_block_index": blocks });
        let fields = json!({ "abandoned_blocks": abandoned });
        self.print_stream_event(agent, &json!({ "type": "message_stop" }), fields);
        if let Some(conversation) = self.conversation(agent) {
            conversation.pending = None;
        }
    }

    /// Asks the model to continue where it broke off, three times at most.
    fn continue_reply(&mut self, agent: &PlayerAgent) {
        let Some(conversation) = self.conversation(agent) else { return };
        if conversation.failures.continuations < 3 {
            conversation.failures.continuations += 1;
            self.ask_to_continue(agent, texts::CONTINUE_AFTER_ERROR, json!({}));
        } else {
            let text =
                "API Error: Server error mid-response. The response above may be incomplete.";
            let fields = json!({ "error": "server_error" });
            self.fail_with(agent, text, &fields, "api_error");
        }
    }

    /// Reports that a safety classifier has stopped the model.
    pub(crate) fn fail_refused(&mut self, agent: &PlayerAgent) {
        self.fail_with(agent, texts::REFUSED, &json!({ "error": "invalid_request" }), "api_error");
    }

    /// Reports that the limit of output tokens was hit too often.
    pub(crate) fn fail_output_limit(&mut self, agent: &PlayerAgent) {
        let fields = json!({
            "error": "max_output_tokens", "api_error": "max_output_tokens",
            "api_error_params": { "cut": "output_limit" },
        });
        self.fail_with(agent, texts::OUTPUT_LIMIT, &fields, "api_error");
    }

    /// Reports a request that failed for good.
    fn give_up(&mut self, agent: &PlayerAgent, failure: &ModelFailure) {
        let gateway = self.environment.base_url.clone().unwrap_or_default();
        let gateway = gateway.split('/').nth(2).unwrap_or_default();
        let (text, error) = error_text(failure, &self.model(), gateway);
        let mut fields = json!({ "error": error });
        if let Some(request) = &failure.request_id {
            fields["request_id"] = request.clone().into();
        }
        if let Some(status) = failure.status {
            fields["api_error_status"] = status.into();
        }
        if let Some(kind) = failure.kind.as_ref().filter(|_| failure.status.is_some()) {
            fields["api_error_type"] = kind.clone().into();
        }
        if failure.refused {
            fields["api_error"] = "connection_failed".into();
        }
        let reason = match failure.status {
            Some(413) => "image_error",
            _ if text.starts_with("Prompt is too long") => "prompt_too_long",
            _ => "api_error",
        };
        self.fail_with(agent, &text, &fields, reason);
    }

    /// Ends the turn of an agent with an error message in place of a reply.
    fn fail_with(&mut self, agent: &PlayerAgent, text: &str, fields: &Value, reason: &'static str) {
        self.flush_replay(agent);
        let message = synthetic_message(&self.ids.uuid(), text, "stop_sequence");
        let uuid = self.ids.uuid();
        let mut line = into_object(fields.clone());
        line.insert("type".to_owned(), "assistant".into());
        line.insert("message".to_owned(), message);
        line.insert("uuid".to_owned(), uuid.clone().into());
        line.insert("timestamp".to_owned(), stamps::timestamp(self.now).into());
        line.insert("is_api_error_message".to_owned(), true.into());
        self.add_origin_fields(&mut line, agent);
        self.print(Value::Object(line));
        let content = json!([{ "type": "text", "text": text }]);
        self.add_history_of(
            agent,
            PlayerHistoryEntry { uuid, role: "assistant".into(), content, prompt: false },
        );
        if let Some(conversation) = self.conversation(agent) {
            conversation.pending = None;
            conversation.message = None;
        }
        match agent {
            PlayerAgent::Main => self.finish_failed(text, fields, reason),
            PlayerAgent::SubAgent(id) => self.finish_sub_agent(&id.clone()),
        }
    }
}

/// A message that no model wrote.
pub(crate) fn synthetic_message(id: &str, text: &str, stop: &str) -> Value {
    json!({
        "diagnostics": null, "id": id, "container": null, "model": "<synthetic>",
        "role": "assistant", "stop_details": null, "stop_reason": stop, "stop_sequence": "",
        "type": "message",
        "usage": {
            "output_tokens_details": null, "input_tokens": 0, "output_tokens": 0,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
            "server_tool_use": { "web_search_requests": 0, "web_fetch_requests": 0 },
            "service_tier": null,
            "cache_creation": { "ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0 },
            "inference_geo": null, "iterations": null, "speed": null, "fallback_credit": null,
        },
        "content": [{ "type": "text", "text": text }],
        "context_management": null,
    })
}

/// Whether another attempt may succeed.
fn is_transient(failure: &ModelFailure) -> bool {
    match failure.status {
        None => !matches!(failure.kind.as_deref(), Some("no_key" | "malformed")),
        Some(status) => matches!(status, 401 | 408 | 409 | 429) || status >= 500,
    }
}

/// The `error` of an `api_retry` line.
fn retry_error_name(status: Option<u16>) -> &'static str {
    match status {
        Some(401) => "authentication_failed",
        Some(429) => "rate_limit",
        Some(529) => "overloaded",
        Some(status) if status >= 500 => "server_error",
        _ => "unknown",
    }
}

/// The text of a failure and the `error` of its message.
fn error_text(failure: &ModelFailure, model: &str, gateway: &str) -> (String, &'static str) {
    let message = &failure.message;
    match failure.status {
        Some(401) => ("Invalid API key · Fix external API key".to_owned(), "authentication_failed"),
        Some(403) => {
            (format!("Failed to authenticate. API Error: 403 {message}"), "authentication_failed")
        }
        Some(404) => (
            format!(
                "There's an issue with the selected model ({model}). It may not exist or you may not \
                 have access to it. Run --model to pick a different model."
            ),
            "model_not_found",
        ),
        Some(400) if message.contains("prompt is too long") => {
            (format!("Prompt is too long · {message}"), "invalid_request")
        }
        Some(413) => (
            "Request too large (max 32MB). Accumulated images and attachments in the conversation \
             pushed the request over the limit. Remove older images or compact the conversation."
                .to_owned(),
            "invalid_request",
        ),
        Some(429) => (format!("API Error: Request rejected (429) · {message}"), "rate_limit"),
        Some(status) if status >= 500 => (
            format!(
                "API Error: {status} {message}. This is a server-side issue, usually temporary — try \
                 again in a moment. If it persists, check your inference gateway ({gateway})."
            ),
            "server_error",
        ),
        Some(status) => (format!("API Error: {status} {message}"), "unknown"),
        None if failure.kind.as_deref() == Some("no_key") => {
            ("Not logged in · Please run /login".to_owned(), "authentication_failed")
        }
        None if failure.refused => (
            "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)"
                .to_owned(),
            "server_error",
        ),
        None => (format!("API Error: {message}"), "unknown"),
    }
}
