//! The calls of other agents that change files or run a shell.
//!
//! One call may change several files. Each is a change of its own, with an id made from the call's.

use std::collections::HashMap;

use serde_json::value::RawValue;
use wire::other_agents::{AgentCall, AgentCallEnd, CallAction};

use crate::observer::ObserverOptions;
use crate::stream_event::{AgentSessionId, CallId, Change, StreamEvent};

#[derive(Debug, Default)]
pub(crate) struct AgentCalls {
    open: HashMap<String, OpenAgentCall>,
    started: u64,
}

#[derive(Debug)]
struct OpenAgentCall {
    /// Its position among all calls.
    number: u64,
    changes: Vec<Change>,
    session: Option<AgentSessionId>,
    input: Option<Box<RawValue>>,
}

impl AgentCalls {
    /// Announces the changes of a call. It may start a second time, when its files become known.
    pub(crate) fn start(
        &mut self,
        call: &AgentCall<'_>,
        session: Option<AgentSessionId>,
        options: ObserverOptions,
        emit: &mut impl FnMut(StreamEvent),
    ) {
        let files = call.action.changes();
        let is_shell = options.shell && matches!(call.action, CallAction::Run { .. });
        if files.is_empty() && !is_shell {
            return;
        }
        let input = options.bodies.then(|| RawValue::from_string(call.input.clone().into()).ok());
        let input = input.flatten();
        let changes: Vec<_> = files
            .iter()
            .enumerate()
            .map(|(number, file)| Change {
                call: CallId(change_id(&call.id, number)),
                tool: call.tool.clone().into_owned(),
                path: file.path.clone().into_owned(),
                session: session.clone(),
            })
            .collect();
        for change in &changes {
            emit(StreamEvent::Announced { change: change.clone(), input: input.clone() });
        }
        let open = OpenAgentCall { number: self.started, changes, session, input };
        self.started += 1;
        self.open.insert(call.id.clone().into_owned(), open);
    }

    pub(crate) fn end(
        &mut self,
        end: &AgentCallEnd<'_>,
        options: ObserverOptions,
        emit: &mut impl FnMut(StreamEvent),
    ) {
        let Some(call) = self.open.remove(&*end.id) else { return };
        if call.changes.is_empty() {
            emit(StreamEvent::ShellEnded { session: call.session });
            return;
        }
        let response = options.bodies.then(|| serde_json::value::to_raw_value(&end.output).ok());
        let response = response.flatten();
        for change in call.changes {
            emit(StreamEvent::Finished {
                change,
                failed: end.failed,
                input: call.input.clone(),
                response: response.clone(),
            });
        }
    }

    /// Whether a call waits for its result.
    pub(crate) fn is_open(&self, call: &str) -> bool {
        self.open.contains_key(call)
    }

    /// The calls that wait for their results.
    pub(crate) fn open(&self) -> impl Iterator<Item = &str> {
        self.open.keys().map(String::as_str)
    }

    /// Stops waiting for results. Returns the changes without one, in the order of their calls.
    pub(crate) fn abandon(&mut self) -> Vec<Change> {
        let mut calls: Vec<_> = std::mem::take(&mut self.open).into_values().collect();
        calls.sort_by_key(|call| call.number);
        calls.into_iter().flat_map(|call| call.changes).collect()
    }
}

/// The id of the change of one of several files.
fn change_id(call: &str, number: usize) -> String {
    if number == 0 { call.to_owned() } else { format!("{call}#{}", number + 1) }
}
