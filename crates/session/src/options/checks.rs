//! Checks of option values, before any of them reaches an agent's command line or environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::shim::MARKER_VARIABLE;

/// The longest value on one line.
const MAX_LINE_BYTES: usize = 400;

/// The longest value: Linux refuses to start a program with an argument of 128 KiB.
const MAX_TEXT_BYTES: usize = 100_000;

/// The most entries of a list.
const MAX_ENTRIES: usize = 500;

/// Variables that Towpath sets itself or by which it recognizes its agents. Other values would break
/// turns, rewinds or the cleaning up of processes.
const OWN_VARIABLES: &[(&str, &str)] = &[
    ("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "Towpath needs the events"),
    ("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "a rewind needs the checkpoints"),
    ("CLAUDE_CODE_ENTRYPOINT", "Towpath sets it"),
    ("CLAUDE_CODE_EFFORT_LEVEL", "use the option `effort`"),
    ("CLAUDECODE", "the CLI refuses to start with it"),
    (MARKER_VARIABLE, "Towpath recognizes its agents by it"),
];

/// A value for the command line. One that starts with a dash would be an option.
pub(super) fn line(text: &str) -> Result<&str, String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    if text.len() > MAX_LINE_BYTES {
        return Err(format!("it is longer than {MAX_LINE_BYTES} bytes"));
    }
    if text.starts_with('-') {
        return Err("it starts with a dash, so it would be read as an option".to_owned());
    }
    if text.chars().any(char::is_control) {
        return Err("it contains control characters".to_owned());
    }
    Ok(text)
}

/// The name of an agent. Whether there is one with that name is checked when a session is created.
pub(super) fn agent_name(text: &str) -> Result<&str, String> {
    let is_name = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    if text.is_empty() || text.len() > 64 || !text.starts_with(char::is_alphanumeric) {
        return Err("this is no name of an agent; `towpath agents` lists them".to_owned());
    }
    if !text.chars().all(is_name) {
        return Err("the name of an agent has letters, digits and `-`".to_owned());
    }
    Ok(text)
}

/// A value that may have several lines.
pub(super) fn multiline(text: &str) -> Result<&str, String> {
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!("it is longer than {MAX_TEXT_BYTES} bytes"));
    }
    if text.chars().any(|it| it.is_control() && !matches!(it, '\n' | '\t')) {
        return Err("it contains control characters".to_owned());
    }
    Ok(text)
}

/// A list of values for the command line, in which equal ones appear once.
pub(super) fn list(value: &Value) -> Result<Vec<String>, String> {
    let Value::Array(items) = value else { return Err("expected a list of texts".to_owned()) };
    let mut checked: Vec<String> = Vec::new();
    for item in items {
        let text = item.as_str().ok_or("expected a list of texts")?;
        let text = line(text).map_err(|reason| format!("`{}`: {reason}", shorten(text)))?;
        if !checked.iter().any(|it| it == text) {
            checked.push(text.to_owned());
        }
        if checked.len() > MAX_ENTRIES {
            return Err(format!("it has more than {MAX_ENTRIES} entries"));
        }
    }
    if checked.iter().map(|it| it.len() + 1).sum::<usize>() > MAX_TEXT_BYTES {
        return Err(format!("it is longer than {MAX_TEXT_BYTES} bytes"));
    }
    Ok(checked)
}

pub(super) fn directories(value: &Value) -> Result<Vec<PathBuf>, String> {
    let paths = list(value)?;
    if let Some(path) = paths.iter().find(|it| !Path::new(it).is_absolute()) {
        return Err(format!("`{}` is no absolute path", shorten(path)));
    }
    Ok(paths.into_iter().map(PathBuf::from).collect())
}

pub(super) fn variables(value: &Value) -> Result<BTreeMap<String, String>, String> {
    let expected = "expected an object of texts by name";
    let Value::Object(variables) = value else { return Err(expected.to_owned()) };
    if variables.len() > MAX_ENTRIES {
        return Err(format!("it has more than {MAX_ENTRIES} variables"));
    }
    let mut texts = BTreeMap::new();
    for (name, value) in variables {
        texts.insert(name.clone(), value.as_str().ok_or(expected)?.to_owned());
    }
    variables_of(&texts)?;
    Ok(texts)
}

/// Checks variables for the environment of an agent.
pub(crate) fn variables_of(variables: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in variables {
        variable(name, value).map_err(|reason| format!("`{}`: {reason}", shorten(name)))?;
    }
    let bytes: usize = variables.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if bytes > MAX_TEXT_BYTES {
        return Err(format!("it is longer than {MAX_TEXT_BYTES} bytes"));
    }
    Ok(())
}

fn variable(name: &str, value: &str) -> Result<(), String> {
    let is_name = |it: &str| {
        let first = it.bytes().next().is_some_and(|it| it.is_ascii_alphabetic() || it == b'_');
        first && it.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_')
    };
    if !is_name(name) || name.len() > MAX_LINE_BYTES {
        return Err("this is no name of a variable".to_owned());
    }
    if let Some((_, reason)) = OWN_VARIABLES.iter().find(|(own, _)| *own == name) {
        return Err(format!("this variable cannot be set: {reason}"));
    }
    if value.chars().any(|it| it.is_control() && !matches!(it, '\n' | '\t')) {
        return Err("the value contains control characters".to_owned());
    }
    Ok(())
}

/// MCP servers as the text for the command line.
pub(super) fn mcp(value: &Value) -> Result<String, String> {
    let text = match value {
        Value::Object(_) => value.to_string(),
        Value::String(text) if text.trim_start().starts_with('{') => {
            let json: Result<Value, _> = serde_json::from_str(text);
            json.map_err(|error| format!("it is no valid JSON: {error}"))?.to_string()
        }
        Value::String(path) => return line(path).map(str::to_owned),
        _ => return Err("expected a JSON object or the path of a JSON file".to_owned()),
    };
    let servers = serde_json::from_str::<Value>(&text).unwrap_or_default();
    if !servers.get("mcpServers").is_some_and(Value::is_object) {
        return Err("expected a JSON object with the key `mcpServers`".to_owned());
    }
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!("it is longer than {MAX_TEXT_BYTES} bytes; put it into a file"));
    }
    Ok(text)
}

/// The beginning of a value, for an error message.
pub(super) fn shorten(text: &str) -> String {
    let mut short: String =
        text.chars().take(60).map(|it| if it.is_control() { '\u{fffd}' } else { it }).collect();
    if short.len() < text.len() && text.chars().nth(60).is_some() {
        short.push('…');
    }
    short
}
