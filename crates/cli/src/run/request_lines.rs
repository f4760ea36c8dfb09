//! The lines of a request prompt: keys, and disclosures in which nothing is hidden.

use unicode_width::UnicodeWidthStr as _;
use view::ansi::TextStyle;
use view::terminal::StyledLine;
use wire::consent::Disclosure;

pub(super) const SOFT: TextStyle = TextStyle::PLAIN.dim();
pub(super) const STRONG: TextStyle = TextStyle::PLAIN.in_colour(3).bold();
pub(super) const KEY: TextStyle = TextStyle::PLAIN.in_colour(6);

/// Keys with their labels, on as many lines as needed.
pub(super) fn key_lines(keys: &[(&'static str, String)], width: usize) -> Vec<StyledLine> {
    let mut lines: Vec<StyledLine> = Vec::new();
    for (key, label) in keys {
        let mut part = StyledLine::of(STRONG, key);
        part.push(SOFT, &format!(" {label}"));
        if let Some(last) = lines.last_mut().filter(|it| it.width() + 3 + part.width() <= width) {
            last.push(SOFT, "   ");
            last.append(&part);
        } else {
            let mut line = StyledLine::of(SOFT, "  ");
            line.append(&part);
            lines.extend(line.wrapped(width));
        }
    }
    lines
}

/// A disclosure, broken at the width of the screen so that no character is lost.
pub(super) fn disclosure_lines(disclosure: &Disclosure, width: usize) -> Vec<StyledLine> {
    let label = format!("  {}: ", disclosure.label);
    let indent = label.width();
    let columns = width.saturating_sub(indent).max(8);
    let mut rows = Vec::new();
    for text in disclosure.text.split('\n') {
        let (mut row, mut used) = (String::new(), 0);
        for character in text.chars() {
            let shown = escape_hidden(character.encode_utf8(&mut [0; 4]));
            if used + shown.width() > columns {
                rows.push(std::mem::take(&mut row));
                used = 0;
            }
            used += shown.width();
            row.push_str(&shown);
        }
        rows.push(row);
    }
    let blank = " ".repeat(indent);
    let line = |(number, row): (usize, String)| {
        let mut line = StyledLine::of(SOFT, if number == 0 { &label } else { &blank });
        line.push(TextStyle::PLAIN, &row);
        line
    };
    rows.into_iter().enumerate().map(line).collect()
}

/// A text in which characters that a terminal would not show are escaped.
pub(super) fn escape_hidden(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\t' => shown.push_str("    "),
            '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0e}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}' => shown.extend(character.escape_unicode()),
            character if character.is_control() => shown.extend(character.escape_default()),
            character => shown.push(character),
        }
    }
    shown
}
