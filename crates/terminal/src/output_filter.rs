//! Keeps what a program prints from growing the emulator's memory without limit.
//!
//! The emulator stores operating system commands (titles, the clipboard) whole until they end, every
//! combining character of a cell, and a link for each cell. None of these has a limit there. Links are
//! not shown, so they are left out.

use unicode_width::UnicodeWidthChar as _;

/// How many bytes of an operating system command are passed on. Titles are shorter.
const MAX_COMMAND_BYTES: usize = 2 << 10;

/// How many combining characters are passed on after a character. Text of any language has fewer.
const MAX_COMBINING: usize = 8;

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;
const CANCEL: u8 = 0x18;
const SUBSTITUTE: u8 = 0x1a;

/// Passes bytes on, except those that are too many.
#[derive(Debug, Default)]
pub(crate) struct OutputFilter {
    state: FilterState,
    /// The beginning of a character whose rest has not come yet.
    partial: Vec<u8>,
    combining: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FilterState {
    #[default]
    Text,
    /// After an escape character. Control characters do not end it.
    Escape,
    /// In an operating system command, of which so many bytes have come.
    Command(usize),
    /// In a command whose first character is that of links.
    Link,
}

impl OutputFilter {
    /// The bytes to pass on.
    pub(crate) fn filter(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() + self.partial.len());
        for &byte in bytes {
            self.push(byte, &mut out);
        }
        out
    }

    fn push(&mut self, byte: u8, out: &mut Vec<u8>) {
        if let FilterState::Command(_) | FilterState::Link = self.state {
            self.state = match (self.state, byte) {
                (_, ESCAPE) => FilterState::Escape,
                (_, BELL | CANCEL | SUBSTITUTE) => FilterState::Text,
                (FilterState::Command(MAX_COMMAND_BYTES..), _) => return,
                (FilterState::Command(0), b'8') => FilterState::Link,
                // The rest is left out, and what remains means nothing to the emulator.
                (FilterState::Link, b';') => {
                    self.state = FilterState::Command(MAX_COMMAND_BYTES);
                    return;
                }
                (FilterState::Command(length), _) => FilterState::Command(length + 1),
                _ => FilterState::Command(2),
            };
            out.push(byte);
            return;
        }
        if byte < 0x80 {
            self.end_character(out);
            self.state = match (self.state, byte) {
                (_, ESCAPE) => FilterState::Escape,
                (FilterState::Escape, b']') => FilterState::Command(0),
                (FilterState::Escape, CANCEL | SUBSTITUTE) => FilterState::Text,
                (FilterState::Escape, 0x00..0x20 | 0x7f) => FilterState::Escape,
                _ => FilterState::Text,
            };
            if byte >= 0x20 && self.state == FilterState::Text {
                self.combining = 0;
            }
            out.push(byte);
            return;
        }
        self.state = FilterState::Text;
        self.partial.push(byte);
        while !self.partial.is_empty() {
            let length = match std::str::from_utf8(&self.partial) {
                Ok(text) => {
                    let combines = text.chars().all(|it| it.width() == Some(0));
                    self.combining = if combines { self.combining + 1 } else { 0 };
                    if self.combining <= MAX_COMBINING {
                        out.extend(&self.partial);
                    }
                    self.partial.len()
                }
                Err(error) => match error.error_len() {
                    Some(length) => {
                        self.replace(out);
                        length
                    }
                    // More bytes may complete it.
                    None => return,
                },
            };
            self.partial.drain(..length);
        }
    }

    /// A character that ends before it is complete is not text.
    fn end_character(&mut self, out: &mut Vec<u8>) {
        if !self.partial.is_empty() {
            self.partial.clear();
            self.replace(out);
        }
    }

    /// What the emulator makes of bytes that are not text depends on how they arrive, so it gets none.
    fn replace(&mut self, out: &mut Vec<u8>) {
        self.combining = 0;
        out.extend("\u{fffd}".as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_COMBINING, MAX_COMMAND_BYTES, OutputFilter};

    fn filter(bytes: &[u8]) -> Vec<u8> {
        OutputFilter::default().filter(bytes)
    }

    #[test]
    fn ordinary_output_is_passed_on_unchanged() {
        let text = "\x1b[31mred\x1b[m é 漢字 e\u{301} 👩‍👩‍👧 \x1b]0;title\x07\r\n\x1b]80;x\x1b\\";
        assert_eq!(filter(text.as_bytes()), text.as_bytes());
        let mut pieces = OutputFilter::default();
        let out: Vec<u8> = text.bytes().flat_map(|it| pieces.filter(&[it])).collect();
        assert_eq!(out, text.as_bytes());
        let replaced = "a\u{fffd}\u{fffd}(\u{fffd}z\u{fffd}é";
        assert_eq!(filter(b"a\xff\xc3(\xe6\xbcz\xe6\xbc\xc3\xa9"), replaced.as_bytes());
    }

    #[test]
    fn a_command_that_does_not_end_is_cut() {
        for start in ["\x1b]0;", "\x1b\n]0;", "\x1b\x1b]52;c;"] {
            let flood = format!("{start}{}\x07after", "x".repeat(1_000_000));
            let out = filter(flood.as_bytes());
            assert!(out.len() < MAX_COMMAND_BYTES + 64, "{}", out.len());
            assert!(out.ends_with(b"\x07after"));
        }
    }

    #[test]
    fn links_are_left_out_and_their_text_is_not() {
        let text = "\x1b]8;id=1;https://example.com\x1b\\words\x1b]8;;\x07.";
        assert_eq!(filter(text.as_bytes()), b"\x1b]8\x1b\\words\x1b]8\x07.");
    }

    #[test]
    fn combining_characters_are_limited_whatever_is_between_them() {
        for between in ["", "\x1b[m", "\r"] {
            let flood = format!("a{}b", format!("{between}\u{301}").repeat(1000));
            let out = String::from_utf8(filter(flood.as_bytes())).unwrap();
            let kept = out.matches('\u{301}').count();
            // The end of an escape sequence is a letter too, which begins a new count.
            assert!(kept <= MAX_COMBINING || between.contains('['), "{kept}");
            assert!(out.ends_with('b'));
        }
    }
}
