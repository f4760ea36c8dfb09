//! What the lines of other agents mean, in one vocabulary.

use std::borrow::Cow;

use crate::event::Usage;

/// One thing that a line of another agent says. Some lines say several, many say none.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentStep<'a> {
    /// What the agent says about itself and its session.
    Session(SessionFacts<'a>),
    /// The agent starts to work on a prompt.
    TurnStarted,
    Prompt(Cow<'a, str>),
    Text(AgentText<'a>),
    Thinking(AgentText<'a>),
    /// A tool is called. Some agents say so more than once, with the same id.
    Call(AgentCall<'a>),
    CallEnded(AgentCallEnd<'a>),
    /// Tokens and cost of a request to the model.
    Usage(AgentUsage<'a>),
    /// The history was summarised.
    Compacted,
    /// A remark for the user that is no failure.
    Notice(Cow<'a, str>),
    /// Something failed. The agent may still recover from it.
    Failure(Cow<'a, str>),
    TurnEnded(AgentTurnEnd<'a>),
}

/// What an agent says about itself and its session; absent fields are unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionFacts<'a> {
    pub model: Option<Cow<'a, str>>,
    pub cwd: Option<Cow<'a, str>>,
    /// The version of the agent.
    pub version: Option<Cow<'a, str>>,
    /// Whether a process starts, whose ids may repeat those of another one.
    pub new_process: bool,
}

/// Text of the model, whole or in part.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentText<'a> {
    /// The id of the message; deltas and the whole text have the same.
    pub message: Option<Cow<'a, str>>,
    pub text: Cow<'a, str>,
    pub extent: TextExtent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextExtent {
    /// The whole text of a block. Deltas of the same message came before, if there were any.
    Whole,
    /// More of a text that comes again as a whole.
    Delta,
    /// More of a text that never comes as a whole.
    OnlyDelta,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentCall<'a> {
    pub id: Cow<'a, str>,
    /// The agent's own name of the tool.
    pub tool: Cow<'a, str>,
    /// The input as JSON.
    pub input: Cow<'a, str>,
    pub action: CallAction<'a>,
}

/// What a call does, if the tool is one that many agents have.
#[derive(Clone, Debug, PartialEq)]
pub enum CallAction<'a> {
    Run {
        command: Cow<'a, str>,
    },
    /// Changes files: one, or several with one patch.
    Change(Vec<ChangedFile<'a>>),
    Read {
        path: Cow<'a, str>,
    },
    Search {
        pattern: Cow<'a, str>,
        path: Option<Cow<'a, str>>,
    },
    Fetch {
        url: Cow<'a, str>,
    },
    SearchWeb {
        query: Cow<'a, str>,
    },
    /// The whole to-do list.
    Track(Vec<AgentTodo<'a>>),
    /// Anything else.
    Other,
}

/// A file that a call changes.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedFile<'a> {
    /// The path as the agent wrote it: absolute, or relative to the working directory.
    pub path: Cow<'a, str>,
    pub change: FileContent<'a>,
}

/// How a file changes, as far as the line says.
#[derive(Clone, Debug, PartialEq)]
pub enum FileContent<'a> {
    /// The new content of the whole file.
    Written(Option<Cow<'a, str>>),
    /// Replaced texts: before and after.
    Replaced(Vec<(Cow<'a, str>, Cow<'a, str>)>),
    /// A unified diff.
    Patched(Option<Cow<'a, str>>),
    Deleted,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AgentTodo<'a> {
    pub text: Cow<'a, str>,
    /// `pending`, `in_progress` or `completed`.
    pub state: &'static str,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentCallEnd<'a> {
    pub id: Cow<'a, str>,
    pub output: Cow<'a, str>,
    pub failed: bool,
    /// A unified diff of what the call changed.
    pub diff: Option<Cow<'a, str>>,
}

/// Tokens and cost of a request to the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentUsage<'a> {
    pub usage: Usage,
    /// In dollars.
    pub cost: Option<f64>,
    pub model: Option<Cow<'a, str>>,
    pub scope: UsageScope,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UsageScope {
    /// Only these tokens.
    #[default]
    Request,
    /// All tokens of the session so far.
    Session,
}

/// The end of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentTurnEnd<'a> {
    pub outcome: TurnOutcome,
    /// The error, if there is one.
    pub error: Option<Cow<'a, str>>,
    /// The tokens of the turn, if they are not in lines of their own.
    pub usage: Option<Usage>,
    pub duration_ms: Option<u64>,
    /// The cost of the session so far in dollars, as far as its lines say.
    pub total_cost: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnOutcome {
    Completed,
    Failed,
    /// The line does not say. The turn failed if its last step did.
    Unstated,
}

impl CallAction<'_> {
    /// The files that the call changes.
    pub fn changes(&self) -> &[ChangedFile<'_>] {
        match self {
            Self::Change(files) => files,
            _ => &[],
        }
    }
}

impl<'a> AgentText<'a> {
    pub(super) fn whole(message: Option<Cow<'a, str>>, text: Cow<'a, str>) -> Self {
        Self { message, text, extent: TextExtent::Whole }
    }

    pub(super) fn delta(message: Option<Cow<'a, str>>, text: Cow<'a, str>) -> Self {
        Self { message, text, extent: TextExtent::Delta }
    }
}

impl<'a> AgentTurnEnd<'a> {
    pub(super) fn new(outcome: TurnOutcome, error: Option<Cow<'a, str>>) -> Self {
        Self { outcome, error, usage: None, duration_ms: None, total_cost: None }
    }

    /// Whether the turn failed. After [`AgentStreamReader`](super::AgentStreamReader) no outcome is
    /// unstated.
    pub fn failed(&self) -> bool {
        self.outcome == TurnOutcome::Failed
    }
}
