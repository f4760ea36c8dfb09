//! Gemini: `POST /v1beta/models/MODEL:generateContent` and `:streamGenerateContent`.

use axum::http::Uri;
use serde_json::{Value, json};

use super::tools::OfferedTool;
use super::{
    ApiDialectBlock, ApiDialectReply, ApiPacedActions, ApiPacedStream, ApiTranslatedRequest,
    image_block, result_block, split_text, text_block, write_data,
};

/// How the context starts that the CLI of Gemini sends before the first prompt.
const CONTEXT: [&str; 2] = ["This is the Gemini CLI", "<session_context>"];

pub(super) fn translate(body: &Value, uri: &Uri) -> ApiTranslatedRequest {
    let name = uri.path().rsplit('/').next().unwrap_or_default();
    let (model, method) = name.split_once(':').unwrap_or((name, ""));
    let mut request = ApiTranslatedRequest {
        model: model.to_owned(),
        stream: method == "streamGenerateContent",
        as_events: uri.query().is_some_and(|it| it.split('&').any(|it| it == "alt=sse")),
        ..ApiTranslatedRequest::default()
    };
    for content in body["contents"].as_array().into_iter().flatten() {
        let role = if content["role"] == "model" { "assistant" } else { "user" };
        let parts = content["parts"].as_array().into_iter().flatten();
        let blocks: Vec<Value> = parts.filter_map(block).collect();
        if !blocks.is_empty() {
            request.add(role, blocks);
        }
    }
    let tools = body["tools"].as_array().into_iter().flatten();
    let functions =
        tools.flat_map(|it| it["functionDeclarations"].as_array().into_iter().flatten());
    request.tools = functions
        .map(|it| OfferedTool {
            name: it["name"].as_str().unwrap_or_default().to_owned(),
            schema: it.get("parametersJsonSchema").unwrap_or(&it["parameters"]).clone(),
            ..OfferedTool::default()
        })
        .collect();
    let config = &body["generationConfig"];
    request.schema = config.get("responseJsonSchema").or(config.get("responseSchema")).cloned();
    request
}

fn block(part: &Value) -> Option<Value> {
    if let Some(response) = part.get("functionResponse") {
        let id = response.get("id").unwrap_or(&response["name"]);
        let output = &response["response"]["output"];
        let text = output.as_str().map_or_else(|| response["response"].to_string(), str::to_owned);
        return Some(result_block(id, &text));
    }
    if let Some(data) = part.get("inlineData") {
        return Some(image_block(data["data"].as_str().unwrap_or_default()));
    }
    let text = part["text"].as_str()?;
    let is_context = CONTEXT.iter().any(|it| text.trim_start().starts_with(it));
    (!is_context && part["thought"] != true).then(|| text_block(text))
}

fn finish_reason(reply: &ApiDialectReply<'_>) -> &'static str {
    match reply.source.stop.as_deref() {
        Some("max_tokens") => "MAX_TOKENS",
        Some("refusal") => "SAFETY",
        _ => "STOP",
    }
}

/// A response with some parts of the reply.
fn response(
    reply: &ApiDialectReply<'_>,
    parts: &[Value],
    reason: Option<&str>,
    deltas: usize,
) -> Value {
    let counts = reply.counts(deltas);
    let mut candidate = json!({ "content": { "parts": parts, "role": "model" }, "index": 0 });
    if let Some(reason) = reason {
        candidate["finishReason"] = json!(reason);
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": counts.input, "candidatesTokenCount": counts.output,
            "cachedContentTokenCount": counts.cached,
            "totalTokenCount": counts.input + counts.output,
        },
        "modelVersion": reply.request.model, "responseId": reply.id,
    })
}

fn call_part(call: &super::ApiToolCall) -> Value {
    json!({ "functionCall": { "id": call.id, "name": call.name, "args": call.input } })
}

/// The parts of a stream, each a delta.
fn parts(reply: &ApiDialectReply<'_>) -> Vec<Value> {
    let of_block = |block: &ApiDialectBlock| -> Vec<Value> {
        match block {
            ApiDialectBlock::Text(text) => {
                split_text(text).map(|it| json!({ "text": it })).collect()
            }
            // A thought is sent as a whole, because clients take its first line for a title.
            ApiDialectBlock::Thinking(text) => vec![json!({ "text": text, "thought": true })],
            ApiDialectBlock::Call(call) => vec![call_part(call)],
        }
    };
    reply.blocks.iter().flat_map(of_block).collect()
}

pub(super) fn stream(reply: &ApiDialectReply<'_>, mut stream: ApiPacedStream) -> ApiPacedActions {
    let is_array = !reply.request.as_events;
    let write = |value: &Value, is_first: bool, out: &mut Vec<u8>| {
        if is_array {
            out.extend_from_slice(if is_first { b"[" } else { b",\r\n" });
            out.extend_from_slice(value.to_string().as_bytes());
        } else {
            write_data(value, out);
        }
    };
    stream.begin();
    let mut is_first = true;
    for part in parts(reply) {
        let chunk = response(reply, &[part], None, stream.deltas() + 1);
        stream.delta(|out| write(&chunk, is_first, out));
        is_first = false;
    }
    stream.end();
    let end =
        response(reply, &[json!({ "text": "" })], Some(finish_reason(reply)), stream.deltas());
    stream.event(|out| write(&end, is_first, out));
    if is_array {
        stream.event(|out| out.push(b']'));
    }
    stream.finish()
}

pub(super) fn whole(reply: &ApiDialectReply<'_>) -> Value {
    let part = |block: &ApiDialectBlock| match block {
        ApiDialectBlock::Text(text) => json!({ "text": text }),
        ApiDialectBlock::Thinking(text) => json!({ "text": text, "thought": true }),
        ApiDialectBlock::Call(call) => call_part(call),
    };
    let parts: Vec<Value> = reply.blocks.iter().map(part).collect();
    response(reply, &parts, Some(finish_reason(reply)), reply.deltas())
}

/// The name of an HTTP status.
pub(super) fn status(status: u16) -> &'static str {
    match status {
        400 | 413 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 | 405 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 | 529 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INTERNAL",
    }
}
