//! From events to news: which files are about to change, which did, which never will.
//!
//! A change is announced at its `tool_use` and settled at its `tool_result`, for before that the
//! file is not written (and from 2.1.197 on a tool may run while its message still streams).
//! Pairing is `wire`'s; this adds what a pipe needs to know beyond it.

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;
use wire::Event;
use wire::analysis::{CallEvent, Identity, ToolCalls, file_changed_by};
use wire::event::{Block, Body, ToolUse, User};
use wire::json::{Raw, Text};

use crate::prefilter::Interest;
use crate::stream_event::{AgentSessionId, CallId, Change, StreamEvent};

/// The tool whose calls may change any file.
const SHELL: &str = "Bash";

/// How much of what somebody said is kept.
const WORDS: usize = 4 << 10;

/// What those who act want to know beside the changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObserverOptions {
    /// What tools were given and gave back.
    pub bodies: bool,
    /// What the person and the agent said.
    pub words: bool,
    /// When commands of the shell are over.
    pub shell: bool,
}

/// Watches events for changes.
#[derive(Debug, Default)]
pub struct Observer {
    wants: ObserverOptions,
    calls: ToolCalls,
    identity: Identity,
    /// Where the agent works, and what it may do, as it said last.
    place: Option<(String, Option<String>)>,
    /// ToolCalls whose result matters.
    open: HashMap<String, OpenCall>,
    /// ToolCalls that are over: a session file may hold a call and its result twice.
    over: HashSet<String>,
}

#[derive(Debug)]
enum OpenCall {
    Change { change: Change, input: Option<Box<RawValue>> },
    Shell { session: Option<AgentSessionId> },
}

impl Observer {
    /// One that has seen nothing.
    pub fn new(wants: ObserverOptions) -> Self {
        Self { wants, ..Self::default() }
    }

    /// Which lines must be read.
    pub(crate) fn interest(&self) -> Interest {
        let ObserverOptions { words, bodies, .. } = self.wants;
        Interest { results: !self.open.is_empty(), words, whole: words || bodies, all: false }
    }

    /// Tells what the event says.
    pub fn observe(&mut self, event: &Event<'_>, mut tell: impl FnMut(StreamEvent)) {
        if let Some(session) = self.identity.observe(event) {
            tell(StreamEvent::Session(AgentSessionId(session.after)));
        }
        match &event.body {
            Body::Init(init) => {
                // It comes with every turn, and nearly always says the same.
                let place =
                    init.cwd.map(|cwd| (cwd.into(), init.permission_mode.map(String::from)));
                if let Some((cwd, permission_mode)) =
                    place.filter(|it| self.place.as_ref() != Some(it))
                {
                    self.place = Some((cwd.clone(), permission_mode.clone()));
                    tell(StreamEvent::Directory { cwd, permission_mode });
                }
            }
            Body::TurnEnded(_) => tell(StreamEvent::TurnEnded),
            Body::Assistant(_) => {
                self.say(event, StreamEvent::Text, &mut tell);
                self.observe_calls(event, &mut tell);
            }
            Body::User(user) => {
                if !user.synthetic && !user.is_tool_result() {
                    self.say(event, StreamEvent::Prompt, &mut tell);
                }
                self.observe_results(event, user, &mut tell);
            }
            _ => {}
        }
    }

    /// Ends the stream.
    pub fn finish(&mut self, mut tell: impl FnMut(StreamEvent)) {
        let unfinished = self.give_up();
        tell(StreamEvent::EndOfStream { unfinished });
    }

    /// Waits no longer for results; the changes whose results never came, in the order they were
    /// announced.
    pub(crate) fn give_up(&mut self) -> Vec<Change> {
        let calls = std::mem::take(&mut self.calls);
        let mut open = std::mem::take(&mut self.open);
        let unfinished =
            calls.unanswered().into_iter().filter_map(|call| match open.remove(&call.id)? {
                OpenCall::Change { change, .. } => Some(change),
                OpenCall::Shell { .. } => None,
            });
        unfinished.collect()
    }

    /// Whether the result of a call is awaited.
    pub(crate) fn awaits(&self, call: &str) -> bool {
        self.open.contains_key(call)
    }

    /// The calls whose results are awaited.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = &str> {
        self.open.keys().map(String::as_str)
    }

    /// Forgets which calls are over. For a record in which no line comes twice; else what is over
    /// would be as much as was ever done.
    pub(crate) fn forget(&mut self) {
        self.over.clear();
    }

    fn observe_calls(&mut self, event: &Event<'_>, tell: &mut impl FnMut(StreamEvent)) {
        let Some(message) = event.message() else { return };
        let session = self.identity.current().map(|id| AgentSessionId(id.to_owned()));
        let matters = |call: &ToolUse<'_>| {
            file_changed_by(call).is_some() || (self.wants.shell && call.name == *SHELL)
        };
        let inputs: Vec<ToolUse<'_>> = message
            .content
            .blocks()
            .filter_map(|block| match block {
                Block::ToolUse(call) if matters(&call) => Some(call),
                _ => None,
            })
            .collect();
        // Results of other calls are not read, so those calls must not be waited for.
        if inputs.is_empty() {
            return;
        }
        let Self { calls, open, over, wants, .. } = self;
        calls.observe(event, |news| {
            let CallEvent::Started(call) = news else { return };
            if over.contains(&call.id) {
                return;
            }
            let same = |it: &&ToolUse<'_>| it.id.is_some_and(|id| id == *call.id);
            let Some(found) = inputs.iter().find(same) else { return };
            let begun = match &call.change {
                Some(file) => {
                    let change = Change {
                        call: CallId(call.id.clone()),
                        tool: call.tool.clone(),
                        path: file.path.clone(),
                        session: session.clone(),
                    };
                    let input = found.input.filter(|_| wants.bodies).and_then(body);
                    tell(StreamEvent::Announced { change: change.clone(), input: input.clone() });
                    OpenCall::Change { change, input }
                }
                None => OpenCall::Shell { session: session.clone() },
            };
            open.insert(call.id.clone(), begun);
        });
    }

    fn observe_results(
        &mut self,
        event: &Event<'_>,
        user: &User<'_>,
        tell: &mut impl FnMut(StreamEvent),
    ) {
        if self.open.is_empty() {
            return;
        }
        let Self { calls, open, over, wants, .. } = self;
        calls.observe(event, |news| {
            let CallEvent::Ended { call, failed } = news else { return };
            match open.remove(&call.id) {
                Some(OpenCall::Change { change, input }) => {
                    let response = wants.bodies.then(|| response(user, &call.id)).flatten();
                    tell(StreamEvent::Finished { change, failed, input, response });
                    over.insert(call.id);
                }
                Some(OpenCall::Shell { session }) => {
                    tell(StreamEvent::ShellEnded { session });
                    over.insert(call.id);
                }
                None => {}
            }
        });
    }

    fn say(
        &self,
        event: &Event<'_>,
        news: fn(String) -> StreamEvent,
        tell: &mut impl FnMut(StreamEvent),
    ) {
        // What a sub-agent says, or is asked, is not what the turn was about.
        if !self.wants.words || event.of_sub_agent() {
            return;
        }
        let Some(message) = event.message() else { return };
        let mut said = String::new();
        for block in message.content.blocks() {
            if let Block::Text(text) = block {
                append(&mut said, text);
            }
        }
        if !said.trim().is_empty() {
            tell(news(said));
        }
    }
}

/// Puts a text behind another, up to the length that is kept.
fn append(said: &mut String, text: Text<'_>) {
    if !said.is_empty() {
        said.push('\n');
    }
    text.decode_into(said);
    said.truncate(said.floor_char_boundary(WORDS));
}

/// What the tool gave back: the structured result where there is one, else what the model is told.
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
mod tests;
