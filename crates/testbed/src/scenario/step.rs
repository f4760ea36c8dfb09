//! What is said to the agent and what must come back.

use serde_json::Value;

use super::Range;

/// Something that counts only on some versions, and where it stands in the file.
#[derive(Clone, Debug)]
pub struct Item<T> {
    /// The versions it counts on.
    pub versions: Range,
    /// The line of the file, from 1 on.
    pub line: usize,
    /// The thing.
    pub what: T,
}

impl<T> Item<T> {
    /// Something that counts on every version.
    pub fn always(line: usize, what: T) -> Self {
        Self { versions: Range::default(), line, what }
    }

    /// Another thing in the same place.
    pub fn with<U>(self, what: U) -> Item<U> {
        Item { versions: self.versions, line: self.line, what }
    }
}

/// What must be there before the agent starts.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Whether `$session` is passed with `--session-id`.
    pub session: bool,
    /// Whether stdin is `/dev/null`.
    pub no_stdin: bool,
    /// Environment: set, or unset where there is no value.
    pub env: Vec<Item<(String, Option<String>)>>,
    /// Files in the working directory.
    pub files: Vec<Item<(String, String)>>,
    /// Files in the home directory.
    pub home_files: Vec<Item<(String, String)>>,
}

/// One process of the agent.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Further arguments, or all of them.
    pub args: Vec<Item<String>>,
    /// Whether `args` are all of them.
    pub only_args: bool,
    /// Whether it starts beside the one before instead of after its end.
    pub beside: bool,
    /// What happens, in order.
    pub steps: Vec<Item<Step>>,
}

/// Which control request of the agent an answer is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The newest.
    Newest,
    /// The one an expectation named.
    Named(String),
}

/// A line that is to come: its kind, and what it must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// `type`, `type/subtype`, or `line` for any line at all.
    pub kind: String,
    /// The pattern; an empty object where nothing is said.
    pub pattern: Value,
}

/// Where an expected line must come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Behind whatever was awaited before.
    InOrder,
    /// Behind it too, but in any order with its neighbours of this sort.
    AnyOrder,
}

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT
    Int,
    /// SIGTERM
    Term,
    /// SIGKILL
    Kill,
}

impl Signal {
    /// Its number, the same on every system.
    pub fn number(self) -> i32 {
        match self {
            Self::Int => 2,
            Self::Kill => 9,
            Self::Term => 15,
        }
    }
}

/// One step of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Writes a prompt.
    Prompt {
        /// The text.
        text: String,
        /// The name of the id made for it.
        uuid: Option<String>,
        /// `now`, `next`, `later`.
        priority: Option<String>,
        /// Whether a small picture goes with it.
        image: bool,
        /// Further fields of the line.
        with: Option<Value>,
    },
    /// Writes a control request.
    Request {
        /// The `request` object.
        request: Value,
        /// What its id is known as.
        name: Option<String>,
    },
    /// Allows a call.
    Allow {
        /// The input, where it is not the one asked about.
        input: Option<Value>,
        /// Rules to go with it.
        permissions: Option<Value>,
        /// Which ask.
        target: Target,
    },
    /// Denies a call.
    Deny {
        /// Why.
        message: String,
        /// Whether the turn ends too.
        interrupt: bool,
        /// Which ask.
        target: Target,
    },
    /// Answers a control request with a payload.
    Answer {
        /// The payload.
        payload: Value,
        /// Which ask.
        target: Target,
    },
    /// Answers a control request with an error.
    Fail {
        /// What it says.
        message: String,
        /// Which ask.
        target: Target,
    },
    /// Writes a line.
    Line(Value),
    /// Writes bytes.
    Raw(String),
    /// Waits for a line.
    Expect {
        /// What must come.
        expectation: Expectation,
        /// What an ask is remembered as.
        name: Option<String>,
        /// Where it must come.
        order: Order,
    },
    /// Forbids a line until the next expectation is met, or the end.
    Never(Expectation),
    /// Counts lines of a kind, at the end of the run.
    Count {
        /// The kind.
        kind: String,
        /// How many.
        times: usize,
    },
    /// Lets a held reply go on.
    Open(String),
    /// Looks at a request to the API.
    ApiRequest {
        /// Which, from 1 on.
        number: usize,
        /// What it must hold.
        pattern: Value,
    },
    /// Counts requests to the API.
    ApiRequests(usize),
    /// Sends a signal.
    Signal(Signal),
    /// Closes stdin.
    CloseInput,
    /// Waits for the end.
    Exit(Option<i32>),
    /// Waits for the end by a signal.
    ExitBySignal(Signal),
    /// Checks that it runs.
    Alive,
    /// Looks for words on stderr, at the end of the run.
    Stderr(String),
    /// Looks at a file.
    FileIs {
        /// Its path in the working directory.
        path: String,
        /// A pattern for its content.
        content: String,
    },
    /// Checks that there is no such file.
    FileIsNot(String),
    /// Waits for a file to appear.
    WaitFile(String),
    /// Checks that no process has these words in its command line.
    Gone(String),
    /// Checks that some process has them.
    Left(String),
    /// Turns to the n-th of the processes that run beside each other, from 1 on.
    At(usize),
}
