//! A stand-in for Claude Code that streams numbered words at a steady rate, each with the time it was
//! sent.
//!
//! Started like Claude Code, it answers `initialize`, and it answers the prompt `COUNT RATE` with that
//! many words, RATE of them per second; a rate of 0 is as fast as they are read. It answers the prompt
//! `line BYTES` with one line of that size. Started as `towpath-bench-agent --bare COUNT RATE`, it
//! prints only the stream.

#![expect(clippy::print_stderr, reason = "a command-line program")]

use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufWriter, Write as _};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use uuid::Uuid;

/// Words in a paragraph.
const PARAGRAPH: u32 = 40;

/// Words in a message.
const MESSAGE: u32 = 400;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match &arguments[..] {
        [bare, count, rate] if bare == "--bare" => {
            match WordRequest::parse(&format!("{count} {rate}")) {
                Some(request) => BenchAgent::new().stream(request),
                None => Err(io::Error::other("COUNT and RATE must be numbers")),
            }
        }
        _ => converse(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("towpath-bench-agent: {error}");
            ExitCode::FAILURE
        }
    }
}

/// How many words to stream, and how many of them per second.
#[derive(Clone, Copy)]
struct WordRequest {
    count: u32,
    rate: u32,
}

impl WordRequest {
    fn parse(text: &str) -> Option<Self> {
        let (count, rate) = text.trim().split_once(' ')?;
        Some(Self { count: count.parse().ok()?, rate: rate.parse().ok()? })
    }
}

fn converse() -> io::Result<()> {
    let mut agent = BenchAgent::new();
    for line in io::stdin().lock().lines() {
        let Ok(input) = serde_json::from_str::<Value>(&line?) else { continue };
        match input["type"].as_str() {
            Some("control_request") => {
                let response = json!({"subtype": "success", "request_id": input["request_id"],
                    "response": {"commands": [], "models": [], "account": {}}});
                agent.print(&json!({"type": "control_response", "response": response}))?;
                agent.out.flush()?;
            }
            Some("user") => agent.turn(&input)?,
            _ => {}
        }
    }
    Ok(())
}

struct BenchAgent {
    out: BufWriter<io::StdoutLock<'static>>,
    session: Uuid,
}

impl BenchAgent {
    fn new() -> Self {
        let out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
        Self { out, session: Uuid::new_v4() }
    }

    fn print(&mut self, line: &Value) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, line)?;
        self.out.write_all(b"\n")
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        let line = json!({"type": "stream_event", "event": event, "session_id": self.session,
            "parent_tool_use_id": null, "uuid": Uuid::new_v4()});
        self.print(&line)
    }

    fn turn(&mut self, prompt: &Value) -> io::Result<()> {
        let content = &prompt["message"]["content"];
        let text = content.as_str().or_else(|| content[0]["text"].as_str()).unwrap_or_default();
        let request = WordRequest::parse(text).unwrap_or(WordRequest { count: 1, rate: 0 });
        let huge = text.strip_prefix("line ").and_then(|bytes| bytes.trim().parse().ok());
        self.print(&json!({"type": "system", "subtype": "init", "cwd": "/", "tools": [],
            "mcp_servers": [], "model": "claude-bench", "permissionMode": "default",
            "slash_commands": [], "apiKeySource": "none", "output_style": "default",
            "agents": [], "skills": [], "plugins": [], "claude_code_version": "2.1.325",
            "session_id": self.session, "uuid": Uuid::new_v4()}))?;
        self.print(&json!({"type": "user", "message": prompt["message"], "isReplay": true,
            "session_id": self.session, "parent_tool_use_id": null, "uuid": prompt["uuid"]}))?;
        match huge {
            Some(bytes) => self.huge_line(bytes)?,
            None => self.stream(request)?,
        }
        self.print(&json!({"type": "result", "subtype": "success", "is_error": false,
            "duration_ms": 1, "duration_api_ms": 1, "num_turns": 1, "result": "",
            "total_cost_usd": 0.0, "usage": {"input_tokens": 1, "output_tokens": 1},
            "modelUsage": {}, "permission_denials": [],
            "session_id": self.session, "uuid": Uuid::new_v4()}))?;
        self.out.flush()
    }

    /// Prints one message of this many bytes.
    fn huge_line(&mut self, bytes: usize) -> io::Result<()> {
        let text = "0123456789abcde ".repeat(bytes / 16);
        let message = json!({"id": format!("msg_{}", Uuid::new_v4().simple()), "type": "message",
            "role": "assistant", "model": "claude-bench",
            "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
            "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}});
        self.print(&json!({"type": "assistant", "message": message, "parent_tool_use_id": null,
            "session_id": self.session, "uuid": Uuid::new_v4()}))?;
        self.out.flush()
    }

    fn stream(&mut self, request: WordRequest) -> io::Result<()> {
        let start = Instant::now();
        let mut first = 1;
        while first <= request.count {
            let end = request.count.min(first + MESSAGE - 1);
            self.message(first, end, request.rate, start)?;
            first = end + 1;
        }
        self.out.flush()
    }

    fn message(&mut self, first: u32, end: u32, rate: u32, start: Instant) -> io::Result<()> {
        let id = format!("msg_{}", Uuid::new_v4().simple());
        let message = |content: Value| {
            json!({"id": id, "type": "message", "role": "assistant", "model": "claude-bench",
                "content": content, "stop_reason": null, "stop_sequence": null,
                "usage": {"input_tokens": 1, "output_tokens": 1}})
        };
        self.event(&json!({"type": "message_start", "message": message(json!([]))}))?;
        let block = json!({"type": "text", "text": ""});
        self.event(&json!({"type": "content_block_start", "index": 0, "content_block": block}))?;
        let mut text = String::new();
        for number in first..=end {
            if rate > 0 {
                self.out.flush()?;
                let due = Duration::from_secs(number.into()) / rate;
                thread::sleep(due.saturating_sub(start.elapsed()));
            }
            let start_of_word = text.len();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            // The followers search for this pattern.
            let _ = write!(text, "q{number:07}z{:016}", now.as_micros());
            text.push_str(if number % PARAGRAPH == 0 { "\n\n" } else { " " });
            let delta = json!({"type": "text_delta", "text": text[start_of_word..]});
            self.event(&json!({"type": "content_block_delta", "index": 0, "delta": delta}))?;
        }
        let whole = message(json!([{"type": "text", "text": text}]));
        self.print(&json!({"type": "assistant", "message": whole, "parent_tool_use_id": null,
            "session_id": self.session, "uuid": Uuid::new_v4()}))?;
        self.event(&json!({"type": "content_block_stop", "index": 0}))?;
        let end = json!({"stop_reason": "end_turn", "stop_sequence": null});
        let usage = json!({"output_tokens": 1});
        self.event(&json!({"type": "message_delta", "delta": end, "usage": usage}))?;
        self.event(&json!({"type": "message_stop"}))
    }
}
