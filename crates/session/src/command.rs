//! Commands to a session and their results.
//!
//! Everything here is plain data: a command can be stored, sent to another process and compared.

use std::borrow::Cow;

use journal::Resolution;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;
use uuid::Uuid;
use wire::consent::RuleId;
use wire::note::{Actor, Delivery, PromptState, QueuePolicy, Rewind, Setting};
use wire::outgoing::{Image, JsonObject, PermissionMode};

use crate::options::OptionError;
use crate::schedule::NewSchedule;
use crate::shim::MAX_WRITE;

/// What a client asks of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionCommand {
    Prompt(NewPrompt),
    /// Change a prompt that waits in the queue.
    ChangePrompt {
        prompt: Uuid,
        change: PromptChange,
    },
    /// Cancel a prompt, unless the agent has started with it.
    RemovePrompt {
        prompt: Uuid,
    },
    /// Move a waiting prompt in front of another one, or to the end of the queue.
    MovePrompt {
        prompt: Uuid,
        before: Option<Uuid>,
    },
    /// Answer a request of the agent.
    Answer {
        /// The agent's id of the request.
        request: String,
        answer: RequestAnswer,
        by: Actor,
    },
    /// Answer the call of a hook.
    AnswerHook {
        /// The agent's id of the request.
        request: String,
        /// The hook's output; without one the call goes the usual way.
        #[serde(default, deserialize_with = "json_object")]
        output: Option<JsonObject>,
    },
    /// Stop the running turn.
    Interrupt {
        queue: QueuePolicy,
        by: Actor,
        /// The turn to stop; whichever is running if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<u64>,
    },
    /// Send queued prompts again that are held. If a budget holds them, the same amount is allowed again.
    ResumeQueue {
        by: Actor,
        /// The limit that the person saw. If it is another one by now, someone else was faster, and
        /// nothing happens.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<f64>,
    },
    /// Send a prompt later.
    Schedule(NewSchedule),
    /// Do not send a scheduled prompt any more.
    RemoveSchedule {
        schedule: Uuid,
        by: Actor,
    },
    /// Change a setting.
    Set {
        setting: Setting,
        by: Actor,
    },
    /// Go back to before a prompt.
    Rewind {
        prompt: Uuid,
        what: Rewind,
        by: Actor,
    },
    /// Ask the agent about itself. Starts no agent.
    Query(AgentQuery),
    /// Start an agent if none runs, and wait until it is ready.
    Wake,
    /// Return the capabilities of the last agent that was ready. Starts no agent.
    Capabilities,
    /// Stop the agent process. The session stays, and the next prompt starts another process.
    Close,
}

/// A prompt as its sender made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewPrompt {
    /// Made by the sender, so that a prompt that is sent again is not run twice.
    pub id: Uuid,
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    pub delivery: Delivery,
    pub by: Actor,
}

/// What is to be different about a prompt. What is none stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptChange {
    pub text: Option<String>,
    pub delivery: Option<Delivery>,
}

/// A person's answer to a request of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestAnswer {
    Allow {
        /// What the tool gets instead of the input it asked for.
        #[serde(default, deserialize_with = "json_object")]
        input: Option<JsonObject>,
        /// The rule that allows such calls without asking from now on.
        remember: Option<RuleChoice>,
        /// The permission mode from now on: the choice when a plan is approved.
        mode: Option<PermissionMode>,
    },
    Deny {
        /// The reason, which the agent is given word for word.
        message: String,
        /// Whether the denial also ends the turn.
        interrupt: bool,
    },
    /// Answers to questions, by the question's text.
    Answers(Vec<(String, String)>),
    /// One of the choices that the agent offered, by its id.
    Choose { choice: String },
}

/// The rule a person chose to have remembered, by its id among those offered with the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleChoice {
    pub rule: RuleId,
    /// When the grant expires, in milliseconds since 1970; never if there is none.
    pub until: Option<u64>,
    pub scope: GrantScope,
}

/// The sessions in which a grant applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantScope {
    /// Only the session of the request.
    #[default]
    Session,
    /// Every session with the same working directory.
    Directory,
}

/// A question to the agent about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentQuery {
    /// How full the context is.
    Context,
    /// What the session has cost.
    Cost,
    /// How much of the plan is used.
    Usage,
    /// What changed in the working tree.
    Changes,
    /// Files with a similar name.
    Files(String),
    /// What a rewind to before this prompt would restore.
    RewindPreview(Uuid),
}

/// The result of a [`SessionCommand`].
pub type CommandResult = Result<CommandOutput, CommandError>;

/// The output of a command that succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandOutput {
    None,
    /// The state of the prompt after the command.
    Prompt(PromptState),
    /// The agent's answer as JSON.
    Payload(Option<String>),
}

/// Why a session refused a command.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandError {
    #[error("no such prompt")]
    NoSuchPrompt,
    #[error("a prompt needs some text or an image")]
    EmptyPrompt,
    #[error("the prompt is no longer in the queue")]
    NotWaiting(PromptState),
    #[error("no such scheduled prompt")]
    NoSuchSchedule,
    #[error("no such request")]
    NoSuchRequest,
    /// Another client answered first, or the agent withdrew the request.
    #[error("the request is already resolved")]
    AlreadyResolved(Box<Resolution>),
    /// The answer does not fit the request, or the value does not fit the setting.
    #[error("{0}")]
    Invalid(Cow<'static, str>),
    #[error(transparent)]
    InvalidOption(OptionError),
    /// The line for the agent would be longer than the shim accepts.
    #[error(
        "{what} is too large: it needs {} MiB on the way to the agent, and the limit is {} MiB; \
         shorten it, or put the text into a file and name the file",
        .size.div_ceil(1 << 20),
        MAX_WRITE.div_ceil(1 << 20)
    )]
    TooLarge { what: Cow<'static, str>, size: usize },
    /// The stored options of the session cannot be read. Defaults in their place could allow what
    /// was forbidden.
    #[error(
        "the stored options of this session cannot be read ({0}), so no agent is started: it could \
         run without its limits; create a new session that resumes the conversation"
    )]
    UnreadableOptions(String),
    #[error("a turn is running")]
    Busy,
    #[error("no agent is running")]
    NoAgent,
    #[error("the agent refused: {0}")]
    RefusedByAgent(String),
    #[error("the agent did not answer in time")]
    NoAnswer,
    /// The agent exited before it answered.
    #[error("the agent is gone")]
    AgentGone,
}

/// Reads a JSON object as it is written: going through `Value` would change numbers and key order.
fn json_object<'de, D: Deserializer<'de>>(from: D) -> Result<Option<JsonObject>, D::Error> {
    let object = Option::<Box<RawValue>>::deserialize(from)?;
    let parse = |it: Box<RawValue>| JsonObject::parse(it.get()).map_err(serde::de::Error::custom);
    object.map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use wire::note::Actor;
    use wire::outgoing::JsonObject;

    use super::{RequestAnswer, SessionCommand};

    #[test]
    fn a_command_survives_the_way_to_another_process() {
        let input = JsonObject::parse(r#"{"b":0.10000000000000001,"a":[1]}"#).unwrap();
        for input in [None, Some(input)] {
            let answer = RequestAnswer::Allow { input, remember: None, mode: None };
            let by = Actor { name: "ann".to_owned(), via: "terminal".to_owned() };
            let command = SessionCommand::Answer { request: "r".to_owned(), answer, by };
            let json = serde_json::to_string(&command).unwrap();
            assert_eq!(serde_json::from_str::<SessionCommand>(&json).unwrap(), command, "{json}");
        }
    }
}
