//! One reply of the model, put together from the events of its stream.

use serde_json::{Value, json};

/// A reply that comes, block by block.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// The API's id of the message.
    pub(crate) id: String,
    /// The model that answers.
    pub(crate) model: String,
    /// Token counts, as far as they are known.
    pub(crate) usage: Value,
    /// Token counts of the start, which every line of the message repeats.
    first_usage: Value,
    /// Blocks that are complete.
    pub(crate) blocks: Vec<Value>,
    open: Option<Open>,
    /// Why it stopped.
    pub(crate) stop_reason: Option<String>,
    /// Whether it is complete.
    pub(crate) complete: bool,
    thought: usize,
}

#[derive(Clone, Debug)]
struct Open {
    index: u64,
    block: Value,
    json: String,
}

/// What an event means.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    /// A block is complete.
    Block(Value),
    /// Some thoughts came: tokens so far, and of this delta.
    Thought(usize, usize),
    /// The message is complete.
    Complete,
    /// Nothing by itself.
    Part,
}

impl Message {
    /// Begins with a `message_start` event.
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
            thought: 0,
        }
    }

    /// A whole message, as a request without a stream gets it.
    pub(crate) fn whole(message: &Value) -> Self {
        let mut whole = Self::start(&json!({ "message": message }));
        whole.blocks = message["content"].as_array().cloned().unwrap_or_default();
        whole.stop_reason = message["stop_reason"].as_str().map(str::to_owned);
        whole.complete = true;
        whole
    }

    /// Takes the next event.
    pub(crate) fn take(&mut self, event: &Value) -> Piece {
        match event["type"].as_str().unwrap_or_default() {
            "content_block_start" => {
                let index = event["index"].as_u64().unwrap_or_default();
                let block = event["content_block"].clone();
                self.open = Some(Open { index, block, json: String::new() });
                Piece::Part
            }
            "content_block_delta" => self.delta(&event["delta"]),
            "content_block_stop" => self.close().map_or(Piece::Part, Piece::Block),
            "message_delta" => {
                self.stop_reason = event["delta"]["stop_reason"].as_str().map(str::to_owned);
                if let (Some(usage), Some(more)) =
                    (self.usage.as_object_mut(), event["usage"].as_object())
                {
                    usage.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
                }
                Piece::Part
            }
            "message_stop" => {
                self.complete = true;
                Piece::Complete
            }
            _ => Piece::Part,
        }
    }

    fn delta(&mut self, delta: &Value) -> Piece {
        let Some(open) = &mut self.open else { return Piece::Part };
        let mut append = |key: &str| {
            if let (Value::String(text), Some(more)) = (&mut open.block[key], delta[key].as_str()) {
                text.push_str(more);
            }
        };
        match delta["type"].as_str().unwrap_or_default() {
            "text_delta" => append("text"),
            "signature_delta" => append("signature"),
            "thinking_delta" => {
                append("thinking");
                let letters = delta["thinking"].as_str().unwrap_or_default().chars().count();
                let tokens = letters.div_ceil(4);
                self.thought += tokens;
                return Piece::Thought(self.thought, tokens);
            }
            "input_json_delta" => {
                open.json.push_str(delta["partial_json"].as_str().unwrap_or_default());
            }
            _ => {}
        }
        Piece::Part
    }

    fn close(&mut self) -> Option<Value> {
        let Open { mut block, json, .. } = self.open.take()?;
        if block["type"] == "tool_use" && !json.is_empty() {
            block["input"] = serde_json::from_str(&json).unwrap_or_else(|_| json!({}));
        }
        // 2.1.325 fills in what this tool takes by default before anybody sees the call.
        if block["name"] == "Edit" && block["input"].get("replace_all").is_none() {
            block["input"]["replace_all"] = false.into();
        }
        self.blocks.push(block.clone());
        Some(block)
    }

    /// Breaks off: the block that was being said, where some of it can be shown, and the index the
    /// blocks after it would have had.
    pub(crate) fn abandon(&mut self) -> (Option<Value>, Option<u64>) {
        let Some(open) = self.open.take() else { return (None, None) };
        let said = match open.block["type"].as_str() {
            Some("text") => open.block["text"].as_str().is_some_and(|text| !text.is_empty()),
            _ => false,
        };
        if said {
            self.blocks.push(open.block.clone());
        }
        (said.then_some(open.block), Some(open.index))
    }

    /// Whether a block is being said.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The message as a line shows it: one block, and no stop reason.
    pub(crate) fn line(&self, block: &Value) -> Value {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model,
            "content": [block], "stop_reason": null, "stop_sequence": null,
            "usage": self.first_usage, "context_management": null,
        })
    }

    /// The text of the last text block.
    pub(crate) fn text(&self) -> Option<String> {
        let text = self.blocks.iter().rfind(|block| block["type"] == "text");
        text.and_then(|block| block["text"].as_str()).map(str::to_owned)
    }

    /// Whether any block can be shown to somebody.
    pub(crate) fn is_visible(&self) -> bool {
        self.blocks.iter().any(|block| match block["type"].as_str() {
            Some("text") => block["text"].as_str().is_some_and(|text| !text.trim().is_empty()),
            Some("thinking" | "redacted_thinking") | None => false,
            Some(_) => true,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Message, Piece};

    #[test]
    fn blocks_are_complete_when_they_stop_and_inputs_are_parsed() {
        let mut message =
            Message::start(&json!({"message": {"id": "m", "model": "x", "usage": {}}}));
        let start = json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}});
        assert_eq!(message.take(&start), Piece::Part);
        for part in ["{\"comm", "and\":\"ls\"}"] {
            let delta = json!({"type": "input_json_delta", "partial_json": part});
            message.take(&json!({"type": "content_block_delta", "index": 0, "delta": delta}));
        }
        let block =
            json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}});
        assert_eq!(message.take(&json!({"type": "content_block_stop"})), Piece::Block(block));
        assert_eq!(message.take(&json!({"type": "message_stop"})), Piece::Complete);
    }

    #[test]
    fn what_was_said_when_it_broke_off_is_kept() {
        let mut message =
            Message::start(&json!({"message": {"id": "m", "model": "x", "usage": {}}}));
        message.take(&json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": ""}}));
        assert_eq!(message.clone().abandon(), (None, Some(0)));
        message.take(&json!({"type": "content_block_delta",
            "delta": {"type": "text_delta", "text": "half"}}));
        let block = json!({"type": "text", "text": "half"});
        assert_eq!(message.abandon(), (Some(block.clone()), Some(0)));
        assert_eq!(message.blocks, [block]);
    }
}
