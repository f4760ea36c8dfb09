//! Streams: the content between `message_start` and `message_delta`, and its timed delivery.
//!
//! "After N deltas" counts every `content_block_delta`. After 0 deltas is directly after
//! `message_start`. If a reply has fewer deltas than that, the wait or fault comes after its last
//! block.

use std::collections::HashSet;
use std::time::Duration;
use std::vec;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::scenario::{ScenarioBlock, ScenarioReply, ScenarioStreamFault};

use super::event::{ApiContentBlock, ApiDelta, ApiErrorDetail, ApiEvent};
use super::paced_stream::{ApiPacedActions, ApiPacedStream};
use super::server::ApiConnectionHandle;

/// The maximum size of one chunk. A longer reply is split so that it does not have to be copied.
pub(super) const MAX_CHUNK: usize = 64 << 10;

/// What happens while a reply is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ApiAction {
    Send(Bytes),
    Pause(Duration),
    /// Waits for a gate.
    Hold(String),
    /// Resets the connection.
    Disconnect,
    /// Sends nothing more and keeps the connection open.
    Stall,
}

/// Turns the buffer into an action that sends it.
pub(super) fn flush(buffer: &mut Vec<u8>, actions: &mut Vec<ApiAction>) {
    if !buffer.is_empty() {
        actions.push(ApiAction::Send(std::mem::take(buffer).into()));
    }
}

/// Builds the events of a message.
pub(super) struct ApiStreamBuilder {
    stream: ApiPacedStream,
}

impl ApiStreamBuilder {
    pub(super) fn new(reply: &ScenarioReply) -> Self {
        let mut stream = ApiPacedStream::new(reply, fault_bytes);
        stream.begin();
        Self { stream }
    }

    /// Adds a block. The tag is the id of a tool call or the signature of thinking.
    pub(super) fn add_block(&mut self, index: usize, block: &ScenarioBlock, tag: &str) {
        let no_input = Value::Object(Map::new());
        let content_block = match block {
            ScenarioBlock::Text(_) => ApiContentBlock::Text { text: "" },
            ScenarioBlock::Thinking(_) => ApiContentBlock::Thinking { thinking: "", signature: "" },
            ScenarioBlock::Tool { name, .. } => {
                ApiContentBlock::ToolUse { id: tag, name, input: &no_input }
            }
            ScenarioBlock::Raw(value) => ApiContentBlock::Raw(value),
        };
        self.event(&ApiEvent::ContentBlockStart { index, content_block });
        if index == 0 {
            self.event(&ApiEvent::Ping);
        }
        match block {
            ScenarioBlock::Text(text) => {
                for text in split_text(text) {
                    self.delta(index, ApiDelta::Text { text });
                }
            }
            ScenarioBlock::Thinking(thinking) => {
                for thinking in split_text(thinking) {
                    self.delta(index, ApiDelta::Thinking { thinking });
                }
                self.delta(index, ApiDelta::Signature { signature: tag });
            }
            ScenarioBlock::Tool { input, .. } => {
                // The real API starts with an empty delta.
                self.delta(index, ApiDelta::InputJson { partial_json: "" });
                for partial_json in split_text(&input.to_string()) {
                    self.delta(index, ApiDelta::InputJson { partial_json });
                }
            }
            ScenarioBlock::Raw(_) => {}
        }
        self.event(&ApiEvent::ContentBlockStop { index });
    }

    fn event(&mut self, event: &ApiEvent<'_>) {
        self.stream.event(|buffer| event.write_to(buffer));
    }

    fn delta(&mut self, index: usize, delta: ApiDelta<'_>) {
        self.stream.delta(|buffer| ApiEvent::ContentBlockDelta { index, delta }.write_to(buffer));
    }

    /// The stream up to its regular end.
    pub(super) fn finish(self) -> ApiPacedActions {
        self.stream.finish()
    }
}

/// What is sent for a fault that consists of bytes.
fn fault_bytes(fault: &ScenarioStreamFault) -> Vec<u8> {
    let mut bytes = Vec::new();
    match fault {
        ScenarioStreamFault::SseError { kind, message } => {
            let error = ApiErrorDetail { kind, message };
            ApiEvent::Error { error }.write_to(&mut bytes);
        }
        ScenarioStreamFault::Garbage => {
            bytes.extend_from_slice(b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\x07 not an event\n\n");
        }
        _ => {}
    }
    bytes
}

/// The maximum size of a delta in a run without spaces, such as JSON or base64.
const MAX_WORD: usize = 12;

/// The maximum number of deltas for one text. Longer texts get larger deltas: a reply of 5 MB should
/// be a large reply, not a million events.
const MAX_DELTAS: usize = 10_000;

/// Splits a text as the tokens of a model: about one word each. An empty text has no parts.
pub(super) fn split_text(text: &str) -> ApiTextParts<'_> {
    ApiTextParts { rest: text, min_size: text.len() / MAX_DELTAS }
}

pub(super) struct ApiTextParts<'a> {
    rest: &'a str,
    min_size: usize,
}

impl<'a> Iterator for ApiTextParts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        // A token includes the space before its word.
        let word = self.rest.find(|it: char| !it.is_whitespace()).unwrap_or(self.rest.len());
        // A text may be one word of a megabyte, so no more of it is looked at than is taken.
        let longest = self.rest.ceil_char_boundary(word + MAX_WORD);
        let space = self.rest[word..longest].find(char::is_whitespace);
        let word_end = space.map_or(longest, |at| word + at);
        let end = word_end.max(self.min_size.min(self.rest.len()));
        let (part, rest) = self.rest.split_at(self.rest.ceil_char_boundary(end));
        self.rest = rest;
        Some(part)
    }
}

/// What sending a response depends on besides its actions.
#[derive(Clone, Debug)]
pub(super) struct ApiDelivery {
    pub(super) gates: ApiGates,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) connection: ApiConnectionHandle,
}

/// The connection was reset on purpose, or the server has stopped.
#[derive(Debug, thiserror::Error)]
#[error("the response was aborted")]
pub(super) struct ApiAbortError;

impl ApiDelivery {
    /// The body of a response that performs these actions one after the other.
    pub(super) fn body(self, actions: Vec<ApiAction>) -> Body {
        let body =
            ApiTimedBody { actions: actions.into_iter(), delivery: self, due: Instant::now() };
        Body::from_stream(stream::unfold(Some(body), async |body| {
            let mut body = body?;
            match body.next().await? {
                Ok(bytes) => Some((Ok(bytes), Some(body))),
                Err(aborted) => Some((Err(aborted), None)),
            }
        }))
    }

    /// Waits until a gate opens or the server stops.
    pub(super) async fn wait_for_gate(&mut self, name: &str) -> Result<(), ApiAbortError> {
        tokio::select! {
            () = self.gates.wait(name) => Ok(()),
            aborted = stopped(&mut self.stop) => Err(aborted),
        }
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) -> ApiAbortError {
    // An error means that the server was dropped, so it has stopped too.
    let _ = stop.wait_for(|stop| *stop).await;
    ApiAbortError
}

struct ApiTimedBody {
    actions: vec::IntoIter<ApiAction>,
    delivery: ApiDelivery,
    /// When the latest action was due. Pauses count from here instead of from the current time: a
    /// timer fires up to a millisecond late, which would add up to a second over a thousand pauses.
    due: Instant,
}

impl ApiTimedBody {
    async fn next(&mut self) -> Option<Result<Bytes, ApiAbortError>> {
        loop {
            match self.actions.next()? {
                ApiAction::Send(bytes) => return Some(Ok(bytes)),
                ApiAction::Pause(time) => {
                    self.due += time;
                    tokio::select! {
                        () = tokio::time::sleep_until(self.due) => {}
                        aborted = stopped(&mut self.delivery.stop) => return Some(Err(aborted)),
                    }
                }
                ApiAction::Hold(name) => {
                    if let Err(aborted) = self.delivery.wait_for_gate(&name).await {
                        return Some(Err(aborted));
                    }
                    self.due = Instant::now();
                }
                ApiAction::Disconnect => {
                    // Yielding lets the bytes so far be sent before the connection is reset.
                    tokio::task::yield_now().await;
                    self.delivery.connection.reset_on_close();
                    return Some(Err(ApiAbortError));
                }
                ApiAction::Stall => return Some(Err(stopped(&mut self.delivery.stop).await)),
            }
        }
    }
}

/// The gates of one server by name. A gate that was opened stays open.
#[derive(Clone, Debug)]
pub(super) struct ApiGates {
    open: watch::Sender<HashSet<String>>,
}

impl ApiGates {
    pub(super) fn new() -> Self {
        Self { open: watch::Sender::new(HashSet::new()) }
    }

    pub(super) fn open(&self, name: &str) {
        self.open.send_modify(|open| {
            open.insert(name.to_owned());
        });
    }

    async fn wait(&self, name: &str) {
        // `self` owns the sender, so waiting cannot fail.
        let _ = self.open.subscribe().wait_for(|open| open.contains(name)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};
    use tokio::time::timeout;

    use crate::scenario::{
        ScenarioBlock, ScenarioFault, ScenarioHold, ScenarioReply, ScenarioStreamFault,
    };

    use super::{ApiAction, ApiGates, ApiStreamBuilder, split_text};

    /// A summary of the stream: the text of deltas, the names of other events, waits and faults.
    fn summary(reply: &ScenarioReply) -> String {
        let mut builder = ApiStreamBuilder::new(reply);
        for (index, block) in reply.blocks.iter().enumerate() {
            builder.add_block(index, block, "tag");
        }
        let stream = builder.finish();
        let actions: Vec<String> = stream
            .actions
            .iter()
            .map(|action| match action {
                ApiAction::Send(bytes) => events(std::str::from_utf8(bytes).unwrap()),
                ApiAction::Pause(time) => format!("{}ms", time.as_millis()),
                ApiAction::Hold(name) => format!("hold {name}"),
                ApiAction::Disconnect => "disconnect".to_owned(),
                ApiAction::Stall => "stall".to_owned(),
            })
            .collect();
        actions.join(" | ") + if stream.completes { "" } else { " !" }
    }

    fn events(text: &str) -> String {
        let event = |event: &str| {
            let data = event.split_once("data: ").unwrap().1;
            let Ok(data) = serde_json::from_str::<Value>(data) else { return "garbage".to_owned() };
            match data["type"].as_str().unwrap() {
                "content_block_start" => {
                    format!("<{}", data["content_block"]["type"].as_str().unwrap())
                }
                "content_block_stop" => ">".to_owned(),
                "content_block_delta" => {
                    let delta = data["delta"].as_object().unwrap();
                    delta.iter().find(|(key, _)| *key != "type").unwrap().1.to_string()
                }
                other => other.to_owned(),
            }
        };
        text.split_terminator("\n\n").map(event).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_kind_of_block_is_streamed_like_the_real_api() {
        let tool =
            ScenarioBlock::Tool { name: "Read".to_owned(), input: json!({"a": 1}), id: None };
        let raw = ScenarioBlock::Raw(json!({"type": "redacted_thinking", "data": "x"}));
        let blocks = vec![
            ScenarioBlock::Thinking("hm so".to_owned()),
            ScenarioBlock::Text("a b".to_owned()),
            tool,
            raw,
        ];
        let expected = r#"<thinking ping "hm" " so" "tag" > <text "a" " b" > <tool_use "" "{\"a\":1}" > <redacted_thinking >"#;
        assert_eq!(summary(&ScenarioReply { blocks, ..ScenarioReply::default() }), expected);
    }

    #[test]
    fn waits_and_faults_follow_the_given_number_of_deltas() {
        let fault = |after, fault| Some(ScenarioFault::Stream { after, fault });
        let hold = |after| Some(ScenarioHold { name: "g".to_owned(), after });
        let error = ScenarioStreamFault::SseError {
            kind: "overloaded_error".to_owned(),
            message: String::new(),
        };
        let cases = [
            (None, None, 0, r#"<text ping "a" " b" >"#),
            (None, None, 5, r#"<text ping "a" | 5ms | " b" >"#),
            (hold(None), None, 0, r#"<text ping "a" " b" >"#),
            (hold(Some(0)), None, 0, r#"hold g | <text ping "a" " b" >"#),
            (hold(Some(1)), None, 0, r#"<text ping "a" | hold g | " b" >"#),
            (hold(Some(9)), None, 0, r#"<text ping "a" " b" > | hold g"#),
            (
                None,
                fault(1, ScenarioStreamFault::Disconnect),
                0,
                r#"<text ping "a" | disconnect !"#,
            ),
            (None, fault(1, ScenarioStreamFault::Stall), 0, r#"<text ping "a" | stall !"#),
            (None, fault(1, ScenarioStreamFault::Truncate), 0, r#"<text ping "a" !"#),
            (None, fault(0, ScenarioStreamFault::Truncate), 0, " !"),
            (None, fault(1, ScenarioStreamFault::Garbage), 0, r#"<text ping "a" garbage " b" >"#),
            (None, fault(9, error.clone()), 0, r#"<text ping "a" " b" > error !"#),
            (hold(Some(1)), fault(1, error), 0, r#"<text ping "a" | hold g | error !"#),
        ];
        for (hold, fault, pace, expected) in cases {
            let blocks = vec![ScenarioBlock::Text("a b".to_owned())];
            let pace = Duration::from_millis(pace);
            let reply = ScenarioReply { blocks, hold, pace, fault, ..ScenarioReply::default() };
            assert_eq!(summary(&reply), expected);
        }
    }

    #[test]
    fn text_is_split_into_words_with_the_space_before_them() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            ("Hello", &["Hello"]),
            ("It says: remember the milk", &["It", " says:", " remember", " the", " milk"]),
            ("a\n\n  b ", &["a", "\n\n  b", " "]),
            ("   ", &["   "]),
            ("0123456789abcdef", &["0123456789ab", "cdef"]),
            ("日本語日本語", &["日本語日", "本語"]),
            ("ééééééééé", &["éééééé", "ééé"]),
        ];
        for (text, expected) in cases {
            assert_eq!(split_text(text).collect::<Vec<_>>(), *expected, "{text}");
        }
    }

    #[test]
    fn a_huge_text_is_split_into_a_limited_number_of_parts() {
        let text = "größer ".repeat(1_000_000);
        let all: Vec<&str> = split_text(&text).collect();
        assert!(all.len() <= 10_001, "{}", all.len());
        assert_eq!(all.concat(), text);
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_gate_passes_current_and_later_waiters() {
        let gates = ApiGates::new();
        let waiting = gates.wait("a");
        tokio::pin!(waiting);
        assert!(timeout(Duration::from_secs(1), waiting.as_mut()).await.is_err());
        gates.open("b");
        assert!(timeout(Duration::from_secs(1), waiting.as_mut()).await.is_err());
        gates.open("a");
        waiting.await;
        gates.wait("a").await;
    }
}
