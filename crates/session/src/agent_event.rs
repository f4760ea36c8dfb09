//! What the session machine needs to know of a line that the agent printed.
//!
//! [`TurnSignal`] says what a line means for the turn. This is the same with owned data, plus what
//! the journal records about a request. The line itself is written to the journal in any case.

use uuid::Uuid;
use wire::acp::PermissionChoice;
use wire::event::{CanUseTool, ControlResult};
use wire::json::Raw;
use wire::note::RequestKind;
use wire::{Line, ReportedState, RequestId, TurnResult, TurnSignal, UnknownRequest};

/// What a line of the agent means for the session machine.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEvent {
    /// Any other output: the agent is alive.
    Output,
    /// A turn starts, or continues after a compaction.
    TurnStarted {
        /// The CLI's id of the conversation.
        conversation: Option<String>,
    },
    TurnEnded(TurnResult),
    /// The agent ended the turn because it was told to stop, or because a person refused something.
    TurnCancelled {
        /// The prompts that the turn answered.
        prompts: Vec<Uuid>,
    },
    /// The agent works although nothing asked it to, and will not say when it has finished.
    Unprompted,
    /// The agent has opened its conversation, under this id of its own.
    ConversationOpened(String),
    /// The agent gave up on the conversation that it should have continued.
    ConversationLost,
    /// The agent cannot work, for this reason.
    StartFailed {
        reason: String,
        /// Whether another attempt may help.
        retry: bool,
    },
    /// Whether the agent accepts prompts into a running turn.
    SteeringOffered(bool),
    /// The agent did not accept a prompt into the running turn.
    PromptReturned(Uuid),
    /// What the agent says that the conversation has cost so far, in dollars.
    CostReported(f64),
    /// The agent took up a prompt.
    PromptAccepted(Uuid),
    /// The agent dropped a prompt that waited in its queue.
    PromptDropped(Uuid),
    StateReported(ReportedState),
    /// The agent asks a person for something.
    RequestOpened(PermissionRequest),
    /// The agent runs a hook of Towpath and waits for its answer.
    HookCalled(HookCallback),
    /// The agent asks its host for something that Towpath does not offer.
    UnsupportedRequest {
        id: String,
        subtype: String,
    },
    RequestWithdrawn {
        id: String,
    },
    /// The answer to a control request: the payload as JSON, or the text of the error. The CLI also
    /// repeats the host's own answers this way.
    RequestAnswered {
        id: String,
        answer: Result<Option<String>, String>,
    },
}

/// A request of the agent to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionRequest {
    /// The agent's id of the request.
    pub id: String,
    pub kind: RequestKind,
    pub tool_name: String,
    pub tool_use_id: Option<String>,
    /// The input of the tool as JSON.
    pub input: String,
    /// Rules that the CLI suggests to remember, as JSON.
    pub suggestions: Option<String>,
    /// The answers that the agent offers, in its own words.
    pub choices: Vec<PermissionChoice>,
    /// The sub-agent that asks.
    pub agent: Option<String>,
}

/// The call of a hook that was registered with `initialize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookCallback {
    /// The agent's id of the request.
    pub id: String,
    /// The id that the hook was registered with.
    pub callback: String,
    /// What a hook program would receive on stdin; none if the line is too long to be read.
    pub input: Option<String>,
}

impl AgentEvent {
    pub fn of(line: &Line<'_>) -> Self {
        TurnSignal::of(line).map_or(Self::Output, Self::of_signal)
    }

    /// What a line means that is too long to be read, as far as its start says it. The end of a
    /// turn must not be missed, and a request must be answered, or the agent waits for ever.
    pub fn of_start(bytes: &[u8]) -> Self {
        let Some(kind) = wire::Kind::find(bytes) else { return Self::Output };
        if kind.name != "control_request" {
            let mut event = TurnSignal::of_kind(&kind).map_or(Self::Output, Self::of_signal);
            if let Self::TurnEnded(result) = &mut event {
                // It would end the turn of a prompt. 2.1.325 prints it in front of the text.
                let origin = find_text(bytes, b"\"origin\":{\"kind\"");
                result.unsolicited = origin.is_some_and(|it| it == "task-notification");
            }
            return event;
        }
        let Some(id) = find_request_id(bytes) else {
            let name = wire::without_id("requests of this length");
            return Self::RequestOpened(PermissionRequest::of_start(bytes, name));
        };
        if let Some(callback) = find_text(bytes, b"\"callback_id\"") {
            return Self::HookCalled(HookCallback { id, callback, input: None });
        }
        Self::UnsupportedRequest { id, subtype: "requests of this length".to_owned() }
    }

    fn of_signal(signal: TurnSignal<'_>) -> Self {
        match signal {
            TurnSignal::Started { session_id } => {
                Self::TurnStarted { conversation: session_id.map(String::from) }
            }
            TurnSignal::Ended(result) => Self::TurnEnded(result),
            TurnSignal::PromptAccepted(prompt) => Self::PromptAccepted(prompt),
            TurnSignal::PromptDropped(prompt) => Self::PromptDropped(prompt),
            TurnSignal::StateReported(state) => Self::StateReported(state),
            TurnSignal::RequestOpened { id, call } => {
                Self::RequestOpened(PermissionRequest::of(id, &call))
            }
            TurnSignal::HookCalled { id, callback, input } => Self::HookCalled(HookCallback {
                id: id.into(),
                callback: callback.map(String::from).unwrap_or_default(),
                input: Some(input.map_or("{}", Raw::as_str).to_owned()),
            }),
            TurnSignal::UnsupportedRequest { id, subtype } => Self::UnsupportedRequest {
                id: id.into(),
                subtype: subtype.map(String::from).unwrap_or_default(),
            },
            TurnSignal::UnknownRequest(request) => {
                Self::RequestOpened(PermissionRequest::of_unknown(&request))
            }
            TurnSignal::RequestWithdrawn { id } => Self::RequestWithdrawn { id: id.into() },
            TurnSignal::RequestAnswered { id, response } => Self::RequestAnswered {
                id: id.into(),
                answer: match response {
                    ControlResult::Success(payload) => Ok(payload.map(|it| it.as_str().to_owned())),
                    ControlResult::Error(error) => Err(error.map(String::from).unwrap_or_default()),
                },
            },
            // Only input has this meaning.
            TurnSignal::PromptWritten => Self::Output,
        }
    }
}

/// The id of a request, from the start of its line.
fn find_request_id(bytes: &[u8]) -> Option<String> {
    let key = b"\"request_id\"";
    let number = find_value(bytes, key).and_then(|rest| {
        let end = rest
            .iter()
            .position(|byte| matches!(byte, b',' | b'}') || byte.is_ascii_whitespace())?;
        RequestId::of(Raw::parse(std::str::from_utf8(&rest[..end]).ok()?)?)
    });
    match number {
        Some(number @ RequestId::Number(_)) => Some(number.into()),
        _ => find_text(bytes, key).map(|text| {
            let json = format!("\"{text}\"");
            Raw::parse(&json).and_then(RequestId::of).map_or(text, String::from)
        }),
    }
}

/// What follows a key, from the start of a line.
fn find_value<'a>(bytes: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let start = &bytes[..bytes.len().min(64 << 10)];
    let rest = &start[memchr::memmem::find(start, key)? + key.len()..];
    Some(rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start())
}

/// The text with a key, from the start of a line.
fn find_text(bytes: &[u8], key: &[u8]) -> Option<String> {
    let rest = find_value(bytes, key)?;
    let id = rest.strip_prefix(b"\"")?;
    let id = std::str::from_utf8(&id[..memchr::memchr2(b'"', b'\\', id)?]).ok()?;
    // An id with escapes ends too early and is not in this form.
    rest.get(id.len() + 1).filter(|end| **end == b'"').map(|_| id.to_owned())
}

impl PermissionRequest {
    fn of(id: RequestId<'_>, call: &CanUseTool<'_>) -> Self {
        let tool_name = String::from(call.tool_name);
        Self {
            id: id.into(),
            kind: RequestKind::of(&tool_name, call.input),
            tool_name,
            tool_use_id: call.tool_use_id.map(String::from),
            input: call.input.map_or("{}", Raw::as_str).to_owned(),
            suggestions: call.suggestions.map(|it| it.as_str().to_owned()),
            choices: Vec::new(),
            agent: call.agent_id.map(|it| it.readable().into_owned()),
        }
    }

    /// A request of which only the start is known, and which no answer can reach.
    fn of_start(bytes: &[u8], name: String) -> Self {
        Self {
            id: wire::key_without_id(bytes),
            kind: RequestKind::Unknown,
            tool_name: name,
            tool_use_id: None,
            input: "{}".to_owned(),
            suggestions: None,
            choices: Vec::new(),
            agent: None,
        }
    }

    /// A request that Towpath does not know. A person sees its content and can only deny it.
    fn of_unknown(request: &UnknownRequest<'_>) -> Self {
        Self {
            id: request.id.into(),
            kind: RequestKind::Unknown,
            tool_name: request.name(),
            tool_use_id: None,
            input: request.content.as_str().to_owned(),
            suggestions: None,
            choices: Vec::new(),
            agent: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::note::RequestKind;

    use super::AgentEvent;

    fn event(line: &str) -> AgentEvent {
        AgentEvent::of(&wire::read(line.as_bytes()).next().expect("a line"))
    }

    #[test]
    fn a_request_has_what_the_journal_records() {
        let line = r#"{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"ExitPlanMode","input":{"plan":"x"}}}"#;
        let AgentEvent::RequestOpened(request) = event(line) else { panic!("{:?}", event(line)) };
        assert_eq!((request.id.as_str(), request.kind), ("r", RequestKind::Plan));
        assert_eq!(request.input, r#"{"plan":"x"}"#);
    }

    #[test]
    fn an_unsupported_request_has_its_name() {
        let line = r#"{"type":"control_request","request_id":"r","request":{"subtype":"mcp_message","server_name":"s","message":{}}}"#;
        let subtype = "mcp_message".to_owned();
        assert_eq!(event(line), AgentEvent::UnsupportedRequest { id: "r".to_owned(), subtype });
    }

    #[test]
    fn an_unknown_request_is_shown_to_a_person() {
        let line = r#"{"type":"control_request","request_id":"r","request":{"subtype":"teleport","to":7}}"#;
        let AgentEvent::RequestOpened(request) = event(line) else { panic!("{:?}", event(line)) };
        assert_eq!((request.id.as_str(), request.kind), ("r", RequestKind::Unknown));
        assert_eq!(request.tool_name, "teleport");
        assert_eq!(request.input, r#"{"subtype":"teleport","to":7}"#);
    }

    #[test]
    fn the_start_of_a_long_line_says_whether_the_agent_waits() {
        let start = |line: &str| AgentEvent::of_start(line.as_bytes());
        let request = start(
            r#"{"type":"control_request","request_id" : "r","request":{"subtype":"can_use_tool","input":{"content":"xxx"#,
        );
        assert!(matches!(request, AgentEvent::UnsupportedRequest { id, .. } if id == "r"));
        let result = start(r#"{"type":"result","subtype":"success","result":"xxx"#);
        assert!(matches!(result, AgentEvent::TurnEnded(_)), "{result:?}");
        let unsolicited = start(
            r#"{"origin":{"kind":"task-notification","producer":"x"},"type":"result","subtype":"success","result":"xxx"#,
        );
        assert!(matches!(unsolicited, AgentEvent::TurnEnded(result) if result.unsolicited));
        let odd = start(r#"{"type":"control_request","request_id":"a\"b","request":{"x":"#);
        let AgentEvent::RequestOpened(odd) = odd else { panic!("{odd:?}") };
        assert!(!wire::is_answerable(&odd.id) && odd.kind == RequestKind::Unknown, "{odd:?}");
        let number = start(r#"{"type":"control_request","request_id": 7,"request":{"x":"#);
        let subtype = "requests of this length".to_owned();
        let id = "number:7".to_owned();
        assert_eq!(number, AgentEvent::UnsupportedRequest { id, subtype });
        assert_eq!(start(r#"{"type":"assistant","message":"#), AgentEvent::Output);
    }

    #[test]
    fn a_request_without_an_id_is_shown_to_a_person() {
        let line = r#"{"type":"control_request","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}}"#;
        let AgentEvent::RequestOpened(request) = event(line) else { panic!("{:?}", event(line)) };
        assert!(!wire::is_answerable(&request.id), "{request:?}");
        assert_eq!(request.kind, RequestKind::Unknown);
        assert!(request.tool_name.ends_with("Denying it stops the turn"), "{request:?}");
        assert!(request.input.contains("ls"), "{request:?}");
    }

    #[test]
    fn an_answer_has_its_payload_or_its_error() {
        let line = r#"{"type":"control_response","response":{"subtype":"error","request_id":"r","error":"no"}}"#;
        let (id, answer) = ("r".to_owned(), Err("no".to_owned()));
        assert_eq!(event(line), AgentEvent::RequestAnswered { id, answer });
    }
}
