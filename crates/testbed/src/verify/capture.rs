//! What a conversation left behind, as files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::agent::Agent;
use super::tape::{Entry, Way};
use crate::api::RecordedRequest;

/// Everything that was seen of one conversation.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// What went to and came from the agent.
    pub entries: Vec<Entry>,
    /// What the API was asked.
    pub requests: Vec<RecordedRequest>,
    /// The agent's processes.
    pub processes: Vec<ProcessTrace>,
}

/// What is known about one process of the agent.
#[derive(Clone, Debug)]
pub struct ProcessTrace {
    /// What it was started with.
    pub arguments: Vec<String>,
    /// How it ended; nothing where it was cut off.
    pub ended: Option<String>,
    /// What it wrote to stderr.
    pub errors: String,
}

impl Capture {
    /// Writes the files below a directory: `VERSION/NAME/…`.
    pub(super) fn write(
        &self,
        directory: &Path,
        agent: &Agent,
        name: &str,
        outcome: &str,
    ) -> io::Result<PathBuf> {
        let place = directory.join(&agent.label).join(name);
        fs::create_dir_all(&place)?;
        for (file, way) in [("stdin.jsonl", Way::Said), ("stdout.jsonl", Way::Heard)] {
            let mut out = BufWriter::new(File::create(place.join(file))?);
            for entry in self.entries.iter().filter(|entry| entry.way == way) {
                writeln!(out, "{}", entry.text)?;
            }
            out.flush()?;
        }
        let errors: String = self.processes.iter().map(|it| it.errors.as_str()).collect();
        fs::write(place.join("stderr.txt"), errors)?;
        let mut out = BufWriter::new(File::create(place.join("requests.jsonl"))?);
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
            .map(|it| json!({"arguments": it.arguments, "ended": it.ended}))
            .collect();
        let course: Vec<_> = self.entries.iter().map(course).collect();
        let run = json!({
            "scenario": name,
            "agent": agent.label,
            "version": agent.version.to_string(),
            "outcome": outcome,
            "processes": processes,
            "course": course,
        });
        fs::write(place.join("run.json"), format!("{run:#}\n"))?;
        Ok(place)
    }
}

/// One entry in a word: `123 ms 1 < system/init`.
fn course(entry: &Entry) -> String {
    let (sign, what) = match entry.way {
        Way::Said => (">", entry.kind()),
        Way::Heard => ("<", entry.kind()),
        Way::Done => ("·", entry.text.clone()),
    };
    format!("{} ms {} {sign} {what}", entry.at.as_millis(), entry.process)
}
