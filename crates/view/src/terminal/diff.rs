//! Changes of files as lines for a terminal.

use super::wrap::broken;
use super::{Line, Look};
use crate::ansi::{Colour, Style};
use crate::diff::{Diff, LineChange};
use crate::phrase;

/// Lines of a change that are shown where not everything is.
const SHOWN: usize = 40;

/// The lines of a change.
pub(super) fn diff(diff: &Diff, look: Look<'_>) -> Vec<Line> {
    let numbers =
        diff.hunks.iter().flat_map(|hunk| &hunk.lines).filter_map(|line| line.number).max();
    let gutter = numbers.map_or(0, |number| number.to_string().len() + 1);
    let limit = if look.full { usize::MAX } else { SHOWN };
    let mut lines = Vec::new();
    let mut shown = 0;
    for (number, hunk) in diff.hunks.iter().enumerate() {
        if number > 0 && shown < limit {
            lines.push(Line::of(Style::PLAIN.dim(), &format!("{}⋮", " ".repeat(gutter))));
        }
        for line in hunk.lines.iter().take(limit - shown) {
            let (style, marked) = match line.change {
                LineChange::Kept => (Style::PLAIN, Style::PLAIN),
                LineChange::Added => (Style::PLAIN.in_colour(2), marked(2)),
                LineChange::Removed => (Style::PLAIN.in_colour(1), marked(1)),
            };
            let mut whole = Line::default();
            for piece in &line.pieces {
                whole.push(if piece.marked { marked } else { style }, &piece.text);
            }
            for (part, text) in
                broken(&whole, look.width.saturating_sub(gutter + 2)).iter().enumerate()
            {
                let number =
                    line.number.filter(|_| part == 0).map(|it| it.to_string()).unwrap_or_default();
                let mut out = Line::default();
                if gutter > 0 {
                    let width = gutter - 1;
                    out.push(Style::PLAIN.dim(), &format!("{number:>width$} "));
                }
                let sign = if part == 0 { line.change.sign() } else { ' ' };
                out.push(style, &format!("{sign} "));
                out.append(text);
                lines.push(out);
            }
            shown += 1;
        }
    }
    let hidden = diff.len().saturating_sub(limit);
    if hidden > 0 {
        let text = format!("… {}", phrase::several(hidden, "more line", "more lines"));
        lines.push(Line::of(Style::PLAIN.dim(), &text));
    }
    lines
}

/// Words that differ stand out by their colours being turned round.
fn marked(colour: u8) -> Style {
    Style { foreground: Some(Colour(colour)), inverse: true, ..Style::PLAIN }
}
