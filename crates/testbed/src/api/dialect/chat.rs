//! `OpenAI` Chat Completions: `POST /v1/chat/completions`.

use serde_json::{Value, json};

use super::tools::OfferedTool;
use super::{
    ApiDialectBlock, ApiDialectReply, ApiPacedActions, ApiPacedStream, ApiTokenCounts,
    ApiTranslatedRequest, image_block, result_block, split_text, text_block, text_of, write_data,
};

pub(super) fn translate(body: &Value) -> ApiTranslatedRequest {
    let mut request = ApiTranslatedRequest {
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        stream: body["stream"] == true,
        with_usage: body["stream_options"]["include_usage"] == true,
        as_events: true,
        ..ApiTranslatedRequest::default()
    };
    for message in body["messages"].as_array().into_iter().flatten() {
        let content = &message["content"];
        match message["role"].as_str() {
            Some("tool") => {
                let result = result_block(&message["tool_call_id"], &text_of(content));
                request.add("user", vec![result]);
            }
            Some("user") => request.add("user", content_blocks(content)),
            Some("assistant") => request.add("assistant", vec![text_block(&text_of(content))]),
            _ => request.add("system", vec![text_block(&text_of(content))]),
        }
    }
    let functions = body["tools"].as_array().into_iter().flatten().map(|it| &it["function"]);
    request.tools = functions
        .map(|it| OfferedTool {
            name: it["name"].as_str().unwrap_or_default().to_owned(),
            schema: it["parameters"].clone(),
            ..OfferedTool::default()
        })
        .collect();
    request.schema = body.pointer("/response_format/json_schema/schema").cloned();
    request
}

fn content_blocks(content: &Value) -> Vec<Value> {
    let Some(parts) = content.as_array() else { return vec![text_block(&text_of(content))] };
    let block = |part: &Value| match part["type"].as_str() {
        Some("image_url") => image_block(part["image_url"]["url"].as_str().unwrap_or_default()),
        _ => text_block(&text_of(part)),
    };
    parts.iter().map(block).collect()
}

fn finish_reason(reply: &ApiDialectReply<'_>) -> &'static str {
    match reply.source.stop.as_deref() {
        Some("max_tokens") => "length",
        Some("refusal") => "content_filter",
        _ if reply.has_calls() => "tool_calls",
        _ => "stop",
    }
}

fn usage(counts: ApiTokenCounts) -> Value {
    json!({
        "prompt_tokens": counts.input, "completion_tokens": counts.output,
        "total_tokens": counts.input + counts.output,
        "prompt_tokens_details": { "cached_tokens": counts.cached },
        "completion_tokens_details": { "reasoning_tokens": 0 },
    })
}

/// The fields that every part of a reply has.
fn base(reply: &ApiDialectReply<'_>, object: &str) -> Value {
    json!({
        "id": format!("chatcmpl-{}", reply.id), "object": object, "created": 1_767_225_600,
        "model": reply.request.model,
    })
}

pub(super) fn stream(reply: &ApiDialectReply<'_>, mut stream: ApiPacedStream) -> ApiPacedActions {
    let base = base(reply, "chat.completion.chunk");
    let with_choices = |choices: Value| {
        let mut chunk = base.clone();
        chunk["choices"] = choices;
        chunk
    };
    let chunk = |delta: Value, reason: Option<&str>| {
        with_choices(json!([{ "index": 0, "delta": delta, "finish_reason": reason }]))
    };
    let start = chunk(json!({ "role": "assistant", "content": "" }), None);
    stream.event(|out| write_data(&start, out));
    stream.begin();
    let mut calls = 0;
    for block in &reply.blocks {
        match block {
            ApiDialectBlock::Text(text) => {
                for part in split_text(text) {
                    let chunk = chunk(json!({ "content": part }), None);
                    stream.delta(|out| write_data(&chunk, out));
                }
            }
            ApiDialectBlock::Thinking(text) => {
                for part in split_text(text) {
                    let chunk = chunk(json!({ "reasoning_content": part }), None);
                    stream.delta(|out| write_data(&chunk, out));
                }
            }
            ApiDialectBlock::Call(call) => {
                let function = json!({ "name": call.name, "arguments": "" });
                let start = json!({
                    "index": calls, "id": call.id, "type": "function", "function": function,
                });
                let start = chunk(json!({ "tool_calls": [start] }), None);
                stream.event(|out| write_data(&start, out));
                for part in split_text(&call.arguments()) {
                    let part = json!({ "index": calls, "function": { "arguments": part } });
                    let chunk = chunk(json!({ "tool_calls": [part] }), None);
                    stream.delta(|out| write_data(&chunk, out));
                }
                calls += 1;
            }
        }
    }
    stream.end();
    let end = chunk(json!({}), Some(finish_reason(reply)));
    stream.event(|out| write_data(&end, out));
    if reply.request.with_usage {
        let mut counts = with_choices(json!([]));
        counts["usage"] = usage(reply.counts(stream.deltas()));
        stream.event(|out| write_data(&counts, out));
    }
    stream.event(|out| out.extend_from_slice(b"data: [DONE]\n\n"));
    stream.finish()
}

pub(super) fn whole(reply: &ApiDialectReply<'_>) -> Value {
    let (mut text, mut thinking, mut calls) = (String::new(), String::new(), Vec::new());
    for block in &reply.blocks {
        match block {
            ApiDialectBlock::Text(part) => text.push_str(part),
            ApiDialectBlock::Thinking(part) => thinking.push_str(part),
            ApiDialectBlock::Call(call) => calls.push(json!({
                "id": call.id, "type": "function",
                "function": { "name": call.name, "arguments": call.arguments() },
            })),
        }
    }
    let mut message = json!({ "role": "assistant", "content": text, "refusal": null });
    if !thinking.is_empty() {
        message["reasoning_content"] = json!(thinking);
    }
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    let mut whole = base(reply, "chat.completion");
    whole["choices"] = json!([{
        "index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(reply),
    }]);
    whole["usage"] = usage(reply.counts(reply.deltas()));
    whole
}
