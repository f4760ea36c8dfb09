//! The hunks a tool tells of its change.

use serde::Deserialize;

use super::{Diff, DiffLine, Hunk, LineChange};

/// A hunk as the tool writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    old_start: usize,
    new_start: usize,
    /// Each begins with a blank, `-`, `+`, or a backslash for remarks.
    lines: Vec<String>,
}

impl Diff {
    /// The change that a `structuredPatch` tells of; nothing if it is none or tells of no change.
    pub fn from_patch(json: &str) -> Option<Self> {
        let told: Vec<Told> = serde_json::from_str(json).ok()?;
        let hunks: Vec<_> = told.iter().map(hunk).collect();
        (!hunks.is_empty()).then(|| Self { hunks, ..Self::default() }.finished())
    }
}

fn hunk(told: &Told) -> Hunk {
    let mut old = told.old_start;
    let mut new = told.new_start;
    let mut lines = Vec::with_capacity(told.lines.len());
    for line in &told.lines {
        let mut characters = line.chars();
        let change = match characters.next() {
            Some('+') => LineChange::Added,
            Some('-') => LineChange::Removed,
            Some('\\') => continue,
            _ => LineChange::Kept,
        };
        let number = if change == LineChange::Removed { old } else { new };
        lines.push(DiffLine::new(change, Some(number), characters.as_str()));
        old += usize::from(change != LineChange::Added);
        new += usize::from(change != LineChange::Removed);
    }
    Hunk { lines }
}
