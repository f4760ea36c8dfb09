//! `OpenAI` Responses: `POST /v1/responses`.

use serde_json::{Value, json};

use super::tools::{ApiToolCall, OfferedTool};
use super::{
    ApiDialectBlock, ApiDialectReply, ApiError, ApiPacedActions, ApiPacedStream, ApiTokenCounts,
    ApiTranslatedRequest, image_block, result_block, split_text, text_block, text_of,
};

/// How the context starts that Codex sends as messages of the user.
const CONTEXT: [&str; 4] =
    ["<environment_context>", "<user_instructions>", "# AGENTS.md", "<permissions"];

pub(super) fn translate(body: &Value) -> ApiTranslatedRequest {
    let mut request = ApiTranslatedRequest {
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        stream: body["stream"] == true,
        with_usage: true,
        as_events: true,
        ..ApiTranslatedRequest::default()
    };
    if let Some(text) = body["input"].as_str() {
        request.add("user", vec![text_block(text)]);
    }
    offer(&body["tools"], None, &mut request.tools);
    for item in body["input"].as_array().into_iter().flatten() {
        let kind = item["type"].as_str().unwrap_or("message");
        match (kind, item["role"].as_str()) {
            (_, _) if kind.ends_with("call_output") => {
                let result = result_block(&item["call_id"], &text_of(&item["output"]));
                request.add("user", vec![result]);
            }
            ("additional_tools", _) => offer(&item["tools"], None, &mut request.tools),
            ("message", Some("user")) => {
                let blocks = content_blocks(&item["content"]);
                if !blocks.is_empty() {
                    request.add("user", blocks);
                }
            }
            ("message", Some("assistant")) => {
                request.add("assistant", vec![text_block(&text_of(&item["content"]))]);
            }
            ("message", _) => request.add("system", vec![text_block(&text_of(&item["content"]))]),
            _ => {}
        }
    }
    request.schema = body.pointer("/text/format/schema").cloned();
    request
}

/// The content of a user's message without the context that the client adds.
fn content_blocks(content: &Value) -> Vec<Value> {
    let Some(parts) = content.as_array() else { return vec![text_block(&text_of(content))] };
    let block = |part: &Value| {
        if part["type"] == "input_image" {
            return Some(image_block(part["image_url"].as_str().unwrap_or_default()));
        }
        let text = text_of(part);
        let is_context = CONTEXT.iter().any(|it| text.trim_start().starts_with(it));
        (!is_context).then(|| text_block(&text))
    };
    parts.iter().filter_map(block).collect()
}

/// Adds the tools of a list, also those in groups.
fn offer(tools: &Value, namespace: Option<&str>, offered: &mut Vec<OfferedTool>) {
    for tool in tools.as_array().into_iter().flatten() {
        let name = tool["name"].as_str();
        if tool["type"] == "namespace" {
            offer(&tool["tools"], name, offered);
        } else if let Some(name) = name {
            offered.push(OfferedTool {
                name: name.to_owned(),
                schema: tool["parameters"].clone(),
                namespace: namespace.map(str::to_owned),
                is_custom: tool["type"] == "custom",
            });
        }
    }
}

fn usage(counts: ApiTokenCounts) -> Value {
    json!({
        "input_tokens": counts.input, "input_tokens_details": { "cached_tokens": counts.cached },
        "output_tokens": counts.output, "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": counts.input + counts.output,
    })
}

/// The response object. It has no output until it is complete.
fn response(reply: &ApiDialectReply<'_>, status: &str, output: &[Value]) -> Value {
    json!({
        "id": format!("resp_{}", reply.id), "object": "response", "created_at": 1_767_225_600,
        "status": status, "error": null, "incomplete_details": null,
        "model": reply.request.model, "output": output, "parallel_tool_calls": true,
        "tool_choice": "auto", "tools": [], "usage": null,
    })
}

fn complete_response(reply: &ApiDialectReply<'_>, output: &[Value], deltas: usize) -> Value {
    let reason = match reply.source.stop.as_deref() {
        Some("max_tokens") => Some("max_output_tokens"),
        Some("refusal") => Some("content_filter"),
        _ => None,
    };
    let status = if reason.is_some() { "incomplete" } else { "completed" };
    let mut response = response(reply, status, output);
    if let Some(reason) = reason {
        response["incomplete_details"] = json!({ "reason": reason });
    }
    response["usage"] = usage(reply.counts(deltas));
    response
}

/// An output item, complete or as it is announced.
fn item(block: &ApiDialectBlock, id: &str, is_complete: bool) -> Value {
    let status = if is_complete { "completed" } else { "in_progress" };
    match block {
        ApiDialectBlock::Text(text) => {
            let part = json!({ "type": "output_text", "text": text, "annotations": [] });
            let content = if is_complete { json!([part]) } else { json!([]) };
            json!({
                "id": format!("msg_{id}"), "type": "message", "status": status,
                "role": "assistant", "content": content,
            })
        }
        ApiDialectBlock::Thinking(text) => {
            let part = json!({ "type": "summary_text", "text": text });
            let summary = if is_complete { json!([part]) } else { json!([]) };
            json!({
                "id": format!("rs_{id}"), "type": "reasoning", "summary": summary,
                "encrypted_content": null,
            })
        }
        ApiDialectBlock::Call(call) => call_item(call, id, status, is_complete),
    }
}

fn call_item(call: &ApiToolCall, id: &str, status: &str, is_complete: bool) -> Value {
    let arguments = if is_complete { call.arguments() } else { String::new() };
    let (prefix, kind, field) = if call.is_custom {
        ("ctc", "custom_tool_call", "input")
    } else {
        ("fc", "function_call", "arguments")
    };
    let mut item = json!({
        "id": format!("{prefix}_{id}"), "type": kind, "status": status, "call_id": call.id,
        "name": call.name, field: arguments,
    });
    if let Some(namespace) = &call.namespace {
        item["namespace"] = json!(namespace);
    }
    item
}

/// Writes numbered events.
struct NumberedEvents {
    stream: ApiPacedStream,
    next: u64,
}

impl NumberedEvents {
    fn numbered(&mut self, mut event: Value) -> Value {
        event["sequence_number"] = json!(self.next);
        self.next += 1;
        event
    }

    fn event(&mut self, event: Value) {
        let event = self.numbered(event);
        self.stream.event(|out| write_event(&event, out));
    }

    fn delta(&mut self, event: Value) {
        let event = self.numbered(event);
        self.stream.delta(|out| write_event(&event, out));
    }

    /// Adds what comes between the announcement of an item and its end.
    fn add_content(&mut self, block: &ApiDialectBlock, item: &Value, index: usize) {
        let place = json!({ "item_id": item["id"], "output_index": index });
        let at = |kind: &str, fields: Value| {
            let mut event = json!({ "type": kind });
            for fields in [&place, &fields] {
                for (name, value) in fields.as_object().into_iter().flatten() {
                    event[name] = value.clone();
                }
            }
            event
        };
        match block {
            ApiDialectBlock::Text(text) => {
                let part =
                    |text: &str| json!({ "type": "output_text", "text": text, "annotations": [] });
                self.event(at(
                    "response.content_part.added",
                    json!({ "content_index": 0, "part": part("") }),
                ));
                for delta in split_text(text) {
                    let fields = json!({ "content_index": 0, "delta": delta });
                    self.delta(at("response.output_text.delta", fields));
                }
                let fields = json!({ "content_index": 0, "text": text });
                self.event(at("response.output_text.done", fields));
                let fields = json!({ "content_index": 0, "part": part(text) });
                self.event(at("response.content_part.done", fields));
            }
            ApiDialectBlock::Thinking(text) => {
                let part = |text: &str| json!({ "type": "summary_text", "text": text });
                let fields = json!({ "summary_index": 0, "part": part("") });
                self.event(at("response.reasoning_summary_part.added", fields));
                for delta in split_text(text) {
                    let fields = json!({ "summary_index": 0, "delta": delta });
                    self.delta(at("response.reasoning_summary_text.delta", fields));
                }
                let fields = json!({ "summary_index": 0, "text": text });
                self.event(at("response.reasoning_summary_text.done", fields));
                let fields = json!({ "summary_index": 0, "part": part(text) });
                self.event(at("response.reasoning_summary_part.done", fields));
            }
            ApiDialectBlock::Call(call) => {
                let (name, field) = if call.is_custom {
                    ("custom_tool_call_input", "input")
                } else {
                    ("function_call_arguments", "arguments")
                };
                let arguments = call.arguments();
                for delta in split_text(&arguments) {
                    self.delta(at(&format!("response.{name}.delta"), json!({ "delta": delta })));
                }
                self.event(at(&format!("response.{name}.done"), json!({ field: arguments })));
            }
        }
    }
}

pub(super) fn stream(reply: &ApiDialectReply<'_>, stream: ApiPacedStream) -> ApiPacedActions {
    let mut events = NumberedEvents { stream, next: 0 };
    let started = response(reply, "in_progress", &[]);
    for kind in ["response.created", "response.in_progress"] {
        events.event(json!({ "type": kind, "response": started }));
    }
    events.stream.begin();
    let mut output = Vec::new();
    for (index, block) in reply.blocks.iter().enumerate() {
        let id = format!("{}{index}", reply.id);
        let announced = item(block, &id, false);
        events.event(json!({
            "type": "response.output_item.added", "output_index": index, "item": announced,
        }));
        events.add_content(block, &announced, index);
        let item = item(block, &id, true);
        events.event(json!({
            "type": "response.output_item.done", "output_index": index, "item": item,
        }));
        output.push(item);
    }
    events.stream.end();
    let complete = complete_response(reply, &output, events.stream.deltas());
    let is_incomplete = complete["status"] == "incomplete";
    let kind = if is_incomplete { "response.incomplete" } else { "response.completed" };
    events.event(json!({ "type": kind, "response": complete }));
    events.stream.finish()
}

pub(super) fn whole(reply: &ApiDialectReply<'_>) -> Value {
    let items = reply.blocks.iter().enumerate();
    let output: Vec<Value> =
        items.map(|(index, block)| item(block, &format!("{}{index}", reply.id), true)).collect();
    complete_response(reply, &output, reply.deltas())
}

/// Appends the event that ends a failed response.
pub(super) fn write_failure(error: &ApiError, out: &mut Vec<u8>) {
    let code = if error.status == 429 { "rate_limit_exceeded" } else { "server_error" };
    let failed = json!({ "code": code, "message": error.message });
    let response =
        json!({ "id": "resp_failed", "object": "response", "status": "failed", "error": failed });
    write_event(&json!({ "type": "response.failed", "response": response }), out);
}

fn write_event(event: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(event["type"].as_str().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\ndata: ");
    out.extend_from_slice(event.to_string().as_bytes());
    out.extend_from_slice(b"\n\n");
}
