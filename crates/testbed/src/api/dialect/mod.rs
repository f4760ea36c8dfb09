//! Other APIs beside Messages: what their requests mean, and replies in their formats.
//!
//! A request is translated into one of the Messages API, so that the same scripts answer it. The reply
//! is written in the format of the API that was asked.

mod chat;
mod gemini;
mod responses;
pub(super) mod tools;

use axum::http::Uri;
use serde_json::{Map, Value, json};

use crate::scenario::{ScenarioBlock, ScenarioReply, ScenarioStreamFault};

use super::event::ApiError;
use super::paced_stream::{ApiPacedActions, ApiPacedStream};
use super::reply::ApiIds;
use super::stream::split_text;
use tools::{ApiToolCall, OfferedTool};

/// An API for messages other than Messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiDialect {
    /// `OpenAI` Responses.
    Responses,
    /// `OpenAI` Chat Completions.
    Chat,
    /// Gemini `generateContent`.
    Gemini,
}

/// A request in terms of the Messages API.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ApiTranslatedRequest {
    pub(super) model: String,
    pub(super) stream: bool,
    pub(super) messages: Vec<Value>,
    pub(super) tools: Vec<OfferedTool>,
    /// The schema that the reply must fit.
    pub(super) schema: Option<Value>,
    /// Whether the stream ends with token counts, which is an option in Chat Completions.
    pub(super) with_usage: bool,
    /// Whether a stream consists of server-sent events. In Gemini it can be an array instead.
    pub(super) as_events: bool,
}

impl ApiTranslatedRequest {
    /// The body of the same request in the Messages API.
    pub(super) fn body(&self) -> Vec<u8> {
        let tools: Vec<Value> = self.tools.iter().map(|it| json!({ "name": it.name })).collect();
        let request = json!({
            "model": self.model, "max_tokens": u32::MAX, "stream": self.stream,
            "messages": self.messages, "tools": tools,
        });
        request.to_string().into_bytes()
    }

    /// Adds a message. Tool results that follow each other are one message.
    fn add(&mut self, role: &str, blocks: Vec<Value>) {
        let is_result = |it: &Value| it["type"] == "tool_result";
        if let Some(last) = self.messages.last_mut()
            && last["role"] == role
            && blocks.iter().all(is_result)
            && let Some(content) = last["content"].as_array_mut()
            && content.iter().all(is_result)
        {
            content.extend(blocks);
        } else {
            self.messages.push(json!({ "role": role, "content": blocks }));
        }
    }
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn result_block(id: &Value, text: &str) -> Value {
    json!({ "type": "tool_result", "tool_use_id": id.as_str().unwrap_or_default(), "content": text })
}

fn image_block(data: &str) -> Value {
    json!({ "type": "image", "source": { "data": data } })
}

/// The text of a value that is a string or a list of parts with text.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<String> =
                parts.iter().map(text_of).filter(|it| !it.is_empty()).collect();
            texts.join("\n")
        }
        Value::Object(part) => {
            part.get("text").or(part.get("output")).map(text_of).unwrap_or_default()
        }
        _ => String::new(),
    }
}

/// A reply in terms of the request that it answers.
pub(super) struct ApiDialectReply<'a> {
    pub(super) source: &'a ScenarioReply,
    pub(super) blocks: Vec<ApiDialectBlock>,
    pub(super) request: &'a ApiTranslatedRequest,
    /// What ids of this reply end with.
    pub(super) id: String,
    pub(super) input_tokens: u64,
}

/// A part of such a reply.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ApiDialectBlock {
    Text(String),
    Thinking(String),
    Call(ApiToolCall),
}

/// Token counts of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ApiTokenCounts {
    input: u64,
    cached: u64,
    output: u64,
}

impl<'a> ApiDialectReply<'a> {
    pub(super) fn new(
        source: &'a ScenarioReply,
        request: &'a ApiTranslatedRequest,
        cwd: Option<&str>,
        ids: &ApiIds,
        input_tokens: u64,
    ) -> Self {
        let mut blocks: Vec<ApiDialectBlock> =
            source.blocks.iter().filter_map(|it| resolved(it, request, cwd, ids)).collect();
        if let Some(schema) = &request.schema {
            let is_text = |it: &ApiDialectBlock| matches!(it, ApiDialectBlock::Text(text) if serde_json::from_str::<Map<String, Value>>(text).is_ok());
            if !blocks.iter().any(is_text) {
                blocks = vec![ApiDialectBlock::Text(tools::example(schema).to_string())];
            }
        }
        let id = ids.message().trim_start_matches("msg_").to_owned();
        Self { source, blocks, request, id, input_tokens }
    }

    fn has_calls(&self) -> bool {
        self.blocks.iter().any(|it| matches!(it, ApiDialectBlock::Call(_)))
    }

    /// The token counts, with one output token for each delta unless the script has counts.
    fn counts(&self, deltas: usize) -> ApiTokenCounts {
        let count = |name: &str, default: u64| {
            let given = self.source.usage.as_ref().and_then(|it| it.get(name));
            given.and_then(Value::as_u64).unwrap_or(default)
        };
        let cached = count("cache_read_input_tokens", 0);
        ApiTokenCounts {
            input: count("input_tokens", self.input_tokens) + cached,
            cached,
            output: count("output_tokens", deltas.max(1) as u64),
        }
    }

    /// The number of deltas that the blocks have.
    fn deltas(&self) -> usize {
        let size = |block: &ApiDialectBlock| match block {
            ApiDialectBlock::Text(text) | ApiDialectBlock::Thinking(text) => {
                split_text(text).count()
            }
            ApiDialectBlock::Call(call) => split_text(&call.arguments()).count(),
        };
        self.blocks.iter().map(size).sum()
    }
}

impl ApiToolCall {
    /// The arguments as text. The input of a custom tool is text already.
    fn arguments(&self) -> String {
        let first = self.input.as_object().and_then(|it| it.values().next()?.as_str());
        match first {
            Some(text) if self.is_custom => text.to_owned(),
            _ => self.input.to_string(),
        }
    }
}

/// A block with the tool that the request offers. Blocks in another API's format are left out.
fn resolved(
    block: &ScenarioBlock,
    request: &ApiTranslatedRequest,
    cwd: Option<&str>,
    ids: &ApiIds,
) -> Option<ApiDialectBlock> {
    Some(match block {
        ScenarioBlock::Text(text) => ApiDialectBlock::Text(text.clone()),
        ScenarioBlock::Thinking(text) => ApiDialectBlock::Thinking(text.clone()),
        ScenarioBlock::Tool { name, input, id } => {
            let id = id.clone().unwrap_or_else(|| ids.id("call"));
            let found = tools::resolve(name, input, &request.tools, cwd);
            ApiDialectBlock::Call(match found {
                Some((tool, input)) => ApiToolCall {
                    id,
                    name: tool.name.clone(),
                    namespace: tool.namespace.clone(),
                    is_custom: tool.is_custom,
                    input,
                },
                None => ApiToolCall {
                    id,
                    name: name.clone(),
                    namespace: None,
                    is_custom: false,
                    input: input.clone(),
                },
            })
        }
        ScenarioBlock::Raw(_) => return None,
    })
}

impl ApiDialect {
    /// The API of a path for messages.
    pub(super) fn from_path(path: &str) -> Option<Self> {
        let gemini = [":generateContent", ":streamGenerateContent"];
        match path {
            _ if path.ends_with("/responses") => Some(Self::Responses),
            _ if path.ends_with("/chat/completions") => Some(Self::Chat),
            _ if gemini.iter().any(|it| path.ends_with(it)) => Some(Self::Gemini),
            _ => None,
        }
    }

    /// The API that an unknown path most likely belongs to; `None` is Messages.
    pub(super) fn guess(path: &str, has_bearer_token: bool) -> Option<Self> {
        if path.starts_with("/v1beta") || path.starts_with("/v1alpha") || path.contains(':') {
            Some(Self::Gemini)
        } else {
            (has_bearer_token || path.contains("/chat/")).then_some(Self::Chat)
        }
    }

    pub(super) fn translate(self, body: &Value, uri: &Uri) -> ApiTranslatedRequest {
        match self {
            Self::Responses => responses::translate(body),
            Self::Chat => chat::translate(body),
            Self::Gemini => gemini::translate(body, uri),
        }
    }

    /// The reply as a stream.
    pub(super) fn stream(self, reply: &ApiDialectReply<'_>) -> ApiPacedActions {
        let render = |fault: &ScenarioStreamFault| self.fault_bytes(fault);
        let stream = ApiPacedStream::new(reply.source, render);
        match self {
            Self::Responses => responses::stream(reply, stream),
            Self::Chat => chat::stream(reply, stream),
            Self::Gemini => gemini::stream(reply, stream),
        }
    }

    /// The reply without streaming.
    pub(super) fn whole(self, reply: &ApiDialectReply<'_>) -> Value {
        match self {
            Self::Responses => responses::whole(reply),
            Self::Chat => chat::whole(reply),
            Self::Gemini => gemini::whole(reply),
        }
    }

    /// The body of an error response.
    pub(super) fn error_body(self, error: &ApiError) -> Value {
        match self {
            Self::Responses | Self::Chat => json!({ "error": {
                "message": error.message, "type": error.kind, "param": null, "code": null,
            } }),
            Self::Gemini => json!({ "error": {
                "code": error.status, "message": error.message, "status": gemini::status(error.status),
            } }),
        }
    }

    fn fault_bytes(self, fault: &ScenarioStreamFault) -> Vec<u8> {
        let mut bytes = Vec::new();
        match fault {
            ScenarioStreamFault::SseError { kind, message } => {
                let error = ApiError::from_event(kind, message);
                match self {
                    Self::Responses => responses::write_failure(&error, &mut bytes),
                    Self::Chat | Self::Gemini => write_data(&self.error_body(&error), &mut bytes),
                }
            }
            ScenarioStreamFault::Garbage => {
                bytes.extend_from_slice(b"data: {\"choices\":[{\x07 not an event\n\n");
            }
            _ => {}
        }
        bytes
    }
}

/// Appends an event without a name.
fn write_data(data: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(data.to_string().as_bytes());
    out.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests;
