//! Partial matching of JSON: everything a pattern names must be present, and more may be.
//!
//! The items of an array pattern match in order, with other items between them. An unknown variable
//! in such an item can therefore be bound in several ways, and a later item decides which one is
//! right. Matching keeps every binding that is still possible.

use serde_json::Value;

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
}

impl ScenarioMismatch {
    /// How much of the pattern matched. Of several lines, the closest has the highest score.
    pub fn score(&self) -> usize {
        self.matched
    }
}

/// Matches a value and returns the variables with those that the match has bound.
pub fn match_value(
    pattern: &Value,
    actual: &Value,
    variables: &ScenarioVariables,
) -> Result<ScenarioVariables, ScenarioMismatch> {
    match bindings(pattern, Some(actual), vec![variables.clone()]).into_iter().next() {
        Some(variables) => Ok(variables),
        None => Err(mismatch(pattern, actual, variables)),
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
            fields.iter().fold(open, |open, (key, value)| bindings(value, actual.get(key), open))
        }
        (Value::Array(items), Value::Array(actual)) if items.is_empty() => {
            if actual.is_empty() {
                open
            } else {
                Vec::new()
            }
        }
        (Value::Array(items), Value::Array(actual)) => array_bindings(items, actual, open),
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
    items: &[Value],
    actual: &[Value],
    open: Vec<ScenarioVariables>,
) -> Vec<ScenarioVariables> {
    // `reached[n]` holds the bindings with which the first n items of the pattern have matched.
    let mut reached = vec![Vec::new(); items.len() + 1];
    reached[0] = open;
    for value in actual {
        for index in (0..items.len()).rev() {
            let found = bindings(&items[index], Some(value), reached[index].clone());
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
fn mismatch(pattern: &Value, actual: &Value, variables: &ScenarioVariables) -> ScenarioMismatch {
    let mut variables = variables.clone();
    match compare(pattern, Some(actual), "", &mut variables) {
        Ok(matched) => ScenarioMismatch {
            path: String::new(),
            expected: describe_pattern(pattern, &variables),
            actual: "different values for one variable".to_owned(),
            matched,
        },
        Err(mismatch) => mismatch,
    }
}

/// Counts the matching values, or finds the first that does not match. Binds `variables` on the way.
fn compare(
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
    };
    match (pattern, actual) {
        (Value::Object(fields), Some(Value::Object(actual))) => {
            let mut matched = 1;
            let mut first: Option<ScenarioMismatch> = None;
            for (key, value) in fields {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match compare(value, actual.get(key), &path, variables) {
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
            compare_array(items, actual, path, variables)
        }
        _ => match bindings(pattern, actual, vec![variables.clone()]).into_iter().next() {
            Some(known) => {
                *variables = known;
                Ok(1)
            }
            None => Err(mismatch_here(0)),
        },
    }
}

fn compare_array(
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
            match compare(item, Some(value), &format!("{path}[{index}]"), &mut tried) {
                Ok(more) => {
                    found = Some((index, more, tried));
                    break;
                }
                Err(mismatch)
                    if closest.as_ref().is_none_or(|it| it.matched < mismatch.matched) =>
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
            });
            return Err(ScenarioMismatch { matched: matched + mismatch.matched, ..mismatch });
        };
        matched += more;
        from = index + 1;
        *variables = known;
    }
    Ok(matched)
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
mod tests {
    use serde_json::{Value, json};

    use super::{ScenarioVariables, contains_text, match_value, matches_text};

    #[test]
    fn an_ellipsis_matches_any_text() {
        let mut variables = ScenarioVariables::default();
        variables.set("dots", "a…b");
        let table = [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("…", "", true),
            ("a…", "abc", true),
            ("…c", "abc", true),
            ("a…c", "ac", true),
            ("a…b…a", "aba", true),
            ("ab…ba", "aba", false),
            ("…b…", "abc", true),
            ("…x…", "abc", false),
            ("", "", true),
            ("", "a", false),
            ("…a…a…", "a", false),
            ("$dots", "a…b", true),
            ("$dots", "axb", false),
            ("<$dots>…", "<a…b> and more", true),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(matches_text(pattern, text, &variables), expected, "{pattern} on {text}");
        }
        assert!(contains_text("is", "this", &variables));
    }

    #[test]
    fn a_pattern_matches_in_part() {
        let yes = [
            (json!({}), json!({"a": 1})),
            (json!({"a": 1}), json!({"a": 1.0, "b": 2})),
            (json!({"a": {"b": "x…"}}), json!({"a": {"b": "xyz", "c": 1}})),
            (json!([1, 3]), json!([1, 2, 3])),
            (json!([]), json!([])),
            (json!({"a": "$absent"}), json!({"b": 1})),
            (json!({"a": "$any"}), json!({"a": null})),
            (json!({"a": null}), json!({"a": null})),
            (json!({"a": "$x", "b": "$x"}), json!({"a": "1", "b": "1"})),
            (json!(["$x", {"id": "$x"}]), json!(["no", "yes", {"id": "yes"}])),
            (json!({"a": ["$x"], "b": "$x"}), json!({"a": ["1", "2"], "b": "2"})),
            (json!("$cwd/x"), json!("/p/x")),
        ];
        let no = [
            (json!({"a": 1}), json!({"a": 2})),
            (json!({"a": 1}), json!({})),
            (json!([3, 1]), json!([1, 2, 3])),
            (json!([1, 1]), json!([1])),
            (json!([]), json!([1])),
            (json!({"a": "$absent"}), json!({"a": null})),
            (json!({"a": "$any"}), json!({})),
            (json!({"a": "$x"}), json!({"a": 1})),
            (json!({"a": "$x", "b": "$x"}), json!({"a": "1", "b": "2"})),
            (json!("1"), json!(1)),
            (json!({"a": false}), json!({"a": null})),
        ];
        let mut variables = ScenarioVariables::default();
        variables.set("cwd", "/p");
        for (pattern, actual) in yes {
            assert!(match_value(&pattern, &actual, &variables).is_ok(), "{pattern} on {actual}");
        }
        for (pattern, actual) in no {
            assert!(match_value(&pattern, &actual, &variables).is_err(), "{pattern} on {actual}");
        }
    }

    #[test]
    fn a_variable_keeps_the_value_of_its_first_match() {
        let first = match_value(
            &json!({"id": "$call"}),
            &json!({"id": "t1"}),
            &ScenarioVariables::default(),
        );
        let variables = first.unwrap();
        assert_eq!(variables.get("call"), Some("t1"));
        assert!(match_value(&json!({"id": "$call"}), &json!({"id": "t2"}), &variables).is_err());
        assert!(match_value(&json!({"id": "…$call…"}), &json!({"id": "<t1>"}), &variables).is_ok());
    }

    #[test]
    fn a_mismatch_has_a_path_and_both_values() {
        let mut variables = ScenarioVariables::default();
        variables.set("call", "t1");
        let explain = |pattern: Value, actual: Value| {
            let mismatch = match_value(&pattern, &actual, &variables).unwrap_err();
            (mismatch.path, mismatch.expected, mismatch.actual)
        };
        let owned = |path: &str, expected: &str, actual: &str| {
            (path.to_owned(), expected.to_owned(), actual.to_owned())
        };
        assert_eq!(
            explain(
                json!({"message": {"content": [{"type": "tool_result", "tool_use_id": "$call"}]}}),
                json!({"message": {"content": [{"type": "text"}, {"type": "tool_result", "tool_use_id": "t2"}]}}),
            ),
            owned("message.content[1].tool_use_id", r#""t1""#, r#""t2""#)
        );
        assert_eq!(
            explain(json!({"a": "$x"}), json!({"b": 1})),
            owned("a", "any string", "nothing")
        );
        assert_eq!(explain(json!({"a": "$absent"}), json!({"a": 1})), owned("a", "nothing", "1"));
        assert_eq!(explain(json!({"a": [1, 2]}), json!({"a": [2]})), owned("a[0]", "1", "2"));
        assert_eq!(explain(json!({"a": [1]}), json!({"a": []})), owned("a[0]", "1", "nothing"));
        assert_eq!(explain(json!([]), json!([1])), owned("", "[]", "[1]"));
    }
}
