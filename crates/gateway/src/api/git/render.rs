//! Patches as HTML, within bounds.

use project::git::{FilePatch, PatchHunk};
use serde_json::json;
use view::diff::Diff;
use view::html;

use super::responses::{GitDiffResponse, GitHunkResponse};
use crate::limits::MAX_DIFF_BYTES;

/// How many lines of a diff are shown.
const MAX_LINES: usize = 4000;

/// How many bytes of a line are shown.
const MAX_LINE_BYTES: usize = 2000;

/// How many hunks are shown: each has buttons.
const MAX_HUNKS: usize = 400;

/// Renders the change of a file. `can_split` is whether single hunks can be changed.
pub(super) fn render(patches: &[FilePatch], can_split: bool) -> GitDiffResponse {
    let mut diff = GitDiffResponse::default();
    let (mut lines, mut bytes) = (MAX_LINES, MAX_DIFF_BYTES);
    for patch in patches {
        diff.binary |= patch.binary;
        diff.added |= patch.added;
        diff.deleted |= patch.deleted;
        diff.cut |= patch.cut;
        if patch.old_mode != patch.new_mode && !patch.added && !patch.deleted {
            diff.old_mode.clone_from(&patch.old_mode);
            diff.new_mode.clone_from(&patch.new_mode);
        }
        let can_split = can_split && patches.len() == 1 && patch.can_split();
        for hunk in &patch.hunks {
            let count = |sign: u8| hunk.lines().filter(|it| it.first() == Some(&sign)).count();
            let (added, removed) = (count(b'+'), count(b'-'));
            diff.lines_added += added;
            diff.lines_removed += removed;
            if lines == 0 || bytes == 0 || diff.hunks.len() >= MAX_HUNKS {
                diff.hidden_hunks += 1;
                continue;
            }
            let html = render_hunk(hunk, &mut lines);
            bytes = bytes.saturating_sub(html.len());
            let heading = String::from_utf8_lossy(&hunk.heading).into_owned();
            let id = can_split.then(|| hunk.id());
            let (old_start, new_start) = (hunk.old_start, hunk.new_start);
            let rendered =
                GitHunkResponse { id, heading, old_start, new_start, added, removed, html };
            diff.hunks.push(rendered);
        }
    }
    // Something that is another kind of thing now is neither new nor gone.
    if diff.added && diff.deleted {
        (diff.added, diff.deleted) = (false, false);
    }
    diff
}

/// The first lines of a hunk, and how many more there are.
fn render_hunk(hunk: &PatchHunk, left: &mut usize) -> String {
    let shown: Vec<String> = hunk.lines().take(*left).map(shown_line).collect();
    let hidden = hunk.lines().count() - shown.len();
    *left -= shown.len();
    let hunk = json!([{ "oldStart": hunk.old_start, "newStart": hunk.new_start, "lines": shown }]);
    let mut out = String::new();
    if let Some(diff) = Diff::from_patch(&hunk.to_string()) {
        html::whole_diff(&diff, hidden, &mut out);
    }
    out
}

fn shown_line(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(MAX_LINE_BYTES)]).into_owned();
    if line.len() > MAX_LINE_BYTES { text + "…" } else { text }
}

#[cfg(test)]
mod tests {
    use project::git::{FilePatch, PatchHunk};

    use super::{MAX_HUNKS, MAX_LINES, render};
    use crate::limits::MAX_DIFF_BYTES;

    fn hunk(body: Vec<u8>) -> PatchHunk {
        PatchHunk { old_start: 1, new_start: 1, body, ..PatchHunk::default() }
    }

    #[test]
    fn markup_in_files_is_text() {
        let body = b"-<script>alert(1)</script>\n+<b>\xff\n".to_vec();
        let patch = FilePatch { hunks: vec![hunk(body)], ..FilePatch::default() };
        let diff = render(&[patch], true);
        assert!(!diff.hunks[0].html.contains("<script>"), "{}", diff.hunks[0].html);
        assert_eq!((diff.lines_added, diff.lines_removed), (1, 1));
        assert!(diff.hunks[0].id.is_some());
    }

    #[test]
    fn a_huge_diff_is_cut() {
        let many = vec![hunk(b"+a\n".to_vec()); 5000];
        let diff = render(&[FilePatch { hunks: many, ..FilePatch::default() }], true);
        assert_eq!((diff.hunks.len(), diff.hidden_hunks), (MAX_HUNKS, 5000 - MAX_HUNKS));
        let long = vec![hunk(b"+a\n".repeat(100_000)), hunk(b"+a\n".to_vec())];
        let diff = render(&[FilePatch { hunks: long, ..FilePatch::default() }], true);
        assert!(diff.hunks[0].html.contains(&format!("{} more lines", 100_000 - MAX_LINES)));
        assert_eq!((diff.hidden_hunks, diff.lines_added), (1, 100_001));
        let wide = vec![hunk([b"+".to_vec(), vec![b'<'; 4 << 20]].concat()); 3];
        let diff = render(&[FilePatch { hunks: wide, ..FilePatch::default() }], true);
        let size: usize = diff.hunks.iter().map(|it| it.html.len()).sum();
        assert!(size < MAX_DIFF_BYTES, "{size}");
    }
}
