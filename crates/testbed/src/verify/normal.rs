//! What was seen, with everything that is different on every run made the same.
//!
//! Paths and ids the scenario knows become its `$names`; other ids are numbered in the order they
//! appear; times and durations become zero.

use std::cell::RefCell;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::difference::Nearest;
use crate::scenario::{Mismatch, Names};

/// Makes things the same that differ by chance.
pub(super) struct Normal<'a> {
    /// What names stand for, the longest first: a home directory may hold the working directory.
    known: Vec<(&'a str, &'a str)>,
    /// Ids met so far, with what stands for each.
    met: RefCell<HashMap<String, String>>,
}

/// Longer texts are cut when a line is shown.
const SHOWN: usize = 400;

impl<'a> Normal<'a> {
    pub(super) fn new(names: &'a Names) -> Self {
        let mut known: Vec<_> = names.iter().filter(|(_, text)| is_singular(text)).collect();
        known.sort_by_key(|(_, text)| std::cmp::Reverse(text.len()));
        Self { known, met: RefCell::default() }
    }

    /// A text with known names and numbered ids.
    pub(super) fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, known) in &self.known {
            if text.contains(known) {
                text = text.replace(known, &format!("${name}"));
            }
        }
        self.number_ids(&text)
    }

    /// A value with the same done in every string of it, and times at zero.
    pub(super) fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                let field = |(key, value): (&String, &Value)| {
                    let value =
                        if is_by_chance(key, value) { zero(value) } else { self.value(value) };
                    (key.clone(), value)
                };
                Value::Object(fields.iter().map(field).collect())
            }
            other => other.clone(),
        }
    }

    /// A line of the agent, short enough to read.
    pub(super) fn line(&self, value: &Value) -> String {
        cut(&leading_type(&self.value(value)).to_string(), SHOWN)
    }

    pub(super) fn nearest(&self, miss: &Mismatch, value: &Value) -> Nearest {
        Nearest {
            line: self.line(value),
            path: miss.path.clone(),
            expected: cut(&self.text(&miss.expected), SHOWN),
            seen: cut(&self.text(&miss.seen), SHOWN),
        }
    }

    /// Replaces every id by one that says only which it is.
    fn number_ids(&self, text: &str) -> String {
        let mut result = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, id, behind)) = next_id(rest) {
            result.push_str(before);
            let mut met = self.met.borrow_mut();
            let number = met.len() + 1;
            let prefix = id.split_once('_').map_or("id", |(prefix, _)| prefix);
            result.push_str(met.entry(id.to_owned()).or_insert(format!("{prefix}_{number}")));
            rest = behind;
        }
        result.push_str(rest);
        result
    }
}

/// Whether a text occurs only where it is meant: a path or an id, no common word.
fn is_singular(text: &str) -> bool {
    text.len() >= 8 && text.contains(|it: char| matches!(it, '/' | '-' | '0'..='9'))
}

/// An object with `type` and `subtype` first, whatever order it came in.
pub(super) fn leading_type(value: &Value) -> Value {
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

/// Enough of a text to know it, in whole characters.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The next id in a text, with what stands before and behind it.
fn next_id(text: &str) -> Option<(&str, &str, &str)> {
    let part_of_id = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
    let mut start = 0;
    while start < text.len() {
        let begin = start + text[start..].find(part_of_id)?;
        let end = text[begin..].find(|it| !part_of_id(it)).map_or(text.len(), |it| begin + it);
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

/// Whether a field's value is a matter of chance: a time, a duration, a process.
fn is_by_chance(key: &str, value: &Value) -> bool {
    // What a request costs depends on the date and the path in the CLI's own prompt.
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

    use super::{Names, Normal};

    #[test]
    fn what_differs_by_chance_is_made_the_same() {
        let mut names = Names::default();
        names.set("home", "/tmp/x/home");
        names.set("cwd", "/tmp/x/home/project");
        names.set("tool", "Bash");
        let normal = Normal::new(&names);
        let seen = json!({
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
            normal.value(&seen),
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
