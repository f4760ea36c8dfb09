//! A reply of the model, assembled from the events of its stream, and the tokens it used.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A reply that arrives block by block.
#[derive(Clone, Debug)]
pub(crate) struct PlayerMessage {
    pub(crate) id: String,
    pub(crate) model: String,
    /// The token counts so far.
    pub(crate) usage: Value,
    /// The token counts of the start, which every line of the message repeats.
    first_usage: Value,
    /// The complete blocks.
    pub(crate) blocks: Vec<Value>,
    open: Option<PlayerOpenBlock>,
    pub(crate) stop_reason: Option<String>,
    pub(crate) complete: bool,
    thinking_tokens: usize,
}

#[derive(Clone, Debug)]
struct PlayerOpenBlock {
    index: u64,
    block: Value,
    json: String,
}

/// What an event completed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MessageStep {
    /// A block.
    Block(Value),
    /// Part of the thinking: the tokens so far, and those of this delta.
    Thinking(usize, usize),
    /// The message.
    Complete,
    /// Nothing.
    Partial,
}

/// How many characters of a signature count as one token of thinking.
const CHARS_OF_SIGNATURE: usize = 5;

impl PlayerMessage {
    /// Starts with a `message_start` event.
    pub(crate) fn start(event: &Value) -> Self {
        let message = &event["message"];
        let text = |key: &str| message[key].as_str().unwrap_or_default().to_owned();
        Self {
            id: text("id"),
            model: text("model"),
            usage: message["usage"].clone(),
            first_usage: message["usage"].clone(),
            blocks: Vec::new(),
            open: None,
            stop_reason: None,
            complete: false,
            thinking_tokens: 0,
        }
    }

    /// A whole message, as in the response to a request without a stream.
    pub(crate) fn whole(message: &Value) -> Self {
        let mut whole = Self::start(&json!({ "message": message }));
        whole.blocks = message["content"].as_array().cloned().unwrap_or_default();
        whole.stop_reason = message["stop_reason"].as_str().map(str::to_owned);
        whole.complete = true;
        whole
    }

    /// Applies the next event.
    pub(crate) fn apply(&mut self, event: &Value) -> MessageStep {
        match event["type"].as_str().unwrap_or_default() {
            "content_block_start" => {
                let index = event["index"].as_u64().unwrap_or_default();
                let block = event["content_block"].clone();
                self.open = Some(PlayerOpenBlock { index, block, json: String::new() });
                MessageStep::Partial
            }
            "content_block_delta" => self.delta(&event["delta"]),
            "content_block_stop" => self.close().map_or(MessageStep::Partial, MessageStep::Block),
            "message_delta" => {
                self.stop_reason = event["delta"]["stop_reason"].as_str().map(str::to_owned);
                if let (Some(usage), Some(more)) =
                    (self.usage.as_object_mut(), event["usage"].as_object())
                {
                    usage.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
                }
                MessageStep::Partial
            }
            "message_stop" => {
                self.complete = true;
                MessageStep::Complete
            }
            _ => MessageStep::Partial,
        }
    }

    fn delta(&mut self, delta: &Value) -> MessageStep {
        let Some(open) = &mut self.open else { return MessageStep::Partial };
        let mut append = |key: &str| {
            if let (Value::String(text), Some(more)) = (&mut open.block[key], delta[key].as_str()) {
                text.push_str(more);
            }
        };
        match delta["type"].as_str().unwrap_or_default() {
            "text_delta" => append("text"),
            "signature_delta" => {
                append("signature");
                // 2.1.325 estimates hidden thinking from the length of the signature.
                let length = delta["signature"].as_str().unwrap_or_default().len();
                let tokens = (length / CHARS_OF_SIGNATURE).saturating_sub(self.thinking_tokens);
                if tokens > 0 {
                    self.thinking_tokens += tokens;
                    return MessageStep::Thinking(self.thinking_tokens, tokens);
                }
            }
            "thinking_delta" => {
                append("thinking");
                let chars = delta["thinking"].as_str().unwrap_or_default().chars().count();
                let tokens = chars.div_ceil(4);
                self.thinking_tokens += tokens;
                return MessageStep::Thinking(self.thinking_tokens, tokens);
            }
            "input_json_delta" => {
                open.json.push_str(delta["partial_json"].as_str().unwrap_or_default());
            }
            _ => {}
        }
        MessageStep::Partial
    }

    fn close(&mut self) -> Option<Value> {
        let PlayerOpenBlock { mut block, json, .. } = self.open.take()?;
        if block["type"] == "tool_use" && !json.is_empty() {
            block["input"] = serde_json::from_str(&json).unwrap_or_else(|_| json!({}));
        }
        // 2.1.325 adds the default of this parameter before the call is printed.
        if block["name"] == "Edit" && block["input"].get("replace_all").is_none() {
            block["input"]["replace_all"] = false.into();
        }
        self.blocks.push(block.clone());
        Some(block)
    }

    /// Ends a reply that broke off. Returns the open block if part of it can be shown, and its
    /// index.
    pub(crate) fn abandon(&mut self) -> (Option<Value>, Option<u64>) {
        let Some(open) = self.open.take() else { return (None, None) };
        let visible = match open.block["type"].as_str() {
            Some("text") => open.block["text"].as_str().is_some_and(|text| !text.is_empty()),
            _ => false,
        };
        if visible {
            self.blocks.push(open.block.clone());
        }
        (visible.then_some(open.block), Some(open.index))
    }

    /// Whether a block is incomplete.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The message for a line, with one block and without a stop reason.
    pub(crate) fn line(&self, block: &Value) -> Value {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model,
            "content": [block], "stop_reason": null, "stop_sequence": null,
            "usage": self.first_usage, "context_management": null,
        })
    }

    pub(crate) fn text(&self) -> Option<String> {
        let text = self.blocks.iter().rfind(|block| block["type"] == "text");
        text.and_then(|block| block["text"].as_str()).map(str::to_owned)
    }

    /// Whether the user can see any block.
    pub(crate) fn is_visible(&self) -> bool {
        self.blocks.iter().any(|block| match block["type"].as_str() {
            Some("text") => block["text"].as_str().is_some_and(|text| !text.trim().is_empty()),
            Some("thinking" | "redacted_thinking") | None => false,
            Some(_) => true,
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PlayerTokens {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_creation: u64,
}

impl PlayerTokens {
    /// Parses the `usage` of a message.
    pub(crate) fn parse(usage: &Value) -> Self {
        let count = |key: &str| usage[key].as_u64().unwrap_or_default();
        Self {
            input: count("input_tokens"),
            output: count("output_tokens"),
            cache_read: count("cache_read_input_tokens"),
            cache_creation: count("cache_creation_input_tokens"),
        }
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.input += more.input;
        self.output += more.output;
        self.cache_read += more.cache_read;
        self.cache_creation += more.cache_creation;
    }

    pub(crate) fn total(self) -> u64 {
        self.input + self.output + self.cache_read + self.cache_creation
    }

    pub(crate) fn usage(self) -> Value {
        json!({
            "input_tokens": self.input,
            "cache_creation_input_tokens": self.cache_creation,
            "cache_read_input_tokens": self.cache_read,
            "output_tokens": self.output,
            "output_tokens_details": { "thinking_tokens": 0 },
            "server_tool_use": { "web_search_requests": 0, "web_fetch_requests": 0 },
            "service_tier": "standard",
            "cache_creation": { "ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0 },
            "inference_geo": "", "iterations": [], "speed": "standard", "fallback_credit": null,
        })
    }

    /// The list price in dollars.
    #[expect(clippy::cast_precision_loss, reason = "a price need not be exact")]
    fn cost(self, model: &str) -> f64 {
        let (input, output) = match model {
            _ if model.contains("haiku") => (1.0, 5.0),
            _ if model.contains("sonnet") => (3.0, 15.0),
            _ => (4.0, 20.0),
        };
        let dollars = self.input as f64 * input
            + self.output as f64 * output
            + self.cache_read as f64 * input * 0.1
            + self.cache_creation as f64 * input * 1.25;
        dollars / 1_000_000.0
    }
}

/// The tokens of a session by model.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlayerUsage {
    models: BTreeMap<String, PlayerTokens>,
    /// The tokens since the last result.
    since_last: BTreeMap<String, PlayerTokens>,
    /// The cost of the conversation that was resumed.
    resumed_cost: f64,
}

impl PlayerUsage {
    pub(crate) fn resumed(cost: f64) -> Self {
        Self { resumed_cost: cost, ..Self::default() }
    }

    pub(crate) fn count(&mut self, model: &str, tokens: PlayerTokens) {
        for models in [&mut self.models, &mut self.since_last] {
            models.entry(model.to_owned()).or_default().add(tokens);
        }
    }

    /// The total cost in dollars.
    pub(crate) fn cost(&self) -> f64 {
        let models = self.models.iter();
        self.resumed_cost + models.map(|(model, tokens)| tokens.cost(model)).sum::<f64>()
    }

    pub(crate) fn by_model(&self) -> Value {
        usage(&self.models)
    }

    /// The usage since the last call.
    pub(crate) fn take_since_last(&mut self) -> Value {
        usage(&std::mem::take(&mut self.since_last))
    }
}

fn usage(models: &BTreeMap<String, PlayerTokens>) -> Value {
    let one = |(model, tokens): (&String, &PlayerTokens)| {
        let usage = json!({
            "inputTokens": tokens.input, "outputTokens": tokens.output,
            "cacheReadInputTokens": tokens.cache_read,
            "cacheCreationInputTokens": tokens.cache_creation,
            "webSearchRequests": 0, "costUSD": tokens.cost(model),
            "contextWindow": 1_000_000, "maxOutputTokens": 128_000, "thinkingTokens": 0,
            "cacheCreationEphemeral5mInputTokens": 0, "cacheCreationEphemeral1hInputTokens": 0,
            "canonicalModel": model, "provider": "firstParty", "costBasis": "list",
        });
        (model.clone(), usage)
    };
    Value::Object(models.iter().map(one).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{MessageStep, PlayerMessage, PlayerTokens, PlayerUsage};

    #[test]
    fn a_block_is_complete_when_it_stops_and_its_input_is_parsed() {
        let mut message =
            PlayerMessage::start(&json!({"message": {"id": "m", "model": "x", "usage": {}}}));
        let start = json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}});
        assert_eq!(message.apply(&start), MessageStep::Partial);
        for part in ["{\"comm", "and\":\"ls\"}"] {
            let delta = json!({"type": "input_json_delta", "partial_json": part});
            message.apply(&json!({"type": "content_block_delta", "index": 0, "delta": delta}));
        }
        let block =
            json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}});
        assert_eq!(
            message.apply(&json!({"type": "content_block_stop"})),
            MessageStep::Block(block)
        );
        assert_eq!(message.apply(&json!({"type": "message_stop"})), MessageStep::Complete);
    }

    #[test]
    fn the_text_of_a_reply_that_broke_off_is_kept() {
        let mut message =
            PlayerMessage::start(&json!({"message": {"id": "m", "model": "x", "usage": {}}}));
        message.apply(&json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": ""}}));
        assert_eq!(message.clone().abandon(), (None, Some(0)));
        message.apply(&json!({"type": "content_block_delta",
            "delta": {"type": "text_delta", "text": "half"}}));
        let block = json!({"type": "text", "text": "half"});
        assert_eq!(message.abandon(), (Some(block.clone()), Some(0)));
        assert_eq!(message.blocks, [block]);
    }

    #[test]
    fn the_cost_is_that_of_the_captures() {
        let mut usage = PlayerUsage::default();
        usage.count(
            "claude-opus-5-5",
            PlayerTokens { input: 3, output: 9, ..PlayerTokens::default() },
        );
        assert!((usage.cost() - 0.000_192).abs() < 1e-12);
        assert_eq!(usage.take_since_last()["claude-opus-5-5"]["outputTokens"], 9);
        assert!(usage.take_since_last().as_object().unwrap().is_empty());
        assert_eq!(usage.by_model()["claude-opus-5-5"]["inputTokens"], 3);
    }
}
