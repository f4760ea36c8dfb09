//! Two texts compared.

use similar::{ChangeTag, TextDiff};

use super::{Diff, DiffLine, Hunk, LineChange};

/// Lines that are shown around what changed.
const AROUND: usize = 3;

/// Texts of up to this many lines together are compared line by line.
const COMPARED: usize = 4000;

impl Diff {
    /// What makes `after` of `before`.
    ///
    /// Both are parts of a file, so their lines have no numbers.
    pub fn between(before: &str, after: &str) -> Self {
        if before == after {
            return Self::default();
        }
        // Beyond the limit only what is the same at both ends is found.
        let lines = before.lines().count() + after.lines().count();
        let hunks =
            if lines <= COMPARED { compared(before, after) } else { replaced(before, after) };
        Self { hunks, ..Self::default() }.finished()
    }
}

fn compared(before: &str, after: &str) -> Vec<Hunk> {
    let diff = TextDiff::from_lines(before, after);
    let groups = diff.grouped_ops(AROUND);
    let hunk = |ops: &Vec<similar::DiffOp>| Hunk {
        lines: ops
            .iter()
            .flat_map(|op| diff.iter_changes(op))
            .map(|change| {
                let sort = match change.tag() {
                    ChangeTag::Equal => LineChange::Kept,
                    ChangeTag::Delete => LineChange::Removed,
                    ChangeTag::Insert => LineChange::Added,
                };
                DiffLine::new(sort, None, change.value())
            })
            .collect(),
    };
    groups.iter().map(hunk).collect()
}

fn replaced(before: &str, after: &str) -> Vec<Hunk> {
    let old: Vec<_> = before.lines().collect();
    let new: Vec<_> = after.lines().collect();
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let behind = old[same..].iter().rev().zip(new[same..].iter().rev());
    let same_behind = behind.take_while(|(old, new)| old == new).count();
    let kept = |lines: &[&str]| -> Vec<DiffLine> {
        lines.iter().map(|line| DiffLine::new(LineChange::Kept, None, line)).collect()
    };
    let mut lines = kept(&old[same.saturating_sub(AROUND)..same]);
    for (sort, changed) in [
        (LineChange::Removed, &old[same..old.len() - same_behind]),
        (LineChange::Added, &new[same..new.len() - same_behind]),
    ] {
        lines.extend(changed.iter().map(|line| DiffLine::new(sort, None, line)));
    }
    let tail = &old[old.len() - same_behind..];
    lines.extend(kept(&tail[..tail.len().min(AROUND)]));
    vec![Hunk { lines }]
}
