//! Lines broken to fit.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::Line;
use crate::ansi::Style;

/// A line broken between words, so that no part is wider than `width`. A word wider than that is
/// broken itself.
pub(super) fn wrapped(line: &Line, width: usize) -> Vec<Line> {
    let width = width.max(1);
    if line.width() <= width {
        return vec![line.clone()];
    }
    let mut lines = Vec::new();
    let mut current = Line::default();
    let mut taken = 0;
    // Blanks wait until a word follows them in the same line.
    let mut blanks: Vec<(Style, &str)> = Vec::new();
    for (style, word) in words(line) {
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

/// A line broken wherever it is full: for code, whose blanks mean something.
pub(super) fn broken(line: &Line, width: usize) -> Vec<Line> {
    let width = width.max(1);
    if line.width() <= width {
        return vec![line.clone()];
    }
    let mut lines = Vec::new();
    let mut current = Line::default();
    let mut taken = 0;
    for span in line.spans() {
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

/// A line cut to fit, with `…` where something is missing.
pub(super) fn cut(line: &Line, width: usize) -> Line {
    if line.width() <= width {
        return line.clone();
    }
    let mut kept = broken(line, width.saturating_sub(1)).into_iter().next().unwrap_or_default();
    let style = kept.spans().last().map_or(Style::PLAIN, |span| span.style);
    kept.push(style, "…");
    kept
}

/// Words and the runs of blanks between them. A word that changes its style is several.
fn words(line: &Line) -> impl Iterator<Item = (Style, &str)> {
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
    use proptest::prelude::*;

    use super::{broken, cut, wrapped};
    use crate::ansi::Style;
    use crate::terminal::Line;

    fn texts(lines: &[Line]) -> Vec<String> {
        lines.iter().map(Line::text).collect()
    }

    fn line(text: &str) -> Line {
        Line::of(Style::PLAIN, text)
    }

    #[test]
    fn lines_break_between_words_and_wide_letters_count_double() {
        assert_eq!(texts(&wrapped(&line("the quick brown fox"), 10)), ["the quick", "brown fox"]);
        assert_eq!(texts(&wrapped(&line("abcdefgh ij"), 3)), ["abc", "def", "gh", "ij"]);
        assert_eq!(texts(&wrapped(&line("漢字漢字 漢字"), 6)), ["漢字漢", "字", "漢字"]);
        assert_eq!(texts(&broken(&line("a  b c"), 3)), ["a  ", "b c"]);
        assert_eq!(cut(&line("abcdef"), 4).text(), "abc…");
        assert_eq!(cut(&line("abcd"), 4).text(), "abcd");
    }

    proptest! {
        #[test]
        fn nothing_is_too_wide_and_no_letter_is_lost(text in "[a-zé漢👍 ]{0,80}", width in 2_usize..30) {
            let lines = wrapped(&line(&text), width);
            for line in &lines {
                prop_assert!(line.width() <= width.max(2), "{:?}", line.text());
            }
            let letters = |text: &str| text.replace(' ', "");
            prop_assert_eq!(letters(&texts(&lines).concat()), letters(&text));
        }
    }
}
