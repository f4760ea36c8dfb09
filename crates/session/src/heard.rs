//! What a line of the agent means for its session.
//!
//! The turn machine decides on a handful of things a line may say; everything else is a sign of
//! life. The line itself goes into the journal whatever it says.

use std::str::FromStr as _;

use uuid::Uuid;
use wire::event::{Body, ControlRequest, Request, Response, Signal, System, TurnEnded};
use wire::json::{Raw, Text};
use wire::note::Wants;
use wire::{Event, Line, Reading};

/// What a line means for the session it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// The agent lives; nothing else to decide on.
    Life,
    /// A turn begins, or goes on after a compaction: `system/init`.
    TurnBegan {
        /// The CLI's id of the conversation.
        conversation: Option<String>,
    },
    /// The agent has taken up a prompt: it repeats it, or says that it began with it.
    Accepted(Uuid),
    /// The agent has dropped a prompt that waited with it.
    Dropped(Uuid),
    /// A turn is over.
    TurnEnded(Ended),
    /// The agent has nothing to do.
    Idle,
    /// The agent has something to do.
    Busy,
    /// The agent wants something of a person.
    Asked(Asked),
    /// The agent wants something of its host that Towpath does not offer.
    AskedInVain {
        /// Its id of the request.
        request: String,
        /// What it wants.
        what: String,
    },
    /// The agent no longer wants it.
    Withdrawn(String),
    /// An answer to a request; the host's own answers come back this way too.
    Answered {
        /// The request.
        request: String,
        /// The payload as JSON, or what went wrong.
        answer: Result<Option<String>, String>,
    },
}

/// How the agent says a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The words of the failure, where it failed.
    pub failure: Option<String>,
    /// Prompts it answers, as far as the agent says so (2.1.325).
    pub prompts: Vec<Uuid>,
    /// Whether nobody prompted it: a task that ended in the background.
    pub unsolicited: bool,
}

/// What the agent wants of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its id of the request.
    pub request: String,
    /// The sort of answer it wants.
    pub wants: Wants,
    /// The tool it would use.
    pub tool_name: String,
    /// The call.
    pub tool_use_id: Option<String>,
    /// What the tool would be given, as JSON.
    pub input: String,
    /// Rules that would spare the question next time, as JSON.
    pub suggestions: Option<String>,
    /// The sub-agent that asks.
    pub agent: Option<String>,
}

impl Heard {
    /// What a line means.
    pub fn of(line: &Line<'_>) -> Self {
        match &line.reading {
            Reading::Event(event) => Self::of_event(event),
            // A request of a sort not known yet must be answered, or the agent waits for ever.
            Reading::Unknown(unknown) if unknown.kind.name == "control_request" => {
                match unknown.object.get("request_id").and_then(Raw::text) {
                    Some(request) => Self::AskedInVain {
                        request: request.into(),
                        what: unknown.kind.subtype.map(String::from).unwrap_or_default(),
                    },
                    None => Self::Life,
                }
            }
            Reading::Unknown(_) | Reading::Mismatch(_) | Reading::Noise(_) => Self::Life,
        }
    }

    fn of_event(event: &Event<'_>) -> Self {
        match &event.body {
            Body::Init(_) if !event.of_sub_agent() => {
                Self::TurnBegan { conversation: event.envelope.session_id.map(String::from) }
            }
            Body::User(user) if user.replay => {
                event.envelope.uuid.and_then(uuid).map_or(Self::Life, Self::Accepted)
            }
            Body::TurnEnded(ended) => Self::TurnEnded(Ended::of(ended)),
            Body::ControlRequest(request) => Self::of_request(request),
            Body::ControlResponse(response) => match response.request_id {
                Some(request) => Self::Answered {
                    request: request.into(),
                    answer: match response.response {
                        Response::Success(payload) => Ok(payload.map(|it| it.as_str().to_owned())),
                        Response::Error(error) => Err(error.map(String::from).unwrap_or_default()),
                    },
                },
                None => Self::Life,
            },
            Body::ControlCancel(cancel) => Self::Withdrawn(cancel.request_id.into()),
            Body::System(System::SessionState(state)) => {
                if state.state == "idle" {
                    Self::Idle
                } else {
                    Self::Busy
                }
            }
            Body::Signal(Signal::CommandLifecycle(lifecycle)) => {
                let state = lifecycle.state.map(String::from).unwrap_or_default();
                match (lifecycle.command_uuid.and_then(uuid), state.as_str()) {
                    (Some(prompt), "started" | "completed") => Self::Accepted(prompt),
                    (Some(prompt), "cancelled") => Self::Dropped(prompt),
                    _ => Self::Life,
                }
            }
            _ => Self::Life,
        }
    }

    fn of_request(request: &ControlRequest<'_>) -> Self {
        let id = String::from(request.request_id);
        let in_vain = |what: &str| Self::AskedInVain { request: id.clone(), what: what.to_owned() };
        match &request.request {
            Request::CanUseTool(ask) => {
                let tool_name = String::from(ask.tool_name);
                Self::Asked(Asked {
                    request: id,
                    wants: match tool_name.as_str() {
                        "AskUserQuestion" => Wants::Answers,
                        "ExitPlanMode" => Wants::PlanApproval,
                        _ => Wants::Permission,
                    },
                    tool_name,
                    tool_use_id: ask.tool_use_id.map(String::from),
                    input: ask.input.map_or("{}", Raw::as_str).to_owned(),
                    suggestions: ask.suggestions.map(|it| it.as_str().to_owned()),
                    agent: ask.agent_id.map(String::from),
                })
            }
            Request::HookCallback { .. } => in_vain("hook_callback"),
            Request::McpMessage { .. } => in_vain("mcp_message"),
            Request::Other(request) => {
                let subtype = request.get("subtype").and_then(Raw::text).map(String::from);
                match subtype.as_deref() {
                    // A dialog no host has declared to know is best left alone: the CLI goes on
                    // without it.
                    Some("request_user_dialog") => Self::Life,
                    what => in_vain(what.unwrap_or_default()),
                }
            }
        }
    }
}

impl Ended {
    fn of(ended: &TurnEnded<'_>) -> Self {
        let prompts = ended.user_message_uuids.into_iter().flat_map(Raw::items);
        Self {
            failure: ended.failed().then(|| failure(ended)),
            prompts: prompts.filter_map(Raw::text).filter_map(uuid).collect(),
            unsolicited: ended.origin.is_some_and(|origin| origin == "task-notification"),
        }
    }
}

/// What went wrong, in the first words that say so.
fn failure(ended: &TurnEnded<'_>) -> String {
    let errors = ended.errors.into_iter().flat_map(Raw::items).filter_map(Raw::text);
    // 2.1.197 and later describe an interrupt so, for their own developers.
    let mut errors = errors.map(String::from).filter(|it| !it.starts_with("[ede_diagnostic]"));
    let said = ended.result.map(String::from).filter(|it| !it.trim().is_empty());
    let reason = || ended.terminal_reason.map(String::from);
    said.or_else(|| errors.next()).or_else(reason).unwrap_or_else(|| "it failed".to_owned())
}

fn uuid(text: Text<'_>) -> Option<Uuid> {
    Uuid::from_str(&text.decode()).ok()
}

#[cfg(test)]
mod tests {
    use super::Heard;

    fn heard(line: &str) -> Heard {
        let mut lines = wire::read(line.as_bytes());
        Heard::of(&lines.next().expect("a line"))
    }

    #[test]
    fn a_request_nobody_here_knows_is_still_heard() {
        let line =
            r#"{"type":"control_request","request_id":"r","request":{"subtype":"teleport"}}"#;
        let expected = Heard::AskedInVain { request: "r".to_owned(), what: "teleport".to_owned() };
        assert_eq!(heard(line), expected);
    }

    #[test]
    fn the_end_of_a_turn_names_its_prompts_and_its_failure() {
        let line = r#"{"type":"result","subtype":"success","is_error":true,"result":"API Error: 500","user_message_uuids":["00000000-0000-0000-0000-000000000007"]}"#;
        let Heard::TurnEnded(ended) = heard(line) else { panic!("{:?}", heard(line)) };
        assert_eq!(ended.failure.as_deref(), Some("API Error: 500"));
        assert_eq!(ended.prompts, [uuid::Uuid::from_u128(7)]);
        assert!(!ended.unsolicited);
    }

    #[test]
    fn an_idle_agent_and_a_repeated_prompt_are_heard() {
        let line = r#"{"type":"system","subtype":"session_state_changed","state":"idle"}"#;
        assert_eq!(heard(line), Heard::Idle);
        let line = r#"{"type":"user","isReplay":true,"uuid":"00000000-0000-0000-0000-000000000007","message":{"role":"user","content":"x"}}"#;
        assert_eq!(heard(line), Heard::Accepted(uuid::Uuid::from_u128(7)));
    }
}
