//! Scenarios: conversations with an agent as data. `docs/scenarios.md` describes the file format.
//!
//! The scripted API reads only the [`ScenarioReply`]s of a scenario, the runner only its
//! [`ScenarioRun`]s.

mod bounds;
mod condition;
mod parser;
mod pattern;
mod variables;
mod version;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

pub(crate) use bounds::VERSIONS;
pub use bounds::{
    VersionBound, with_moved_bound, with_step_bound, with_versions_bound, without_versions,
};
#[cfg(test)]
pub(crate) use condition::AGENT_NAMES;
pub(crate) use condition::CLAUDE;
pub use condition::{ScenarioCondition, ScenarioConditionError};
pub use parser::ScenarioError;
pub use pattern::{ScenarioMismatch, contains_text, match_request, match_value, matches_text};
pub use variables::ScenarioVariables;
pub use version::{AgentVersion, AgentVersionRange};

/// One conversation with an agent.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file name without its extension.
    pub name: String,
    /// One sentence about what the scenario shows.
    pub title: String,
    /// The comment below the title.
    pub description: String,
    /// The agents that the scenario applies to, among those that speak its protocol.
    pub condition: ScenarioCondition,
    pub protocol: ScenarioProtocol,
    pub setup: ScenarioSetup,
    /// The model's replies, in the order of the requests.
    pub replies: Vec<ScenarioItem<ScenarioReply>>,
    /// The agent's runs in order. Each is one process.
    pub runs: Vec<ScenarioItem<ScenarioRun>>,
}

/// What an agent speaks over its stdin and stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScenarioProtocol {
    /// The lines of Claude Code.
    #[default]
    StreamJson,
    /// The Agent Client Protocol.
    Acp,
}

/// A part of a scenario with its line number and the agents it applies to.
#[derive(Clone, Debug)]
pub struct ScenarioItem<T> {
    pub condition: ScenarioCondition,
    /// The line in the file, counted from 1.
    pub line: usize,
    pub value: T,
}

impl<T> ScenarioItem<T> {
    /// An item that applies to every agent.
    pub fn unconditional(line: usize, value: T) -> Self {
        Self { condition: ScenarioCondition::default(), line, value }
    }

    /// The same line and condition with another value.
    pub fn with<U>(self, value: U) -> ScenarioItem<U> {
        ScenarioItem { condition: self.condition, line: self.line, value }
    }
}

/// What is prepared before the agent starts.
#[derive(Clone, Debug, Default)]
pub struct ScenarioSetup {
    /// Whether `$session` is passed with `--session-id`. In the Agent Client Protocol, whether a
    /// session is opened before the first step.
    pub session: bool,
    /// Whether stdin is `/dev/null`.
    pub no_stdin: bool,
    /// Environment variables. One without a value is unset.
    pub env: Vec<ScenarioItem<(String, Option<String>)>>,
    /// Files in the working directory.
    pub files: Vec<ScenarioItem<(String, String)>>,
    /// Files in the home directory.
    pub home_files: Vec<ScenarioItem<(String, String)>>,
}

/// One process of the agent.
#[derive(Clone, Debug, Default)]
pub struct ScenarioRun {
    pub args: Vec<ScenarioItem<String>>,
    /// Whether `args` replace the usual arguments instead of following them.
    pub only_args: bool,
    /// Whether the process starts while the previous one still runs.
    pub concurrent: bool,
    pub steps: Vec<ScenarioItem<Step>>,
}

/// One step of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Writes a prompt.
    Prompt {
        text: String,
        /// The variable for the prompt's generated id.
        uuid: Option<String>,
        /// `now`, `next` or `later`.
        priority: Option<String>,
        /// Whether a small image is attached.
        image: bool,
        /// Further fields of the line.
        with: Option<Value>,
    },
    /// Writes a control request.
    Request {
        request: Value,
        /// The variable for the request's generated id.
        name: Option<String>,
    },
    /// Allows a tool call.
    Allow {
        /// The input to use instead of the requested one.
        input: Option<Value>,
        /// Permission rules to add.
        permissions: Option<Value>,
        target: ScenarioRequestTarget,
    },
    /// Denies a tool call.
    Deny {
        message: String,
        /// Whether the turn ends too.
        interrupt: bool,
        target: ScenarioRequestTarget,
    },
    /// Answers a control request with a payload.
    Answer { payload: Value, target: ScenarioRequestTarget },
    /// Answers a control request with an error.
    Fail { message: String, target: ScenarioRequestTarget },
    /// Writes a line of JSON.
    Line(Value),
    /// Writes bytes.
    Raw(String),
    /// Waits for a line.
    Expect {
        expectation: ScenarioExpectation,
        /// The name that later steps use for this request.
        name: Option<String>,
        order: ScenarioOrder,
    },
    /// Waits until the chunks of the agent's message contain a text, taken together.
    Says(String),
    /// Forbids a line until the next expectation is met or the run ends.
    Never(ScenarioExpectation),
    /// Counts the lines of a kind at the end of the run.
    Count { kind: String, times: usize },
    /// Opens the gate that a held reply waits for.
    Open(String),
    /// Checks a request to the API. Requests are counted from 1.
    ApiRequest { number: usize, pattern: Value },
    /// Checks the number of requests to the API.
    ApiRequests(usize),
    /// Sends a signal to the agent.
    Signal(ScenarioSignal),
    /// Closes the agent's stdin.
    CloseInput,
    /// Waits until the agent exits, with this code if one is given.
    Exit(Option<i32>),
    /// Waits until a signal ends the agent.
    ExitBySignal(ScenarioSignal),
    /// Checks that the agent is running.
    Alive,
    /// Checks that stderr contains a text, at the end of the run.
    Stderr(String),
    /// Checks the content of a file in the working directory.
    FileIs { path: String, content: String },
    /// Checks that a file does not exist.
    FileIsNot(String),
    /// Waits until a file exists.
    WaitFile(String),
    /// Checks that no process has this text in its command line.
    Gone(String),
    /// Checks that a process has this text in its command line.
    Left(String),
    /// Selects one of the concurrent processes, counted from 1, for the steps that follow.
    At(usize),
}

/// The control request of the agent that an answer is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScenarioRequestTarget {
    Latest,
    /// The request that an expectation named with `as`.
    Named(String),
}

/// A line that the agent should print.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioExpectation {
    /// `type`, `type/subtype`, or `line` for any line.
    pub kind: String,
    /// An empty object matches every line of the kind.
    pub pattern: Value,
}

/// Where an expected line must appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScenarioOrder {
    /// After the line that the previous expectation matched.
    InOrder,
    /// Likewise, but in any order with the adjacent expectations of this sort.
    AnyOrder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScenarioSignal {
    Int,
    Term,
    Kill,
}

impl ScenarioSignal {
    /// The signal's number, which is the same on every system.
    pub fn number(self) -> i32 {
        match self {
            Self::Int => 2,
            Self::Kill => 9,
            Self::Term => 15,
        }
    }
}

/// A reply of the model to one request.
#[derive(Clone, Debug, Default)]
pub struct ScenarioReply {
    /// The content blocks in order. Empty if the request fails outright.
    pub blocks: Vec<ScenarioBlock>,
    /// The stop reason, if it is not the usual one for these blocks.
    pub stop: Option<String>,
    /// The stop sequence that ended the reply, if it is not the first of the request.
    pub stop_sequence: Option<String>,
    /// Token counts that replace the estimated ones.
    pub usage: Option<Map<String, Value>>,
    /// Gives the reply only to requests whose latest message contains this text.
    pub only_for: Option<String>,
    /// Whether a reply with `only_for` can be used more than once.
    pub always: bool,
    pub hold: Option<ScenarioHold>,
    /// The time between deltas.
    pub pace: Duration,
    pub fault: Option<ScenarioFault>,
    /// A recorded reply to send instead, byte for byte and with the same timing.
    pub replay: Option<PathBuf>,
}

impl ScenarioReply {
    /// The reply with the variables in tool calls and raw blocks expanded.
    #[must_use]
    pub fn expand(&self, variables: &ScenarioVariables) -> Self {
        let mut reply = self.clone();
        for block in &mut reply.blocks {
            match block {
                ScenarioBlock::Tool { input: value, .. } | ScenarioBlock::Raw(value) => {
                    *value = variables.expand_value(value);
                }
                ScenarioBlock::Text(_) | ScenarioBlock::Thinking(_) => {}
            }
        }
        reply
    }

    /// Whether every tool call has a fixed id, so that the reply is the same each time it is sent.
    pub fn has_fixed_ids(&self) -> bool {
        !self.blocks.iter().any(|block| matches!(block, ScenarioBlock::Tool { id: None, .. }))
    }
}

/// A content block of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum ScenarioBlock {
    Text(String),
    Thinking(String),
    Tool {
        name: String,
        input: Value,
        /// Generated if absent.
        id: Option<String>,
    },
    /// A block that is sent unchanged.
    Raw(Value),
}

/// A point in a reply where it waits for a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioHold {
    /// The gate.
    pub name: String,
    /// The number of deltas to send first. `None` waits before the first byte.
    pub after: Option<usize>,
}

/// What goes wrong with a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum ScenarioFault {
    /// An HTTP error instead of a reply.
    Status {
        status: u16,
        /// The type of the error, such as `overloaded_error`.
        kind: String,
        message: String,
        headers: Vec<(String, String)>,
    },
    /// A fault in the stream, after this many deltas.
    Stream { after: usize, fault: ScenarioStreamFault },
}

/// What goes wrong in the middle of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScenarioStreamFault {
    /// An `error` event.
    SseError { kind: String, message: String },
    /// The connection is reset.
    Disconnect,
    /// The stream ends early, but the connection is closed properly.
    Truncate,
    /// No more data is sent, and the connection stays open.
    Stall,
    /// Bytes are sent that are not an event.
    Garbage,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ScenarioBlock, ScenarioReply, ScenarioVariables};

    #[test]
    fn variables_are_expanded_in_tool_calls() {
        let input = json!({"file_path": "$cwd/a", "more": [{"in": "$cwdx $home"}], "n": 1});
        let call = |input| ScenarioBlock::Tool { name: "Read".to_owned(), input, id: None };
        let blocks = vec![ScenarioBlock::Text("costs $home".to_owned()), call(input)];
        let mut variables = ScenarioVariables::default();
        for (name, value) in [("cwd", "/w"), ("cwdx", "/x"), ("home", "/h")] {
            variables.set(name, value);
        }
        let expanded = ScenarioReply { blocks, ..ScenarioReply::default() }.expand(&variables);
        let input = json!({"file_path": "/w/a", "more": [{"in": "/x /h"}], "n": 1});
        assert_eq!(expanded.blocks, [ScenarioBlock::Text("costs $home".to_owned()), call(input)]);
    }
}
