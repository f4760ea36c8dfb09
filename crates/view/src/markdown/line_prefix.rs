//! Limits how many quotes and lists a line of Markdown opens.
//!
//! The parser compares every line with all quotes and lists that are open, so a line that opens 100,000
//! of them followed by 100,000 lines takes ten thousand million steps.

/// A line opens at most this many quotes and lists. Further markers are text.
const MAX_MARKERS: usize = 256;

/// The markers at the start of a line, which may arrive in parts.
#[derive(Clone, Debug)]
pub(super) struct LinePrefix {
    /// Whether only markers and blanks came so far.
    open: bool,
    markers: usize,
    last: LastCharacter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastCharacter {
    /// A blank, or a marker that needs no blank behind it.
    Blank,
    Digit,
    /// A marker, if a blank follows.
    Marker,
}

impl Default for LinePrefix {
    fn default() -> Self {
        Self { open: true, markers: 0, last: LastCharacter::Blank }
    }
}

impl LinePrefix {
    /// Appends `text` to `out`, with a backslash in front of the first marker that is too many.
    pub(super) fn append(&mut self, text: &str, out: &mut String) {
        let mut copied = 0;
        let mut at = 0;
        while at < text.len() {
            if !self.open {
                let rest = &text.as_bytes()[at..];
                let Some(newline) = rest.iter().position(|&byte| byte == b'\n') else { break };
                at += newline + 1;
                *self = Self::default();
                continue;
            }
            if !self.step(text.as_bytes()[at]) {
                out.push_str(&text[copied..at]);
                out.push('\\');
                copied = at;
            }
            at += 1;
        }
        out.push_str(&text[copied..]);
    }

    /// Reads the next byte; false if it is a marker that is too many.
    fn step(&mut self, byte: u8) -> bool {
        let is_marker = match (byte, self.last) {
            (b'\n', _) => {
                *self = Self::default();
                return true;
            }
            (b' ' | b'\t', last) => {
                self.markers += usize::from(last == LastCharacter::Marker);
                self.last = LastCharacter::Blank;
                return true;
            }
            (b'0'..=b'9', LastCharacter::Blank | LastCharacter::Digit) => {
                self.last = LastCharacter::Digit;
                return true;
            }
            (b'>', LastCharacter::Blank | LastCharacter::Marker)
            | (b'-' | b'+' | b'*', LastCharacter::Blank)
            | (b'.' | b')', LastCharacter::Digit) => true,
            _ => false,
        };
        let too_many = is_marker && self.markers >= MAX_MARKERS;
        self.open = is_marker && !too_many;
        if byte == b'>' {
            self.markers += 1;
            self.last = LastCharacter::Blank;
        } else {
            self.last = LastCharacter::Marker;
        }
        !too_many
    }
}

#[cfg(test)]
mod tests {
    use super::{LinePrefix, MAX_MARKERS};

    fn bounded(text: &str, chunk: usize) -> String {
        let mut out = String::new();
        let mut prefix = LinePrefix::default();
        for part in text.as_bytes().chunks(chunk) {
            prefix.append(std::str::from_utf8(part).unwrap(), &mut out);
        }
        out
    }

    #[test]
    fn ordinary_text_is_unchanged() {
        let rule = "-".repeat(300) + "\n" + &"* ".repeat(100);
        for text in ["> - 1. a\n>> b\n\n1986. A year", "a > b > c - d", "", "--- ---", &rule] {
            for chunk in [1, 3, 1000] {
                assert_eq!(bounded(text, chunk), text);
            }
        }
    }

    #[test]
    fn markers_that_are_too_many_become_text() {
        for (marker, escaped) in [(">", "\\>"), ("> ", "\\> "), ("- ", "\\- "), ("1. ", "1\\. ")] {
            let text = marker.repeat(1000) + "x\n" + marker + "y";
            let rest = marker.repeat(1000 - MAX_MARKERS - 1) + "x\n" + marker + "y";
            let expected = marker.repeat(MAX_MARKERS) + escaped + &rest;
            for chunk in [1, 7, 10_000] {
                assert_eq!(bounded(&text, chunk), expected, "{marker}");
            }
        }
    }
}
