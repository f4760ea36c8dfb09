//! Answers to what the agent asks.

use serde::Serialize;

use super::{JsonObject, PermissionUpdate};

/// An answer to a control request of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The call may be made. The input is always said, changed or not: 2.1.197 takes an allowance
    /// without it for a denial.
    Allow {
        /// What the tool is given.
        updated_input: JsonObject,
        /// Rules that spare the question next time.
        updated_permissions: Vec<PermissionUpdate>,
    },
    /// The call may not be made.
    Deny(Refusal),
    /// What a hook registered with `initialize` decided.
    Hook(JsonObject),
    /// What an MCP server of the host answered, as JSON-RPC.
    Mcp(JsonObject),
    /// The question was not understood or could not be answered.
    Error(String),
}

/// Why a call may not be made. There is always a reason: the CLI needs one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    message: String,
    interrupt: bool,
}

impl Refusal {
    /// Refuses and lets the turn go on; the model is told why, in these words.
    pub fn because(reason: &str) -> Self {
        let message = if reason.trim().is_empty() { "The user said no." } else { reason };
        Self { message: message.to_owned(), interrupt: false }
    }

    /// Refuses and ends the turn; the model is not told why.
    pub fn and_interrupt(reason: &str) -> Self {
        Self { interrupt: true, ..Self::because(reason) }
    }
}

impl Answer {
    /// Allows a call as it was asked for.
    pub fn allow(input: JsonObject) -> Self {
        Self::Allow { updated_input: input, updated_permissions: Vec::new() }
    }

    /// Refuses a call.
    pub fn deny(reason: &str) -> Self {
        Self::Deny(Refusal::because(reason))
    }

    pub(super) fn response<'a>(&'a self, request_id: &'a str) -> Response<'a> {
        let payload = match self {
            Self::Allow { updated_input, updated_permissions } => {
                Payload::Decision(Decision::Allow { updated_input, updated_permissions })
            }
            Self::Deny(Refusal { message, interrupt }) => {
                Payload::Decision(Decision::Deny { message, interrupt: *interrupt })
            }
            Self::Hook(output) => Payload::Verbatim(output),
            Self::Mcp(message) => Payload::Mcp { mcp_response: message },
            Self::Error(error) => return Response::Error { request_id, error },
        };
        Response::Success { request_id, response: payload }
    }
}

#[derive(Serialize)]
#[serde(tag = "subtype", rename_all = "lowercase")]
pub(super) enum Response<'a> {
    Success { request_id: &'a str, response: Payload<'a> },
    Error { request_id: &'a str, error: &'a str },
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Payload<'a> {
    Decision(Decision<'a>),
    Verbatim(&'a JsonObject),
    Mcp { mcp_response: &'a JsonObject },
}

#[derive(Serialize)]
#[serde(tag = "behavior", rename_all = "lowercase")]
pub(super) enum Decision<'a> {
    Allow {
        #[serde(rename = "updatedInput")]
        updated_input: &'a JsonObject,
        #[serde(rename = "updatedPermissions", skip_serializing_if = "<[_]>::is_empty")]
        updated_permissions: &'a [PermissionUpdate],
    },
    Deny {
        message: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        interrupt: bool,
    },
}
