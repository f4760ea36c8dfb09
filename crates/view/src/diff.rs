//! Changes of files as hunks of lines, with the differing words marked.
//!
//! If the tool reports its change (`structuredPatch`), its hunks are used, because they have the real
//! line numbers. Otherwise the two texts of the call are compared. Comparing long texts that share
//! nothing takes quadratic time, so those are shown as one removed and the other added.

use serde::{Deserialize, Serialize};
use similar::{ChangeTag, TextDiff};

use crate::call::Call;
use crate::tool::ToolInput;

/// Unchanged lines shown around a change.
const CONTEXT_LINES: usize = 3;

/// Longer texts are not compared line by line.
const MAX_COMPARED_LINES: usize = 4000;

/// Longer texts are not compared at all when they are folded.
const MAX_COMPARED_BYTES: usize = 1 << 20;

/// Longer lines are not compared word by word.
const MAX_LINE_BYTES: usize = 400;

/// Two lines are one changed line if at least this part of them is the same.
const SIMILAR: f32 = 0.5;
const VERY_SIMILAR: f32 = 0.7;

/// A change of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// In the order of the file.
    pub hunks: Vec<DiffHunk>,
    /// Number of added lines.
    pub added: usize,
    /// Number of removed lines.
    pub removed: usize,
}

/// Adjacent lines of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiffHunk {
    pub lines: Vec<DiffLine>,
}

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    pub change: LineChange,
    /// Its line number: in the old file for a removed line, otherwise in the new one. `None` if only
    /// a part of the file is known.
    pub number: Option<usize>,
    /// Its text without the newline.
    pub spans: Vec<DiffSpan>,
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffSpan {
    pub text: String,
    /// Whether it differs between the old and the new line.
    pub changed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineChange {
    Unchanged,
    Added,
    Removed,
}

impl Diff {
    /// The change that a call makes; `None` if it changes no part of a file.
    ///
    /// A new file is not a change: it is shown as its content.
    pub fn of(call: &Call) -> Option<Self> {
        let hunks = call.result.as_ref().and_then(|result| result.hunks.as_deref());
        if let Some(diff) = hunks.and_then(Self::from_patch) {
            return Some(diff);
        }
        let ToolInput::Edit { replacements, .. } = call.tool_input() else { return None };
        let mut whole = Self::default();
        for replacement in replacements {
            whole.append(Self::between(&replacement.before, &replacement.after));
        }
        (!whole.hunks.is_empty()).then_some(whole)
    }

    fn append(&mut self, other: Self) {
        self.hunks.extend(other.hunks);
        self.added += other.added;
        self.removed += other.removed;
    }

    /// How many lines it has, unchanged ones included.
    pub fn len(&self) -> usize {
        self.hunks.iter().map(|hunk| hunk.lines.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.hunks.is_empty()
    }

    /// Marks the changed words and counts the lines.
    fn finished(mut self) -> Self {
        for hunk in &mut self.hunks {
            mark_changes(&mut hunk.lines);
        }
        let lines = self.hunks.iter().flat_map(|hunk| &hunk.lines);
        (self.added, self.removed) =
            lines.fold((0, 0), |(added, removed), line| match line.change {
                LineChange::Unchanged => (added, removed),
                LineChange::Added => (added + 1, removed),
                LineChange::Removed => (added, removed + 1),
            });
        self
    }
}

impl DiffLine {
    fn new(change: LineChange, number: Option<usize>, text: &str) -> Self {
        let text = text.trim_end_matches(['\n', '\r']).to_owned();
        Self { change, number, spans: vec![DiffSpan { text, changed: false }] }
    }

    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }
}

impl LineChange {
    /// The sign in front of the line in a patch.
    pub fn sign(self) -> char {
        match self {
            Self::Unchanged => ' ',
            Self::Added => '+',
            Self::Removed => '-',
        }
    }
}

impl Diff {
    /// The difference of two texts. Both are parts of a file, so their lines have no numbers.
    pub fn between(before: &str, after: &str) -> Self {
        if before == after {
            return Self::default();
        }
        let lines = before.lines().count() + after.lines().count();
        let hunks = if lines <= MAX_COMPARED_LINES {
            compare(before, after)
        } else {
            replace_all(before, after)
        };
        Self { hunks, ..Self::default() }.finished()
    }
}

fn compare(before: &str, after: &str) -> Vec<DiffHunk> {
    let diff = TextDiff::from_lines(before, after);
    let groups = diff.grouped_ops(CONTEXT_LINES);
    let hunk = |ops: &Vec<similar::DiffOp>| DiffHunk {
        lines: ops
            .iter()
            .flat_map(|op| diff.iter_changes(op))
            .map(|change| {
                let kind = match change.tag() {
                    ChangeTag::Equal => LineChange::Unchanged,
                    ChangeTag::Delete => LineChange::Removed,
                    ChangeTag::Insert => LineChange::Added,
                };
                DiffLine::new(kind, None, change.value())
            })
            .collect(),
    };
    groups.iter().map(hunk).collect()
}

fn replace_all(before: &str, after: &str) -> Vec<DiffHunk> {
    let old: Vec<_> = before.lines().collect();
    let new: Vec<_> = after.lines().collect();
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let after = old[same..].iter().rev().zip(new[same..].iter().rev());
    let same_after = after.take_while(|(old, new)| old == new).count();
    let kept = |lines: &[&str]| -> Vec<DiffLine> {
        lines.iter().map(|line| DiffLine::new(LineChange::Unchanged, None, line)).collect()
    };
    let mut lines = kept(&old[same.saturating_sub(CONTEXT_LINES)..same]);
    for (kind, changed) in [
        (LineChange::Removed, &old[same..old.len() - same_after]),
        (LineChange::Added, &new[same..new.len() - same_after]),
    ] {
        lines.extend(changed.iter().map(|line| DiffLine::new(kind, None, line)));
    }
    let tail = &old[old.len() - same_after..];
    lines.extend(kept(&tail[..tail.len().min(CONTEXT_LINES)]));
    vec![DiffHunk { lines }]
}

/// A hunk of a `structuredPatch`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StructuredHunk {
    old_start: usize,
    #[serde(default)]
    old_lines: usize,
    new_start: usize,
    #[serde(default)]
    new_lines: usize,
    /// Each begins with a blank, `-`, `+`, or a backslash for a comment.
    lines: Vec<String>,
}

impl StructuredHunk {
    fn push(&mut self, change: LineChange, text: &str) {
        self.old_lines += usize::from(change != LineChange::Added);
        self.new_lines += usize::from(change != LineChange::Removed);
        self.lines.push(format!("{}{}", change.sign(), text.trim_end_matches(['\n', '\r'])));
    }

    /// The size of its lines.
    pub(crate) fn text_bytes(&self) -> usize {
        self.lines.iter().map(String::len).sum()
    }
}

/// Hunks as JSON; `None` if there are none.
pub(crate) fn structured_patch(hunks: &[StructuredHunk]) -> Option<String> {
    (!hunks.is_empty()).then(|| serde_json::to_string(hunks).ok()).flatten()
}

/// The hunks between two texts, with about `max_bytes` of lines.
///
/// The texts are whole files, or parts of them that begin at `line`: a text that has fewer lines than
/// that cannot be the whole file.
pub(crate) fn hunks_between(
    before: &str,
    after: &str,
    line: Option<usize>,
    max_bytes: usize,
) -> Vec<StructuredHunk> {
    if before == after {
        return Vec::new();
    }
    let is_large = before.len() + after.len() > MAX_COMPARED_BYTES;
    let lines = |text: &str| memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1;
    let first = line.filter(|&line| !is_large && lines(before) < line).unwrap_or(1);
    if is_large || lines(before) + lines(after) > MAX_COMPARED_LINES {
        return vec![replaced_hunk(before, after, max_bytes)];
    }
    let diff = TextDiff::from_lines(before, after);
    let mut bytes = 0;
    let mut hunks = Vec::new();
    for ops in diff.grouped_ops(CONTEXT_LINES) {
        let Some(start) = ops.first() else { continue };
        let mut hunk = StructuredHunk {
            old_start: first + start.old_range().start,
            new_start: first + start.new_range().start,
            ..StructuredHunk::default()
        };
        for change in ops.iter().flat_map(|op| diff.iter_changes(op)) {
            bytes += change.value().len();
            if bytes > max_bytes {
                break;
            }
            let kind = match change.tag() {
                ChangeTag::Equal => LineChange::Unchanged,
                ChangeTag::Delete => LineChange::Removed,
                ChangeTag::Insert => LineChange::Added,
            };
            hunk.push(kind, change.value());
        }
        if !hunk.lines.is_empty() {
            hunks.push(hunk);
        }
    }
    hunks
}

/// Long texts: what differs at the first line that does is removed and added.
fn replaced_hunk(before: &str, after: &str, max_bytes: usize) -> StructuredHunk {
    let same = before.lines().zip(after.lines()).take_while(|(old, new)| old == new).count();
    let mut hunk =
        StructuredHunk { old_start: same + 1, new_start: same + 1, ..StructuredHunk::default() };
    for (change, text) in [(LineChange::Removed, before), (LineChange::Added, after)] {
        let mut room = max_bytes / 2;
        for line in text.lines().skip(same) {
            if line.len() > room {
                break;
            }
            room -= line.len();
            hunk.push(change, line);
        }
    }
    hunk
}

/// The hunks of a patch as `git` writes it, with about `max_bytes` of lines.
pub(crate) fn hunks_of_patch(patch: &str, max_bytes: usize) -> Vec<StructuredHunk> {
    let mut hunks: Vec<StructuredHunk> = Vec::new();
    let mut bytes = 0;
    // How many lines of the hunk are still to come, in the old file and in the new one.
    let mut missing = (0_usize, 0_usize);
    for line in patch.lines() {
        if missing == (0, 0) {
            let Some(ranges) = line.strip_prefix("@@ ").and_then(hunk_ranges) else { continue };
            let ((old_start, old_lines), (new_start, new_lines)) = ranges;
            missing = (old_lines, new_lines);
            hunks.push(StructuredHunk { old_start, new_start, ..StructuredHunk::default() });
            continue;
        }
        let (change, text) = match line.as_bytes().first() {
            Some(b'+') => (LineChange::Added, &line[1..]),
            Some(b'-') => (LineChange::Removed, &line[1..]),
            Some(b' ') => (LineChange::Unchanged, &line[1..]),
            Some(b'\\') => continue,
            _ => (LineChange::Unchanged, line),
        };
        bytes += line.len();
        if bytes > max_bytes {
            break;
        }
        missing.0 = missing.0.saturating_sub(usize::from(change != LineChange::Added));
        missing.1 = missing.1.saturating_sub(usize::from(change != LineChange::Removed));
        if let Some(hunk) = hunks.last_mut() {
            hunk.push(change, text);
        }
    }
    hunks.retain(|hunk| !hunk.lines.is_empty());
    hunks
}

type LineRange = (usize, usize);

/// The first line and the number of lines in both files: `-1,3 +1,4 @@`.
fn hunk_ranges(header: &str) -> Option<(LineRange, LineRange)> {
    let mut words = header.split(' ');
    let mut range = |sign: char| {
        let word = words.next()?.strip_prefix(sign)?;
        let (start, count) = word.split_once(',').unwrap_or((word, "1"));
        Some((start.parse().ok()?, count.parse().ok()?))
    };
    Some((range('-')?, range('+')?))
}

impl Diff {
    /// The change of a `structuredPatch`; `None` if it is invalid or empty.
    pub fn from_patch(json: &str) -> Option<Self> {
        let hunks: Vec<StructuredHunk> = serde_json::from_str(json).ok()?;
        let hunks: Vec<_> = hunks.iter().map(hunk).collect();
        (!hunks.is_empty()).then(|| Self { hunks, ..Self::default() }.finished())
    }
}

fn hunk(structured: &StructuredHunk) -> DiffHunk {
    let mut old = structured.old_start;
    let mut new = structured.new_start;
    let mut lines = Vec::with_capacity(structured.lines.len());
    for line in &structured.lines {
        let mut characters = line.chars();
        let change = match characters.next() {
            Some('+') => LineChange::Added,
            Some('-') => LineChange::Removed,
            Some('\\') => continue,
            _ => LineChange::Unchanged,
        };
        let number = if change == LineChange::Removed { old } else { new };
        lines.push(DiffLine::new(change, Some(number), characters.as_str()));
        old += usize::from(change != LineChange::Added);
        new += usize::from(change != LineChange::Removed);
    }
    DiffHunk { lines }
}

/// Marks the differing words of removed lines and the added lines that follow them.
///
/// The first removed line is compared with the first added one, and so on. If their numbers differ,
/// this pairing is a guess, so the lines must be more similar to be marked.
fn mark_changes(lines: &mut [DiffLine]) {
    let mut at = 0;
    while at < lines.len() {
        let run = |from: usize, change: LineChange, lines: &[DiffLine]| {
            lines[from..].iter().take_while(|line| line.change == change).count()
        };
        let removed = run(at, LineChange::Removed, lines);
        let added = run(at + removed, LineChange::Added, lines);
        let least = if removed == added { SIMILAR } else { VERY_SIMILAR };
        let (old, new) = lines[at..at + removed + added].split_at_mut(removed);
        for (old, new) in old.iter_mut().zip(new) {
            mark_pair(old, new, least);
        }
        at += (removed + added).max(1);
    }
}

fn mark_pair(old: &mut DiffLine, new: &mut DiffLine, least: f32) {
    let (before, after) = (old.text(), new.text());
    if before.len() > MAX_LINE_BYTES || after.len() > MAX_LINE_BYTES {
        return;
    }
    let (old_words, new_words) = (words(&before), words(&after));
    let diff = TextDiff::from_slices(&old_words, &new_words);
    if diff.ratio() < least {
        return;
    }
    old.spans.clear();
    new.spans.clear();
    for change in diff.iter_all_changes() {
        let text = change.value();
        match change.tag() {
            ChangeTag::Equal => {
                add_span(&mut old.spans, text, false);
                add_span(&mut new.spans, text, false);
            }
            ChangeTag::Delete => add_span(&mut old.spans, text, true),
            ChangeTag::Insert => add_span(&mut new.spans, text, true),
        }
    }
}

/// Identifiers, runs of blanks, and single other characters.
fn words(line: &str) -> Vec<&str> {
    let sort = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 1,
        c if c.is_whitespace() => 2,
        _ => 0,
    };
    let mut words = Vec::new();
    let mut start = 0;
    let mut last = 0;
    for (at, c) in line.char_indices() {
        if at > start && (sort(c) != last || last == 0) {
            words.push(&line[start..at]);
            start = at;
        }
        last = sort(c);
    }
    if start < line.len() {
        words.push(&line[start..]);
    }
    words
}

fn add_span(spans: &mut Vec<DiffSpan>, text: &str, changed: bool) {
    match spans.last_mut() {
        Some(last) if last.changed == changed => last.text.push_str(text),
        _ => spans.push(DiffSpan { text: text.to_owned(), changed }),
    }
}

#[cfg(test)]
mod tests {
    use super::{Diff, LineChange};

    /// A diff in short: signs and text, changed words in brackets.
    fn summary(diff: &Diff) -> String {
        let mut out = String::new();
        for hunk in &diff.hunks {
            for line in &hunk.lines {
                out.push(line.change.sign());
                for span in &line.spans {
                    let (open, close) = if span.changed { ("[", "]") } else { ("", "") };
                    out.extend([open, &span.text, close]);
                }
                out.push('\n');
            }
            out.push_str("~\n");
        }
        out
    }

    fn numbered(word: &str, lines: usize) -> String {
        let lines: Vec<_> = (0..lines).map(|number| format!("{word}{number}")).collect();
        lines.join("\n") + "\n"
    }

    #[test]
    fn lines_are_compared_and_words_marked() {
        let diff = Diff::between("a\nlet x = 1;\nc\n", "a\nlet x = 2;\nc\nd\n");
        assert_eq!(summary(&diff), " a\n-let x = [1];\n+let x = [2];\n c\n+d\n~\n");
        assert_eq!((diff.added, diff.removed), (2, 1));
    }

    #[test]
    fn lines_that_share_little_are_not_marked() {
        let diff = Diff::between("one thing\n", "completely other words\n");
        assert_eq!(summary(&diff), "-one thing\n+completely other words\n~\n");
    }

    #[test]
    fn far_apart_changes_are_hunks_of_their_own() {
        let before = numbered("", 40);
        let after = before.replace("\n5\n", "\nfive\n").replace("\n30\n", "\nthirty\n");
        let diff = Diff::between(&before, &after);
        assert_eq!(diff.hunks.len(), 2);
        assert_eq!(diff.len(), 16);
    }

    #[test]
    fn nothing_changed_is_no_hunk() {
        assert!(Diff::between("a\n", "a\n").is_empty());
        assert!(Diff::between("", "").is_empty());
    }

    #[test]
    fn the_tools_own_hunks_have_the_line_numbers_of_the_file() {
        let patch = r#"[{"oldStart":10,"oldLines":2,"newStart":10,"newLines":2,"lines":[" keep","-old words here","+new words here","\\ No newline at end of file"]}]"#;
        let diff = Diff::from_patch(patch).unwrap();
        assert_eq!(summary(&diff), " keep\n-[old] words here\n+[new] words here\n~\n");
        let numbers: Vec<_> = diff.hunks[0].lines.iter().map(|line| line.number).collect();
        assert_eq!(numbers, [Some(10), Some(11), Some(11)]);
        for odd in ["", "[]", "{}", "[1]", r#"[{"lines":5}]"#, r#"[{"oldStart":1}]"#] {
            assert_eq!(Diff::from_patch(odd), None, "{odd}");
        }
    }

    #[test]
    fn long_texts_that_share_nothing_are_shown_at_once() {
        let before = numbered("before ", 30_000);
        let after = numbered("after ", 30_000);
        let diff = Diff::between(&format!("head\n{before}tail\n"), &format!("head\n{after}tail\n"));
        assert_eq!((diff.added, diff.removed), (30_000, 30_000));
        assert_eq!(diff.hunks[0].lines[0].change, LineChange::Unchanged);
    }
}
