//! Where an agent first does something else than a scenario says.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The first difference between a scenario and the agent. What the agent did is normalized.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VerifyDifference {
    /// The line of the scenario, counted from 1.
    pub line: usize,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
    /// The received line that matches best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closest: Option<VerifyClosestLine>,
    /// The kinds of the lines received since the previous step, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub received: Vec<String>,
    /// What the agent has written to stderr.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stderr: String,
}

/// A line that nearly matches an expectation, and the first place where it does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyClosestLine {
    pub line: String,
    /// The place in the line, such as `message.content[0].text`.
    pub path: String,
    pub expected: String,
    pub actual: String,
}

impl VerifyDifference {
    pub(super) fn new(line: usize, message: &str) -> Self {
        Self { line, message: message.to_owned(), ..Self::default() }
    }
}

/// How many lines of stderr and how many kinds of lines a difference shows.
const MAX_STDERR_LINES: usize = 8;
const MAX_KINDS: usize = 12;

impl fmt::Display for VerifyDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        let mut field = |label: &str, text: &str| {
            let text = text.replace('\n', "\n              ");
            write!(f, "\n    {label:<8}  {text}")
        };
        if let Some(expected) = &self.expected {
            field("expected", expected)?;
        }
        if let Some(actual) = &self.actual {
            field("actual", actual)?;
        }
        if let Some(VerifyClosestLine { line, path, expected, actual }) = &self.closest {
            field("closest", line)?;
            let path = if path.is_empty() { "the line" } else { path };
            field("mismatch", &format!("{path}: expected {expected}, actual {actual}"))?;
        }
        if !self.received.is_empty() {
            field("received", &count_runs(&self.received))?;
        }
        if !self.stderr.trim().is_empty() {
            let lines: Vec<&str> = self.stderr.trim().lines().collect();
            let from = lines.len().saturating_sub(MAX_STDERR_LINES);
            field("stderr", &lines[from..].join("\n"))?;
        }
        Ok(())
    }
}

/// Lists kinds in order, with repeated ones counted: `assistant, stream_event × 12, result`.
fn count_runs(kinds: &[String]) -> String {
    let mut runs: Vec<(&str, usize)> = Vec::new();
    for kind in kinds {
        match runs.last_mut() {
            Some((last, count)) if *last == kind => *count += 1,
            _ => runs.push((kind, 1)),
        }
    }
    let omitted = runs.len().saturating_sub(MAX_KINDS);
    let shown = runs.iter().skip(omitted).map(|(kind, count)| match count {
        1 => (*kind).to_owned(),
        _ => format!("{kind} × {count}"),
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    if omitted > 0 { format!("… {shown}") } else { shown }
}
