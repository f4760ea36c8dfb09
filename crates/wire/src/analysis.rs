//! Conclusions that followers draw from events: which result belongs to which call, which file it
//! changed, which session the stream belongs to, how many tokens were used.
//!
//! Each analysis is shown every event in order and remembers what it must. They live here so that the
//! browser, Telegram, the pipe and the reports cannot disagree about the same stream.

use std::collections::HashMap;

use crate::event::{Block, Body, Event, Message, Stream, ToolResult, ToolUse, Usage};
use crate::json::{Raw, Text};

/// ToolCalls of tools, from the request to the result.
#[derive(Debug, Default)]
pub struct ToolCalls {
    open: HashMap<String, ToolCall>,
    started: u64,
}

/// A call whose result is awaited or just came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// Its id.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The file it changes, where its input names one.
    pub change: Option<FileChange>,
    /// Its place among all calls, from 0 on.
    pub number: u64,
}

/// What an event says about a call.
#[derive(Debug)]
pub enum CallEvent<'a> {
    /// The model asks for it. Nothing has happened yet.
    Started(&'a ToolCall),
    /// Its result is here.
    Ended {
        /// The call.
        call: ToolCall,
        /// Whether the tool failed or was not allowed to run.
        failed: bool,
    },
}

impl ToolCalls {
    /// Tells `news` what the event says about calls.
    ///
    /// A call that is repeated (a session file may hold a message twice) is news once, and so is
    /// its result.
    pub fn observe(&mut self, event: &Event<'_>, mut news: impl FnMut(CallEvent<'_>)) {
        let Some(message) = event.message() else { return };
        for block in message.content.blocks() {
            match block {
                Block::ToolUse(call) => self.begin(&call, &mut news),
                Block::ToolResult(result) => self.end(&result, &mut news),
                _ => {}
            }
        }
    }

    fn begin(&mut self, call: &ToolUse<'_>, news: &mut impl FnMut(CallEvent<'_>)) {
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
        news(CallEvent::Started(self.open.entry(id.into_owned()).or_insert(call)));
    }

    fn end(&mut self, result: &ToolResult<'_>, news: &mut impl FnMut(CallEvent<'_>)) {
        let Some(id) = result.tool_use_id else { return };
        if let Some(call) = self.open.remove(&*id.decode()) {
            news(CallEvent::Ended { call, failed: result.failed() });
        }
    }

    /// ToolCalls whose result has not come, in the order they were made.
    pub fn unanswered(&self) -> Vec<&ToolCall> {
        let mut calls: Vec<_> = self.open.values().collect();
        calls.sort_by_key(|call| call.number);
        calls
    }
}

/// A file that a call is going to change. It is not changed before the call's result says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The tool.
    pub tool: String,
    /// The path as the model wrote it: absolute, or relative to the working directory.
    pub path: String,
}

/// The path that a call changes, for the tools whose input names it.
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
/// It changes within one process: `/clear` begins a new conversation, whose lines carry another id
/// from their `init` on. The `conversation_reset` that 2.1.325 writes before it names an id too, but
/// no line ever carries that one.
#[derive(Debug, Default)]
pub struct Identity {
    current: Option<String>,
}

/// The stream goes on under another id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityChange {
    /// The id before, if there was one.
    pub before: Option<String>,
    /// The id from here on.
    pub after: String,
}

impl Identity {
    /// The id as of the last event.
    pub fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    /// Says if the event begins a session or changes its id.
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

/// TokenCounts of a session, each message counted once.
#[derive(Debug, Default)]
pub struct UsageTotals {
    by_message: HashMap<String, Usage>,
    /// The message being written, by the call its sub-agent belongs to.
    open: HashMap<Option<String>, String>,
    /// Messages without an id cannot be told apart, so each counts.
    anonymous: TokenCounts,
}

/// Numbers of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// Read at full price.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// FieldOutcome from the prompt cache.
    pub cache_read: u64,
    /// Put into the prompt cache.
    pub cache_write: u64,
}

impl UsageTotals {
    /// Counts what the event says of tokens.
    pub fn observe(&mut self, event: &Event<'_>) {
        match &event.body {
            Body::Assistant(assistant) => self.count(&assistant.message),
            Body::Stream(Stream::MessageStart(message)) => {
                self.count(message);
                if let Some(id) = message.id {
                    self.open.insert(writer(event), id.into());
                }
            }
            Body::Stream(Stream::MessageDelta { usage: Some(usage), .. }) => {
                if let Some(id) = self.open.get(&writer(event)) {
                    overlay(&mut self.by_message, id.clone(), *usage);
                }
            }
            Body::Stream(Stream::MessageStop) => {
                self.open.remove(&writer(event));
            }
            _ => {}
        }
    }

    fn count(&mut self, message: &Message<'_>) {
        let Some(usage) = message.usage else { return };
        match message.id {
            Some(id) => overlay(&mut self.by_message, id.into(), usage),
            None => self.anonymous = self.anonymous.plus(usage.into()),
        }
    }

    /// All tokens so far.
    pub fn total(&self) -> TokenCounts {
        self.by_message.values().fold(self.anonymous, |sum, usage| sum.plus((*usage).into()))
    }
}

fn writer(event: &Event<'_>) -> Option<String> {
    event.envelope.parent_tool_use_id.map(String::from)
}

fn overlay(by_message: &mut HashMap<String, Usage>, id: String, later: Usage) {
    let usage = by_message.entry(id).or_default();
    *usage = usage.overlaid(later);
}

impl From<Usage> for TokenCounts {
    fn from(usage: Usage) -> Self {
        Self {
            input: usage.input_tokens.unwrap_or(0),
            output: usage.output_tokens.unwrap_or(0),
            cache_read: usage.cache_read_input_tokens.unwrap_or(0),
            cache_write: usage.cache_creation_input_tokens.unwrap_or(0),
        }
    }
}

impl TokenCounts {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }
}

impl std::iter::Sum for TokenCounts {
    fn sum<I: Iterator<Item = Self>>(tokens: I) -> Self {
        tokens.fold(Self::default(), Self::plus)
    }
}

#[cfg(test)]
mod call_tests {
    use super::{CallEvent, ToolCalls};
    use crate::{Reading, read};

    fn observe(calls: &mut ToolCalls, line: &str) -> Vec<String> {
        let mut said = Vec::new();
        for line in read(line.as_bytes()) {
            let Reading::Event(event) = line.reading else { panic!("{line:?}") };
            calls.observe(&event, |news| {
                said.push(match news {
                    CallEvent::Started(call) => format!("{} started", call.id),
                    CallEvent::Ended { call, failed } => format!("{} failed={failed}", call.id),
                });
            });
        }
        said
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
    fn results_find_their_calls_in_any_order_and_once() {
        let mut calls = ToolCalls::default();
        assert_eq!(observe(&mut calls, &call("a")), ["a started"]);
        assert_eq!(observe(&mut calls, &call("b")), ["b started"]);
        assert_eq!(observe(&mut calls, &call("a")), [""; 0]);
        assert_eq!(observe(&mut calls, &result("b", r#","is_error":true"#)), ["b failed=true"]);
        assert_eq!(observe(&mut calls, &result("b", "")), [""; 0]);
        assert_eq!(observe(&mut calls, &result("stranger", "")), [""; 0]);
        assert_eq!(calls.unanswered()[0].change.as_ref().unwrap().path, "a.txt");
        assert_eq!(observe(&mut calls, &result("a", r#","is_error":null"#)), ["a failed=false"]);
        assert!(calls.unanswered().is_empty());
    }

    #[test]
    fn the_flat_dialect_pairs_with_the_same_rules() {
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
    fn the_id_changes_with_the_lines_that_carry_it_and_not_before() {
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
        // As 2.1.325 announces `/clear`.
        let reset = r#"{"type":"conversation_reset","new_conversation_id":"x","session_id":"a"}"#;
        assert_eq!(observe(reset), None);
        assert_eq!(observe(r#"{"type":"keep_alive"}"#), None);
        let init = r#"{"type":"system","subtype":"init","session_id":"b"}"#;
        assert_eq!(observe(init), change(Some("a"), "b"));
    }
}

#[cfg(test)]
mod usage_tests {
    use super::{TokenCounts, UsageTotals};
    use crate::{Reading, read};

    fn total(lines: &[&str]) -> TokenCounts {
        let mut tally = UsageTotals::default();
        for line in lines.iter().flat_map(|line| read(line.as_bytes())) {
            let Reading::Event(event) = line.reading else { panic!("{line:?}") };
            tally.observe(&event);
        }
        tally.total()
    }

    const START: &str = r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"m1","usage":{"input_tokens":3,"output_tokens":1}}}}"#;
    const BLOCK: &str = r#"{"type":"assistant","message":{"id":"m1","content":[],"usage":{"input_tokens":3,"cache_read_input_tokens":7,"output_tokens":1}}}"#;
    const DELTA: &str = r#"{"type":"stream_event","event":{"type":"message_delta","delta":{},"usage":{"output_tokens":9}}}"#;
    const SUB_AGENT: &str = r#"{"type":"assistant","parent_tool_use_id":"t","message":{"id":"m2","content":[],"usage":{"input_tokens":10,"output_tokens":2,"cache_creation_input_tokens":5}}}"#;

    #[test]
    fn a_message_counts_once_with_its_last_usage() {
        let tokens = total(&[START, BLOCK, BLOCK, DELTA]);
        assert_eq!(tokens, TokenCounts { input: 3, output: 9, cache_read: 7, cache_write: 0 });
    }

    #[test]
    fn sub_agents_count_and_do_not_disturb_the_message_being_written() {
        let tokens = total(&[START, SUB_AGENT, DELTA, SUB_AGENT]);
        assert_eq!(tokens, TokenCounts { input: 13, output: 11, cache_read: 0, cache_write: 5 });
    }

    #[test]
    fn a_delta_of_nothing_counts_for_nothing() {
        assert_eq!(total(&[DELTA]), TokenCounts::default());
    }
}
