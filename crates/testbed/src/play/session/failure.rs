//! Failures of the API in the words of 2.1.325.

use serde_json::{Value, json};

use crate::play::input::Trouble;

/// A message that no model wrote.
pub(super) fn synthetic(id: &str, text: &str, stop: &str) -> Value {
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

/// Whether another attempt may help.
pub(super) fn is_passing(trouble: &Trouble) -> bool {
    match trouble.status {
        None => !matches!(trouble.kind.as_deref(), Some("no_key" | "malformed")),
        Some(status) => matches!(status, 401 | 408 | 409 | 429) || status >= 500,
    }
}

/// What a failure is called while it is tried again.
pub(super) fn retry_name(status: Option<u16>) -> &'static str {
    match status {
        Some(401) => "authentication_failed",
        Some(429) => "rate_limit",
        Some(529) => "overloaded",
        Some(status) if status >= 500 => "server_error",
        _ => "unknown",
    }
}

/// What a failure is called, and what is said about it.
pub(super) fn describe(trouble: &Trouble, model: &str, gateway: &str) -> (String, &'static str) {
    let message = &trouble.message;
    match trouble.status {
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
        None if trouble.kind.as_deref() == Some("no_key") => {
            ("Not logged in · Please run /login".to_owned(), "authentication_failed")
        }
        None if trouble.refused => (
            "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)"
                .to_owned(),
            "server_error",
        ),
        None => (format!("API Error: {message}"), "unknown"),
    }
}
