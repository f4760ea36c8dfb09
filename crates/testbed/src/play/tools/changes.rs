//! Changes of files: patches between two texts, and checkpoints to restore files from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Unchanged lines around a change in a patch.
const CONTEXT_LINES: usize = 3;

/// The contents of files before each prompt. A file that did not exist has none.
#[derive(Debug, Default)]
pub(crate) struct FileCheckpoints {
    prompts: Vec<(String, BTreeMap<PathBuf, Option<String>>)>,
}

impl FileCheckpoints {
    /// Attributes the changes that follow to a prompt.
    pub(crate) fn begin(&mut self, prompt: &str) {
        self.prompts.push((prompt.to_owned(), BTreeMap::new()));
    }

    /// Keeps the content of a file that is about to change.
    pub(crate) fn before_change(&mut self, path: &Path) {
        if let Some((_, files)) = self.prompts.last_mut() {
            files.entry(path.to_owned()).or_insert_with(|| std::fs::read_to_string(path).ok());
        }
    }

    /// Restores files to their state before a prompt, or only reports what would change.
    pub(crate) fn rewind(&mut self, prompt: &str, dry_run: bool) -> Value {
        let Some(position) = self.prompts.iter().position(|(it, _)| it == prompt) else {
            return json!({ "canRewind": false, "error": "No file checkpoint found for this message." });
        };
        let mut before: BTreeMap<PathBuf, Option<String>> = BTreeMap::new();
        for (_, files) in &self.prompts[position..] {
            for (path, content) in files {
                before.entry(path.clone()).or_insert_with(|| content.clone());
            }
        }
        let (mut changed, mut insertions, mut deletions) = (Vec::new(), 0, 0);
        for (path, content) in &before {
            let now = std::fs::read_to_string(path).unwrap_or_default();
            let (added, removed) = count_changes(&now, content.as_deref().unwrap_or_default());
            insertions += added;
            deletions += removed;
            changed.push(path.display().to_string());
            if dry_run {
                continue;
            }
            let restored = match content {
                Some(content) => std::fs::write(path, content),
                None => std::fs::remove_file(path),
            };
            if let Err(error) = restored {
                return json!({ "canRewind": false, "error": error.to_string() });
            }
        }
        if !dry_run {
            self.prompts.truncate(position + 1);
            self.prompts[position].1.clear();
        }
        json!({
            "canRewind": true, "filesChanged": changed, "insertions": insertions,
            "deletions": deletions,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatchLine<'a> {
    Same(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

/// The `structuredPatch` of a change.
pub(crate) fn hunks(before: &str, after: &str) -> Value {
    let old: Vec<&str> = before.lines().collect();
    let new: Vec<&str> = after.lines().collect();
    let lines = compare(&old, &new);
    let changes: Vec<usize> = (0..lines.len())
        .filter(|position| !matches!(lines[*position], PatchLine::Same(_)))
        .collect();
    let mut hunks: Vec<(usize, usize)> = Vec::new();
    for position in changes {
        let (from, to) = (
            position.saturating_sub(CONTEXT_LINES),
            (position + CONTEXT_LINES + 1).min(lines.len()),
        );
        match hunks.last_mut() {
            Some((_, end)) if *end >= from => *end = to,
            _ => hunks.push((from, to)),
        }
    }
    hunks.into_iter().map(|(from, to)| hunk(&lines, from, to)).collect()
}

fn hunk(lines: &[PatchLine<'_>], from: usize, to: usize) -> Value {
    let count = |lines: &[PatchLine<'_>], old: bool| {
        let counts = |line: &&PatchLine<'_>| match line {
            PatchLine::Same(_) => true,
            PatchLine::Removed(_) => old,
            PatchLine::Added(_) => !old,
        };
        lines.iter().filter(counts).count()
    };
    let texts: Vec<String> = lines[from..to]
        .iter()
        .map(|line| match line {
            PatchLine::Same(text) => format!(" {text}"),
            PatchLine::Removed(text) => format!("-{text}"),
            PatchLine::Added(text) => format!("+{text}"),
        })
        .collect();
    json!({
        "oldStart": count(&lines[..from], true) + 1, "oldLines": count(&lines[from..to], true),
        "newStart": count(&lines[..from], false) + 1, "newLines": count(&lines[from..to], false),
        "lines": texts,
    })
}

/// Compares two texts by their longest common subsequence. Beyond a size, only the lines that they
/// share at both ends count as the same.
fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<PatchLine<'a>> {
    let head = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let rest = old.len().min(new.len()) - head;
    let ends = old.iter().rev().zip(new.iter().rev()).take(rest);
    let tail = ends.take_while(|(one, other)| one == other).count();
    let (middle_old, middle_new) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut lines: Vec<PatchLine<'a>> =
        old[..head].iter().map(|line| PatchLine::Same(line)).collect();
    if middle_old.len() * middle_new.len() > 4_000_000 {
        lines.extend(middle_old.iter().map(|line| PatchLine::Removed(line)));
        lines.extend(middle_new.iter().map(|line| PatchLine::Added(line)));
    } else {
        lines.extend(compare_by_subsequence(middle_old, middle_new));
    }
    lines.extend(old[old.len() - tail..].iter().map(|line| PatchLine::Same(line)));
    lines
}

fn compare_by_subsequence<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<PatchLine<'a>> {
    let width = new.len() + 1;
    let mut lengths = vec![0_u32; (old.len() + 1) * width];
    for one in (0..old.len()).rev() {
        for other in (0..new.len()).rev() {
            lengths[one * width + other] = if old[one] == new[other] {
                lengths[(one + 1) * width + other + 1] + 1
            } else {
                lengths[(one + 1) * width + other].max(lengths[one * width + other + 1])
            };
        }
    }
    let (mut one, mut other) = (0, 0);
    let (mut lines, mut added) = (Vec::new(), Vec::new());
    while one < old.len() || other < new.len() {
        if one < old.len() && other < new.len() && old[one] == new[other] {
            lines.append(&mut added);
            lines.push(PatchLine::Same(old[one]));
            (one, other) = (one + 1, other + 1);
        } else if one < old.len()
            && (other == new.len()
                || lengths[(one + 1) * width + other] >= lengths[one * width + other + 1])
        {
            lines.push(PatchLine::Removed(old[one]));
            one += 1;
        } else {
            added.push(PatchLine::Added(new[other]));
            other += 1;
        }
    }
    lines.append(&mut added);
    lines
}

/// The numbers of lines added and removed between two texts.
fn count_changes(from: &str, to: &str) -> (usize, usize) {
    let patch = hunks(from, to);
    let lines = patch
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|hunk| hunk["lines"].as_array().cloned().unwrap_or_default());
    let mut counts = (0, 0);
    for line in lines {
        match line.as_str().and_then(|line| line.chars().next()) {
            Some('+') => counts.0 += 1,
            Some('-') => counts.1 += 1,
            _ => {}
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{FileCheckpoints, hunks};

    #[test]
    fn patches_are_those_of_2_1_325() {
        let one = json!([{"oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 3,
            "lines": ["-a", " b", "-a", "+b", "+b"]}]);
        assert_eq!(hunks("a\nb\na\n", "b\nb\nb\n"), one);
        let numbers: Vec<String> = (1..=10).map(|number| format!("line {number}")).collect();
        let many = numbers.join("\n") + "\n";
        let two = json!([{"oldStart": 2, "oldLines": 7, "newStart": 2, "newLines": 8, "lines": [
            " line 2", " line 3", " line 4", "-line 5", "+LINE five", "+and more", " line 6",
            " line 7", " line 8"]}]);
        assert_eq!(hunks(&many, &many.replace("line 5", "LINE five\nand more")), two);
        let fresh = json!([{"oldStart": 1, "oldLines": 0, "newStart": 1, "newLines": 2,
            "lines": ["+made", "+by edit"]}]);
        assert_eq!(hunks("", "made\nby edit\n"), fresh);
    }

    #[test]
    fn files_are_restored_and_new_ones_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        std::fs::write(&old, "one\n").unwrap();
        let mut checkpoints = FileCheckpoints::default();
        checkpoints.begin("p");
        checkpoints.before_change(&old);
        std::fs::write(&old, "two\n").unwrap();
        checkpoints.before_change(&new);
        std::fs::write(&new, "fresh\n").unwrap();
        let report = checkpoints.rewind("p", true);
        assert_eq!((&report["insertions"], &report["deletions"]), (&1.into(), &2.into()));
        assert!(new.exists());
        assert_eq!(checkpoints.rewind("p", false)["canRewind"], true);
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "one\n");
        assert!(!new.exists());
        assert_eq!(checkpoints.rewind("x", false)["canRewind"], false);
    }
}
