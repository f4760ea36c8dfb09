//! Requests and replies of the other APIs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{ApiDialect, ApiDialectReply};
use crate::api::reply::ApiIds;
use crate::api::request::ApiMessageRequest;
use crate::api::stream::ApiAction;
use crate::scenario::{ScenarioBlock, ScenarioReply};

const ALL: [ApiDialect; 3] = [ApiDialect::Responses, ApiDialect::Chat, ApiDialect::Gemini];

fn path(dialect: ApiDialect) -> &'static str {
    match dialect {
        ApiDialect::Responses => "/v1/responses",
        ApiDialect::Chat => "/v1/chat/completions",
        ApiDialect::Gemini => "/v1beta/models/m:streamGenerateContent?alt=sse",
    }
}

/// A request with a prompt and an image, a call, its two results, and a tool.
fn request(dialect: ApiDialect) -> Value {
    let parameters = json!({
        "type": "object", "properties": { "cmd": { "type": "string" } }, "required": ["cmd"],
    });
    let image = "data:image/png;base64,AAAA";
    match dialect {
        ApiDialect::Responses => json!({
            "model": "m", "stream": true,
            "tools": [{ "type": "namespace", "name": "unix", "tools": [
                { "type": "function", "name": "exec_command", "parameters": parameters },
            ] }],
            "input": [
                { "type": "message", "role": "developer", "content": [{ "type": "input_text", "text": "be brief" }] },
                { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "<environment_context>x" }] },
                { "type": "message", "role": "user", "content": [
                    { "type": "input_text", "text": "look" }, { "type": "input_image", "image_url": image },
                ] },
                { "type": "function_call", "call_id": "c1", "name": "exec_command", "arguments": "{}" },
                { "type": "function_call_output", "call_id": "c1", "output": "one" },
                { "type": "custom_tool_call_output", "call_id": "c2", "output": [{ "type": "input_text", "text": "two" }] },
            ],
        }),
        ApiDialect::Chat => json!({
            "model": "m", "stream": true, "stream_options": { "include_usage": true },
            "tools": [{ "type": "function", "function": { "name": "exec_command", "parameters": parameters } }],
            "messages": [
                { "role": "system", "content": "be brief" },
                { "role": "user", "content": [
                    { "type": "text", "text": "look" }, { "type": "image_url", "image_url": { "url": image } },
                ] },
                { "role": "assistant", "content": null, "tool_calls": [] },
                { "role": "tool", "tool_call_id": "c1", "content": "one" },
                { "role": "tool", "tool_call_id": "c2", "content": [{ "type": "text", "text": "two" }] },
            ],
        }),
        ApiDialect::Gemini => json!({
            "tools": [{ "functionDeclarations": [{ "name": "exec_command", "parametersJsonSchema": parameters }] }],
            "contents": [
                { "role": "user", "parts": [{ "text": "This is the Gemini CLI. Hello" }] },
                { "role": "user", "parts": [{ "text": "look" }, { "inlineData": { "data": "AAAA" } }] },
                { "role": "model", "parts": [{ "functionCall": { "name": "exec_command" } }] },
                { "role": "user", "parts": [
                    { "functionResponse": { "name": "exec_command", "response": { "output": "one" } } },
                    { "functionResponse": { "name": "exec_command", "response": { "output": "two" } } },
                ] },
            ],
        }),
    }
}

fn reply() -> ScenarioReply {
    let call = |command: &str| ScenarioBlock::Tool {
        name: "shell".to_owned(),
        input: json!({ "command": command }),
        id: None,
    };
    let blocks = vec![
        ScenarioBlock::Thinking("hm".to_owned()),
        ScenarioBlock::Text("a b".to_owned()),
        call("ls"),
        call("pwd"),
    ];
    let usage = json!({ "input_tokens": 100, "cache_read_input_tokens": 20, "output_tokens": 7 });
    ScenarioReply { blocks, usage: usage.as_object().cloned(), ..ScenarioReply::default() }
}

#[test]
fn a_request_means_the_same_in_every_api() {
    for dialect in ALL {
        let uri = path(dialect).parse().expect("a path");
        let translated = dialect.translate(&request(dialect), &uri);
        assert_eq!((translated.model.as_str(), translated.stream), ("m", true), "{dialect:?}");
        let body = translated.body();
        let request = ApiMessageRequest::parse(&body).expect("a request");
        assert_eq!(request.first_prompt(), "look", "{dialect:?}");
        assert_eq!(request.latest_message().results, ["one", "two"], "{dialect:?}");
        assert!(request.offers("exec_command"), "{dialect:?}");
    }
}

#[test]
fn a_reply_has_the_same_parts_in_every_api_streamed_or_not() {
    let (reply, ids) = (reply(), ApiIds::new());
    for dialect in ALL {
        let uri = path(dialect).parse().expect("a path");
        let translated = dialect.translate(&request(dialect), &uri);
        let reply = ApiDialectReply::new(&reply, &translated, None, &ids, 5);
        let mut events = Vec::new();
        for action in dialect.stream(&reply).actions {
            let ApiAction::Send(bytes) = action else { panic!("no waits are expected") };
            let text = std::str::from_utf8(&bytes).expect("UTF-8").to_owned();
            let data = text.lines().filter_map(|it| it.strip_prefix("data: "));
            events.extend(data.filter_map(|it| serde_json::from_str::<Value>(it).ok()));
        }
        let whole = dialect.whole(&reply);
        assert_eq!(summary(dialect, &events), SUMMARY, "{dialect:?}: {events:#?}");
        assert_eq!(summary(dialect, std::slice::from_ref(&whole)), SUMMARY, "{dialect:?} {whole}");
    }
}

const SUMMARY: &str =
    r#"hm / a b / exec_command {"cmd":"ls"} exec_command {"cmd":"pwd"} / 120 20 7"#;

/// Thinking, text, calls and token counts of a reply.
fn summary(dialect: ApiDialect, events: &[Value]) -> String {
    let (mut thinking, mut text, mut calls) = (String::new(), String::new(), String::new());
    let mut counts = Vec::new();
    let add = |all: &mut String, value: &Value| all.push_str(value.as_str().unwrap_or_default());
    let call = |calls: &mut String, name: &Value, arguments: &str| {
        let space = if calls.is_empty() { "" } else { " " };
        let name = name.as_str().unwrap_or_default();
        let _ = write!(calls, "{space}{name} {arguments}");
    };
    for event in events {
        match dialect {
            ApiDialect::Chat => {
                let choice = &event["choices"][0];
                let part = choice.get("delta").unwrap_or(&choice["message"]);
                add(&mut thinking, &part["reasoning_content"]);
                add(&mut text, &part["content"]);
                for it in part["tool_calls"].as_array().into_iter().flatten() {
                    let function = &it["function"];
                    if function.get("name").is_some() {
                        call(&mut calls, &function["name"], "");
                    }
                    add(&mut calls, &function["arguments"]);
                }
                let usage = &event["usage"];
                if usage.is_object() {
                    let cached = &usage["prompt_tokens_details"]["cached_tokens"];
                    counts = vec![&usage["prompt_tokens"], cached, &usage["completion_tokens"]];
                }
            }
            ApiDialect::Gemini => {
                for part in
                    event["candidates"][0]["content"]["parts"].as_array().into_iter().flatten()
                {
                    let is_thought = part["thought"] == true;
                    add(if is_thought { &mut thinking } else { &mut text }, &part["text"]);
                    if let Some(function) = part.get("functionCall") {
                        call(&mut calls, &function["name"], &function["args"].to_string());
                    }
                }
                let usage = &event["usageMetadata"];
                let cached = &usage["cachedContentTokenCount"];
                counts = vec![&usage["promptTokenCount"], cached, &usage["candidatesTokenCount"]];
            }
            ApiDialect::Responses => {
                let response = event.get("response").unwrap_or(event);
                if response["status"] != "completed" {
                    continue;
                }
                for item in response["output"].as_array().into_iter().flatten() {
                    add(&mut thinking, &item["summary"][0]["text"]);
                    add(&mut text, &item["content"][0]["text"]);
                    if item["type"] == "function_call" {
                        assert_eq!(item["namespace"], "unix");
                        let arguments = item["arguments"].as_str().expect("text");
                        call(&mut calls, &item["name"], arguments);
                    }
                }
                let usage = &response["usage"];
                let cached = &usage["input_tokens_details"]["cached_tokens"];
                counts = vec![&usage["input_tokens"], cached, &usage["output_tokens"]];
            }
        }
    }
    let counts: Vec<String> = counts.into_iter().map(Value::to_string).collect();
    format!("{thinking} / {text} / {calls} / {}", counts.join(" "))
}

#[test]
fn a_reply_to_a_request_for_json_fits_the_schema() {
    let schema = json!({ "type": "object", "properties": { "next": { "type": "string", "enum": ["user"] } } });
    let body = json!({
        "contents": [{ "parts": [{ "text": "who is next?" }] }],
        "generationConfig": { "responseJsonSchema": schema },
    });
    let uri = "/v1beta/models/m:generateContent".parse().expect("a path");
    let translated = ApiDialect::Gemini.translate(&body, &uri);
    let (reply, ids) = (reply(), ApiIds::new());
    let reply = ApiDialectReply::new(&reply, &translated, None, &ids, 5);
    let whole = ApiDialect::Gemini.whole(&reply);
    assert_eq!(
        whole["candidates"][0]["content"]["parts"],
        json!([{ "text": r#"{"next":"user"}"# }])
    );
}
