//! Generated replies in the shape that a request asks for: a forced tool, JSON of a schema, thinking,
//! stop sequences and a limit of tokens.
//!
//! Only generated replies are shaped. The replies of a scenario are sent as they are written.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::scenario::{ScenarioBlock, ScenarioReply};

/// The parts of a request that shape its reply.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiReplyShape {
    max_tokens: Option<usize>,
    stop_sequences: Vec<String>,
    tools: Vec<Value>,
    tool_choice: Value,
    thinking: Value,
    output_config: Value,
}

/// How deep a generated value is.
const MAX_DEPTH: usize = 8;

impl ApiReplyShape {
    /// The shape that the body of a request asks for. What cannot be read asks for nothing.
    pub(super) fn new(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    /// Whether the reply may contain tool calls.
    pub(super) fn allows_tools(&self) -> bool {
        !self.tools.is_empty() && self.tool_choice["type"] != "none"
    }

    /// Gives a reply the shape.
    pub(super) fn apply(&self, mut reply: ScenarioReply) -> ScenarioReply {
        if reply.fault.is_some() {
            return reply;
        }
        if let Some(call) = self.forced_call(&reply.blocks) {
            reply.blocks = vec![call];
        } else if let Some(text) = self.schema_text() {
            reply.blocks = vec![ScenarioBlock::Text(text)];
        }
        let thinks = reply.blocks.iter().any(|it| matches!(it, ScenarioBlock::Thinking(_)));
        if self.thinking["type"] == "enabled" && !thinks {
            let thought = "The request asks for thinking.".to_owned();
            reply.blocks.insert(0, ScenarioBlock::Thinking(thought));
        }
        self.stop_at_sequence(&mut reply);
        self.stop_at_limit(&mut reply);
        reply
    }

    /// The call that `tool_choice` demands, if the reply has none that fits.
    fn forced_call(&self, blocks: &[ScenarioBlock]) -> Option<ScenarioBlock> {
        let is_call = |it: &ScenarioBlock| matches!(it, ScenarioBlock::Tool { .. });
        let tool = match self.tool_choice["type"].as_str()? {
            "any" if !blocks.iter().any(is_call) => self.tools.first()?,
            "tool" => self.tools.iter().find(|tool| tool["name"] == self.tool_choice["name"])?,
            _ => return None,
        };
        let schema = &tool["input_schema"];
        let mut input = sample(schema, schema, 0);
        if !input.is_object() {
            input = json!({});
        }
        let name = tool["name"].as_str()?.to_owned();
        Some(ScenarioBlock::Tool { name, input, id: None })
    }

    /// A value of the schema of `output_config`, as text.
    fn schema_text(&self) -> Option<String> {
        let format = &self.output_config["format"];
        if format["type"] != "json_schema" {
            return None;
        }
        Some(sample(&format["schema"], &format["schema"], 0).to_string())
    }

    fn stop_at_sequence(&self, reply: &mut ScenarioReply) {
        let sequences = self.stop_sequences.iter().filter(|it| !it.is_empty());
        let sequences: Vec<&String> = sequences.collect();
        for index in 0..reply.blocks.len() {
            let ScenarioBlock::Text(text) = &mut reply.blocks[index] else { continue };
            let found = sequences.iter().filter_map(|it| Some((text.find(it.as_str())?, *it)));
            let Some((end, sequence)) = found.min_by_key(|(start, _)| *start) else { continue };
            text.truncate(end);
            reply.blocks.truncate(index + 1);
            reply.stop = Some("stop_sequence".to_owned());
            reply.stop_sequence = Some(sequence.clone());
            return;
        }
    }

    /// Cuts the text after as many words as the request allows tokens. A word with the space before it
    /// is a token, as in the token counts of the stub.
    fn stop_at_limit(&self, reply: &mut ScenarioReply) {
        let mut left = self.max_tokens.unwrap_or(usize::MAX);
        for index in 0..reply.blocks.len() {
            let ScenarioBlock::Text(text) = &mut reply.blocks[index] else { continue };
            let words = text.split_inclusive(' ').count();
            if words <= left {
                left -= words;
                continue;
            }
            let kept: String = text.split_inclusive(' ').take(left).collect();
            kept.trim_end().clone_into(text);
            reply.blocks.truncate(index + 1);
            reply.stop = Some("max_tokens".to_owned());
            reply.stop_sequence = None;
            return;
        }
    }
}

/// A value that matches a schema, as far as its keywords are the usual ones.
fn sample(schema: &Value, root: &Value, depth: usize) -> Value {
    if depth > MAX_DEPTH {
        return Value::Null;
    }
    let deeper = |part: &Value| sample(part, root, depth + 1);
    let reference = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#'));
    if let Some(target) = reference.and_then(|it| root.pointer(it)) {
        return deeper(target);
    }
    if let Some(value) = schema.get("const").or_else(|| schema["enum"].get(0)) {
        return value.clone();
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(part) = schema[key].get(0) {
            return deeper(part);
        }
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    let least = schema["minimum"].as_i64().unwrap_or(1);
    match kind {
        Some("string") => "text".into(),
        Some("integer" | "number") => least.into(),
        Some("boolean") => true.into(),
        Some("null") => Value::Null,
        Some("array") => {
            let count = schema["minItems"].as_u64().unwrap_or(1).min(16);
            (0..count).map(|_| deeper(&schema["items"])).collect()
        }
        _ => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let values = properties.map(|(name, part)| (name.clone(), deeper(part)));
            Value::Object(values.collect::<Map<_, _>>())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::ApiReplyShape;
    use crate::scenario::{ScenarioBlock, ScenarioReply};

    fn shaped(request: &Value) -> ScenarioReply {
        let blocks = vec![ScenarioBlock::Text("one two three".to_owned())];
        let reply = ScenarioReply { blocks, ..ScenarioReply::default() };
        ApiReplyShape::new(request.to_string().as_bytes()).apply(reply)
    }

    fn text(reply: &ScenarioReply) -> &str {
        match &reply.blocks[..] {
            [ScenarioBlock::Text(text)] => text,
            other => panic!("{other:?} is not one text"),
        }
    }

    #[test]
    fn a_limit_of_tokens_cuts_the_text() {
        let reply = shaped(&json!({"max_tokens": 2}));
        assert_eq!((text(&reply), reply.stop.as_deref()), ("one two", Some("max_tokens")));
        let whole = shaped(&json!({"max_tokens": 3}));
        assert_eq!((text(&whole), whole.stop.as_deref()), ("one two three", None));
    }

    #[test]
    fn the_stop_sequence_that_comes_first_ends_the_text_and_is_named() {
        let reply = shaped(&json!({"stop_sequences": ["three", "two"]}));
        assert_eq!((text(&reply), reply.stop_sequence.as_deref()), ("one ", Some("two")));
        assert_eq!(reply.stop.as_deref(), Some("stop_sequence"));
        assert_eq!(shaped(&json!({"stop_sequences": ["four"]})).stop, None);
    }

    #[test]
    fn a_forced_tool_is_called_with_an_input_of_its_schema() {
        let schema = json!({"type": "object", "properties": {
            "city": {"type": "string"}, "days": {"type": "integer", "minimum": 3},
            "unit": {"enum": ["C", "F"]}, "tags": {"type": "array", "items": {"type": "boolean"}},
        }});
        let tools = json!([{"name": "first"}, {"name": "weather", "input_schema": schema}]);
        let call = |choice: Value| {
            let reply = shaped(&json!({"tools": tools, "tool_choice": choice}));
            match &reply.blocks[..] {
                [ScenarioBlock::Tool { name, input, .. }] => Some((name.clone(), input.clone())),
                _ => None,
            }
        };
        let input = json!({"city": "text", "days": 3, "unit": "C", "tags": [true]});
        assert_eq!(
            call(json!({"type": "tool", "name": "weather"})),
            Some(("weather".into(), input))
        );
        assert_eq!(call(json!({"type": "any"})), Some(("first".into(), json!({}))));
        assert_eq!(call(json!({"type": "auto"})), None);
    }

    #[test]
    fn a_schema_for_the_output_gives_json_and_thinking_comes_first() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let format = json!({"format": {"type": "json_schema", "schema": schema}});
        assert_eq!(text(&shaped(&json!({"output_config": format}))), "{\"n\":1}");
        let thinking = json!({"type": "enabled", "budget_tokens": 1024});
        let blocks = shaped(&json!({"thinking": thinking})).blocks;
        assert!(matches!(blocks[..], [ScenarioBlock::Thinking(_), ScenarioBlock::Text(_)]));
    }
}
