//! What happens to the session: everything that makes it decide something.

use serde_json::{Map, Value};

use super::effect::{RequestNumber, Timer};

/// Something that happened.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// A line of stdin was understood.
    Said(Said),
    /// stdin was closed.
    Closed,
    /// Something came of a request to the model.
    Reply(RequestNumber, Reply),
    /// What a call would touch was looked at.
    Inspected {
        /// The call.
        call: String,
        /// What was found.
        finding: Finding,
    },
    /// A tool is done.
    Done {
        /// The call.
        call: String,
        /// What came of it.
        outcome: Outcome,
    },
    /// A background task ended.
    TaskEnded {
        /// The task.
        task: String,
        /// Its exit code; none where it was killed.
        code: Option<i32>,
    },
    /// A shell command that the host typed is done.
    ShellDone {
        /// What it printed and how it ended.
        output: Value,
    },
    /// A hook that the settings name is done.
    HookDone {
        /// Its id.
        id: String,
        /// Its exit code, what it printed, and what it complained about.
        report: HookReport,
    },
    /// Files were put back, or would be.
    Rewound {
        /// The control request that wanted it.
        request: Value,
        /// The answer.
        answer: Value,
    },
    /// A while passed.
    Woken(Timer),
    /// SIGINT
    Interrupted,
    /// SIGTERM
    Terminated,
}

/// A line of stdin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    /// A prompt.
    Prompt(Map<String, Value>),
    /// A control request.
    Request {
        /// Its id, whatever it is.
        id: Value,
        /// What is wanted.
        request: Value,
    },
    /// An answer to a request of ours, as the whole line.
    Answer(Value),
    /// A control request is taken back.
    Cancel(String),
    /// A message to be put into the history as it stands.
    Injected(Map<String, Value>),
    /// A shell command to run without the model.
    Shell(Map<String, Value>),
    /// Nothing that needs doing.
    Nothing,
    /// A line that ends the process, and what it says about it.
    Fatal(String),
}

/// What comes of a request to the model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    /// The answer begins; the API's name for the request, where it told one.
    Opened(Option<String>),
    /// An event of the stream.
    Event(Value),
    /// A whole message, where no stream was asked for.
    Message(Value),
    /// The stream ended.
    Ended,
    /// It failed.
    Failed(Trouble),
}

/// Why a request to the model failed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Trouble {
    /// The HTTP status, where there was an answer.
    pub(crate) status: Option<u16>,
    /// The type of the API's error: `overloaded_error`.
    pub(crate) kind: Option<String>,
    /// What it says.
    pub(crate) message: String,
    /// The API's name for the request.
    pub(crate) request_id: Option<String>,
    /// How long the API wants us to wait, in milliseconds.
    pub(crate) retry_after: Option<u64>,
    /// Whether nobody answered at all.
    pub(crate) refused: bool,
}

/// What a look before a call found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Finding {
    /// Nothing speaks against it.
    Fine,
    /// It cannot be done, and why.
    Wrong(String),
    /// The plan that waits for approval, and where.
    Plan {
        /// What it says; nothing where none was written.
        text: Option<String>,
        /// Its file.
        path: String,
    },
}

/// What came of a tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// What the model is told: a text or blocks.
    pub(crate) content: Value,
    /// Whether it is marked as an error; not marked at all by most tools when they succeed.
    pub(crate) marked: Marked,
    /// What the host is told beside it.
    pub(crate) report: Value,
}

/// How a result is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marked {
    /// `is_error: true`
    Error,
    /// `is_error: false`
    Success,
    /// Nothing.
    Not,
}

impl Outcome {
    /// A success of a tool that does not mark it.
    pub(crate) fn plain(content: impl Into<Value>, report: Value) -> Self {
        Self { content: content.into(), marked: Marked::Not, report }
    }

    /// A failure of the tool itself.
    pub(crate) fn failure(text: &str) -> Self {
        let report = format!("Error: {text}");
        Self { content: text.into(), marked: Marked::Error, report: report.into() }
    }

    /// A call that was wrong before anything ran.
    pub(crate) fn misuse(text: &str) -> Self {
        let content = format!("<tool_use_error>{text}</tool_use_error>");
        let report = format!("Error: {}", text.strip_prefix("Error: ").unwrap_or(text));
        Self { content: content.into(), marked: Marked::Error, report: report.into() }
    }
}

/// How a hook of the settings ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HookReport {
    /// Its exit code; none where it took too long.
    pub(crate) code: Option<i32>,
    /// What it printed.
    pub(crate) stdout: String,
    /// What it complained about.
    pub(crate) stderr: String,
}
