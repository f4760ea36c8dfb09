//! A reply prepared for sending.
//!
//! Everything that does not depend on the request is rendered once and shared by all requests that
//! get the reply. The message id, the model and the token counts are added for each request. Waits
//! and faults are a list of [`ApiAction`]s, so that tests can check them without a socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::scenario::{ScenarioBlock, ScenarioFault, ScenarioReply, ScenarioStreamFault};

use super::event::{
    ApiContentBlock, ApiError, ApiEvent, ApiMessage, ApiStop, ApiUsage, ApiUsagePosition,
    write_json,
};
use super::paced_stream::ApiPacedActions;
use super::recording::ApiRecording;
use super::request::ApiMessageRequest;
use super::stream::{ApiAction, ApiStreamBuilder, MAX_CHUNK, flush};

/// A reply prepared for sending.
#[derive(Debug)]
pub(super) struct ApiReply {
    /// The gate to wait for before the first byte.
    pub(super) hold: Option<String>,
    pub(super) content: ApiReplyContent,
    /// What it was prepared from, for APIs that send it in another format.
    pub(super) source: ScenarioReply,
}

#[derive(Debug)]
pub(super) enum ApiReplyContent {
    Message(ApiPreparedMessage),
    Error(ApiError),
    Recording(Arc<ApiRecording>),
}

/// A message without the parts that depend on the request.
#[derive(Debug)]
pub(super) struct ApiPreparedMessage {
    content: Box<RawValue>,
    stop: String,
    stop_sequence: Option<String>,
    usage: Option<Map<String, Value>>,
    output_tokens: u64,
    /// What is sent between `message_start` and `message_delta`.
    actions: Vec<ApiAction>,
    /// Whether `message_delta` and `message_stop` are sent.
    completes: bool,
    pub(super) fault: Option<ScenarioStreamFault>,
}

impl ApiReply {
    /// Prepares a reply. Tool calls without an id get one, so such a reply is prepared for each use.
    pub(super) fn prepare(reply: &ScenarioReply, ids: &ApiIds) -> Self {
        let hold = reply.hold.as_ref().filter(|it| it.after.is_none()).map(|it| it.name.clone());
        let content = match &reply.fault {
            Some(ScenarioFault::Status { status, kind, message, headers }) => {
                ApiReplyContent::Error(ApiError::new(*status, kind, message).with_headers(headers))
            }
            _ => ApiReplyContent::Message(ApiPreparedMessage::new(reply, ids)),
        };
        Self { hold, content, source: reply.clone() }
    }

    pub(super) fn from_text(text: String, ids: &ApiIds) -> Self {
        let blocks = vec![ScenarioBlock::Text(text)];
        Self::prepare(&ScenarioReply { blocks, ..ScenarioReply::default() }, ids)
    }
}

impl ApiPreparedMessage {
    /// Whether the message has no content blocks.
    pub(super) fn is_empty(&self) -> bool {
        self.content.get() == "[]"
    }

    fn new(reply: &ScenarioReply, ids: &ApiIds) -> Self {
        let tags: Vec<String> = reply.blocks.iter().map(|block| block_tag(block, ids)).collect();
        let blocks = || reply.blocks.iter().zip(&tags);
        let whole: Vec<ApiContentBlock<'_>> =
            blocks().map(|(block, tag)| whole_block(block, tag)).collect();
        let content = serde_json::value::to_raw_value(&whole).expect("text and values are JSON");

        let has_tool_call = reply.blocks.iter().any(|block| match block {
            ScenarioBlock::Tool { .. } => true,
            ScenarioBlock::Raw(value) => value["type"] == "tool_use",
            ScenarioBlock::Text(_) | ScenarioBlock::Thinking(_) => false,
        });
        let default_stop = if has_tool_call { "tool_use" } else { "end_turn" };
        let stop = reply.stop.clone().unwrap_or_else(|| default_stop.to_owned());

        let mut stream = ApiStreamBuilder::new(reply);
        for (index, (block, tag)) in blocks().enumerate() {
            stream.add_block(index, block, tag);
        }
        let ApiPacedActions { actions, deltas, completes } = stream.finish();
        let fault = match &reply.fault {
            Some(ScenarioFault::Stream { fault, .. }) => Some(fault.clone()),
            _ => None,
        };
        let output_tokens = deltas.max(1) as u64;
        let (usage, stop_sequence) = (reply.usage.clone(), reply.stop_sequence.clone());
        Self { content, stop, stop_sequence, usage, output_tokens, actions, completes, fault }
    }

    /// The actions that send the message as a stream.
    pub(super) fn stream(
        &self,
        request: &ApiMessageRequest<'_>,
        id: &str,
        input_tokens: u64,
    ) -> Vec<ApiAction> {
        let mut buffer = Vec::with_capacity(2048);
        let no_content = RawValue::from_string("[]".to_owned()).expect("an empty array is JSON");
        let names = (&*request.model, id);
        let usage = self.usage(ApiUsagePosition::Start, input_tokens);
        let message = ApiMessage::new(names, &no_content, ApiStop::default(), usage);
        ApiEvent::MessageStart { message }.write_to(&mut buffer);

        let mut actions = Vec::with_capacity(self.actions.len() + 2);
        for action in &self.actions {
            match action {
                // Copying a small chunk is cheaper than writing it separately.
                ApiAction::Send(bytes) if buffer.len() + bytes.len() <= MAX_CHUNK => {
                    buffer.extend_from_slice(bytes);
                    continue;
                }
                _ => {}
            }
            flush(&mut buffer, &mut actions);
            actions.push(action.clone());
        }
        if self.completes {
            let usage = self.usage(ApiUsagePosition::End, input_tokens);
            ApiEvent::MessageDelta { delta: self.stop(request), usage }.write_to(&mut buffer);
            ApiEvent::MessageStop.write_to(&mut buffer);
        }
        flush(&mut buffer, &mut actions);
        actions
    }

    /// The body of the message without streaming.
    pub(super) fn whole(
        &self,
        request: &ApiMessageRequest<'_>,
        id: &str,
        input_tokens: u64,
    ) -> Bytes {
        let usage = self.usage(ApiUsagePosition::Whole, input_tokens);
        let mut body = Vec::with_capacity(512 + self.content.get().len());
        let names = (&*request.model, id);
        write_json(&ApiMessage::new(names, &self.content, self.stop(request), usage), &mut body);
        body.into()
    }

    fn usage(&self, position: ApiUsagePosition, input_tokens: u64) -> ApiUsage<'_> {
        let (output_tokens, overrides) = (self.output_tokens, self.usage.as_ref());
        ApiUsage { position, input_tokens, output_tokens, overrides }
    }

    fn stop<'a>(&'a self, request: &'a ApiMessageRequest<'_>) -> ApiStop<'a> {
        let known = self.stop_sequence.as_deref().or_else(|| request.stop_sequence());
        let sequence = known.filter(|_| self.stop == "stop_sequence");
        ApiStop { stop_reason: Some(&self.stop), stop_sequence: sequence }
    }
}

/// What is generated for a block: the id of a tool call, the signature of thinking.
fn block_tag(block: &ScenarioBlock, ids: &ApiIds) -> String {
    match block {
        ScenarioBlock::Tool { id, .. } => id.clone().unwrap_or_else(|| ids.tool_call()),
        ScenarioBlock::Thinking(thinking) => signature(thinking),
        ScenarioBlock::Text(_) | ScenarioBlock::Raw(_) => String::new(),
    }
}

fn whole_block<'a>(block: &'a ScenarioBlock, tag: &'a str) -> ApiContentBlock<'a> {
    match block {
        ScenarioBlock::Text(text) => ApiContentBlock::Text { text },
        ScenarioBlock::Thinking(thinking) => ApiContentBlock::Thinking { thinking, signature: tag },
        ScenarioBlock::Tool { name, input, .. } => {
            ApiContentBlock::ToolUse { id: tag, name, input }
        }
        ScenarioBlock::Raw(value) => ApiContentBlock::Raw(value),
    }
}

/// A signature for a thinking block. Clients do not interpret it, they only send it back.
fn signature(thinking: &str) -> String {
    let sum = thinking.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("EqoBCkgIARABGAIiQ{sum:016x}{:016x}==", sum.rotate_left(29))
}

/// A generator of ids in the format of the API.
///
/// Two servers never generate the same id, because the CLI takes two messages with one id for one
/// message, even if the other is in an old transcript. Within a server ids count up.
#[derive(Debug)]
pub(super) struct ApiIds {
    salt: String,
    next: AtomicU64,
}

impl ApiIds {
    pub(super) fn new() -> Self {
        let mut salt = Uuid::new_v4().simple().to_string();
        salt.truncate(10);
        Self { salt, next: AtomicU64::new(1) }
    }

    pub(super) fn message(&self) -> String {
        self.id("msg")
    }

    pub(super) fn tool_call(&self) -> String {
        self.id("toolu")
    }

    pub(super) fn request(&self) -> String {
        self.id("req")
    }

    pub(super) fn id(&self, prefix: &str) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}_01{}{number:012}", self.salt)
    }
}

#[cfg(test)]
mod tests {
    use super::ApiIds;

    #[test]
    fn ids_differ_within_a_server_and_between_servers() {
        let (one, other) = (ApiIds::new(), ApiIds::new());
        assert_ne!(one.message(), one.message());
        assert_ne!(one.message(), other.message());
        assert!(one.tool_call().starts_with("toolu_01") && one.request().starts_with("req_01"));
    }
}
