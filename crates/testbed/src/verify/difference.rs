//! What an agent did otherwise.

use std::fmt;

use serde::Serialize;

/// Why a conversation stopped.
#[derive(Debug)]
pub(super) enum Stop {
    /// The agent does something else.
    Differs(Box<Difference>),
    /// It could not be tried.
    Broken(String),
}

/// Something that is not as the scenario says. All of what was seen is normalised.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Difference {
    /// The line of the scenario, from 1 on.
    pub line: usize,
    /// What is the matter.
    pub what: String,
    /// What the scenario says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What there was instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// The line that came nearest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<Nearest>,
    /// The kinds that came since the step before, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub came: Vec<String>,
    /// What the agent wrote to stderr.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stderr: String,
}

/// A line that is nearly as expected, and the first place where it is not.
#[derive(Clone, Debug, Serialize)]
pub struct Nearest {
    /// The line.
    pub line: String,
    /// The place in it: `message.content[0].text`.
    pub path: String,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub seen: String,
}

impl Difference {
    pub(super) fn new(line: usize, what: &str) -> Self {
        Self { line, what: what.to_owned(), ..Self::default() }
    }
}

impl From<Difference> for Stop {
    fn from(difference: Difference) -> Self {
        Self::Differs(Box::new(difference))
    }
}

/// How much of stderr, and of what came, is shown.
const SHOWN_LINES: usize = 8;
const SHOWN_KINDS: usize = 12;

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        let mut line = |label: &str, text: &str| {
            let text = text.replace('\n', "\n              ");
            write!(f, "\n    {label:<8}  {text}")
        };
        if let Some(expected) = &self.expected {
            line("expected", expected)?;
        }
        if let Some(seen) = &self.seen {
            line("seen", seen)?;
        }
        if let Some(nearest) = &self.nearest {
            line("nearest", &nearest.line)?;
            let Nearest { path, expected, seen, .. } = nearest;
            let place = if path.is_empty() { "it" } else { path };
            line("differs", &format!("{place}: expected {expected}, seen {seen}"))?;
        }
        if !self.came.is_empty() {
            line("came", &runs(&self.came))?;
        }
        if !self.stderr.trim().is_empty() {
            let lines: Vec<&str> = self.stderr.trim().lines().collect();
            let from = lines.len().saturating_sub(SHOWN_LINES);
            line("stderr", &lines[from..].join("\n"))?;
        }
        Ok(())
    }
}

/// Kinds in order, with neighbours of one kind counted: `assistant, stream_event × 12, result`.
fn runs(kinds: &[String]) -> String {
    let mut runs: Vec<(&str, usize)> = Vec::new();
    for kind in kinds {
        match runs.last_mut() {
            Some((last, count)) if *last == kind => *count += 1,
            _ => runs.push((kind, 1)),
        }
    }
    let left_out = runs.len().saturating_sub(SHOWN_KINDS);
    let shown = runs.iter().skip(left_out).map(|(kind, count)| match count {
        1 => (*kind).to_owned(),
        _ => format!("{kind} × {count}"),
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    if left_out > 0 { format!("… {shown}") } else { shown }
}
