//! The transcript of a scenario: everything written to and read from the agent, in order. A capture
//! is a transcript as files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::agent::VerifyAgent;
use crate::api::ApiRequestRecord;

/// The transcript, shared by the tasks that read the agent's output and the runner that waits for it.
#[derive(Clone, Debug)]
pub(super) struct VerifyTranscript {
    entries: Arc<Mutex<Vec<VerifyTranscriptEntry>>>,
    changes: watch::Sender<()>,
    started: Instant,
}

#[derive(Clone, Debug)]
pub struct VerifyTranscriptEntry {
    /// The time since the start of the scenario.
    pub time: Duration,
    /// The number of the agent's process, counted from 1.
    pub process: usize,
    pub direction: VerifyDirection,
    /// The line without its newline, or the name of the action.
    pub text: String,
    /// The line as JSON, or as a string if it is not JSON.
    pub value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyDirection {
    /// A line written to the agent's stdin.
    Input,
    /// A line read from the agent's stdout.
    Output,
    /// Something else that the runner did: a start, a signal, the end of input.
    Action,
}

impl VerifyTranscript {
    pub(super) fn new() -> Self {
        let entries = Arc::new(Mutex::new(Vec::new()));
        Self { entries, changes: watch::Sender::new(()), started: Instant::now() }
    }

    pub(super) fn add(&self, process: usize, direction: VerifyDirection, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let value = match direction {
            VerifyDirection::Input | VerifyDirection::Output => serde_json::from_str(&text).ok(),
            VerifyDirection::Action => None,
        };
        let value = value.unwrap_or_else(|| Value::String(text.clone()));
        let time = self.started.elapsed();
        self.entries().push(VerifyTranscriptEntry { time, process, direction, text, value });
        self.notify();
    }

    /// Wakes everything that waits for a change, although there is no new entry.
    pub(super) fn notify(&self) {
        self.changes.send_replace(());
    }

    /// A receiver for all changes from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub(super) fn entries(&self) -> MutexGuard<'_, Vec<VerifyTranscriptEntry>> {
        // A push cannot leave the list incomplete, so a poisoned lock is harmless.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl VerifyTranscriptEntry {
    /// `type/subtype`, or `type` if there is no subtype.
    pub fn kind(&self) -> String {
        line_kind(&self.value)
    }

    /// Whether the entry is a line that this process has printed.
    pub(super) fn is_output_of(&self, process: usize) -> bool {
        self.process == process && self.direction == VerifyDirection::Output
    }

    /// The entry in the timeline of a capture: `123 ms 1 < system/init`.
    fn summary(&self) -> String {
        let (sign, what) = match self.direction {
            VerifyDirection::Input => (">", self.kind()),
            VerifyDirection::Output => ("<", self.kind()),
            VerifyDirection::Action => ("·", self.text.clone()),
        };
        format!("{} ms {} {sign} {what}", self.time.as_millis(), self.process)
    }
}

/// The `type/subtype` of a line, or its `type` if it has no subtype.
pub(super) fn line_kind(value: &Value) -> String {
    if let Some(kind) = acp_kind(value) {
        return kind;
    }
    let Some(kind) = value["type"].as_str() else { return "line".to_owned() };
    match subtype(kind, value) {
        Some(subtype) => format!("{kind}/{subtype}"),
        None => kind.to_owned(),
    }
}

/// Whether a line has this kind. `line` includes all lines, a `type` all of its subtypes.
pub(super) fn has_kind(value: &Value, kind: &str) -> bool {
    let (expected_type, expected_subtype) = match kind.split_once('/') {
        Some((kind, subtype)) => (kind, Some(subtype)),
        None => (kind, None),
    };
    if kind == "line" {
        return true;
    }
    if let Some(actual) = acp_kind(value) {
        let rest = actual.strip_prefix(kind);
        return rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    }
    value["type"] == expected_type
        && expected_subtype.is_none_or(|expected| subtype(expected_type, value) == Some(expected))
}

/// The kind of a message of the Agent Client Protocol: `update/agent_message_chunk`, a method such as
/// `session/request_permission`, `response/result` or `response/error`.
fn acp_kind(value: &Value) -> Option<String> {
    value.get("jsonrpc")?;
    Some(match value["method"].as_str() {
        Some("session/update") => {
            let update = value["params"]["update"]["sessionUpdate"].as_str();
            format!("update/{}", update.unwrap_or("unknown"))
        }
        Some(method) => method.to_owned(),
        None if value.get("error").is_some_and(|it| !it.is_null()) => "response/error".to_owned(),
        None => "response/result".to_owned(),
    })
}

/// Whether the agent waits for an answer to this line.
pub(super) fn is_request(value: &Value) -> bool {
    let is_call = value.get("jsonrpc").is_some() && value.get("id").is_some();
    has_kind(value, "control_request") || (is_call && value["method"].is_string())
}

fn subtype<'a>(kind: &str, value: &'a Value) -> Option<&'a str> {
    let subtype = match kind {
        "control_request" => &value["request"]["subtype"],
        "control_response" => &value["response"]["subtype"],
        "stream_event" => &value["event"]["type"],
        _ => &value["subtype"],
    };
    subtype.as_str()
}

/// Everything recorded about one run of a scenario.
#[derive(Clone, Debug, Default)]
pub struct VerifyCapture {
    pub entries: Vec<VerifyTranscriptEntry>,
    /// The requests to the API.
    pub requests: Vec<ApiRequestRecord>,
    pub processes: Vec<VerifyProcessRecord>,
}

/// One process of the agent.
#[derive(Clone, Debug)]
pub struct VerifyProcessRecord {
    pub arguments: Vec<String>,
    /// How the process ended. `None` if the runner stopped before that.
    pub exit: Option<String>,
    pub stderr: String,
}

impl VerifyCapture {
    /// Writes the files to `DIRECTORY/AGENT/SCENARIO/` and returns that path.
    pub(super) fn write(
        &self,
        directory: &Path,
        agent: &VerifyAgent,
        scenario: &str,
        outcome: &str,
    ) -> io::Result<PathBuf> {
        let path = directory.join(&agent.label).join(scenario);
        fs::create_dir_all(&path)?;
        let streams =
            [("stdin.jsonl", VerifyDirection::Input), ("stdout.jsonl", VerifyDirection::Output)];
        for (file, direction) in streams {
            let mut out = BufWriter::new(File::create(path.join(file))?);
            for entry in self.entries.iter().filter(|entry| entry.direction == direction) {
                writeln!(out, "{}", entry.text)?;
            }
            out.flush()?;
        }
        let stderr: String = self.processes.iter().map(|it| it.stderr.as_str()).collect();
        fs::write(path.join("stderr.txt"), stderr)?;
        let mut out = BufWriter::new(File::create(path.join("requests.jsonl"))?);
        for request in &self.requests {
            let line = json!({
                "number": request.number,
                "kind": request.kind,
                "method": request.method,
                "path": request.path,
                "body": request.body,
            });
            writeln!(out, "{line}")?;
        }
        out.flush()?;
        let processes: Vec<_> = self
            .processes
            .iter()
            .map(|it| json!({"arguments": it.arguments, "exit": it.exit}))
            .collect();
        let timeline: Vec<_> = self.entries.iter().map(VerifyTranscriptEntry::summary).collect();
        let run = json!({
            "scenario": scenario,
            "agent": agent.label,
            "version": agent.version.to_string(),
            "outcome": outcome,
            "processes": processes,
            "timeline": timeline,
        });
        fs::write(path.join("run.json"), format!("{run:#}\n"))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{has_kind, line_kind};

    #[test]
    fn a_kind_is_a_type_with_its_inner_subtype() {
        let table = [
            (json!({"type": "system", "subtype": "init"}), "system/init"),
            (json!({"type": "assistant"}), "assistant"),
            (json!({"type": "control_request", "request": {"subtype": "x"}}), "control_request/x"),
            (
                json!({"type": "control_response", "response": {"subtype": "error"}}),
                "control_response/error",
            ),
            (json!({"type": "stream_event", "event": {"type": "ping"}}), "stream_event/ping"),
            (json!({"type": "control_cancel_request"}), "control_cancel_request"),
            (
                json!({"jsonrpc": "2.0", "method": "session/update",
                    "params": {"update": {"sessionUpdate": "plan"}}}),
                "update/plan",
            ),
            (json!({"jsonrpc": "2.0", "id": 1, "method": "fs/read"}), "fs/read"),
            (json!({"jsonrpc": "2.0", "id": 1, "result": null}), "response/result"),
            (json!({"jsonrpc": "2.0", "id": 1, "error": {}}), "response/error"),
            (json!("plain"), "line"),
            (json!([1]), "line"),
        ];
        for (value, expected) in table {
            assert_eq!(line_kind(&value), expected);
            assert!(has_kind(&value, expected), "{value}");
            assert!(has_kind(&value, "line"), "{value}");
        }
        assert!(has_kind(&json!({"type": "system", "subtype": "init"}), "system"));
        assert!(!has_kind(&json!({"type": "system", "subtype": "init"}), "system/status"));
        assert!(!has_kind(&json!({"type": "system"}), "system/init"));
        assert!(has_kind(&json!({"jsonrpc": "2.0", "id": 1, "error": {}}), "response"));
        assert!(!has_kind(&json!({"jsonrpc": "2.0", "id": 1, "error": {}}), "resp"));
    }
}
