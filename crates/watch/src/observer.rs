//! Turns protocol events into the events that actions need: which files are about to change, which
//! have changed, and which never will.
//!
//! A change is announced at its `tool_use` and finished at its `tool_result`: before that the file is not
//! written, and from CLI 2.1.197 on a tool may run while its message is still streamed. `wire` pairs
//! calls and results.

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;
use wire::analysis::{CallEvent, Identity, ToolCalls, file_changed_by};
use wire::event::{Block, Body, ToolUse, User};
use wire::json::{Raw, Text};
use wire::other_agents::{AgentStep, AgentStreamReader, TextExtent};
use wire::{Event, Line, Reading, TurnSignal};

use crate::agent_calls::AgentCalls;
use crate::prefilter::Interest;
use crate::stream_event::{AgentSessionId, CallId, Change, StreamEvent};

/// The tool whose calls may change any file.
const SHELL: &str = "Bash";

/// The maximum length of a text.
const MAX_TEXT: usize = 4 << 10;

/// What is reported besides the changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObserverOptions {
    /// The inputs and results of tools.
    pub bodies: bool,
    /// The texts of the user and the agent.
    pub texts: bool,
    /// The ends of shell commands.
    pub shell: bool,
}

/// Finds changes in the events of a stream.
#[derive(Debug, Default)]
pub struct Observer {
    options: ObserverOptions,
    calls: ToolCalls,
    identity: Identity,
    /// The working directory and the permission mode that the agent reported last.
    directory: Option<(String, Option<String>)>,
    /// Calls whose result is needed.
    open: HashMap<String, OpenCall>,
    /// Finished calls: a session file may contain a call and its result twice.
    finished: HashSet<String>,
    /// The calls of other agents, in the order in which they started.
    agent_calls: AgentCalls,
    /// What earlier messages of the Agent Client Protocol said.
    acp: AgentStreamReader,
}

#[derive(Debug)]
enum OpenCall {
    Change { change: Change, input: Option<Box<RawValue>> },
    Shell { session: Option<AgentSessionId> },
}

impl Observer {
    pub fn new(options: ObserverOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Which lines are needed.
    pub(crate) fn interest(&self) -> Interest {
        let ObserverOptions { texts, bodies, .. } = self.options;
        Interest { results: !self.open.is_empty(), texts, whole: texts || bodies, all: false }
    }

    /// Emits the events that follow from a line.
    pub fn observe(&mut self, line: &Line<'_>, mut emit: impl FnMut(StreamEvent)) {
        if let Reading::Event(event) = &line.reading {
            self.observe_event(event, &mut emit);
        }
        if ends_turn(line) {
            emit(StreamEvent::TurnEnded);
        }
    }

    fn observe_event(&mut self, event: &Event<'_>, emit: &mut impl FnMut(StreamEvent)) {
        if let Some(session) = self.identity.observe(event) {
            emit(StreamEvent::Session(AgentSessionId(session.after)));
        }
        match &event.body {
            Body::Init(init) => {
                // It is repeated in every turn and rarely changes.
                let directory =
                    init.cwd.map(|cwd| (cwd.into(), init.permission_mode.map(String::from)));
                if let Some((cwd, permission_mode)) =
                    directory.filter(|it| self.directory.as_ref() != Some(it))
                {
                    self.directory = Some((cwd.clone(), permission_mode.clone()));
                    emit(StreamEvent::Directory { cwd, permission_mode });
                }
            }
            Body::Assistant(_) => {
                self.observe_text(event, StreamEvent::Text, emit);
                self.observe_calls(event, emit);
            }
            Body::User(user) => {
                if !user.synthetic && !user.is_tool_result() {
                    self.observe_text(event, StreamEvent::Prompt, emit);
                }
                self.observe_results(event, user, emit);
            }
            Body::Acp(acp) => {
                for step in &self.acp.acp_steps(acp) {
                    self.observe_step(step, emit);
                }
            }
            Body::OtherAgent(other) => {
                for step in &other.steps {
                    self.observe_step(step, emit);
                }
            }
            _ => {}
        }
    }

    /// Ends the stream.
    pub fn finish(&mut self, mut emit: impl FnMut(StreamEvent)) {
        let unfinished = self.abandon_calls();
        emit(StreamEvent::EndOfStream { unfinished });
    }

    /// Stops waiting for results. Returns the changes without a result, in the order they were
    /// announced.
    pub(crate) fn abandon_calls(&mut self) -> Vec<Change> {
        let calls = std::mem::take(&mut self.calls);
        let mut open = std::mem::take(&mut self.open);
        let unfinished =
            calls.unanswered().into_iter().filter_map(|call| match open.remove(&call.id)? {
                OpenCall::Change { change, .. } => Some(change),
                OpenCall::Shell { .. } => None,
            });
        let unfinished: Vec<_> = unfinished.collect();
        unfinished.into_iter().chain(self.agent_calls.abandon()).collect()
    }

    /// Whether a call waits for its result.
    pub(crate) fn is_open(&self, call: &str) -> bool {
        self.open.contains_key(call) || self.agent_calls.is_open(call)
    }

    /// The calls that wait for their results.
    pub(crate) fn open_calls(&self) -> impl Iterator<Item = &str> {
        self.open.keys().map(String::as_str).chain(self.agent_calls.open())
    }

    /// Forgets the finished calls, so that they do not accumulate. For records without repeated lines.
    pub(crate) fn forget_finished(&mut self) {
        self.finished.clear();
    }

    fn observe_calls(&mut self, event: &Event<'_>, emit: &mut impl FnMut(StreamEvent)) {
        let Some(message) = event.message() else { return };
        let session = self.identity.current().map(|id| AgentSessionId(id.to_owned()));
        let is_relevant = |call: &ToolUse<'_>| {
            file_changed_by(call).is_some() || (self.options.shell && call.name == *SHELL)
        };
        let relevant: Vec<ToolUse<'_>> = message
            .content
            .blocks()
            .filter_map(|block| match block {
                Block::ToolUse(call) if is_relevant(&call) => Some(call),
                _ => None,
            })
            .collect();
        // Results of other calls are not read, so these calls must not stay open.
        if relevant.is_empty() {
            return;
        }
        let Self { calls, open, finished, options, .. } = self;
        calls.observe(event, |event| {
            let CallEvent::Started(call) = event else { return };
            if finished.contains(&call.id) {
                return;
            }
            let same = |it: &&ToolUse<'_>| it.id.is_some_and(|id| id == *call.id);
            let Some(found) = relevant.iter().find(same) else { return };
            let call_state = match &call.change {
                Some(file) => {
                    let change = Change {
                        call: CallId(call.id.clone()),
                        tool: call.tool.clone(),
                        path: file.path.clone(),
                        session: session.clone(),
                    };
                    let input = found.input.filter(|_| options.bodies).and_then(body);
                    emit(StreamEvent::Announced { change: change.clone(), input: input.clone() });
                    OpenCall::Change { change, input }
                }
                None => OpenCall::Shell { session: session.clone() },
            };
            open.insert(call.id.clone(), call_state);
        });
    }

    fn observe_results(
        &mut self,
        event: &Event<'_>,
        user: &User<'_>,
        emit: &mut impl FnMut(StreamEvent),
    ) {
        if self.open.is_empty() {
            return;
        }
        let Self { calls, open, finished, options, .. } = self;
        calls.observe(event, |event| {
            let CallEvent::Ended { call, failed } = event else { return };
            match open.remove(&call.id) {
                Some(OpenCall::Change { change, input }) => {
                    let response = options.bodies.then(|| response(user, &call.id)).flatten();
                    emit(StreamEvent::Finished { change, failed, input, response });
                    finished.insert(call.id);
                }
                Some(OpenCall::Shell { session }) => {
                    emit(StreamEvent::ShellEnded { session });
                    finished.insert(call.id);
                }
                None => {}
            }
        });
    }

    fn observe_step(&mut self, step: &AgentStep<'_>, emit: &mut impl FnMut(StreamEvent)) {
        match step {
            AgentStep::Session(facts) => {
                let directory = facts.cwd.as_ref().map(|cwd| (cwd.clone().into_owned(), None));
                if let Some((cwd, permission_mode)) =
                    directory.filter(|it| self.directory.as_ref() != Some(it))
                {
                    self.directory = Some((cwd.clone(), permission_mode.clone()));
                    emit(StreamEvent::Directory { cwd, permission_mode });
                }
            }
            AgentStep::Prompt(text) => self.emit_text(text, StreamEvent::Prompt, emit),
            AgentStep::Text(text) if text.extent == TextExtent::Whole => {
                self.emit_text(&text.text, StreamEvent::Text, emit);
            }
            AgentStep::Call(call) => {
                let session = self.identity.current().map(|id| AgentSessionId(id.to_owned()));
                self.agent_calls.start(call, session, self.options, emit);
            }
            AgentStep::CallEnded(end) => self.agent_calls.end(end, self.options, emit),
            AgentStep::TurnEnded(_) => emit(StreamEvent::TurnEnded),
            AgentStep::Text(_)
            | AgentStep::TurnStarted
            | AgentStep::Thinking(_)
            | AgentStep::Usage(_)
            | AgentStep::Compacted
            | AgentStep::Notice(_)
            | AgentStep::Failure(_) => {}
        }
    }

    fn emit_text(
        &self,
        text: &str,
        kind: fn(String) -> StreamEvent,
        emit: &mut impl FnMut(StreamEvent),
    ) {
        if self.options.texts && !text.trim().is_empty() {
            emit(kind(text[..text.floor_char_boundary(MAX_TEXT)].to_owned()));
        }
    }

    fn observe_text(
        &self,
        event: &Event<'_>,
        kind: fn(String) -> StreamEvent,
        emit: &mut impl FnMut(StreamEvent),
    ) {
        // Texts of sub-agents do not describe the turn.
        if !self.options.texts || event.of_sub_agent() {
            return;
        }
        let Some(message) = event.message() else { return };
        let mut text = String::new();
        for block in message.content.blocks() {
            if let Block::Text(more) = block {
                append(&mut text, more);
            }
        }
        if !text.trim().is_empty() {
            emit(kind(text));
        }
    }
}

/// Whether a line ends the turn of its session.
fn ends_turn(line: &Line<'_>) -> bool {
    matches!(TurnSignal::of(line), Some(TurnSignal::Ended(_)))
}

/// Appends a text, up to the maximum length.
fn append(text: &mut String, more: Text<'_>) {
    if !text.is_empty() {
        text.push('\n');
    }
    more.decode_into(text);
    text.truncate(text.floor_char_boundary(MAX_TEXT));
}

/// The result of a tool: the structured one if there is one, else the one for the model.
fn response(user: &User<'_>, call: &str) -> Option<Box<RawValue>> {
    let of_block = || {
        user.message.content.blocks().find_map(|block| match block {
            Block::ToolResult(result) if result.tool_use_id.is_some_and(|id| id == *call) => {
                result.content
            }
            _ => None,
        })
    };
    user.tool_use_result.or_else(of_block).and_then(body)
}

fn body(raw: Raw<'_>) -> Option<Box<RawValue>> {
    RawValue::from_string(raw.as_str().to_owned()).ok()
}

#[cfg(test)]
mod tests {
    use wire::{Reading, read};

    use super::{Observer, ObserverOptions};
    use crate::stream_event::StreamEvent;

    /// Descriptions of the events of some lines.
    fn describe(options: ObserverOptions, lines: &[&str]) -> Vec<String> {
        let mut observer = Observer::new(options);
        let mut events = Vec::new();
        let mut emit = |event: StreamEvent| {
            events.push(match event {
                StreamEvent::Directory { cwd, .. } => format!("in {cwd}"),
                StreamEvent::Session(id) => format!("session {id}"),
                StreamEvent::Announced { change, .. } => {
                    format!("{} announced {}", change.tool, change.path)
                }
                StreamEvent::Finished { change, failed: false, .. } => {
                    format!("{} finished {}", change.tool, change.path)
                }
                StreamEvent::Finished { change, failed: true, .. } => {
                    format!("{} failed {}", change.tool, change.path)
                }
                StreamEvent::ShellEnded { .. } => "shell ended".to_owned(),
                StreamEvent::Prompt(text) => format!("prompt {text}"),
                StreamEvent::Text(text) => format!("text {text}"),
                StreamEvent::TurnEnded => "turn ended".to_owned(),
                StreamEvent::Unfinished(_) | StreamEvent::Replayed | StreamEvent::Checkpoint(_) => {
                    unreachable!("observers do not emit this")
                }
                StreamEvent::EndOfStream { unfinished } => {
                    let paths: Vec<_> = unfinished.into_iter().map(|it| it.path).collect();
                    format!("end {}", paths.join(" "))
                }
            });
        };
        for line in lines.iter().flat_map(|line| read(line.as_bytes())) {
            assert!(matches!(line.reading, Reading::Event(_)), "{line:?}");
            observer.observe(&line, &mut emit);
        }
        observer.finish(&mut emit);
        events
    }

    fn call(id: &str, tool: &str, input: &str) -> String {
        format!(
            r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","id":"{id}","name":"{tool}","input":{input}}}]}}}}"#
        )
    }

    fn result(id: &str, error: bool) -> String {
        format!(
            r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"{id}","is_error":{error}}}]}}}}"#
        )
    }

    #[test]
    fn a_change_is_announced_then_finished_once_in_the_order_of_results() {
        let a = call("a", "Write", r#"{"file_path":"/p/a"}"#);
        let b = call("b", "NotebookEdit", r#"{"notebook_path":"b.ipynb"}"#);
        let c = call("c", "MultiEdit", r#"{"file_path":"c"}"#);
        let read = call("r", "Read", r#"{"file_path":"r"}"#);
        let (b_result, a_result) = (result("b", false), result("a", true));
        let lines = [&*a, &b, &read, &c, &b_result, &result("r", false), &a_result, &b, &b_result];
        assert_eq!(
            describe(ObserverOptions::default(), &lines),
            [
                "Write announced /p/a",
                "NotebookEdit announced b.ipynb",
                "MultiEdit announced c",
                "NotebookEdit finished b.ipynb",
                "Write failed /p/a",
                "end c",
            ]
        );
    }

    #[test]
    fn the_flat_dialect_and_bare_results_are_understood() {
        let lines = [
            r#"{"type":"session_start","session_id":"s"}"#,
            r#"{"type":"tool_use","id":"f","toolName":"Edit","toolInput":{"file_path":"x"}}"#,
            r#"{"type":"tool_result","toolUseId":"f","isError":false,"content":"ok"}"#,
            r#"{"type":"tool_use","id":"g","toolName":"Write","toolInput":{"file_path":"y"}}"#,
            r#"{"type":"tool_result","tool_use_id":"g","content":"ok"}"#,
            r#"{"type":"result","sessionId":"s","result":{"stopReason":"end_turn"}}"#,
        ];
        assert_eq!(
            describe(ObserverOptions::default(), &lines),
            [
                "session s",
                "Edit announced x",
                "Edit finished x",
                "Write announced y",
                "Write finished y",
                "turn ended",
                "end "
            ]
        );
    }

    #[test]
    fn texts_and_shell_commands_are_reported_if_requested() {
        let options = ObserverOptions { texts: true, shell: true, bodies: false };
        let lines = [
            r#"{"type":"system","subtype":"init","cwd":"/p","session_id":"s"}"#,
            r#"{"type":"user","message":{"role":"user","content":"do it"}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"I will."}]}}"#,
            r#"{"type":"assistant","parent_tool_use_id":"t","message":{"content":[{"type":"text","text":"sub"}]}}"#,
            &call("a", "Bash", r#"{"command":"make"}"#),
            &result("a", true),
            r#"{"type":"result","subtype":"success"}"#,
        ];
        assert_eq!(
            describe(options, &lines),
            [
                "session s",
                "in /p",
                "prompt do it",
                "text I will.",
                "shell ended",
                "turn ended",
                "end "
            ]
        );
    }

    #[test]
    fn bodies_are_the_input_and_the_result_of_the_tool() {
        let mut observer =
            Observer::new(ObserverOptions { bodies: true, ..ObserverOptions::default() });
        let mut events = Vec::new();
        for line in [
            call("a", "Write", r#"{"file_path":"a","content":"é\u00e9"}"#),
            result("a", false).replace("}]}}", r#"}]},"tool_use_result":{"type":"create"}}"#),
        ] {
            let line = read(line.as_bytes()).next().unwrap();
            observer.observe(&line, |event| events.push(event));
        }
        let [StreamEvent::Announced { input, .. }, StreamEvent::Finished { response, .. }] =
            &events[..]
        else {
            panic!("{events:?}")
        };
        assert_eq!(input.as_ref().unwrap().get(), r#"{"file_path":"a","content":"é\u00e9"}"#);
        assert_eq!(response.as_ref().unwrap().get(), r#"{"type":"create"}"#);
    }
}
