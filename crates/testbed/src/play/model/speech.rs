//! Blocks spoken as the events of a stream, a few letters at a time.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::play::effect::RequestNumber;
use crate::play::input::{Input, Reply};
use crate::scenario::Block;

/// Speaks some blocks as the answer to a request.
pub(super) async fn speak(
    blocks: Vec<Block>,
    model: Value,
    number: RequestNumber,
    pace: Duration,
    inputs: mpsc::Sender<Input>,
) {
    let id = |prefix: &str| format!("{prefix}_{}", uuid::Uuid::new_v4().simple());
    let request = Reply::Opened(Some(id("req")));
    if inputs.send(Input::Reply(number, request)).await.is_err() {
        return;
    }
    for event in events(&blocks, &model, &id("msg")) {
        if event["type"] == "content_block_delta" {
            tokio::time::sleep(pace).await;
        }
        if inputs.send(Input::Reply(number, Reply::Event(event))).await.is_err() {
            return;
        }
    }
    drop(inputs.send(Input::Reply(number, Reply::Ended)).await);
}

/// The events of a message of these blocks.
fn events(blocks: &[Block], model: &Value, id: &str) -> Vec<Value> {
    let usage = json!({
        "input_tokens": 40, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 1200,
        "output_tokens": 1,
    });
    let mut events = vec![json!({
        "type": "message_start",
        "message": {
            "id": id, "type": "message", "role": "assistant", "model": model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage,
        },
    })];
    let mut letters = 0;
    for (index, block) in blocks.iter().enumerate() {
        let (start, deltas) = parts(block);
        letters += deltas.iter().map(|delta| delta.to_string().len()).sum::<usize>();
        events
            .push(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        let delta =
            |delta| json!({ "type": "content_block_delta", "index": index, "delta": delta });
        events.extend(deltas.into_iter().map(delta));
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    let calls = blocks.iter().any(|block| matches!(block, Block::Tool { .. }));
    let stop = if calls { "tool_use" } else { "end_turn" };
    events.push(json!({
        "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null },
        "usage": { "output_tokens": letters / 20 + 1 },
    }));
    events.push(json!({ "type": "message_stop" }));
    events
}

/// The beginning of a block, and what is added to it bit by bit.
fn parts(block: &Block) -> (Value, Vec<Value>) {
    match block {
        Block::Text(text) => {
            let delta = |part: String| json!({ "type": "text_delta", "text": part });
            (json!({ "type": "text", "text": "" }), bits(text).into_iter().map(delta).collect())
        }
        Block::Thinking(text) => {
            let delta = |part: String| json!({ "type": "thinking_delta", "thinking": part });
            let mut deltas: Vec<Value> = bits(text).into_iter().map(delta).collect();
            deltas.push(json!({ "type": "signature_delta", "signature": "cGxheQ==" }));
            (json!({ "type": "thinking", "thinking": "", "signature": "" }), deltas)
        }
        Block::Tool { name, input, id } => {
            let fresh = || format!("toolu_{}", uuid::Uuid::new_v4().simple());
            let id = id.clone().unwrap_or_else(fresh);
            let start = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
            let delta = |part: String| json!({ "type": "input_json_delta", "partial_json": part });
            (start, bits(&input.to_string()).into_iter().map(delta).collect())
        }
        Block::Raw(block) => (block.clone(), Vec::new()),
    }
}

/// A text in bits of about twelve letters.
fn bits(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(12).map(|bit| bit.iter().collect()).collect()
}
