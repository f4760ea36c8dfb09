//! Lines and notes of a session, in few words.

use serde_json::{Value, json};
use uuid::Uuid;
use wire::note::{Actor, Delivery, Note, Outcome, TurnEnding, Wants};

pub(crate) fn ann() -> Actor {
    Actor { name: "Ann".to_owned(), via: "browser".to_owned() }
}

pub(crate) fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

pub(crate) fn queued(prompt: Uuid, text: &str) -> Note {
    let (text, delivery) = (text.to_owned(), Delivery::Queue);
    Note::PromptQueued { prompt, text, images: 0, delivery, by: ann() }
}

pub(crate) fn began(turn: u64, prompts: &[Uuid]) -> Note {
    Note::TurnBegan { turn, prompts: prompts.to_vec() }
}

pub(crate) fn over(turn: u64) -> Note {
    Note::TurnOver { turn, ending: TurnEnding::Completed }
}

pub(crate) fn init() -> Value {
    json!({"type":"system","subtype":"init","session_id":"s","model":"opus","cwd":"/p","permissionMode":"default"})
}

fn says(message: &str, block: &Value) -> Value {
    json!({"type":"assistant","message":{"id":message,"model":"opus","content":[block]},"parent_tool_use_id":null})
}

pub(crate) fn text(message: &str, words: &str) -> Value {
    says(message, &json!({"type":"text","text":words}))
}

pub(crate) fn thinking(message: &str, words: &str) -> Value {
    says(message, &json!({"type":"thinking","thinking":words}))
}

pub(crate) fn call(message: &str, id: &str, tool: &str, input: &Value) -> Value {
    says(message, &json!({"type":"tool_use","id":id,"name":tool,"input":input}))
}

pub(crate) fn bash(message: &str, id: &str, command: &str) -> Value {
    call(message, id, "Bash", &json!({"command":command}))
}

pub(crate) fn result(call: &str, text: &str) -> Value {
    json!({"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":call,"content":text}]}})
}

fn stream(event: &Value) -> Value {
    json!({"type":"stream_event","event":event,"parent_tool_use_id":null})
}

pub(crate) fn starts(message: &str) -> Value {
    stream(
        &json!({"type":"message_start","message":{"id":message,"content":[],"usage":{"input_tokens":5,"output_tokens":1}}}),
    )
}

pub(crate) fn writes() -> Value {
    stream(
        &json!({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}),
    )
}

pub(crate) fn thinks() -> Value {
    stream(
        &json!({"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}),
    )
}

pub(crate) fn delta(words: &str) -> Value {
    stream(
        &json!({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":words}}),
    )
}

pub(crate) fn thought(words: &str) -> Value {
    stream(
        &json!({"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":words}}),
    )
}

pub(crate) fn asks(request: &str, call: &str, tool: &str, input: &Value) -> Value {
    json!({"type":"control_request","request_id":request,"request":{"subtype":"can_use_tool","tool_name":tool,"input":input,"tool_use_id":call}})
}

pub(crate) fn opened(request: &str, wants: Wants) -> Note {
    Note::RequestOpened { request: request.to_owned(), wants, expires: None, rules: Vec::new() }
}

pub(crate) fn resolved(request: &str, outcome: Outcome) -> Note {
    Note::RequestResolved {
        request: request.to_owned(),
        outcome,
        by: Some(ann()),
        message: None,
        answers: Vec::new(),
    }
}

pub(crate) fn ended() -> Value {
    json!({"type":"result","subtype":"success","is_error":false,"result":"","duration_ms":7000})
}
