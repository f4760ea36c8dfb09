//! Plain text, program output, code and diffs as HTML.

use std::fmt::Write as _;

use crate::ansi::{AnsiColour, StyledSpan, TextStyle, lines};
use crate::diff::{Diff, LineChange};
use crate::highlight::highlight;
use crate::markdown::is_direction_mark;

/// Appends escaped text, for use between tags and in quoted attributes.
///
/// Characters that change the text direction are shown by their code: they can make code read
/// differently from how it runs.
pub fn escape(text: &str, out: &mut String) {
    out.reserve(text.len());
    let mut plain = 0;
    for (at, c) in text.char_indices() {
        let entity = match c {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            '"' => "&quot;",
            '\'' => "&#39;",
            '\0' => "\u{fffd}",
            c if is_direction_mark(c) => {
                out.push_str(&text[plain..at]);
                out.extend(c.escape_unicode());
                plain = at + c.len_utf8();
                continue;
            }
            _ => continue,
        };
        out.push_str(&text[plain..at]);
        out.push_str(entity);
        plain = at + c.len_utf8();
    }
    out.push_str(&text[plain..]);
}

pub fn escaped(text: &str) -> String {
    let mut out = String::new();
    escape(text, &mut out);
    out
}

/// Appends the output of a program, with its colours as classes.
pub fn terminal_text(text: &str, out: &mut String) {
    for (number, line) in lines(text).enumerate() {
        if number > 0 {
            out.push('\n');
        }
        for span in &line {
            add_span(span, out);
        }
    }
}

fn add_span(span: &StyledSpan, out: &mut String) {
    if span.style == TextStyle::PLAIN {
        escape(&span.text, out);
        return;
    }
    out.push_str("<span class=\"");
    classes(span.style, out);
    out.push_str("\">");
    escape(&span.text, out);
    out.push_str("</span>");
}

fn classes(style: TextStyle, out: &mut String) {
    let start = out.len();
    let (mut front, mut back) = (style.foreground, style.background);
    if style.inverse {
        (front, back) = (back, front);
        // Text without colours of its own gets the page's colours, inverted.
        if front.is_none() && back.is_none() {
            out.push_str(" inverse");
        }
    }
    for (letter, colour) in [('f', front), ('b', back)] {
        if let Some(AnsiColour(number)) = colour {
            let _ = write!(out, " {letter}{number}");
        }
    }
    for (name, set) in [
        (" bold", style.bold),
        (" dim", style.dim),
        (" italic", style.italic),
        (" underline", style.underline),
        (" strike", style.strike),
    ] {
        if set {
            out.push_str(name);
        }
    }
    if out[start..].starts_with(' ') {
        out.remove(start);
    }
}

/// The CSS rules of the 240 fixed terminal colours; the first 16 are in [`STYLE`](super::STYLE).
pub fn colour_rules() -> String {
    let mut out = String::new();
    for number in 16..=255 {
        if let Some((red, green, blue)) = AnsiColour(number).rgb() {
            let _ = write!(
                out,
                ".f{number}{{color:#{red:02x}{green:02x}{blue:02x}}}.b{number}{{background:#{red:02x}{green:02x}{blue:02x}}}"
            );
        }
    }
    out
}

/// Appends a block of code. It is coloured only if it is complete: an unfinished string literal would
/// colour the rest.
pub fn code_block(code: &str, language: &str, complete: bool, out: &mut String) {
    let name = language.split([' ', ',', '{', '\t']).next().unwrap_or_default();
    out.push_str("<pre class=\"code\"");
    if !name.is_empty() {
        out.push_str(" data-language=\"");
        escape(name, out);
        out.push('"');
    }
    out.push_str("><code>");
    if complete {
        coloured(code, language, out);
    } else {
        escape(code, out);
    }
    out.push_str("</code></pre>");
}

/// Appends code as coloured tokens.
pub fn coloured(code: &str, language: &str, out: &mut String) {
    highlight(code, language, |token, text| match token {
        None => escape(text, out),
        Some(token) => {
            out.push_str("<span class=");
            out.push_str(token.class());
            out.push('>');
            escape(text, out);
            out.push_str("</span>");
        }
    });
}

/// A diff shows at most this many lines.
const DIFF_LINES: usize = 400;

pub fn diff(diff: &Diff, out: &mut String) {
    diff_up_to(diff, DIFF_LINES, diff.len().saturating_sub(DIFF_LINES), out);
}

/// A diff with all its lines, and how many more there are that it does not have.
pub fn whole_diff(diff: &Diff, hidden: usize, out: &mut String) {
    diff_up_to(diff, usize::MAX, hidden, out);
}

fn diff_up_to(diff: &Diff, mut left: usize, hidden: usize, out: &mut String) {
    out.push_str("<div class=\"diff\">");
    for (number, hunk) in diff.hunks.iter().enumerate() {
        if left == 0 {
            break;
        }
        if number > 0 {
            out.push_str("<div class=\"gap\"></div>");
        }
        for line in hunk.lines.iter().take(left) {
            let class = match line.change {
                LineChange::Unchanged => "kept",
                LineChange::Added => "added",
                LineChange::Removed => "removed",
            };
            let _ = write!(out, "<div class={class}><i>");
            if let Some(number) = line.number {
                let _ = write!(out, "{number}");
            }
            // The sign is text, so that copied lines are a patch.
            let _ = write!(out, "</i><b>{}</b><code>", line.change.sign());
            for span in &line.spans {
                if span.changed {
                    out.push_str("<mark>");
                    escape(&span.text, out);
                    out.push_str("</mark>");
                } else {
                    escape(&span.text, out);
                }
            }
            out.push_str("</code></div>");
        }
        left = left.saturating_sub(hunk.lines.len());
    }
    if hidden > 0 {
        let _ = write!(out, "<div class=\"hidden-lines\">{hidden} more lines</div>");
    }
    out.push_str("</div>");
}

#[cfg(test)]
mod tests {
    use super::{colour_rules, terminal_text};

    fn html(text: &str) -> String {
        let mut out = String::new();
        terminal_text(text, &mut out);
        out
    }

    #[test]
    fn colours_are_classes_and_text_is_escaped() {
        assert_eq!(html("a <b>\nc\n"), "a &lt;b&gt;\nc");
        assert_eq!(html("\x1b[1;31mno\x1b[0m way"), "<span class=\"f1 bold\">no</span> way");
        assert_eq!(html("\x1b[7mx"), "<span class=\"inverse\">x</span>");
        assert_eq!(html("\x1b[7;38;5;200mx"), "<span class=\"b200\">x</span>");
    }

    #[test]
    fn every_fixed_colour_has_its_rules() {
        let rules = colour_rules();
        assert_eq!(rules.matches('{').count(), 480);
        assert!(rules.contains(".f196{color:#ff0000}"), "{rules}");
    }
}
