//! Output of programs as HTML, its colours as classes.

use std::fmt::Write as _;

use super::escape::escape;
use crate::ansi::{Colour, Span, Style, lines};

/// Adds the text of a program as lines with colours, without a frame.
pub fn terminal_text(text: &str, out: &mut String) {
    for (number, line) in lines(text).enumerate() {
        if number > 0 {
            out.push('\n');
        }
        for span in &line {
            add(span, out);
        }
    }
}

fn add(span: &Span, out: &mut String) {
    if span.style == Style::PLAIN {
        escape(&span.text, out);
        return;
    }
    out.push_str("<span class=\"");
    classes(span.style, out);
    out.push_str("\">");
    escape(&span.text, out);
    out.push_str("</span>");
}

fn classes(style: Style, out: &mut String) {
    let start = out.len();
    let (mut front, mut back) = (style.foreground, style.background);
    if style.inverse {
        (front, back) = (back, front);
        // Without colours of its own the text takes those of the page the other way round.
        if front.is_none() && back.is_none() {
            out.push_str(" inverse");
        }
    }
    for (letter, colour) in [('f', front), ('b', back)] {
        if let Some(Colour(number)) = colour {
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

/// The rules for the 240 colours that are the same everywhere; those for the first 16 are the
/// page's own choice.
pub fn colour_rules() -> String {
    let mut out = String::new();
    for number in 16..=255 {
        if let Some((red, green, blue)) = Colour(number).rgb() {
            let _ = write!(
                out,
                ".f{number}{{color:#{red:02x}{green:02x}{blue:02x}}}.b{number}{{background:#{red:02x}{green:02x}{blue:02x}}}"
            );
        }
    }
    out
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
