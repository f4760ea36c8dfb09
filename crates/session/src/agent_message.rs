//! What the session machine has to say to the agent, before it is known how the agent wants it written.

use wire::outgoing::{ControlReply, OutgoingLine, OutgoingPrompt, OutgoingRequest};

/// A message to the agent.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentMessage {
    Prompt(OutgoingPrompt),
    /// A request, whose answer has the same id.
    Request {
        id: String,
        request: OutgoingRequest,
    },
    /// Change a setting of an agent whose options only it knows. The answer has the same id.
    Set {
        id: String,
        key: SettingKey,
        /// The agent's default if there is none.
        value: Option<String>,
    },
    /// The answer to a request of the agent.
    Reply {
        request: String,
        reply: ControlReply,
    },
    /// The answer to a request that offers choices: one of them, or a refusal to choose.
    Choice {
        request: String,
        choice: Option<String>,
    },
    /// The answers to a request with questions, by the text of the question.
    Answers {
        request: String,
        answers: Vec<(String, String)>,
    },
}

/// A setting of an agent that says itself which values it accepts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingKey {
    Mode,
    Model,
    Effort,
    /// The agent's own option with this id.
    Option(String),
}

impl SettingKey {
    /// The name under which the value is stored with the session.
    pub fn name(&self) -> &str {
        match self {
            Self::Mode => "mode",
            Self::Model => "model",
            Self::Effort => "effort",
            Self::Option(id) => id,
        }
    }

    pub fn named(name: &str) -> Self {
        match name {
            "mode" => Self::Mode,
            "model" => Self::Model,
            "effort" => Self::Effort,
            id => Self::Option(id.to_owned()),
        }
    }
}

impl AgentMessage {
    /// The line for the CLI. Only other agents are sent the messages without one.
    pub fn to_line(&self) -> Option<OutgoingLine> {
        match self {
            Self::Prompt(prompt) => Some(prompt.to_line()),
            Self::Request { id, request } => Some(OutgoingLine::request(id, request)),
            Self::Reply { request, reply } => Some(OutgoingLine::reply(request, reply)),
            Self::Set { .. } | Self::Choice { .. } | Self::Answers { .. } => None,
        }
    }
}
