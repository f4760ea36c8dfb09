//! stdin and stdout of the player, and the faults that can be injected into stdout.
//!
//! Each has a thread of its own. A host that reads slowly delays the lines it gets and not the
//! session, until the channel to the writer is full; then the session waits.

use std::io::{BufRead as _, Read as _, Write as _};
use std::thread::JoinHandle;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::play::args::{PlayerArgs, PlayerInputFormat, PlayerOutputFormat};
use crate::play::event::{PlayerInput, PlayerStdinLine};
use crate::play::release::{PlayerBehavior, PlayerRelease};

/// Capacity of the channel to the writer, in lines.
const STDOUT_CAPACITY: usize = 1024;

/// Nesting up to which a line is read.
const MAX_DEPTH: usize = 100;

/// Reads stdin in a thread: lines of JSON, or one prompt as plain text.
pub(super) fn read_stdin(args: &PlayerArgs, inputs: mpsc::Sender<PlayerInput>) {
    let (format, prompt, release) = (args.input, args.prompt.clone(), args.release);
    std::thread::spawn(move || match format {
        PlayerInputFormat::StreamJson => {
            let mut stdin = std::io::stdin().lock();
            let mut line = Vec::new();
            while stdin.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let parsed = parse_stdin_line(&line, release);
                if inputs.blocking_send(PlayerInput::Stdin(parsed)).is_err() {
                    return;
                }
                line.clear();
            }
            drop(inputs.blocking_send(PlayerInput::StdinClosed));
        }
        PlayerInputFormat::Text => {
            let mut text = String::new();
            drop(std::io::stdin().lock().read_to_string(&mut text));
            let prompt = prompt.unwrap_or_default();
            let both = [prompt.trim_end(), text.trim_end()];
            let texts: Vec<&str> = both.into_iter().filter(|text| !text.is_empty()).collect();
            let line = if texts.is_empty() {
                PlayerStdinLine::Invalid(
                    "Error: Input must be provided either through stdin or as a prompt argument \
                     when using --print"
                        .to_owned(),
                )
            } else {
                let message = json!({ "role": "user", "content": texts.join("\n") });
                let line = json!({ "type": "user", "message": message });
                parse_stdin_line(line.to_string().as_bytes(), release)
            };
            drop(inputs.blocking_send(PlayerInput::Stdin(line)));
            drop(inputs.blocking_send(PlayerInput::StdinClosed));
        }
    });
}

/// Parses a line as the release does, including the errors that end the process.
pub(crate) fn parse_stdin_line(line: &[u8], release: PlayerRelease) -> PlayerStdinLine {
    let text = String::from_utf8_lossy(line);
    let line = text.trim_end_matches(['\r', '\n']);
    let text = text.trim();
    if text.is_empty() {
        let ignored = match line {
            "" => PlayerBehavior::IgnoresEmptyLines,
            _ => PlayerBehavior::IgnoresBlankLines,
        };
        return if release.has(ignored) {
            PlayerStdinLine::Ignored
        } else {
            PlayerStdinLine::Invalid(parse_error(text, "SyntaxError"))
        };
    }
    match parse_json(text) {
        Ok(Value::Object(object)) => classify(object, release),
        Ok(Value::Null) => PlayerStdinLine::Invalid(parse_error(text, "TypeError")),
        Ok(_) => unknown_line("undefined", release),
        Err(()) => PlayerStdinLine::Invalid(parse_error(text, "SyntaxError")),
    }
}

/// A line that means nothing to the CLI.
fn unknown_line(kind: &str, release: PlayerRelease) -> PlayerStdinLine {
    if release.has(PlayerBehavior::IgnoresUnknownLines) || kind == "keep_alive" {
        return PlayerStdinLine::Ignored;
    }
    PlayerStdinLine::Invalid(format!(
        "Error: Expected message type 'user' or 'control', got '{kind}'"
    ))
}

fn classify(object: Map<String, Value>, release: PlayerRelease) -> PlayerStdinLine {
    let kind = object.get("type").and_then(Value::as_str).unwrap_or("undefined").to_owned();
    let field = |name: &str| object.get(name).cloned().unwrap_or(Value::Null);
    match kind.as_str() {
        "user" => match field("message")["role"].as_str() {
            Some("user") => PlayerStdinLine::Prompt(object),
            role => {
                let role = role.unwrap_or("undefined");
                PlayerStdinLine::Invalid(format!(
                    "Error: Expected message role 'user', got '{role}'"
                ))
            }
        },
        "control_request" => match field("request") {
            request @ Value::Object(_) => {
                PlayerStdinLine::ControlRequest { id: field("request_id"), request }
            }
            _ => PlayerStdinLine::Invalid("Error: Missing request on control_request".to_owned()),
        },
        "control_response" => PlayerStdinLine::ControlResponse(Value::Object(object)),
        "assistant" | "system" => PlayerStdinLine::HistoryMessage(object),
        "bash_command" => PlayerStdinLine::ShellCommand(object),
        kind => unknown_line(kind, release),
    }
}

/// Parses JSON of any depth. `serde_json` rejects deep nesting, and the CLI does not.
fn parse_json(text: &str) -> Result<Value, ()> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(error) if error.to_string().contains("recursion limit") => parse_truncated(text),
        Err(_) => Err(()),
    }
}

/// Parses a line with everything below [`MAX_DEPTH`] replaced by `null`.
fn parse_truncated(text: &str) -> Result<Value, ()> {
    let (mut kept, mut depth, mut quoted, mut escaped) = (String::new(), 0usize, false, false);
    for character in text.chars() {
        let inside = depth > MAX_DEPTH;
        if quoted {
            quoted = escaped || character != '"';
            escaped = character == '\\' && !escaped;
        } else {
            match character {
                '"' => quoted = true,
                '{' | '[' => depth += 1,
                '}' | ']' => depth = depth.checked_sub(1).ok_or(())?,
                _ => {}
            }
        }
        if !inside && depth <= MAX_DEPTH {
            kept.push(character);
        } else if inside && depth == MAX_DEPTH {
            kept.push_str("null");
        }
    }
    serde_json::from_str(&kept).map_err(|_| ())
}

fn parse_error(text: &str, error: &str) -> String {
    let kind = ["user", "control_request", "control_response", "assistant", "system"]
        .into_iter()
        .find(|kind| text.contains(&format!("\"type\":\"{kind}\"")))
        .or_else(|| text.contains("\"type\": \"user\"").then_some("user"))
        .unwrap_or("unknown");
    let length = text.encode_utf16().count();
    format!("Error parsing streaming input line (type={kind}, {length} chars): {error}")
}

/// Writes lines to stdout in one of the output formats.
#[derive(Debug)]
pub(crate) struct PlayerStdout {
    format: PlayerOutputFormat,
    verbose: bool,
    /// Lines that formats other than `stream-json` need at the end.
    collected: Vec<Value>,
    lines: Option<mpsc::Sender<Vec<u8>>>,
    writer: Option<JoinHandle<()>>,
}

impl PlayerStdout {
    pub(crate) fn new(format: PlayerOutputFormat, verbose: bool) -> Self {
        let (lines, mut queue) = mpsc::channel::<Vec<u8>>(STDOUT_CAPACITY);
        let writer = std::thread::spawn(move || {
            let mut stdout = std::io::stdout().lock();
            while let Some(line) = queue.blocking_recv() {
                if stdout.write_all(&line).and_then(|()| stdout.flush()).is_err() {
                    return;
                }
            }
        });
        let (lines, writer) = (Some(lines), Some(writer));
        Self { format, verbose, collected: Vec::new(), lines, writer }
    }

    /// Prints or collects a line. Returns whether stdout is still open.
    pub(crate) async fn print(&mut self, line: Value) -> bool {
        match self.format {
            PlayerOutputFormat::StreamJson => self.write(encode_line(&line)).await,
            PlayerOutputFormat::Json | PlayerOutputFormat::Text => {
                let kind = line["type"].as_str().unwrap_or_default();
                if kind != "stream_event" && !kind.starts_with("control") {
                    self.collected.push(line);
                }
                true
            }
        }
    }

    /// Writes bytes unchanged. Returns whether stdout is still open.
    pub(crate) async fn write(&self, bytes: Vec<u8>) -> bool {
        match &self.lines {
            Some(lines) => lines.send(bytes).await.is_ok(),
            None => false,
        }
    }

    /// Writes what was collected, and waits until all output is written.
    pub(crate) async fn close(mut self) {
        let result = self.collected.iter().rfind(|line| line["type"] == "result").cloned();
        match self.format {
            PlayerOutputFormat::StreamJson => {}
            PlayerOutputFormat::Json if self.verbose => {
                let all = Value::Array(std::mem::take(&mut self.collected));
                self.write(encode_line(&all)).await;
            }
            PlayerOutputFormat::Json => {
                if let Some(result) = result {
                    self.write(encode_line(&result)).await;
                }
            }
            PlayerOutputFormat::Text => {
                if let Some(result) = result {
                    let text = result["result"].as_str().or(result["errors"][0].as_str());
                    let mut text = text.unwrap_or_default().to_owned();
                    text.push('\n');
                    self.write(text.into_bytes()).await;
                }
            }
        }
        self.lines = None;
        if let Some(writer) = self.writer.take() {
            drop(tokio::task::spawn_blocking(move || writer.join()).await);
        }
    }
}

/// Encodes a line. U+2028 and U+2029 are escaped, as 2.1.325 does, because some readers split
/// lines at them.
pub(crate) fn encode_line(line: &Value) -> Vec<u8> {
    let mut text = line.to_string();
    if text.contains(['\u{2028}', '\u{2029}']) {
        text = text.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    }
    text.push('\n');
    text.into_bytes()
}

/// A fault that `TOWPATH_PLAY_FAULT` injects. It takes effect at the first output of the model, or
/// at the `init` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlayerFault {
    /// Exits during the first turn.
    DieMidTurn,
    /// Exits in the middle of a line.
    HalfLine,
    /// Prints a line of 20 MB.
    BigLine,
    /// Prints lines of unknown types.
    UnknownEvent,
}

/// What a fault does with a line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FaultAction {
    /// Writes these lines, then the line itself.
    Write(Vec<Vec<u8>>),
    /// Writes these bytes instead of the line, and exits.
    Die(Vec<u8>),
}

impl PlayerFault {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "die-mid-turn" => Self::DieMidTurn,
            "half-line" => Self::HalfLine,
            "big-line" => Self::BigLine,
            "unknown-event" => Self::UnknownEvent,
            _ => return None,
        })
    }

    pub(crate) fn action(self, line: &Value) -> FaultAction {
        let from_model = line["type"] == "assistant"
            || (line["type"] == "stream_event" && line["event"]["type"] == "content_block_delta");
        let init = line["type"] == "system" && line["subtype"] == "init";
        match self {
            Self::DieMidTurn if from_model => FaultAction::Die(Vec::new()),
            Self::HalfLine if from_model => {
                let text = line.to_string().into_bytes();
                FaultAction::Die(text[..text.len() / 2].to_vec())
            }
            Self::BigLine if init => {
                let big = json!({
                    "type": "user", "message": { "role": "user", "content": "x".repeat(20_000_000) },
                    "isSynthetic": true, "session_id": line["session_id"],
                });
                FaultAction::Write(vec![encode_line(&big)])
            }
            Self::UnknownEvent if init || from_model => {
                let line = json!({ "type": "wibble", "wobble": { "deep": [1, 2, 3] } });
                let system = json!({ "type": "system", "subtype": "wobbled", "why": null });
                FaultAction::Write(vec![encode_line(&line), encode_line(&system)])
            }
            _ => FaultAction::Write(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{FaultAction, PlayerFault};
    use crate::play::event::PlayerStdinLine;
    use crate::play::release::PlayerRelease;

    fn parse_stdin_line(line: &[u8]) -> PlayerStdinLine {
        super::parse_stdin_line(line, PlayerRelease::default())
    }

    fn error(line: &str) -> Option<String> {
        match parse_stdin_line(line.as_bytes()) {
            PlayerStdinLine::Invalid(text) => Some(text),
            _ => None,
        }
    }

    #[test]
    fn lines_that_end_the_process_are_reported_in_the_words_of_the_cli() {
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
            assert_eq!(error(line).as_deref(), Some(text), "{line}");
        }
    }

    #[test]
    fn lines_without_meaning_are_ignored() {
        let lines = ["", "   ", "42", "[1,2]", r#"{"type":"wibble"}"#, r#"{"type":"control"}"#];
        for line in lines {
            assert_eq!(parse_stdin_line(line.as_bytes()), PlayerStdinLine::Ignored, "{line}");
        }
    }

    #[test]
    fn lines_without_meaning_end_an_older_release() {
        let release = "2.1.37".parse().unwrap();
        let parse = |line: &str| super::parse_stdin_line(line.as_bytes(), release);
        for line in ["\n", "   \n", "42", r#"{"type":"wibble"}"#, "{}"] {
            assert!(matches!(parse(line), PlayerStdinLine::Invalid(_)), "{line}");
        }
        assert_eq!(parse(r#"{"type":"keep_alive"}"#), PlayerStdinLine::Ignored);
    }

    #[test]
    fn a_prompt_with_a_deeply_nested_field_is_a_prompt() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let line =
            format!(r#"{{"type":"user","message":{{"role":"user","content":"x"}},"z":{deep}}}"#);
        assert!(matches!(parse_stdin_line(line.as_bytes()), PlayerStdinLine::Prompt(_)));
    }

    #[test]
    fn half_line_writes_half_of_the_first_line_of_the_model() {
        let line = json!({"type": "assistant"});
        let action = PlayerFault::HalfLine.action(&line);
        assert_eq!(action, FaultAction::Die(br#"{"type":"a"#[..].to_vec()));
        let other = PlayerFault::HalfLine.action(&json!({"type": "user"}));
        assert_eq!(other, FaultAction::Write(Vec::new()));
    }
}
