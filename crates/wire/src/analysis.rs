//! Facts derived from events: which result belongs to which call, which file it changed, which
//! session the stream belongs to, how many tokens were used.
//!
//! Each analysis observes every event in order and keeps its own state. They are in one place so
//! that the browser, Telegram, the pipe and the reports cannot disagree about the same stream.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::acp::event::{AcpEvent, AcpResult, AgentUpdate, reported_tokens};
use crate::event::{Block, Body, Event, Message, Stream, ToolResult, ToolUse, TurnEnded, Usage};
use crate::json::{Raw, Text};

/// Versions of the CLI up to this one restart their running cost at zero after a resume. 2.1.197 does,
/// and 2.1.325 does not.
const LAST_RESTARTING: [u64; 3] = [2, 1, 324];

/// Whether the total cost that a version of the CLI reports starts at zero in each process, even in one
/// that resumes a conversation.
pub fn total_cost_restarts(version: Option<&str>) -> bool {
    let mut parts = version.unwrap_or_default().split('.').map(|it| it.parse().unwrap_or(0_u64));
    [0; 3].map(|_: u64| parts.next().unwrap_or(0)) <= LAST_RESTARTING
}

/// Pairs tool calls with their results.
#[derive(Debug, Default)]
pub struct ToolCalls {
    open: HashMap<String, ToolCall>,
    started: u64,
}

/// A call that waits for its result or has just received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    pub id: String,
    pub tool: String,
    /// The file it changes, if its input names one.
    pub change: Option<FileChange>,
    /// Its position among all calls, starting at 0.
    pub number: u64,
}

/// The start or the end of a call.
#[derive(Debug)]
pub enum CallEvent<'a> {
    /// The model requested the call. The tool has not run yet.
    Started(&'a ToolCall),
    /// The result has arrived.
    Ended {
        call: ToolCall,
        /// Whether the tool failed or was not allowed to run.
        failed: bool,
    },
}

impl ToolCalls {
    /// Calls `on_event` for each call that starts or ends with this event.
    ///
    /// A repeated call or result (a session file may contain a message twice) is reported once.
    pub fn observe(&mut self, event: &Event<'_>, mut on_event: impl FnMut(CallEvent<'_>)) {
        let Some(message) = event.message() else { return };
        for block in message.content.blocks() {
            match block {
                Block::ToolUse(call) => self.begin(&call, &mut on_event),
                Block::ToolResult(result) => self.end(&result, &mut on_event),
                _ => {}
            }
        }
    }

    fn begin(&mut self, call: &ToolUse<'_>, on_event: &mut impl FnMut(CallEvent<'_>)) {
        let Some(id) = call.id else { return };
        let id = id.decode();
        if self.open.contains_key(&*id) {
            return;
        }
        let tool = call.name.decode().into_owned();
        let change = file_changed_by(call)
            .map(|path| FileChange { tool: tool.clone(), path: path.decode().into_owned() });
        let call = ToolCall { id: id.clone().into_owned(), tool, change, number: self.started };
        self.started += 1;
        on_event(CallEvent::Started(self.open.entry(id.into_owned()).or_insert(call)));
    }

    fn end(&mut self, result: &ToolResult<'_>, on_event: &mut impl FnMut(CallEvent<'_>)) {
        let Some(id) = result.tool_use_id else { return };
        if let Some(call) = self.open.remove(&*id.decode()) {
            on_event(CallEvent::Ended { call, failed: result.failed() });
        }
    }

    /// Calls without a result, in the order in which they started.
    pub fn unanswered(&self) -> Vec<&ToolCall> {
        let mut calls: Vec<_> = self.open.values().collect();
        calls.sort_by_key(|call| call.number);
        calls
    }
}

/// A file that a call will change. It is unchanged until the call has succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    pub tool: String,
    /// The path as the model wrote it: absolute, or relative to the working directory.
    pub path: String,
}

/// The path that a call changes; `None` for tools whose input names no path.
///
/// ```
/// use towpath_wire::event::{Block, Body};
/// use towpath_wire::analysis::file_changed_by;
/// use towpath_wire::{Reading, read};
///
/// let line = br#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1",
///     "name":"NotebookEdit","input":{"notebook_path":"a.ipynb"}}]}}"#;
/// let line: Vec<u8> = line.iter().copied().filter(|&byte| byte != b'\n').collect();
/// let Some(Reading::Event(event)) = read(&line).next().map(|line| line.reading) else { panic!() };
/// let Some(Block::ToolUse(call)) = event.message().unwrap().content.blocks().next() else { panic!() };
/// assert_eq!(file_changed_by(&call).unwrap(), "a.ipynb");
/// ```
pub fn file_changed_by<'a>(call: &ToolUse<'a>) -> Option<Text<'a>> {
    let key = match &*call.name.decode() {
        "Edit" | "Write" | "MultiEdit" => "file_path",
        "NotebookEdit" => "notebook_path",
        _ => return None,
    };
    call.input?.get(key).and_then(Raw::text)
}

/// The CLI's id of the running session.
///
/// It changes within one process: `/clear` starts a new conversation, and its lines carry another
/// id, starting with `init`. The `conversation_reset` that 2.1.325 writes before it also has an id,
/// but no line ever carries that one.
#[derive(Debug, Default)]
pub struct Identity {
    current: Option<String>,
}

/// The stream continues with another session id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityChange {
    /// `None` for the first id of the stream.
    pub before: Option<String>,
    pub after: String,
}

impl Identity {
    /// The id as of the last event.
    pub fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    /// Returns the change if the event starts a session or changes its id.
    pub fn observe(&mut self, event: &Event<'_>) -> Option<IdentityChange> {
        let id = event.envelope.session_id?;
        if id.is_empty() || self.current.as_deref().is_some_and(|current| id == *current) {
            return None;
        }
        let after = id.decode().into_owned();
        let before = self.current.replace(after.clone());
        Some(IdentityChange { before, after })
    }
}

/// Counts the tokens of a session, each message once.
#[derive(Debug, Default)]
pub struct UsageTotals {
    by_message: HashMap<String, Usage>,
    /// The message that is streaming, by the call its sub-agent belongs to.
    open: HashMap<Option<String>, String>,
    /// Messages without an id. They cannot be matched, so each one counts.
    anonymous: TokenTotals,
    results: ResultUsage,
}

/// Finds the tokens that only a turn's `result` reports.
///
/// The flat dialect and `--output-format json` have no usage at their messages, or no messages. Where
/// a message of the turn has usage, that of the result would count it twice.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ResultUsage {
    /// Whether a message since the last result has usage.
    counted: bool,
    /// The total of the process, as of the last result.
    reported: TokenTotals,
}

impl ResultUsage {
    /// A message has this usage.
    pub fn message_counted(&mut self, usage: Usage) {
        self.counted |= TokenTotals::from(usage) != TokenTotals::default();
    }

    /// The tokens of the turn that no message of it has; `None` if the messages have them, or if
    /// there are none.
    pub fn turn_ended(&mut self, turn: &TurnEnded<'_>) -> Option<TokenTotals> {
        let total: TokenTotals = turn.models().map(|model| TokenTotals::from(model.usage)).sum();
        let before = std::mem::replace(&mut self.reported, total);
        let counted = std::mem::take(&mut self.counted);
        // `usage` is that of the turn; `modelUsage` is that of the process so far.
        let tokens = match turn.usage {
            Some(usage) => usage.into(),
            None if total.output < before.output => total,
            None => total.minus(before),
        };
        (!counted && tokens != TokenTotals::default()).then_some(tokens)
    }
}

/// Token counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenTotals {
    /// Input tokens that were not read from or written to the prompt cache.
    pub input: u64,
    pub output: u64,
    /// Read from the prompt cache.
    pub cache_read: u64,
    /// Written to the prompt cache.
    pub cache_write: u64,
}

impl UsageTotals {
    /// Adds the tokens that the event reports.
    pub fn observe(&mut self, event: &Event<'_>) {
        match &event.body {
            Body::Assistant(assistant) => self.count(&assistant.message),
            Body::Stream(Stream::MessageStart(message)) => {
                self.count(message);
                if let Some(id) = message.id {
                    self.open.insert(agent_key(event), id.into());
                }
            }
            Body::Stream(Stream::MessageDelta { usage: Some(usage), .. }) => {
                if let Some(id) = self.open.get(&agent_key(event)) {
                    self.results.message_counted(*usage);
                    overlay(&mut self.by_message, id.clone(), *usage);
                }
            }
            Body::Stream(Stream::MessageStop) => {
                self.open.remove(&agent_key(event));
            }
            Body::TurnEnded(turn) => {
                let tokens = self.results.turn_ended(turn).unwrap_or_default();
                self.anonymous = self.anonymous.plus(tokens);
            }
            Body::Acp(event) => {
                let tokens = acp_turn_tokens(event).unwrap_or_default();
                self.anonymous = self.anonymous.plus(tokens.into());
            }
            _ => {}
        }
    }

    fn count(&mut self, message: &Message<'_>) {
        let Some(usage) = message.usage else { return };
        self.results.message_counted(usage);
        match message.id {
            Some(id) => overlay(&mut self.by_message, id.into(), usage),
            None => self.anonymous = self.anonymous.plus(usage.into()),
        }
    }

    pub fn total(&self) -> TokenTotals {
        self.by_message.values().fold(self.anonymous, |sum, usage| sum.plus((*usage).into()))
    }
}

/// The tokens at the end of a turn of an agent that speaks the Agent Client Protocol.
fn acp_turn_tokens(event: &AcpEvent<'_>) -> Option<Usage> {
    match event {
        AcpEvent::Response(response) => match response.result {
            Ok(AcpResult::TurnEnded { usage, meta, .. }) => reported_tokens(usage, meta),
            _ => None,
        },
        AcpEvent::Update { update: AgentUpdate::State { usage, .. }, meta, .. } => {
            reported_tokens(*usage, *meta)
        }
        _ => None,
    }
}

fn agent_key(event: &Event<'_>) -> Option<String> {
    event.envelope.parent_tool_use_id.map(String::from)
}

fn overlay(by_message: &mut HashMap<String, Usage>, id: String, later: Usage) {
    let usage = by_message.entry(id).or_default();
    *usage = usage.overlaid(later);
}

impl From<Usage> for TokenTotals {
    fn from(usage: Usage) -> Self {
        Self {
            input: usage.input_tokens.unwrap_or(0),
            output: usage.output_tokens.unwrap_or(0),
            cache_read: usage.cache_read_input_tokens.unwrap_or(0),
            cache_write: usage.cache_creation_input_tokens.unwrap_or(0),
        }
    }
}

impl TokenTotals {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }

    /// The difference, or zero where `other` is larger.
    fn minus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_sub(other.input),
            output: self.output.saturating_sub(other.output),
            cache_read: self.cache_read.saturating_sub(other.cache_read),
            cache_write: self.cache_write.saturating_sub(other.cache_write),
        }
    }
}

impl std::iter::Sum for TokenTotals {
    fn sum<I: Iterator<Item = Self>>(tokens: I) -> Self {
        tokens.fold(Self::default(), Self::plus)
    }
}

#[cfg(test)]
mod call_tests {
    use super::{CallEvent, ToolCalls};
    use crate::{Reading, read};

    fn observe(calls: &mut ToolCalls, line: &str) -> Vec<String> {
        let mut log = Vec::new();
        for line in read(line.as_bytes()) {
            let Reading::Event(event) = line.reading else { panic!("{line:?}") };
            calls.observe(&event, |event| {
                log.push(match event {
                    CallEvent::Started(call) => format!("{} started", call.id),
                    CallEvent::Ended { call, failed } => format!("{} failed={failed}", call.id),
                });
            });
        }
        log
    }

    fn call(id: &str) -> String {
        format!(
            r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","id":"{id}","name":"Write","input":{{"file_path":"{id}.txt"}}}}]}}}}"#
        )
    }

    fn result(id: &str, rest: &str) -> String {
        format!(
            r#"{{"type":"user","message":{{"content":[{{"tool_use_id":"{id}","type":"tool_result","content":"x"{rest}}}]}}}}"#
        )
    }

    #[test]
    fn results_are_paired_with_calls_in_any_order_and_once() {
        let mut calls = ToolCalls::default();
        assert_eq!(observe(&mut calls, &call("a")), ["a started"]);
        assert_eq!(observe(&mut calls, &call("b")), ["b started"]);
        assert_eq!(observe(&mut calls, &call("a")), [""; 0]);
        assert_eq!(observe(&mut calls, &result("b", r#","is_error":true"#)), ["b failed=true"]);
        assert_eq!(observe(&mut calls, &result("b", "")), [""; 0]);
        assert_eq!(observe(&mut calls, &result("unrelated", "")), [""; 0]);
        assert_eq!(calls.unanswered()[0].change.as_ref().unwrap().path, "a.txt");
        assert_eq!(observe(&mut calls, &result("a", r#","is_error":null"#)), ["a failed=false"]);
        assert!(calls.unanswered().is_empty());
    }

    #[test]
    fn calls_of_the_flat_dialect_are_paired_too() {
        let mut calls = ToolCalls::default();
        let line =
            r#"{"type":"tool_use","id":"f","toolName":"Edit","toolInput":{"file_path":"x"}}"#;
        assert_eq!(observe(&mut calls, line), ["f started"]);
        let line = r#"{"type":"tool_result","toolUseId":"f","isError":false,"content":"ok"}"#;
        assert_eq!(observe(&mut calls, line), ["f failed=false"]);
    }
}

#[cfg(test)]
mod identity_tests {
    use super::{Identity, IdentityChange};
    use crate::{Reading, read};

    #[test]
    fn the_id_changes_with_the_first_line_that_carries_the_new_one() {
        let mut identity = Identity::default();
        let mut observe = |line: &str| {
            let Some(Reading::Event(event)) = read(line.as_bytes()).next().map(|it| it.reading)
            else {
                panic!("{line}")
            };
            identity.observe(&event)
        };
        let change = |before: Option<&str>, after: &str| {
            Some(IdentityChange { before: before.map(str::to_owned), after: after.to_owned() })
        };
        let init = r#"{"type":"system","subtype":"init","session_id":"a"}"#;
        assert_eq!(observe(init), change(None, "a"));
        assert_eq!(observe(init), None);
        // 2.1.325 writes this for `/clear`.
        let reset = r#"{"type":"conversation_reset","new_conversation_id":"x","session_id":"a"}"#;
        assert_eq!(observe(reset), None);
        assert_eq!(observe(r#"{"type":"keep_alive"}"#), None);
        let init = r#"{"type":"system","subtype":"init","session_id":"b"}"#;
        assert_eq!(observe(init), change(Some("a"), "b"));
    }
}

#[cfg(test)]
mod usage_tests {
    use super::{TokenTotals, UsageTotals};
    use crate::{Reading, read};

    fn total(lines: &[&str]) -> TokenTotals {
        let mut totals = UsageTotals::default();
        for line in lines.iter().flat_map(|line| read(line.as_bytes())) {
            let Reading::Event(event) = line.reading else { panic!("{line:?}") };
            totals.observe(&event);
        }
        totals.total()
    }

    const START: &str = r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"m1","usage":{"input_tokens":3,"output_tokens":1}}}}"#;
    const BLOCK: &str = r#"{"type":"assistant","message":{"id":"m1","content":[],"usage":{"input_tokens":3,"cache_read_input_tokens":7,"output_tokens":1}}}"#;
    const DELTA: &str = r#"{"type":"stream_event","event":{"type":"message_delta","delta":{},"usage":{"output_tokens":9}}}"#;
    const SUB_AGENT: &str = r#"{"type":"assistant","parent_tool_use_id":"t","message":{"id":"m2","content":[],"usage":{"input_tokens":10,"output_tokens":2,"cache_creation_input_tokens":5}}}"#;

    #[test]
    fn a_message_counts_once_with_its_last_usage() {
        let tokens = total(&[START, BLOCK, BLOCK, DELTA]);
        assert_eq!(tokens, TokenTotals { input: 3, output: 9, cache_read: 7, cache_write: 0 });
    }

    #[test]
    fn sub_agents_count_and_do_not_affect_the_streaming_message() {
        let tokens = total(&[START, SUB_AGENT, DELTA, SUB_AGENT]);
        assert_eq!(tokens, TokenTotals { input: 13, output: 11, cache_read: 0, cache_write: 5 });
    }

    const RESULT: &str = r#"{"type":"result","subtype":"success","usage":{"input_tokens":3,"cache_read_input_tokens":7,"output_tokens":9},"modelUsage":{"m":{"inputTokens":3,"outputTokens":9,"cacheReadInputTokens":7}}}"#;
    const MODELS: &str = r#"{"type":"result","subtype":"success","modelUsage":{"m":{"inputTokens":5,"outputTokens":20},"n":{"outputTokens":1}}}"#;
    const FLAT: &str = r#"{"type":"result","result":{"usage":{"inputTokens":11,"outputTokens":4}},"sessionId":"s"}"#;

    #[test]
    fn a_result_counts_only_if_no_message_of_its_turn_does() {
        let of_messages = TokenTotals { input: 3, output: 9, cache_read: 7, cache_write: 0 };
        assert_eq!(total(&[START, BLOCK, DELTA, RESULT]), of_messages);
        assert_eq!(total(&[RESULT]), of_messages);
        assert_eq!(total(&[RESULT, RESULT]), of_messages.plus(of_messages));
        assert_eq!(total(&[START, BLOCK, DELTA, RESULT, RESULT]), of_messages.plus(of_messages));
        let flat = TokenTotals { input: 11, output: 4, cache_read: 0, cache_write: 0 };
        assert_eq!(total(&[FLAT]), flat);
        let empty = r#"{"type":"assistant","message":{"id":"m9","content":[],"usage":{"input_tokens":0,"output_tokens":0}}}"#;
        assert_eq!(total(&[empty, FLAT]), flat);
    }

    #[test]
    fn the_total_of_a_process_counts_where_there_is_no_usage_of_the_turn() {
        let first = TokenTotals { input: 5, output: 21, cache_read: 0, cache_write: 0 };
        assert_eq!(total(&[MODELS]), first);
        // The second turn used nothing.
        assert_eq!(total(&[MODELS, MODELS]), first);
        let later = MODELS.replace("20", "30");
        assert_eq!(total(&[MODELS, &later]).output, 31);
        // Another process starts at zero.
        let restarted = MODELS.replace("20", "2");
        assert_eq!(total(&[MODELS, &restarted]).output, 24);
    }

    #[test]
    fn a_delta_without_a_message_does_not_count() {
        assert_eq!(total(&[DELTA]), TokenTotals::default());
    }
}
