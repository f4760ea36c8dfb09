//! The lines that the real CLI would print for the events of the model.

use serde_json::json;
use towpath_session::{AgentEvent, HookCallback, PermissionRequest, SessionOptions};
use wire::note::RequestKind;
use wire::{ReportedState, TurnResult};

use super::users::Random;
use super::world::LONGEST_LINE;

/// Appends the line for an event with its newline. Where it makes no difference to the session, the
/// line has one of many shapes: odd, deep, long or no JSON at all.
pub(super) fn print(out: &mut Vec<u8>, event: &AgentEvent, random: &mut Random) {
    let mut line = match event {
        AgentEvent::Output => return print_other(out, random),
        AgentEvent::TurnStarted { conversation } => {
            json!({"type": "system", "subtype": "init", "session_id": conversation, "tools": []})
        }
        AgentEvent::TurnEnded(result) => result_line(result, random),
        AgentEvent::TurnCancelled { .. }
        | AgentEvent::Unprompted
        | AgentEvent::ConversationOpened(_)
        | AgentEvent::ConversationLost
        | AgentEvent::StartFailed { .. }
        | AgentEvent::SteeringOffered(_)
        | AgentEvent::CostReported(_)
        | AgentEvent::PromptReturned(_) => panic!("no line of the CLI means {event:?}"),
        AgentEvent::PromptAccepted(prompt) => {
            json!({"type": "user", "isReplay": true, "uuid": prompt, "message": {"role": "user", "content": "x"}})
        }
        AgentEvent::PromptDropped(prompt) => {
            json!({"type": "command_lifecycle", "command_uuid": prompt, "state": "cancelled"})
        }
        AgentEvent::StateReported(state) => {
            let state = match state {
                ReportedState::Idle => "idle",
                ReportedState::Running => "running",
                ReportedState::RequiresAction => "requires_action",
            };
            json!({"type": "system", "subtype": "session_state_changed", "state": state})
        }
        AgentEvent::RequestOpened(request) => request_line(request, random),
        AgentEvent::HookCalled(HookCallback { id, callback, input }) => {
            let input: serde_json::Value = input.as_deref().unwrap_or("{}").parse().expect("JSON");
            json!({"type": "control_request", "request_id": id, "request": {"subtype": "hook_callback", "callback_id": callback, "input": input}})
        }
        AgentEvent::UnsupportedRequest { id, subtype } => {
            json!({"type": "control_request", "request_id": id, "request": {"subtype": subtype, "server_name": "s", "message": {}}})
        }
        AgentEvent::RequestWithdrawn { id } => {
            json!({"type": "control_cancel_request", "request_id": id})
        }
        AgentEvent::RequestAnswered { id, answer } => match answer {
            Ok(payload) => {
                let payload: serde_json::Value =
                    payload.as_ref().map_or(json!(null), |it| it.parse().expect("JSON"));
                let mut response = json!({"subtype": "success", "request_id": id});
                if !payload.is_null() {
                    response["response"] = payload;
                }
                json!({"type": "control_response", "response": response})
            }
            Err(error) => {
                json!({"type": "control_response", "response": {"subtype": "error", "request_id": id, "error": error}})
            }
        },
    };
    lengthen(&mut line, event, random);
    serde_json::to_writer(&mut *out, &line).expect("a line");
    out.push(b'\n');
}

fn print_other(out: &mut Vec<u8>, random: &mut Random) {
    match random.below(40) {
        0 => out.extend_from_slice(b"a warning of the runtime, and \xff\xfe"),
        1 => out.extend_from_slice(br#"{"type":"assistant","message":7}"#),
        2 => out.extend_from_slice(br#"{"type":"something_new","of":{"a":"later"},"version":[1]}"#),
        3 => {
            out.extend_from_slice(br#"{"type":"error","error":"#);
            let depth = usize::try_from(random.below(600)).expect("a small number");
            out.resize(out.len() + depth, b'[');
            out.resize(out.len() + depth, b']');
            out.push(b'}');
        }
        4 => {
            out.extend_from_slice(br#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":""#);
            let length = usize::try_from(random.below(20_000)).expect("a small number");
            out.resize(out.len() + length, b'x');
            out.extend_from_slice(br#""}]}}"#);
        }
        5 => {}
        6..=20 => out.extend_from_slice(br#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}}"#),
        _ => out.extend_from_slice(br#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"hi"}]}}"#),
    }
    out.push(b'\n');
}

fn result_line(result: &TurnResult, random: &mut Random) -> serde_json::Value {
    let mut line = match &result.failure {
        Some(failure) => {
            json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "errors": [failure]})
        }
        None => json!({"type": "result", "subtype": "success", "is_error": false, "result": "ok"}),
    };
    if !result.prompts.is_empty() {
        line["user_message_uuids"] = json!(result.prompts);
    }
    if result.unsolicited {
        line["origin"] = json!({"kind": "task-notification"});
    }
    if let Some(total) = result.total_cost {
        line["total_cost_usd"] = json!(total);
    }
    if random.one_in(8) {
        line["usage"] = json!("much");
        line["duration_ms"] = json!(-1.5);
    }
    line
}

fn request_line(request: &PermissionRequest, random: &mut Random) -> serde_json::Value {
    let input: serde_json::Value = request.input.parse().expect("JSON");
    if request.kind == RequestKind::Unknown {
        return json!({"type": "control_request", "request_id": request.id, "request": input});
    }
    let mut line = json!({"type": "control_request", "request_id": request.id, "request": {
        "subtype": "can_use_tool", "tool_name": request.tool_name, "input": input}});
    if let Some(agent) = &request.agent {
        line["request"]["agent_id"] = json!(agent);
    }
    if random.one_in(8) {
        line["request"]["decision_reason"] = json!({"type": [7]});
        line["request"]["blocked_path"] = json!(-1);
    }
    line
}

/// Sometimes makes a line longer than what is read as a whole. Its beginning stays.
fn lengthen(line: &mut serde_json::Value, event: &AgentEvent, random: &mut Random) {
    let may_be_long = matches!(event, AgentEvent::TurnEnded(_) | AgentEvent::HookCalled(_))
        || matches!(event, AgentEvent::RequestOpened(it) if it.kind != RequestKind::Unknown);
    if may_be_long && random.one_in(16) {
        line["zzz"] = json!("x".repeat(LONGEST_LINE));
    }
}

#[test]
fn the_lines_of_the_model_mean_its_events() {
    use super::agent_model::{AgentModel, AgentStorage, Faults, Generation};

    let mut random = Random::seeded(7);
    let mut checked = 0;
    for generation in [Generation::Old, Generation::Middle, Generation::New] {
        for _ in 0..40 {
            let mut storage = AgentStorage::default();
            let mut agent =
                AgentModel::new(generation, Faults::default(), SessionOptions::default());
            for number in 0..6_u128 {
                let prompt = uuid::Uuid::from_u128(number + 1);
                agent.stdin.push_back(
                    json!({"type": "user", "uuid": prompt, "message": {"role": "user"}})
                        .to_string(),
                );
                for _ in 0..20 {
                    agent.step(0, &mut random, &mut storage);
                }
                for event in agent.stdout.drain(..) {
                    let mut line = Vec::new();
                    print(&mut line, &event, &mut random);
                    let read = wire::read(line.trim_ascii_end()).next();
                    let meaning = read.map_or(AgentEvent::Output, |line| AgentEvent::of(&line));
                    assert_eq!(meaning, event, "{}", String::from_utf8_lossy(&line));
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 1000);
}
