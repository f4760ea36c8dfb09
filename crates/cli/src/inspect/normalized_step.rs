//! Other agents' steps in the format of `--events`, in the words that Claude Code's events have there.

use serde_json::{Value, json};
use wire::event::Usage;
use wire::json::Raw;
use wire::other_agents::{AgentStep, AgentText, TextExtent};

/// The events of another agent's line; one without content if it says nothing.
pub(super) fn events(steps: &[AgentStep<'_>]) -> Vec<Value> {
    if steps.is_empty() {
        return vec![json!({"event": "other"})];
    }
    steps.iter().map(event).collect()
}

fn event(step: &AgentStep<'_>) -> Value {
    match step {
        AgentStep::Session(facts) => json!({
            "event": "init",
            "model": facts.model,
            "cwd": facts.cwd,
            "version": facts.version,
            "mode": null,
        }),
        AgentStep::TurnStarted => json!({"event": "other"}),
        AgentStep::Prompt(text) => json!({
            "event": "user",
            "replay": false,
            "synthetic": false,
            "blocks": [{"block": "text", "text": text}],
        }),
        AgentStep::Text(text) => message_text("text", text),
        AgentStep::Thinking(text) => message_text("thinking", text),
        AgentStep::Call(call) => {
            let files: Vec<_> = call.action.changes().iter().map(|file| &file.path).collect();
            let mut block = json!({
                "block": "call",
                "id": call.id,
                "tool": call.tool,
                "input": json_or_text(&call.input),
            });
            if !files.is_empty() {
                block["files"] = json!(files);
            }
            json!({"event": "assistant", "blocks": [block]})
        }
        AgentStep::CallEnded(end) => json!({
            "event": "user",
            "replay": false,
            "synthetic": false,
            "blocks": [{
                "block": "result",
                "call": end.id,
                "failed": end.failed,
                "content": end.output,
            }],
        }),
        AgentStep::Usage(it) => json!({
            "event": "assistant",
            "model": it.model,
            "blocks": [],
            "usage": usage(it.usage),
        }),
        AgentStep::Compacted => json!({
            "event": "compacted",
            "trigger": null,
            "tokens_before": null,
            "tokens_after": null,
        }),
        AgentStep::Notice(text) => json!({"event": "notice", "text": text}),
        AgentStep::Failure(text) => json!({"event": "failed", "name": null, "message": text}),
        AgentStep::TurnEnded(end) => json!({
            "event": "turn_ended",
            "failed": end.failed(),
            "subtype": null,
            "result": end.error,
            "stop_reason": null,
            "cost_usd": end.total_cost,
            "usage": end.usage.map(usage),
        }),
    }
}

fn message_text(kind: &str, text: &AgentText<'_>) -> Value {
    match text.extent {
        TextExtent::Whole => {
            json!({"event": "assistant", "blocks": [{"block": kind, "text": text.text}]})
        }
        TextExtent::Delta | TextExtent::OnlyDelta => {
            json!({"event": "delta", "index": 0, "of": kind, "text": text.text})
        }
    }
}

fn usage(usage: Usage) -> Value {
    json!({
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cache_read": usage.cache_read_input_tokens,
        "cache_write": usage.cache_creation_input_tokens,
    })
}

/// The input as JSON if it is not too deep to be copied, otherwise as text.
fn json_or_text(input: &str) -> Value {
    Raw::parse(input)
        .and_then(|input| serde_json::from_str(input.as_str()).ok())
        .unwrap_or_else(|| Value::String(input.to_owned()))
}
