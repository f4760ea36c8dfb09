//! What can happen to a session.

use journal::Grant;
use uuid::Uuid;
use wire::consent::RuleId;
use wire::note::{Actor, Delivery, QueueFate, Rewind, Setting};
use wire::say::{Image, JsonObject, PermissionMode};

use crate::heard::Heard;

/// Something that happened.
#[derive(Debug)]
pub enum Input {
    /// Somebody wants something.
    Command {
        /// Where the reply goes.
        ticket: Ticket,
        /// What is wanted.
        command: Command,
    },
    /// The agent wrote a line.
    Heard(Heard),
    /// What may be allowed without asking, from here on.
    Grants(Vec<Grant>),
    /// A process that was started before is attached again.
    AgentMet,
    /// The same, but nothing can be said to it: its shim is of another version.
    AgentForeign,
    /// The process that [`Effect::Start`](super::Effect::Start) asked for runs.
    AgentStarted,
    /// The process is gone, or could not be started.
    AgentGone(Gone),
    /// Time passed.
    Tick,
}

/// Where a reply goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// How a process went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gone {
    /// It never was.
    NotStarted(String),
    /// It exited with a code and last words.
    Exited {
        /// The code.
        code: i32,
        /// The last words on stderr.
        stderr: String,
    },
    /// A signal ended it.
    Killed(i32),
    /// Nobody knows.
    Lost,
}

/// Something a person or program wants of a session.
#[derive(Clone, Debug)]
pub enum Command {
    /// Take a prompt.
    Prompt(NewPrompt),
    /// Change the words of a prompt that waits.
    EditPrompt {
        /// Which.
        prompt: Uuid,
        /// The words.
        text: String,
    },
    /// Take a prompt back.
    RemovePrompt {
        /// Which.
        prompt: Uuid,
    },
    /// Put a prompt that waits elsewhere in the queue.
    MovePrompt {
        /// Which.
        prompt: Uuid,
        /// In front of this one; to the end where nothing is said.
        before: Option<Uuid>,
    },
    /// Answer a request of the agent.
    Answer {
        /// The agent's id of the request.
        request: String,
        /// The answer.
        answer: Answer,
        /// Who answers.
        by: Actor,
    },
    /// Stop the running turn.
    Interrupt {
        /// What becomes of the prompts that wait.
        queue: QueueFate,
        /// Who.
        by: Actor,
    },
    /// Change a setting.
    Set {
        /// Which, to what.
        setting: Setting,
        /// Who.
        by: Actor,
    },
    /// Go back to before a prompt.
    Rewind {
        /// The prompt.
        prompt: Uuid,
        /// What goes back.
        what: Rewind,
        /// Who.
        by: Actor,
    },
    /// Ask the agent something about itself.
    Query(Query),
    /// Have an agent ready.
    Wake,
    /// End the process; the session stays, and the next prompt wakes it.
    Close,
}

/// A prompt as its sender made it.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPrompt {
    /// Its id, made by the sender: a repeated one is not taken twice.
    pub id: Uuid,
    /// The words.
    pub text: String,
    /// The pictures.
    pub images: Vec<Image>,
    /// When it may go to the agent.
    pub delivery: Delivery,
    /// Who sent it.
    pub by: Actor,
}

/// A person's answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Yes.
    Allow {
        /// What the tool is given instead of what was asked for.
        input: Option<JsonObject>,
        /// The rule that allows such calls without asking from now on.
        remember: Option<RuleChoice>,
        /// The permission mode from here on: the choice when a plan is approved.
        mode: Option<PermissionMode>,
    },
    /// No.
    Deny {
        /// Why; the agent is told in these words.
        message: String,
        /// Whether the turn ends with it.
        interrupt: bool,
    },
    /// Answers to questions, by the question's text.
    Answers(Vec<(String, String)>),
}

/// The rule a person chose to have remembered, by its id among those offered with the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleChoice {
    pub rule: RuleId,
    /// When the grant expires, in milliseconds since 1970; never if there is none.
    pub until: Option<u64>,
    pub scope: GrantScope,
}

/// The sessions in which a grant applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GrantScope {
    /// Only the session of the request.
    #[default]
    Session,
    /// Every session with the same working directory.
    Directory,
}

/// A question to the agent about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// How full the context is.
    Context,
    /// What the session has cost.
    Cost,
    /// How much of the plan is used.
    Usage,
    /// What changed in the working tree.
    Changes,
    /// Files whose names are like this.
    Files(String),
    /// What a rewind to before this prompt would put back.
    RewindPreview(Uuid),
}
