//! Requests and notifications.

use super::tool_call::AgentToolCall;
use crate::json::{ParseError, Raw, ShapeError, Text};

/// A request, or a notification if it has no id.
#[derive(Clone, Debug)]
pub struct AcpCall<'a> {
    /// As its sender wrote it: a number or a string with its quotes.
    pub id: Option<Raw<'a>>,
    pub method: Text<'a>,
    pub params: Option<Raw<'a>>,
    pub body: AcpCallBody<'a>,
}

/// What is asked for, as far as anything here depends on it.
#[derive(Clone, Debug)]
pub enum AcpCallBody<'a> {
    /// The agent asks for permission.
    Permission {
        session: Option<Text<'a>>,
        /// The call it is about. Version 2 may ask about a command without one.
        call: Option<Box<AgentToolCall<'a>>>,
        /// The command it is about, if it is not about a call.
        command: Option<Raw<'a>>,
        title: Option<Text<'a>>,
        description: Option<Text<'a>>,
        /// The choices a person has.
        options: Raw<'a>,
    },
    /// The agent asks questions, or wants a page to be opened.
    Elicitation {
        session: Option<Text<'a>>,
        message: Option<Text<'a>>,
        /// The fields of the form, as a JSON schema.
        schema: Option<Raw<'a>>,
        url: Option<Text<'a>>,
    },
    /// The sender no longer needs an answer to this request.
    Withdrawn { request: Raw<'a> },
    /// The client sends a prompt.
    Prompt { session: Option<Text<'a>>, content: Raw<'a> },
    /// The client stops the turn.
    Cancel { session: Option<Text<'a>> },
    /// Any other method, of the protocol or of an extension.
    Other,
}

impl<'a> AcpCall<'a> {
    pub(super) fn of(
        id: Option<Raw<'a>>,
        method: Text<'a>,
        params: Option<Raw<'a>>,
    ) -> Result<Self, ParseError> {
        let body = AcpCallBody::of(method, params).map_err(|error| error.under("params"))?;
        Ok(Self { id, method, params, body })
    }
}

impl<'a> AcpCallBody<'a> {
    fn of(method: Text<'a>, params: Option<Raw<'a>>) -> Result<Self, ParseError> {
        let get = |key: &str| params.and_then(|params| params.get(key));
        let required = |key: &str| get(key).ok_or_else(|| ShapeError::missing(key));
        let text = |key: &str| get(key).and_then(Raw::text);
        let session = || text("sessionId");
        Ok(match &*method.decode() {
            "session/request_permission" => {
                let subject = get("subject");
                let call = get("toolCall").or_else(|| subject?.get("toolCall"));
                let call = call.or_else(|| subject.filter(|it| it.get("toolCallId").is_some()));
                let read = |call| AgentToolCall::read(call).map_err(|it| it.under("toolCall"));
                Self::Permission {
                    session: session(),
                    call: call.map(read).transpose()?.map(Box::new),
                    command: subject.and_then(|it| it.get("command")),
                    title: text("title"),
                    description: text("description"),
                    options: required("options")?,
                }
            }
            "elicitation/create" => Self::Elicitation {
                session: session(),
                message: text("message"),
                schema: get("requestedSchema"),
                url: text("url"),
            },
            "$/cancel_request" => Self::Withdrawn { request: required("requestId")? },
            "session/prompt" => Self::Prompt { session: session(), content: required("prompt")? },
            "session/cancel" => Self::Cancel { session: session() },
            _ => Self::Other,
        })
    }
}
