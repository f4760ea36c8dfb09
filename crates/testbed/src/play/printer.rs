//! stdout: every line, the last one, or only its words.
//!
//! A thread of its own writes, so that a host that reads slowly holds up its own lines and not the
//! session. The channel is bounded; when it is full, the session waits.

use std::io::Write as _;
use std::thread::JoinHandle;

use serde_json::Value;
use tokio::sync::mpsc;

use super::arguments::OutputFormat;

/// Lines that may wait for the writer.
const WAITING: usize = 1024;

/// Writes lines in a format.
#[derive(Debug)]
pub(crate) struct Printer {
    format: OutputFormat,
    verbose: bool,
    kept: Vec<Value>,
    lines: Option<mpsc::Sender<Vec<u8>>>,
    writer: Option<JoinHandle<()>>,
}

impl Printer {
    /// Writes to stdout.
    pub(crate) fn new(format: OutputFormat, verbose: bool) -> Self {
        let (lines, mut waiting) = mpsc::channel::<Vec<u8>>(WAITING);
        let writer = std::thread::spawn(move || {
            let mut stdout = std::io::stdout().lock();
            while let Some(line) = waiting.blocking_recv() {
                if stdout.write_all(&line).and_then(|()| stdout.flush()).is_err() {
                    return;
                }
            }
        });
        let (lines, writer) = (Some(lines), Some(writer));
        Self { format, verbose, kept: Vec::new(), lines, writer }
    }

    /// Takes a line; whether somebody still reads.
    pub(crate) async fn print(&mut self, line: Value) -> bool {
        match self.format {
            OutputFormat::StreamJson => self.raw(text(&line)).await,
            OutputFormat::Json | OutputFormat::Text => {
                let kind = line["type"].as_str().unwrap_or_default();
                if kind != "stream_event" && !kind.starts_with("control") {
                    self.kept.push(line);
                }
                true
            }
        }
    }

    /// Writes bytes as they are.
    pub(crate) async fn raw(&self, bytes: Vec<u8>) -> bool {
        match &self.lines {
            Some(lines) => lines.send(bytes).await.is_ok(),
            None => false,
        }
    }

    /// Writes what was kept for the end, and waits until everything is out.
    pub(crate) async fn close(mut self) {
        let result = self.kept.iter().rfind(|line| line["type"] == "result").cloned();
        match self.format {
            OutputFormat::StreamJson => {}
            OutputFormat::Json if self.verbose => {
                let all = Value::Array(std::mem::take(&mut self.kept));
                self.raw(text(&all)).await;
            }
            OutputFormat::Json => {
                if let Some(result) = result {
                    self.raw(text(&result)).await;
                }
            }
            OutputFormat::Text => {
                if let Some(result) = result {
                    let words = result["result"].as_str().or(result["errors"][0].as_str());
                    let mut words = words.unwrap_or_default().to_owned();
                    words.push('\n');
                    self.raw(words.into_bytes()).await;
                }
            }
        }
        self.lines = None;
        if let Some(writer) = self.writer.take() {
            drop(tokio::task::spawn_blocking(move || writer.join()).await);
        }
    }
}

/// A line, with what splits lines for some readers escaped as 2.1.325 does.
pub(crate) fn text(line: &Value) -> Vec<u8> {
    let mut text = line.to_string();
    if text.contains(['\u{2028}', '\u{2029}']) {
        text = text.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    }
    text.push('\n');
    text.into_bytes()
}
