//! A line of styled text, and how it is wrapped and cut.

use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::ansi::{AnsiColour, StyledSpan, TextStyle};
use crate::markdown::is_direction_mark;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColourMode {
    Off,
    On,
}

/// A line of spans, without control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StyledLine {
    spans: Vec<StyledSpan>,
}

impl StyledLine {
    pub(super) const EMPTY: Self = Self { spans: Vec::new() };

    /// A line of one span.
    pub fn of(style: TextStyle, text: &str) -> Self {
        let mut line = Self::default();
        line.push(style, text);
        line
    }

    /// Appends text, without control characters.
    pub fn push(&mut self, style: TextStyle, text: &str) {
        if text.is_empty() {
            return;
        }
        let span = match self.spans.last_mut() {
            Some(span) if span.style == style => span,
            _ => {
                self.spans.push(StyledSpan { style, text: String::with_capacity(text.len()) });
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

    /// Appends another line.
    pub fn append(&mut self, other: &Self) {
        for span in &other.spans {
            self.push(span.style, &span.text);
        }
    }

    pub fn spans(&self) -> &[StyledSpan] {
        &self.spans
    }

    pub fn is_empty(&self) -> bool {
        self.spans.iter().all(|span| span.text.is_empty())
    }

    /// In columns.
    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| span.text.width()).sum()
    }

    /// Its text without styles.
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    /// The line as terminal output. It ends in the default style.
    pub fn paint(&self, colours: ColourMode) -> String {
        if colours == ColourMode::Off {
            return self.text();
        }
        let mut out = String::new();
        for span in &self.spans {
            if span.style == TextStyle::PLAIN {
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

    /// Wraps it between words, so that no line is wider than `width`. A word that is wider is broken.
    pub fn wrapped(&self, width: usize) -> Vec<Self> {
        let width = width.max(1);
        if self.width() <= width {
            return vec![self.clone()];
        }
        let mut lines = Vec::new();
        let mut current = Self::default();
        let mut taken = 0;
        // Blanks are added only when a word follows them in the same line.
        let mut blanks: Vec<(TextStyle, &str)> = Vec::new();
        for (style, word) in words(self) {
            if word.starts_with(' ') {
                blanks.push((style, word));
                continue;
            }
            let gap: usize = blanks.iter().map(|(_, blank)| blank.len()).sum();
            let length = word.width();
            if taken > 0 && taken + gap + length > width {
                lines.push(std::mem::take(&mut current));
                taken = 0;
                blanks.clear();
            }
            // An indentation that leaves no room for the word is left out.
            let first = word.chars().next().map_or(0, |c| c.width().unwrap_or(0));
            if taken + gap + first > width {
                blanks.clear();
            }
            for (style, blank) in blanks.drain(..) {
                current.push(style, blank);
                taken += blank.len();
            }
            if taken + length <= width {
                current.push(style, word);
                taken += length;
                continue;
            }
            for c in word.chars() {
                let columns = c.width().unwrap_or(0);
                if taken > 0 && taken + columns > width {
                    lines.push(std::mem::take(&mut current));
                    taken = 0;
                }
                current.push(style, c.encode_utf8(&mut [0; 4]));
                taken += columns;
            }
        }
        if !current.is_empty() {
            lines.push(current);
        }
        lines
    }

    /// Breaks it wherever it is full: for code, whose blanks are significant.
    pub(super) fn hard_wrapped(&self, width: usize) -> Vec<Self> {
        let width = width.max(1);
        if self.width() <= width {
            return vec![self.clone()];
        }
        let mut lines = Vec::new();
        let mut current = Self::default();
        let mut taken = 0;
        for span in self.spans() {
            for c in span.text.chars() {
                let columns = c.width().unwrap_or(0);
                if taken > 0 && taken + columns > width {
                    lines.push(std::mem::take(&mut current));
                    taken = 0;
                }
                current.push(span.style, c.encode_utf8(&mut [0; 4]));
                taken += columns;
            }
        }
        lines.push(current);
        lines
    }

    /// Cuts it to `width` columns, with `…` at the end if something is missing.
    #[must_use]
    pub fn cut(&self, width: usize) -> Self {
        if self.width() <= width {
            return self.clone();
        }
        let mut kept =
            self.hard_wrapped(width.saturating_sub(1)).into_iter().next().unwrap_or_default();
        let style = kept.spans().last().map_or(TextStyle::PLAIN, |span| span.style);
        kept.push(style, "…");
        kept
    }
}

fn codes(style: TextStyle, out: &mut String) {
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
            Some(AnsiColour(number @ 0..=7)) => code(format_args!("{}", base + u16::from(number))),
            Some(AnsiColour(number @ 8..=15)) => {
                code(format_args!("{}", bright + u16::from(number) - 8));
            }
            Some(AnsiColour(number)) => code(format_args!("{extended};5;{number}")),
        }
    }
}

/// Words and the runs of blanks between them. A word in several styles is several words.
fn words(line: &StyledLine) -> impl Iterator<Item = (TextStyle, &str)> {
    line.spans().iter().flat_map(|span| {
        let mut rest = span.text.as_str();
        std::iter::from_fn(move || {
            let blank = rest.starts_with(' ');
            let end = rest.find(|c: char| (c == ' ') != blank).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            rest = behind;
            (!word.is_empty()).then_some((span.style, word))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{ColourMode, StyledLine};
    use crate::ansi::TextStyle;

    #[test]
    fn a_line_is_painted_or_not() {
        let mut line = StyledLine::of(TextStyle::PLAIN.in_colour(1).bold(), "no");
        line.push(TextStyle::PLAIN, " way ");
        line.push(TextStyle::PLAIN.in_colour(208), "x");
        line.push(TextStyle::PLAIN.in_colour(12), "y");
        let painted = "\x1b[1;31mno\x1b[0m way \x1b[38;5;208mx\x1b[0m\x1b[94my\x1b[0m";
        assert_eq!(line.paint(ColourMode::On), painted);
        assert_eq!(line.paint(ColourMode::Off), "no way xy");
        assert_eq!(line.width(), 9);
    }

    #[test]
    fn no_control_sequence_passes() {
        let line =
            StyledLine::of(TextStyle::PLAIN, "a\x1b]0;t\x07b\x1b[2J\u{9b}2Jc\r\n\u{202e}d\te");
        assert_eq!(line.paint(ColourMode::On), "a]0;tb[2J2Jc\\u{202e}d    e");
    }
}

#[cfg(test)]
mod wrap_tests {
    use proptest::prelude::*;

    use super::StyledLine;
    use crate::ansi::TextStyle;

    fn texts(lines: &[StyledLine]) -> Vec<String> {
        lines.iter().map(StyledLine::text).collect()
    }

    fn line(text: &str) -> StyledLine {
        StyledLine::of(TextStyle::PLAIN, text)
    }

    #[test]
    fn lines_break_between_words_and_wide_characters_count_double() {
        assert_eq!(texts(&line("the quick brown fox").wrapped(10)), ["the quick", "brown fox"]);
        assert_eq!(texts(&line("abcdefgh ij").wrapped(3)), ["abc", "def", "gh", "ij"]);
        assert_eq!(texts(&line("漢字漢字 漢字").wrapped(6)), ["漢字漢", "字", "漢字"]);
        assert_eq!(texts(&line("   👍").wrapped(2)), ["👍"]);
        assert_eq!(texts(&line("  abc").wrapped(3)), ["  a", "bc"]);
        assert_eq!(texts(&line("a  b c").hard_wrapped(3)), ["a  ", "b c"]);
        assert_eq!(line("abcdef").cut(4).text(), "abc…");
        assert_eq!(line("abcd").cut(4).text(), "abcd");
    }

    proptest! {
        #[test]
        fn no_line_is_too_wide_and_no_character_is_lost(text in "[a-zé漢👍 ]{0,80}", width in 2_usize..30) {
            let lines = line(&text).wrapped(width);
            for line in &lines {
                prop_assert!(line.width() <= width.max(2), "{:?}", line.text());
            }
            let letters = |text: &str| text.replace(' ', "");
            prop_assert_eq!(letters(&texts(&lines).concat()), letters(&text));
        }
    }
}
