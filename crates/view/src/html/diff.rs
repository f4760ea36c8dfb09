//! Changes of files as HTML.

use std::fmt::Write as _;

use super::escape::escape;
use crate::diff::{Diff, LineChange};

/// Lines of a change that are shown at most.
const SHOWN: usize = 400;

/// Adds a change.
pub fn diff(diff: &Diff, out: &mut String) {
    out.push_str("<div class=\"diff\">");
    let mut left = SHOWN;
    for (number, hunk) in diff.hunks.iter().enumerate() {
        if left == 0 {
            break;
        }
        if number > 0 {
            out.push_str("<div class=\"gap\"></div>");
        }
        for line in hunk.lines.iter().take(left) {
            let class = match line.change {
                LineChange::Kept => "kept",
                LineChange::Added => "added",
                LineChange::Removed => "removed",
            };
            let _ = write!(out, "<div class={class}><i>");
            if let Some(number) = line.number {
                let _ = write!(out, "{number}");
            }
            // The sign is text, so that what is copied is a patch.
            let _ = write!(out, "</i><b>{}</b><code>", line.change.sign());
            for piece in &line.pieces {
                if piece.marked {
                    out.push_str("<mark>");
                    escape(&piece.text, out);
                    out.push_str("</mark>");
                } else {
                    escape(&piece.text, out);
                }
            }
            out.push_str("</code></div>");
        }
        left = left.saturating_sub(hunk.lines.len());
    }
    let hidden = diff.len().saturating_sub(SHOWN);
    if hidden > 0 {
        let _ = write!(out, "<div class=\"hidden-lines\">{hidden} more lines</div>");
    }
    out.push_str("</div>");
}
