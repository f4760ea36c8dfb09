//! Partial matching of JSON: everything a pattern names must be present, and more may be.
//!
//! The items of an array pattern match in order, with other items between them. An unknown variable
//! in such an item can therefore be bound in several ways, and a later item decides which one is
//! right. Matching keeps every binding that is still possible.
//!
//! In a request to the API, a text and a list with one text block are two spellings of the same
//! content, and releases of the CLI differ in which one they use. In a line of the agent they are not
//! the same: its readers have to know both.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::ScenarioVariables;
use super::variables::{ScenarioTextPart, is_variable_name, text_parts};

/// The character that matches any text.
const ANY_TEXT: char = '…';

/// The first place where a value does not match a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioMismatch {
    /// The path to it, such as `message.content[0].text`.
    pub path: String,
    pub expected: String,
    pub actual: String,
    /// How many values of the pattern matched elsewhere.
    matched: usize,
    /// How many of 100 characters are the same in the two texts, if both values are texts.
    similarity: usize,
}

impl ScenarioMismatch {
    /// How much of the pattern matched. Of several lines, the closest has the highest score.
    pub fn score(&self) -> (usize, usize) {
        (self.matched, self.similarity)
    }
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatternSubject {
    /// A line of the agent.
    Line,
    /// The body of a request to the API.
    Request,
}

/// Matches a value and returns the variables with those that the match has bound.
pub fn match_value(
    pattern: &Value,
    actual: &Value,
    variables: &ScenarioVariables,
) -> Result<ScenarioVariables, ScenarioMismatch> {
    match_subject(PatternSubject::Line, pattern, actual, variables)
}

/// Matches the body of a request to the API, in which `"content":"x"` is the same as
/// `"content":[{"type":"text","text":"x"}]`.
pub fn match_request(
    pattern: &Value,
    actual: &Value,
    variables: &ScenarioVariables,
) -> Result<ScenarioVariables, ScenarioMismatch> {
    match_subject(PatternSubject::Request, pattern, actual, variables)
}

fn match_subject(
    subject: PatternSubject,
    pattern: &Value,
    actual: &Value,
    variables: &ScenarioVariables,
) -> Result<ScenarioVariables, ScenarioMismatch> {
    match bindings(subject, pattern, Some(actual), vec![variables.clone()]).into_iter().next() {
        Some(variables) => Ok(variables),
        None => Err(mismatch(subject, pattern, actual, variables)),
    }
}

impl PatternSubject {
    /// The value of a field, in the spelling that its pattern has.
    fn field<'a>(
        self,
        key: &str,
        pattern: &Value,
        actual: Option<&'a Value>,
    ) -> Option<Cow<'a, Value>> {
        let actual = actual?;
        if self == Self::Line || !matches!(key, "content" | "system") {
            return Some(Cow::Borrowed(actual));
        }
        Some(match (pattern, actual) {
            (Value::Array(_), Value::String(text)) => {
                Cow::Owned(json!([{"type": "text", "text": text}]))
            }
            (Value::String(_), Value::Array(blocks)) => match blocks.as_slice() {
                [block] if block["type"] == "text" && block["text"].is_string() => {
                    Cow::Borrowed(&block["text"])
                }
                _ => Cow::Borrowed(actual),
            },
            _ => Cow::Borrowed(actual),
        })
    }
}

/// Whether a text matches a pattern with `…` and known variables.
pub fn matches_text(pattern: &str, actual: &str, variables: &ScenarioVariables) -> bool {
    let mut parts = literal_parts(pattern, variables).into_iter();
    let Some(mut rest) = parts.next().and_then(|first| actual.strip_prefix(first.as_str())) else {
        return false;
    };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(index) = rest.find(&part) else { return false };
        rest = &rest[index + part.len()..];
    }
    rest.ends_with(&last)
}

/// Whether a text contains a match of a pattern.
pub fn contains_text(pattern: &str, actual: &str, variables: &ScenarioVariables) -> bool {
    matches_text(&format!("{ANY_TEXT}{pattern}{ANY_TEXT}"), actual, variables)
}

/// The texts between the `…` of a pattern, with variables expanded. There is always at least one.
fn literal_parts(pattern: &str, variables: &ScenarioVariables) -> Vec<String> {
    let mut parts = vec![String::new()];
    // The value of a variable may contain `…`, which is then an ordinary character.
    for piece in text_parts(pattern) {
        match piece {
            ScenarioTextPart::Literal(text) => {
                for (index, part) in text.split(ANY_TEXT).enumerate() {
                    if index > 0 {
                        parts.push(String::new());
                    }
                    push(&mut parts, part);
                }
            }
            ScenarioTextPart::Variable(name) => {
                push(&mut parts, &variables.expand(&format!("${name}")));
            }
        }
    }
    parts
}

fn push(parts: &mut [String], text: &str) {
    if let Some(last) = parts.last_mut() {
        last.push_str(text);
    }
}

/// The meaning of a string in a pattern.
enum ScenarioPatternString<'a> {
    Absent,
    Any,
    Variable(&'a str),
    Text,
}

fn parse_string(text: &str) -> ScenarioPatternString<'_> {
    match text.strip_prefix('$') {
        Some("absent") => ScenarioPatternString::Absent,
        Some("any") => ScenarioPatternString::Any,
        Some(name) if is_variable_name(name) => ScenarioPatternString::Variable(name),
        _ => ScenarioPatternString::Text,
    }
}

/// Every possible set of variables after a match. Empty if there is no match.
fn bindings(
    subject: PatternSubject,
    pattern: &Value,
    actual: Option<&Value>,
    open: Vec<ScenarioVariables>,
) -> Vec<ScenarioVariables> {
    if open.is_empty() {
        return open;
    }
    let Some(actual) = actual else {
        let absent = pattern
            .as_str()
            .is_some_and(|it| matches!(parse_string(it), ScenarioPatternString::Absent));
        return if absent { open } else { Vec::new() };
    };
    match (pattern, actual) {
        (Value::String(text), _) => string_bindings(text, actual, open),
        (Value::Object(fields), Value::Object(actual)) => {
            fields.iter().fold(open, |open, (key, value)| {
                let actual = subject.field(key, value, actual.get(key));
                bindings(subject, value, actual.as_deref(), open)
            })
        }
        (Value::Array(items), Value::Array(actual)) if items.is_empty() => {
            if actual.is_empty() {
                open
            } else {
                Vec::new()
            }
        }
        (Value::Array(items), Value::Array(actual)) => array_bindings(subject, items, actual, open),
        _ if scalar_eq(pattern, actual) => open,
        _ => Vec::new(),
    }
}

fn string_bindings(
    pattern: &str,
    actual: &Value,
    mut open: Vec<ScenarioVariables>,
) -> Vec<ScenarioVariables> {
    match (parse_string(pattern), actual) {
        (ScenarioPatternString::Any, _) => open,
        (ScenarioPatternString::Variable(name), Value::String(text)) => {
            open.retain(|variables| variables.get(name).is_none_or(|known| known == text));
            for variables in &mut open {
                variables.set(name, text);
            }
            open
        }
        (ScenarioPatternString::Text, Value::String(text)) => {
            open.retain(|variables| matches_text(pattern, text, variables));
            open
        }
        _ => Vec::new(),
    }
}

fn array_bindings(
    subject: PatternSubject,
    items: &[Value],
    actual: &[Value],
    open: Vec<ScenarioVariables>,
) -> Vec<ScenarioVariables> {
    // `reached[n]` holds the bindings with which the first n items of the pattern have matched.
    let mut reached = vec![Vec::new(); items.len() + 1];
    reached[0] = open;
    for value in actual {
        for index in (0..items.len()).rev() {
            let found = bindings(subject, &items[index], Some(value), reached[index].clone());
            for variables in found {
                if !reached[index + 1].contains(&variables) {
                    reached[index + 1].push(variables);
                }
            }
        }
    }
    reached.pop().unwrap_or_default()
}

/// Equality of values that are neither objects nor arrays. `1` and `1.0` are equal.
fn scalar_eq(pattern: &Value, actual: &Value) -> bool {
    match (pattern, actual) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        _ => pattern == actual,
    }
}

/// The first difference between a pattern and a value that does not match it.
fn mismatch(
    subject: PatternSubject,
    pattern: &Value,
    actual: &Value,
    variables: &ScenarioVariables,
) -> ScenarioMismatch {
    let mut variables = variables.clone();
    match compare(subject, pattern, Some(actual), "", &mut variables) {
        Ok(matched) => ScenarioMismatch {
            path: String::new(),
            expected: describe_pattern(pattern, &variables),
            actual: "different values for one variable".to_owned(),
            matched,
            similarity: 0,
        },
        Err(mismatch) => mismatch,
    }
}

/// Counts the matching values, or finds the first that does not match. Binds `variables` on the way.
fn compare(
    subject: PatternSubject,
    pattern: &Value,
    actual: Option<&Value>,
    path: &str,
    variables: &mut ScenarioVariables,
) -> Result<usize, ScenarioMismatch> {
    let mismatch_here = |matched| ScenarioMismatch {
        path: path.to_owned(),
        expected: describe_pattern(pattern, variables),
        actual: actual.map_or_else(|| "nothing".to_owned(), Value::to_string),
        matched,
        similarity: match (pattern, actual) {
            (Value::String(expected), Some(Value::String(actual))) => {
                similarity(&variables.expand(expected), actual)
            }
            _ => 0,
        },
    };
    match (pattern, actual) {
        (Value::Object(fields), Some(Value::Object(actual))) => {
            let mut matched = 1;
            let mut first: Option<ScenarioMismatch> = None;
            for (key, value) in fields {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let actual = subject.field(key, value, actual.get(key));
                match compare(subject, value, actual.as_deref(), &path, variables) {
                    Ok(more) => matched += more,
                    Err(mismatch) => {
                        matched += mismatch.matched;
                        first.get_or_insert(mismatch);
                    }
                }
            }
            match first {
                Some(mismatch) => Err(ScenarioMismatch { matched, ..mismatch }),
                None => Ok(matched),
            }
        }
        (Value::Array(items), Some(Value::Array(actual))) if !items.is_empty() => {
            compare_array(subject, items, actual, path, variables)
        }
        _ => match bindings(subject, pattern, actual, vec![variables.clone()]).into_iter().next() {
            Some(known) => {
                *variables = known;
                Ok(1)
            }
            None => Err(mismatch_here(0)),
        },
    }
}

fn compare_array(
    subject: PatternSubject,
    items: &[Value],
    actual: &[Value],
    path: &str,
    variables: &mut ScenarioVariables,
) -> Result<usize, ScenarioMismatch> {
    let (mut matched, mut from) = (1, 0);
    for item in items {
        let mut closest: Option<ScenarioMismatch> = None;
        let mut found = None;
        for (index, value) in actual.iter().enumerate().skip(from) {
            let mut tried = variables.clone();
            match compare(subject, item, Some(value), &format!("{path}[{index}]"), &mut tried) {
                Ok(more) => {
                    found = Some((index, more, tried));
                    break;
                }
                Err(mismatch)
                    if closest.as_ref().is_none_or(|it| it.score() < mismatch.score()) =>
                {
                    closest = Some(mismatch);
                }
                Err(_) => {}
            }
        }
        let Some((index, more, known)) = found else {
            let mismatch = closest.unwrap_or_else(|| ScenarioMismatch {
                path: format!("{path}[{from}]"),
                expected: describe_pattern(item, variables),
                actual: "nothing".to_owned(),
                matched: 0,
                similarity: 0,
            });
            return Err(ScenarioMismatch { matched: matched + mismatch.matched, ..mismatch });
        };
        matched += more;
        from = index + 1;
        *variables = known;
    }
    Ok(matched)
}

/// How much two texts have in common at their start and end, of 100. A `…` of a pattern counts as a
/// character that is not in common, which is good enough to choose the closest of several texts.
fn similarity(expected: &str, actual: &str) -> usize {
    let expected: Vec<char> = expected.trim_matches(ANY_TEXT).chars().collect();
    let actual: Vec<char> = actual.chars().collect();
    let shorter = expected.len().min(actual.len());
    let start = expected.iter().zip(&actual).take_while(|(one, other)| one == other).count();
    let both_ends = expected.iter().rev().zip(actual.iter().rev());
    let end = both_ends.take(shorter - start).take_while(|(one, other)| one == other).count();
    (start + end) * 100 / expected.len().max(actual.len()).max(1)
}

/// A pattern as JSON, with its variables expanded.
fn describe_pattern(pattern: &Value, variables: &ScenarioVariables) -> String {
    match pattern {
        Value::String(text) => match parse_string(text) {
            ScenarioPatternString::Absent => "nothing".to_owned(),
            ScenarioPatternString::Any => "anything".to_owned(),
            ScenarioPatternString::Variable(name) if variables.get(name).is_none() => {
                "any string".to_owned()
            }
            ScenarioPatternString::Variable(_) | ScenarioPatternString::Text => {
                Value::String(variables.expand(text)).to_string()
            }
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
