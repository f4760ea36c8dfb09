//! Matching in part: what a pattern names must be there, whatever else is.
//!
//! An array names items in order among others, so an unknown `$name` in one may be bound in several
//! ways, and a later item decides which. Matching therefore carries every way that is still open.

use serde_json::Value;

use super::Names;
use super::names::{Piece, is_name, pieces};

/// The sign that stands for any text.
const ANY_TEXT: char = '…';

/// Where something seen first differs from a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The way to it: `message.content[0].text`.
    pub path: String,
    /// What the pattern says there.
    pub expected: String,
    /// What is there.
    pub seen: String,
    /// How much of the pattern was met elsewhere; the nearest candidate has the most.
    agreed: usize,
}

impl Mismatch {
    /// How near a miss it was: larger is nearer.
    pub fn nearness(&self) -> usize {
        self.agreed
    }
}

/// The names after a match, or where it fails.
pub fn match_value(pattern: &Value, seen: &Value, names: &Names) -> Result<Names, Mismatch> {
    match ways(pattern, Some(seen), vec![names.clone()]).into_iter().next() {
        Some(names) => Ok(names),
        None => Err(mismatch(pattern, seen, names)),
    }
}

/// Whether a text is what a pattern with `…` and known `$names` says.
pub fn matches_text(pattern: &str, seen: &str, names: &Names) -> bool {
    let mut parts = literal_parts(pattern, names).into_iter();
    let Some(mut rest) = parts.next().and_then(|first| seen.strip_prefix(first.as_str())) else {
        return false;
    };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(place) = rest.find(&part) else { return false };
        rest = &rest[place + part.len()..];
    }
    rest.ends_with(&last)
}

/// Whether a text holds these words somewhere.
pub fn holds_words(words: &str, seen: &str, names: &Names) -> bool {
    matches_text(&format!("{ANY_TEXT}{words}{ANY_TEXT}"), seen, names)
}

/// What stands between the `…` of a pattern, names filled in. There is always at least one part.
fn literal_parts(pattern: &str, names: &Names) -> Vec<String> {
    let mut parts = vec![String::new()];
    // A name may stand for a text with a `…` in it, so only the pattern's own are signs.
    for piece in pieces(pattern) {
        match piece {
            Piece::Text(text) => {
                for (place, part) in text.split(ANY_TEXT).enumerate() {
                    if place > 0 {
                        parts.push(String::new());
                    }
                    push(&mut parts, part);
                }
            }
            Piece::Name(name) => push(&mut parts, &names.fill(&format!("${name}"))),
        }
    }
    parts
}

fn push(parts: &mut [String], text: &str) {
    if let Some(last) = parts.last_mut() {
        last.push_str(text);
    }
}

/// What a string in a pattern stands for.
enum Meaning<'a> {
    Absent,
    Anything,
    Name(&'a str),
    Text,
}

fn meaning(text: &str) -> Meaning<'_> {
    match text.strip_prefix('$') {
        Some("absent") => Meaning::Absent,
        Some("any") => Meaning::Anything,
        Some(name) if is_name(name) => Meaning::Name(name),
        _ => Meaning::Text,
    }
}

/// Every way in which the names can stand after a match; none where it fails.
fn ways(pattern: &Value, seen: Option<&Value>, open: Vec<Names>) -> Vec<Names> {
    if open.is_empty() {
        return open;
    }
    let Some(seen) = seen else {
        let absent = pattern.as_str().is_some_and(|it| matches!(meaning(it), Meaning::Absent));
        return if absent { open } else { Vec::new() };
    };
    match (pattern, seen) {
        (Value::String(text), _) => string_ways(text, seen, open),
        (Value::Object(fields), Value::Object(seen)) => {
            fields.iter().fold(open, |open, (key, value)| ways(value, seen.get(key), open))
        }
        (Value::Array(items), Value::Array(seen)) if items.is_empty() => {
            if seen.is_empty() {
                open
            } else {
                Vec::new()
            }
        }
        (Value::Array(items), Value::Array(seen)) => array_ways(items, seen, open),
        _ if scalar_eq(pattern, seen) => open,
        _ => Vec::new(),
    }
}

fn string_ways(pattern: &str, seen: &Value, mut open: Vec<Names>) -> Vec<Names> {
    match (meaning(pattern), seen) {
        (Meaning::Anything, _) => open,
        (Meaning::Name(name), Value::String(text)) => {
            open.retain(|names| names.get(name).is_none_or(|known| known == text));
            for names in &mut open {
                names.set(name, text);
            }
            open
        }
        (Meaning::Text, Value::String(text)) => {
            open.retain(|names| matches_text(pattern, text, names));
            open
        }
        _ => Vec::new(),
    }
}

fn array_ways(items: &[Value], seen: &[Value], open: Vec<Names>) -> Vec<Names> {
    // `reached[n]`: the ways in which the first n items of the pattern were found so far.
    let mut reached = vec![Vec::new(); items.len() + 1];
    reached[0] = open;
    for value in seen {
        for place in (0..items.len()).rev() {
            let found = ways(&items[place], Some(value), reached[place].clone());
            for names in found {
                if !reached[place + 1].contains(&names) {
                    reached[place + 1].push(names);
                }
            }
        }
    }
    reached.pop().unwrap_or_default()
}

/// Equality of what is neither object nor array; `1` and `1.0` are one number.
fn scalar_eq(pattern: &Value, seen: &Value) -> bool {
    match (pattern, seen) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        _ => pattern == seen,
    }
}

/// The first place where something differs, given that it does.
fn mismatch(pattern: &Value, seen: &Value, names: &Names) -> Mismatch {
    let mut names = names.clone();
    match differ(pattern, Some(seen), "", &mut names) {
        Ok(agreed) => Mismatch {
            path: String::new(),
            expected: names_used(pattern, &names),
            seen: "the same names for different things".to_owned(),
            agreed,
        },
        Err(mismatch) => mismatch,
    }
}

/// How much agrees, or the first place that does not; `names` learn on the way.
fn differ(
    pattern: &Value,
    seen: Option<&Value>,
    path: &str,
    names: &mut Names,
) -> Result<usize, Mismatch> {
    let differs = |agreed| Mismatch {
        path: path.to_owned(),
        expected: names_used(pattern, names),
        seen: seen.map_or_else(|| "nothing".to_owned(), Value::to_string),
        agreed,
    };
    match (pattern, seen) {
        (Value::Object(fields), Some(Value::Object(seen))) => {
            let mut agreed = 1;
            let mut first: Option<Mismatch> = None;
            for (key, value) in fields {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match differ(value, seen.get(key), &path, names) {
                    Ok(more) => agreed += more,
                    Err(mismatch) => {
                        agreed += mismatch.agreed;
                        first.get_or_insert(mismatch);
                    }
                }
            }
            match first {
                Some(mismatch) => Err(Mismatch { agreed, ..mismatch }),
                None => Ok(agreed),
            }
        }
        (Value::Array(items), Some(Value::Array(seen))) if !items.is_empty() => {
            differ_in_array(items, seen, path, names)
        }
        _ => match ways(pattern, seen, vec![names.clone()]).into_iter().next() {
            Some(known) => {
                *names = known;
                Ok(1)
            }
            None => Err(differs(0)),
        },
    }
}

fn differ_in_array(
    items: &[Value],
    seen: &[Value],
    path: &str,
    names: &mut Names,
) -> Result<usize, Mismatch> {
    let (mut agreed, mut from) = (1, 0);
    for item in items {
        let mut nearest: Option<Mismatch> = None;
        let mut found = None;
        for (place, value) in seen.iter().enumerate().skip(from) {
            let mut tried = names.clone();
            match differ(item, Some(value), &format!("{path}[{place}]"), &mut tried) {
                Ok(more) => {
                    found = Some((place, more, tried));
                    break;
                }
                Err(miss) if nearest.as_ref().is_none_or(|it| it.agreed < miss.agreed) => {
                    nearest = Some(miss);
                }
                Err(_) => {}
            }
        }
        let Some((place, more, known)) = found else {
            let miss = nearest.unwrap_or_else(|| Mismatch {
                path: format!("{path}[{from}]"),
                expected: names_used(item, names),
                seen: "nothing".to_owned(),
                agreed: 0,
            });
            return Err(Mismatch { agreed: agreed + miss.agreed, ..miss });
        };
        agreed += more;
        from = place + 1;
        *names = known;
    }
    Ok(agreed)
}

/// A pattern as JSON, with what its names stand for.
fn names_used(pattern: &Value, names: &Names) -> String {
    match pattern {
        Value::String(text) => match meaning(text) {
            Meaning::Absent => "nothing".to_owned(),
            Meaning::Anything => "anything".to_owned(),
            Meaning::Name(name) if names.get(name).is_none() => "any string".to_owned(),
            Meaning::Name(_) | Meaning::Text => Value::String(names.fill(text)).to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Names, holds_words, match_value, matches_text};

    #[test]
    fn an_ellipsis_stands_for_any_text() {
        let mut names = Names::default();
        names.set("dots", "a…b");
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
            assert_eq!(matches_text(pattern, text, &names), expected, "{pattern} on {text}");
        }
        assert!(holds_words("is", "this", &names));
    }

    #[test]
    fn a_pattern_is_met_in_part() {
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
        let mut names = Names::default();
        names.set("cwd", "/p");
        for (pattern, seen) in yes {
            assert!(match_value(&pattern, &seen, &names).is_ok(), "{pattern} on {seen}");
        }
        for (pattern, seen) in no {
            assert!(match_value(&pattern, &seen, &names).is_err(), "{pattern} on {seen}");
        }
    }

    #[test]
    fn a_name_is_learnt_once_and_holds_ever_after() {
        let first = match_value(&json!({"id": "$call"}), &json!({"id": "t1"}), &Names::default());
        let names = first.unwrap();
        assert_eq!(names.get("call"), Some("t1"));
        assert!(match_value(&json!({"id": "$call"}), &json!({"id": "t2"}), &names).is_err());
        assert!(match_value(&json!({"id": "…$call…"}), &json!({"id": "<t1>"}), &names).is_ok());
    }

    #[test]
    fn a_miss_says_where_and_what() {
        let mut names = Names::default();
        names.set("call", "t1");
        let explain = |pattern: Value, seen: Value| {
            let miss = match_value(&pattern, &seen, &names).unwrap_err();
            (miss.path, miss.expected, miss.seen)
        };
        let own = |path: &str, expected: &str, seen: &str| {
            (path.to_owned(), expected.to_owned(), seen.to_owned())
        };
        assert_eq!(
            explain(
                json!({"message": {"content": [{"type": "tool_result", "tool_use_id": "$call"}]}}),
                json!({"message": {"content": [{"type": "text"}, {"type": "tool_result", "tool_use_id": "t2"}]}}),
            ),
            own("message.content[1].tool_use_id", r#""t1""#, r#""t2""#)
        );
        assert_eq!(explain(json!({"a": "$x"}), json!({"b": 1})), own("a", "any string", "nothing"));
        assert_eq!(explain(json!({"a": "$absent"}), json!({"a": 1})), own("a", "nothing", "1"));
        assert_eq!(explain(json!({"a": [1, 2]}), json!({"a": [2]})), own("a[0]", "1", "2"));
        assert_eq!(explain(json!({"a": [1]}), json!({"a": []})), own("a[0]", "1", "nothing"));
        assert_eq!(explain(json!([]), json!([1])), own("", "[]", "[1]"));
    }
}
