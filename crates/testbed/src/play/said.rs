//! Reads a line of stdin as 2.1.325 does: what it ignores, what it obeys, and what ends it.

use serde_json::Value;

use super::input::Said;

/// Reads one line.
pub(crate) fn read(line: &[u8]) -> Said {
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    if text.is_empty() {
        return Said::Nothing;
    }
    match parse(text) {
        Ok(Value::Object(object)) => object_said(object),
        Ok(Value::Null) => Said::Fatal(unreadable(text, "TypeError")),
        Ok(_) => Said::Nothing,
        Err(()) => Said::Fatal(unreadable(text, "SyntaxError")),
    }
}

/// JSON of any depth: nesting that `serde_json` refuses is a line without meaning, not an error.
fn parse(text: &str) -> Result<Value, ()> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(error) if error.to_string().contains("recursion limit") => shallow(text),
        Err(_) => Err(()),
    }
}

/// The line without what is nested too deeply.
fn shallow(text: &str) -> Result<Value, ()> {
    let (mut kept, mut depth, mut quoted, mut escaped) = (String::new(), 0usize, false, false);
    for letter in text.chars() {
        let inside = depth > 100;
        if quoted {
            quoted = escaped || letter != '"';
            escaped = letter == '\\' && !escaped;
        } else {
            match letter {
                '"' => quoted = true,
                '{' | '[' => depth += 1,
                '}' | ']' => depth = depth.checked_sub(1).ok_or(())?,
                _ => {}
            }
        }
        if !inside && depth <= 100 {
            kept.push(letter);
        } else if inside && depth == 100 {
            kept.push_str("null");
        }
    }
    serde_json::from_str(&kept).map_err(|_| ())
}

fn unreadable(text: &str, error: &str) -> String {
    let kind = ["user", "control_request", "control_response", "assistant", "system"]
        .into_iter()
        .find(|kind| text.contains(&format!("\"type\":\"{kind}\"")))
        .or_else(|| text.contains("\"type\": \"user\"").then_some("user"))
        .unwrap_or("unknown");
    let length = text.encode_utf16().count();
    format!("Error parsing streaming input line (type={kind}, {length} chars): {error}")
}

fn object_said(object: serde_json::Map<String, Value>) -> Said {
    let kind = object.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let field = |name: &str| object.get(name).cloned().unwrap_or(Value::Null);
    match kind.as_str() {
        "user" => match field("message")["role"].as_str() {
            Some("user") => Said::Prompt(object),
            role => {
                let role = role.unwrap_or("undefined");
                Said::Fatal(format!("Error: Expected message role 'user', got '{role}'"))
            }
        },
        "control_request" => match field("request") {
            request @ Value::Object(_) => Said::Request { id: field("request_id"), request },
            _ => Said::Fatal("Error: Missing request on control_request".to_owned()),
        },
        "control_response" => Said::Answer(Value::Object(object)),
        "control_cancel_request" => match field("request_id") {
            Value::String(id) => Said::Cancel(id),
            _ => Said::Nothing,
        },
        "assistant" | "system" => Said::Injected(object),
        "bash_command" => Said::Shell(object),
        _ => Said::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::play::input::Said;

    fn fatal(line: &str) -> Option<String> {
        match read(line.as_bytes()) {
            Said::Fatal(text) => Some(text),
            _ => None,
        }
    }

    #[test]
    fn lines_that_end_the_process_do_so_in_its_words() {
        let lines = [
            (
                "this is not json",
                "Error parsing streaming input line (type=unknown, 16 chars): SyntaxError",
            ),
            ("null", "Error parsing streaming input line (type=unknown, 4 chars): TypeError"),
            (
                r#"{"type":"user","mess"#,
                "Error parsing streaming input line (type=user, 20 chars): SyntaxError",
            ),
            (
                r#"{"type":"user","content":"x"}"#,
                "Error: Expected message role 'user', got 'undefined'",
            ),
            (
                r#"{"type":"user","message":{"role":"assistant"}}"#,
                "Error: Expected message role 'user', got 'assistant'",
            ),
            (
                r#"{"type":"control_request","request_id":"a"}"#,
                "Error: Missing request on control_request",
            ),
        ];
        for (line, text) in lines {
            assert_eq!(fatal(line).as_deref(), Some(text), "{line}");
        }
    }

    #[test]
    fn lines_without_meaning_do_nothing() {
        let lines = ["", "   ", "42", "[1,2]", r#"{"type":"wibble"}"#, r#"{"type":"control"}"#];
        for line in lines {
            assert_eq!(read(line.as_bytes()), Said::Nothing, "{line}");
        }
    }

    #[test]
    fn a_prompt_with_very_deep_nesting_beside_it_is_a_prompt() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let line =
            format!(r#"{{"type":"user","message":{{"role":"user","content":"x"}},"z":{deep}}}"#);
        assert!(matches!(read(line.as_bytes()), Said::Prompt(_)));
    }
}
