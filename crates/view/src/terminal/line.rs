//! A line of a terminal.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr as _;

use crate::ansi::{Colour, Span, Style};
use crate::markdown::is_direction_mark;

/// Whether lines have colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// Text only.
    Off,
    /// With the sequences every terminal knows.
    On,
}

/// A line: stretches of text, each in its style. Holds no control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    spans: Vec<Span>,
}

impl Line {
    /// A line without anything.
    pub(super) const EMPTY: Self = Self { spans: Vec::new() };

    /// A line of one stretch.
    pub fn of(style: Style, text: &str) -> Self {
        let mut line = Self::default();
        line.push(style, text);
        line
    }

    /// Adds text, cleaned of whatever a terminal might obey.
    pub fn push(&mut self, style: Style, text: &str) {
        if text.is_empty() {
            return;
        }
        let span = match self.spans.last_mut() {
            Some(span) if span.style == style => span,
            _ => {
                self.spans.push(Span { style, text: String::with_capacity(text.len()) });
                let Some(span) = self.spans.last_mut() else { return };
                span
            }
        };
        for c in text.chars() {
            match c {
                '\t' => span.text.push_str("    "),
                c if c.is_control() => {}
                c if is_direction_mark(c) => span.text.extend(c.escape_unicode()),
                c => span.text.push(c),
            }
        }
    }

    /// Adds another line behind this one.
    pub fn append(&mut self, other: &Self) {
        for span in &other.spans {
            self.push(span.style, &span.text);
        }
    }

    /// Its stretches.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.spans.iter().all(|span| span.text.is_empty())
    }

    /// How many columns it takes.
    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| span.text.width()).sum()
    }

    /// Its text alone.
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    /// The line as a terminal takes it. Ends in the terminal's own style.
    pub fn paint(&self, colours: Colours) -> String {
        if colours == Colours::Off {
            return self.text();
        }
        let mut out = String::new();
        for span in &self.spans {
            if span.style == Style::PLAIN {
                out.push_str(&span.text);
                continue;
            }
            out.push_str("\x1b[");
            codes(span.style, &mut out);
            out.push('m');
            out.push_str(&span.text);
            out.push_str("\x1b[0m");
        }
        out
    }
}

fn codes(style: Style, out: &mut String) {
    let mut separator = "";
    let mut code = |text: std::fmt::Arguments<'_>| {
        let _ = write!(out, "{separator}{text}");
        separator = ";";
    };
    for (number, set) in [
        (1, style.bold),
        (2, style.dim),
        (3, style.italic),
        (4, style.underline),
        (7, style.inverse),
        (9, style.strike),
    ] {
        if set {
            code(format_args!("{number}"));
        }
    }
    for (base, bright, extended, colour) in
        [(30, 90, 38, style.foreground), (40, 100, 48, style.background)]
    {
        match colour {
            None => {}
            Some(Colour(number @ 0..=7)) => code(format_args!("{}", base + u16::from(number))),
            Some(Colour(number @ 8..=15)) => {
                code(format_args!("{}", bright + u16::from(number) - 8));
            }
            Some(Colour(number)) => code(format_args!("{extended};5;{number}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Colours, Line};
    use crate::ansi::Style;

    #[test]
    fn a_line_is_painted_or_not() {
        let mut line = Line::of(Style::PLAIN.in_colour(1).bold(), "no");
        line.push(Style::PLAIN, " way ");
        line.push(Style::PLAIN.in_colour(208), "x");
        line.push(Style::PLAIN.in_colour(12), "y");
        let painted = "\x1b[1;31mno\x1b[0m way \x1b[38;5;208mx\x1b[0m\x1b[94my\x1b[0m";
        assert_eq!(line.paint(Colours::On), painted);
        assert_eq!(line.paint(Colours::Off), "no way xy");
        assert_eq!(line.width(), 9);
    }

    #[test]
    fn whatever_is_put_in_no_sequence_comes_out() {
        let line = Line::of(Style::PLAIN, "a\x1b]0;t\x07b\x1b[2J\u{9b}2Jc\r\n\u{202e}d\te");
        assert_eq!(line.paint(Colours::On), "a]0;tb[2J2Jc\\u{202e}d    e");
    }
}
