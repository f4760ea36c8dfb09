//! Normalization of output, so that it is the same in every run.
//!
//! Values of the scenario's variables become `$names`, other ids are numbered in the order in which
//! they appear, and times become zero.

use std::cell::RefCell;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::VerifyClosestLine;
use crate::scenario::{ScenarioMismatch, ScenarioVariables};

/// Normalizes the output of one scenario.
pub(super) struct VerifyNormalizer<'a> {
    /// The variables, longest value first: the home directory may contain the working directory.
    variables: Vec<(&'a str, &'a str)>,
    /// The ids so far with their replacements.
    ids: RefCell<HashMap<String, String>>,
}

/// The maximum number of characters of a displayed line.
const MAX_LINE: usize = 400;

impl<'a> VerifyNormalizer<'a> {
    pub(super) fn new(variables: &'a ScenarioVariables) -> Self {
        let mut variables: Vec<_> =
            variables.iter().filter(|(_, value)| is_distinctive(value)).collect();
        variables.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        Self { variables, ids: RefCell::default() }
    }

    /// Replaces values of variables by their names, and numbers other ids.
    pub(super) fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.variables {
            if text.contains(value) {
                text = text.replace(value, &format!("${name}"));
            }
        }
        self.number_ids(&text)
    }

    /// Normalizes every string of a value and sets times to zero.
    pub(super) fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                let field = |(key, value): (&String, &Value)| {
                    let value =
                        if is_variable_field(key, value) { zero(value) } else { self.value(value) };
                    (key.clone(), value)
                };
                Value::Object(fields.iter().map(field).collect())
            }
            other => other.clone(),
        }
    }

    /// A line of the agent, shortened for display.
    pub(super) fn line(&self, value: &Value) -> String {
        shorten(&type_first(&self.value(value)).to_string(), MAX_LINE)
    }

    pub(super) fn closest_line(
        &self,
        mismatch: &ScenarioMismatch,
        value: &Value,
    ) -> VerifyClosestLine {
        VerifyClosestLine {
            line: self.line(value),
            path: mismatch.path.clone(),
            expected: shorten(&self.text(&mismatch.expected), MAX_LINE),
            actual: shorten(&self.text(&mismatch.actual), MAX_LINE),
        }
    }

    /// Replaces every id by its type and a number.
    fn number_ids(&self, text: &str) -> String {
        let mut result = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, id, after)) = next_id(rest) {
            result.push_str(before);
            let mut ids = self.ids.borrow_mut();
            let number = ids.len() + 1;
            let prefix = id.split_once('_').map_or("id", |(prefix, _)| prefix);
            result.push_str(ids.entry(id.to_owned()).or_insert(format!("{prefix}_{number}")));
            rest = after;
        }
        result.push_str(rest);
        result
    }
}

/// Whether a value is a path or an id, not a word that may occur elsewhere.
fn is_distinctive(text: &str) -> bool {
    text.len() >= 8 && text.contains(|it: char| matches!(it, '/' | '-' | '0'..='9'))
}

/// Moves `type` and `subtype` to the start of an object.
pub(super) fn type_first(value: &Value) -> Value {
    let Value::Object(fields) = value else { return value.clone() };
    let mut ordered = Map::new();
    for key in ["type", "subtype"] {
        if let Some(value) = fields.get(key) {
            ordered.insert(key.to_owned(), value.clone());
        }
    }
    ordered.extend(fields.iter().map(|(key, value)| (key.clone(), value.clone())));
    Value::Object(ordered)
}

/// Limits a text to a number of characters.
pub(super) fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The next id in a text, with the text before and after it.
fn next_id(text: &str) -> Option<(&str, &str, &str)> {
    let is_id_character = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
    let mut start = 0;
    while start < text.len() {
        let begin = start + text[start..].find(is_id_character)?;
        let end = text[begin..].find(|it| !is_id_character(it)).map_or(text.len(), |it| begin + it);
        if is_id(&text[begin..end]) {
            return Some((&text[..begin], &text[begin..end], &text[end..]));
        }
        start = end;
    }
    None
}

fn is_id(word: &str) -> bool {
    let hex = |it: &u8| it.is_ascii_hexdigit();
    let uuid = word.len() == 36
        && word.bytes().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => hex(&byte),
        });
    let prefixes = ["toolu_", "srvtoolu_", "msg_", "req_"];
    uuid || prefixes.iter().any(|prefix| word.starts_with(prefix) && word.len() > prefix.len())
}

/// Whether a field changes from run to run, like a time, a duration or a process id.
fn is_variable_field(key: &str, value: &Value) -> bool {
    // The size and price of a request depend on the date and the path in the CLI's own prompt.
    const NUMBERS: [&str; 5] = ["pid", "input_tokens", "inputTokens", "total_cost_usd", "costUSD"];
    const TEXTS: [&str; 4] = ["timestamp", "created_at", "signature", "messaging_socket_path"];
    match value {
        Value::Number(_) => key.ends_with("_ms") || key.ends_with("Ms") || NUMBERS.contains(&key),
        Value::String(_) => TEXTS.contains(&key),
        _ => false,
    }
}

fn zero(value: &Value) -> Value {
    match value {
        Value::Number(_) => 0.into(),
        _ => "…".into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ScenarioVariables, VerifyNormalizer};

    #[test]
    fn values_that_change_from_run_to_run_are_normalized() {
        let mut variables = ScenarioVariables::default();
        variables.set("home", "/tmp/x/home");
        variables.set("cwd", "/tmp/x/home/project");
        variables.set("tool", "Bash");
        let normalizer = VerifyNormalizer::new(&variables);
        let value = json!({
            "cwd": "/tmp/x/home/project",
            "path": "/tmp/x/home/.claude/9c5b94b1-35ad-49bb-b118-8e8fc24abf80.jsonl",
            "uuid": "9c5b94b1-35ad-49bb-b118-8e8fc24abf80",
            "id": "toolu_01A",
            "again": "see toolu_01A, msg_77, Bash",
            "duration_ms": 12.5,
            "timestamp": "2026-11-15T00:00:00Z",
            "count": 3,
        });
        assert_eq!(
            normalizer.value(&value),
            json!({
                "cwd": "$cwd",
                "path": "$home/.claude/id_1.jsonl",
                "uuid": "id_1",
                "id": "toolu_2",
                "again": "see toolu_2, msg_3, Bash",
                "duration_ms": 0,
                "timestamp": "…",
                "count": 3,
            })
        );
    }
}
