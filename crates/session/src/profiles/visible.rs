//! Text of strangers, made so that nothing in it can hide another part of it.
//!
//! Control characters, marks that change the direction of text and characters without width are
//! written as `\u{…}`; long runs of blank lines and spaces are counted.

use std::fmt::Write as _;

/// The text with everything visible.
pub(super) fn visible_text(text: &str) -> String {
    let mut shown = String::new();
    let mut blank = 0_usize;
    for line in text.split('\n') {
        if line.trim().is_empty() {
            blank += 1;
            continue;
        }
        push_blank(&mut shown, blank);
        blank = 0;
        push_line(&mut shown, line.strip_suffix('\r').unwrap_or(line));
        shown.push('\n');
    }
    shown
}

/// One line with everything visible, even line breaks.
pub fn visible_line(text: &str) -> String {
    let mut shown = String::new();
    push_line(&mut shown, text);
    shown
}

fn push_blank(shown: &mut String, count: usize) {
    match count {
        0..=2 => shown.push_str(&"\n".repeat(count)),
        count => {
            let _ = writeln!(shown, "  ({count} blank lines)");
        }
    }
}

fn push_line(shown: &mut String, line: &str) {
    let mut spaces = 0_usize;
    for character in line.chars() {
        let is_space = character.is_whitespace() && !character.is_control() || character == '\t';
        if is_space {
            spaces += 1;
            continue;
        }
        push_spaces(shown, spaces);
        spaces = 0;
        if character.is_control() || is_invisible(character) {
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    push_spaces(shown, spaces);
}

/// A long run of spaces would push the rest of a line out of sight.
fn push_spaces(shown: &mut String, count: usize) {
    match count {
        0..=8 => shown.push_str(&" ".repeat(count)),
        count => {
            let _ = write!(shown, " ({count} spaces) ");
        }
    }
}

/// Characters that have no width or that change where others appear.
pub(super) fn is_invisible(character: char) -> bool {
    matches!(u32::from(character),
        0xad | 0x34f | 0x61c | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x180b..=0x180f
        | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0f
        | 0xfeff | 0xffa0 | 0xfff0..=0xfffb | 0x1d173..=0x1d17a | 0xe0000..=0xe0fff)
}
