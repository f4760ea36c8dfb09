//! What a line means for the turn of its session.
//!
//! The session machine, the shim and `watch` each follow the turn with rules of their own, but they
//! must agree on what a single line says about it. That is decided here, once. Direction matters:
//! a `user` line that goes to the agent is a prompt, one that comes back is a tool result or a
//! repeated prompt, so there is one function for each direction.
//!
//! A line that is too long to hold, or whose shape has changed, is judged by its [`Kind`]: the end
//! of a turn must not be missed because a field of it could not be read.

use std::str::FromStr as _;

use uuid::Uuid;

use crate::event::{
    Body, CanUseTool, ControlRequest, ControlRequestKind, ControlResult, Event, Signal, System,
    TurnEnded,
};
use crate::json::{Raw, Text};
use crate::request_id::RequestId;
use crate::{Kind, Line, Reading};

/// What a line means for the turn of its session.
#[derive(Clone, Debug)]
pub enum TurnSignal<'a> {
    /// `system/init`: a turn starts, or continues after a compaction.
    Started {
        /// The CLI's id of the conversation.
        session_id: Option<Text<'a>>,
    },
    /// `result`: a turn ended.
    Ended(TurnResult),
    /// A prompt was written to the agent. Only input lines mean this.
    PromptWritten,
    /// The agent took up a prompt: it repeats it, or reports that it started or completed it.
    PromptAccepted(Uuid),
    /// The agent dropped a prompt that waited in its queue.
    PromptDropped(Uuid),
    /// The agent reported its own state.
    StateReported(ReportedState),
    /// The agent asks for permission, for answers, or for approval of a plan.
    RequestOpened { id: RequestId<'a>, call: Box<CanUseTool<'a>> },
    /// The agent runs a hook that the host registered, and waits for its answer.
    HookCalled {
        id: RequestId<'a>,
        /// The id that the host registered it with.
        callback: Option<Text<'a>>,
        /// What a hook program would receive on stdin.
        input: Option<Raw<'a>>,
    },
    /// The agent asks its host for something that only an SDK host offers. It waits for an answer.
    UnsupportedRequest { id: RequestId<'a>, subtype: Option<Text<'a>> },
    /// The agent asks for something that this crate does not know. It waits for an answer, so a person
    /// must see the request; the only answer is a refusal.
    UnknownRequest(UnknownRequest<'a>),
    /// The agent no longer needs an answer.
    RequestWithdrawn { id: RequestId<'a> },
    /// A control request was answered. With `--replay-user-messages` the CLI also repeats the
    /// host's own answers.
    RequestAnswered { id: RequestId<'a>, response: ControlResult<'a> },
}

/// A control request of an unknown subtype, or in a shape that cannot be read, with the id that an
/// answer must carry. Without a usable id no answer can reach the agent; the way out is to stop it.
#[derive(Clone, Copy, Debug)]
pub struct UnknownRequest<'a> {
    pub id: RequestId<'a>,
    /// What is asked for, if the request says it.
    pub subtype: Option<Text<'a>>,
    /// The content of the request as it was written.
    pub content: Raw<'a>,
}

impl<'a> UnknownRequest<'a> {
    /// `None` if the line is no such request.
    pub fn of(line: &Line<'a>) -> Option<Self> {
        let (kind, object) = unread_object(line)?;
        if kind.name != "control_request" {
            return None;
        }
        let id = object.get("request_id").and_then(RequestId::of);
        let id = id.unwrap_or(RequestId::None(object));
        let content = object.get("request").unwrap_or(object);
        let subtype = content.get("subtype").and_then(Raw::text);
        Some(Self { id, subtype, content })
    }

    /// What is asked for, for a person.
    pub fn name(&self) -> String {
        let name = self.subtype.map(String::from).unwrap_or_default();
        if self.id.is_usable() { name } else { without_id(&name) }
    }
}

/// The name of a request that no answer can reach, with what a person can do.
pub fn without_id(name: &str) -> String {
    let name = if name.is_empty() { String::new() } else { format!("{name} ") };
    format!("{name}without an id: it cannot be answered. Denying it stops the turn")
}

/// The kind and the content of a line that is not an event.
fn unread_object<'a>(line: &Line<'a>) -> Option<(Kind<'a>, Raw<'a>)> {
    match &line.reading {
        Reading::Unknown(unknown) => Some((unknown.kind, unknown.object)),
        Reading::Mismatch(mismatch) => Some((mismatch.kind, mismatch.object)),
        Reading::Event(_) | Reading::Noise(_) => None,
    }
}

/// How a turn ended, as far as its `result` says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnResult {
    /// The text of the failure, if the turn failed.
    pub failure: Option<String>,
    /// The prompts that the turn answered. Versions before 2.1.325 do not list them.
    pub prompts: Vec<Uuid>,
    /// Whether the agent started the turn by itself, because a background task ended.
    pub unsolicited: bool,
    /// What the agent says that the conversation has cost so far, in dollars.
    pub total_cost: Option<f64>,
}

/// The state the CLI reports when it was started with `CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedState {
    Idle,
    Running,
    /// It waits for an answer to one of its requests.
    RequiresAction,
}

impl<'a> TurnSignal<'a> {
    /// The meaning of a line that the agent printed, if it has one for the turn.
    pub fn of(line: &Line<'a>) -> Option<Self> {
        match &line.reading {
            Reading::Event(event) => Self::of_event(event),
            Reading::Unknown(_) | Reading::Mismatch(_) => Self::of_unread(line),
            Reading::Noise(_) => None,
        }
    }

    /// The meaning of a line that this crate does not know or cannot read. What waits for an answer, and
    /// what ends a wait, must not be missed.
    fn of_unread(line: &Line<'a>) -> Option<Self> {
        if let Some(request) = UnknownRequest::of(line) {
            return Some(Self::UnknownRequest(request));
        }
        let (kind, object) = unread_object(line)?;
        if kind.name == "control_response" {
            let id = object.get("response")?.get("request_id").and_then(RequestId::of)?;
            return Some(Self::RequestAnswered { id, response: ControlResult::Error(None) });
        }
        let mut signal = Self::of_kind(&kind);
        if let Some(Self::Ended(result)) = &mut signal {
            result.total_cost = object.get("total_cost_usd").and_then(Raw::number);
        }
        signal
    }

    /// The meaning of a line that the agent printed and of which only the kind is known.
    pub fn of_kind(kind: &Kind<'a>) -> Option<Self> {
        if kind.name == "result" {
            let failed = kind.subtype.is_some_and(|subtype| subtype != "success");
            let failure = failed.then(|| kind.to_string());
            return Some(Self::Ended(TurnResult { failure, ..TurnResult::default() }));
        }
        let is_init = kind.name == "system" && kind.subtype.is_some_and(|it| it == "init");
        is_init.then_some(Self::Started { session_id: None })
    }

    /// The meaning of a line that is written to the agent.
    pub fn of_input(line: &Line<'a>) -> Option<Self> {
        match line.event().map(|event| &event.body) {
            Some(Body::ControlResponse(answer)) => {
                Some(Self::RequestAnswered { id: answer.request_id?, response: answer.response })
            }
            _ => Self::of_input_kind(&line.kind()?),
        }
    }

    /// The meaning of a line that is written to the agent and of which only the kind is known.
    pub fn of_input_kind(kind: &Kind<'a>) -> Option<Self> {
        (kind.name == "user").then_some(Self::PromptWritten)
    }

    fn of_event(event: &Event<'a>) -> Option<Self> {
        match &event.body {
            Body::Init(_) if !event.of_sub_agent() => {
                Some(Self::Started { session_id: event.envelope.session_id })
            }
            Body::User(user) if user.replay => {
                event.envelope.uuid.and_then(uuid).map(Self::PromptAccepted)
            }
            Body::TurnEnded(ended) => Some(Self::Ended(TurnResult::of(ended))),
            Body::ControlRequest(request) => Self::of_request(request, event.kind.subtype),
            Body::ControlResponse(answer) => {
                Some(Self::RequestAnswered { id: answer.request_id?, response: answer.response })
            }
            Body::ControlCancel(cancel) => Some(Self::RequestWithdrawn { id: cancel.request_id }),
            Body::System(System::SessionState(reported)) => {
                Some(Self::StateReported(match &*reported.state.decode() {
                    "idle" => ReportedState::Idle,
                    "requires_action" => ReportedState::RequiresAction,
                    _ => ReportedState::Running,
                }))
            }
            Body::Signal(Signal::CommandLifecycle(lifecycle)) => {
                let prompt = lifecycle.command_uuid.and_then(uuid)?;
                match &*lifecycle.state?.decode() {
                    "started" | "completed" => Some(Self::PromptAccepted(prompt)),
                    "cancelled" => Some(Self::PromptDropped(prompt)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn of_request(request: &ControlRequest<'a>, subtype: Option<Text<'a>>) -> Option<Self> {
        let id = request.request_id;
        match &request.request {
            ControlRequestKind::CanUseTool(call) => {
                Some(Self::RequestOpened { id, call: Box::new(*call) })
            }
            ControlRequestKind::HookCallback { callback_id, input, .. } => {
                Some(Self::HookCalled { id, callback: *callback_id, input: *input })
            }
            // The CLI continues without an answer if no host declared that it shows such dialogs.
            ControlRequestKind::Other(_)
                if subtype.is_some_and(|it| it == "request_user_dialog") =>
            {
                None
            }
            _ => Some(Self::UnsupportedRequest { id, subtype }),
        }
    }
}

impl TurnResult {
    fn of(ended: &TurnEnded<'_>) -> Self {
        let prompts = ended.user_message_uuids.into_iter().flat_map(Raw::items);
        Self {
            failure: ended.failed().then(|| failure_text(ended)),
            prompts: prompts.filter_map(Raw::text).filter_map(uuid).collect(),
            unsolicited: ended.origin.is_some_and(|origin| origin == "task-notification"),
            total_cost: ended.total_cost_usd,
        }
    }
}

/// The text of a failure: the result's own text, else the first error, else the reason.
fn failure_text(ended: &TurnEnded<'_>) -> String {
    let errors = ended.errors.into_iter().flat_map(Raw::items).filter_map(Raw::text);
    // From 2.1.197 on, an interrupt adds such a line for the CLI's own developers.
    let mut errors = errors.map(String::from).filter(|it| !it.starts_with("[ede_diagnostic]"));
    let text = ended.result.map(String::from).filter(|it| !it.trim().is_empty());
    let reason = || ended.terminal_reason.map(String::from);
    text.or_else(|| errors.next()).or_else(reason).unwrap_or_else(|| "it failed".to_owned())
}

fn uuid(text: Text<'_>) -> Option<Uuid> {
    Uuid::from_str(&text.decode()).ok()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{ReportedState, TurnResult, TurnSignal};
    use crate::Kind;
    use crate::event::ControlResult;
    use crate::outgoing::{ControlReply, JsonObject, OutgoingLine};

    fn signal(line: &str) -> Option<TurnSignal<'_>> {
        TurnSignal::of(&crate::read(line.as_bytes()).next().expect("a line"))
    }

    #[test]
    fn an_unknown_request_is_reported_so_that_it_can_be_answered() {
        for (request, subtype) in [
            (r#"{"subtype":"teleport","to":7}"#, Some("teleport")),
            (r#"{"subtype":5}"#, None),
            ("{}", None),
            (r#""teleport""#, None),
            ("[[[]]]", None),
        ] {
            let line =
                format!(r#"{{"type":"control_request","request_id":"r","request":{request}}}"#);
            let Some(TurnSignal::UnknownRequest(found)) = signal(&line) else {
                panic!("{line}: {:?}", signal(&line))
            };
            assert_eq!(String::from(found.id), "r");
            assert_eq!(found.subtype.map(String::from).as_deref(), subtype);
            assert_eq!(found.content.as_str(), request);
        }
    }

    #[test]
    fn a_request_whose_id_is_a_number_is_as_good_as_any() {
        let line = r#"{"type":"control_request","request_id":7,"request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}}"#;
        let Some(TurnSignal::RequestOpened { id, call }) = signal(line) else {
            panic!("{:?}", signal(line))
        };
        assert_eq!(String::from(call.tool_name), "Bash");
        let reply = OutgoingLine::reply(&id.key(), &ControlReply::allow(JsonObject::empty()));
        assert!(reply.as_str().contains(r#""request_id":7,"#), "{}", reply.as_str());
        let cancel = r#"{"type":"control_cancel_request","request_id":7}"#;
        let Some(TurnSignal::RequestWithdrawn { id: withdrawn }) = signal(cancel) else {
            panic!("{:?}", signal(cancel))
        };
        assert_eq!(withdrawn.key(), id.key());
        let answer = crate::read(reply.as_str().as_bytes()).next().expect("a line");
        let Some(TurnSignal::RequestAnswered { id: answered, .. }) = TurnSignal::of_input(&answer)
        else {
            panic!("{answer:?}")
        };
        assert_eq!(answered.key(), id.key());
    }

    #[test]
    fn a_request_without_a_usable_id_is_seen_although_it_cannot_be_answered() {
        let mut keys = std::collections::BTreeSet::new();
        for id in ["", r#""request_id":null,"#, r#""request_id":[7],"#, r#""request_id":true,"#] {
            let line = format!(
                r#"{{"type":"control_request",{id}"request":{{"subtype":"can_use_tool","tool_name":"Bash","input":{{}}}}}}"#
            );
            let Some(TurnSignal::UnknownRequest(found)) = signal(&line) else {
                panic!("{line}: {:?}", signal(&line))
            };
            assert!(!crate::is_answerable(&found.id.key()), "{line}");
            assert!(found.name().starts_with("can_use_tool without an id"), "{}", found.name());
            assert!(found.content.as_str().contains("Bash"));
            keys.insert(String::from(found.id));
        }
        assert_eq!(keys.len(), 4);
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_a_failure() {
        for response in
            [r#"{"subtype":"maybe","request_id":"r"}"#, r#"{"subtype":[],"request_id":"r"}"#]
        {
            let line = format!(r#"{{"type":"control_response","response":{response}}}"#);
            let signal = signal(&line);
            assert!(
                matches!(&signal, Some(TurnSignal::RequestAnswered { id, response: ControlResult::Error(None) }) if *id == "r"),
                "{signal:?}"
            );
        }
    }

    #[test]
    fn the_end_of_a_turn_has_its_prompts_and_its_failure() {
        let line = r#"{"type":"result","subtype":"success","is_error":true,"result":"API Error: 500","total_cost_usd":0.25,"user_message_uuids":["00000000-0000-0000-0000-000000000007"]}"#;
        let Some(TurnSignal::Ended(result)) = signal(line) else { panic!("{:?}", signal(line)) };
        let failure = Some("API Error: 500".to_owned());
        let expected = TurnResult {
            failure,
            prompts: vec![Uuid::from_u128(7)],
            unsolicited: false,
            total_cost: Some(0.25),
        };
        assert_eq!(result, expected);
    }

    #[test]
    fn a_reported_state_and_a_repeated_prompt_are_signals() {
        for (state, expected) in [
            ("idle", ReportedState::Idle),
            ("running", ReportedState::Running),
            ("requires_action", ReportedState::RequiresAction),
        ] {
            let line = format!(
                r#"{{"type":"system","subtype":"session_state_changed","state":"{state}"}}"#
            );
            let signal = signal(&line);
            assert!(matches!(signal, Some(TurnSignal::StateReported(it)) if it == expected));
        }
        let line = r#"{"type":"user","isReplay":true,"uuid":"00000000-0000-0000-0000-000000000007","message":{"role":"user","content":"x"}}"#;
        let accepted = Uuid::from_u128(7);
        assert!(matches!(signal(line), Some(TurnSignal::PromptAccepted(it)) if it == accepted));
    }

    #[test]
    fn the_end_of_a_turn_is_not_missed_if_its_shape_has_changed() {
        let line = r#"{"type":"result","subtype":"error_max_turns","is_error":"yes","usage":7}"#;
        let Some(TurnSignal::Ended(result)) = signal(line) else { panic!("{:?}", signal(line)) };
        assert!(result.failure.is_some());
    }

    #[test]
    fn a_line_that_is_cut_off_is_judged_by_its_kind() {
        let line = br#"{"type":"result","subtype":"success","result":"xxxxxxxx"#;
        let kind = Kind::find(line).expect("a kind");
        let signal = TurnSignal::of_kind(&kind);
        assert!(
            matches!(signal, Some(TurnSignal::Ended(result)) if result == TurnResult::default())
        );
    }

    #[test]
    fn a_user_line_is_a_prompt_only_on_its_way_to_the_agent() {
        let line = r#"{"type":"user","message":{"role":"user","content":"hi"}}"#;
        assert!(signal(line).is_none());
        let line = crate::read(line.as_bytes()).next().expect("a line");
        assert!(matches!(TurnSignal::of_input(&line), Some(TurnSignal::PromptWritten)));
    }
}
