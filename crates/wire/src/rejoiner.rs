//! Events that a terminal or a pretty-printer spread over several lines, put together again.
//!
//! On request only: the CLI writes one event a line, even to a terminal, so in its own output a
//! line that begins an object and does not end it was cut off, and what follows is the next event.

use crate::json::{Outline, OutlineProgress};

/// Puts together lines that one event was spread over.
///
/// Lines are held while they can still become one object and not longer: as soon as the text
/// cannot go on that way, or grows beyond the cap, the lines are given back as they were.
///
/// ```
/// use towpath_wire::Rejoiner;
///
/// let mut rejoiner = Rejoiner::new();
/// assert!(rejoiner.push(br#"{"type":"assistant","mess"#).is_empty());
/// let joined = rejoiner.push(br#"age":{"content":"wrapped"}}"#);
/// assert_eq!(joined[0].text, br#"{"type":"assistant","message":{"content":"wrapped"}}"#);
/// assert_eq!(joined[0].lines, 2);
/// ```
#[derive(Default)]
pub struct Rejoiner {
    cap: usize,
    held: Vec<Vec<u8>>,
    held_bytes: usize,
    outline: Outline,
}

/// A line, or several that are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejoined {
    /// The text on one line.
    pub text: Vec<u8>,
    /// How many lines it was spread over.
    pub lines: usize,
}

impl Rejoiner {
    /// A rejoiner that holds at most what a [`Splitter`](crate::Splitter) holds.
    pub fn new() -> Self {
        Self::with_cap(crate::DEFAULT_CAP)
    }

    /// A rejoiner that holds at most `cap` bytes.
    pub fn with_cap(cap: usize) -> Self {
        Self { cap, ..Self::default() }
    }

    /// Takes a line without its newline; gives the lines that are settled by it.
    pub fn push(&mut self, line: &[u8]) -> Vec<Rejoined> {
        let mut settled = Vec::new();
        if !self.held.is_empty() {
            match self.try_extend(line) {
                OutlineProgress::Partial => return settled,
                OutlineProgress::Complete => {
                    settled.push(self.join());
                    return settled;
                }
                OutlineProgress::Broken => settled = self.release(),
            }
        }
        if begins_container(line) && self.try_extend(line) == OutlineProgress::Partial {
            return settled;
        }
        self.forget();
        settled.push(Rejoined { text: line.to_vec(), lines: 1 });
        settled
    }

    /// Ends the stream: what is still held, as it came.
    pub fn finish(&mut self) -> Vec<Rejoined> {
        self.release()
    }

    fn try_extend(&mut self, line: &[u8]) -> OutlineProgress {
        self.held_bytes += line.len();
        if self.held_bytes > self.cap {
            return OutlineProgress::Broken;
        }
        // The carriage return is the terminal's, as the newline is.
        let progress = self.outline.extend(line.strip_suffix(b"\r").unwrap_or(line));
        if progress != OutlineProgress::Broken {
            self.held.push(line.to_vec());
        }
        progress
    }

    fn join(&mut self) -> Rejoined {
        let lines = self.held.len();
        let text =
            self.held.iter().flat_map(|line| line.strip_suffix(b"\r").unwrap_or(line)).copied();
        let joined = Rejoined { text: text.collect(), lines };
        self.forget();
        joined
    }

    fn release(&mut self) -> Vec<Rejoined> {
        let held = std::mem::take(&mut self.held);
        self.forget();
        held.into_iter().map(|text| Rejoined { text, lines: 1 }).collect()
    }

    fn forget(&mut self) {
        self.held.clear();
        self.held_bytes = 0;
        self.outline = Outline::default();
    }
}

fn begins_container(line: &[u8]) -> bool {
    matches!(line.trim_ascii_start().first(), Some(b'{' | b'['))
}

#[cfg(test)]
mod tests {
    use super::Rejoiner;

    #[track_caller]
    fn check(lines: &[&str], expected: &[(&str, usize)]) {
        let mut rejoiner = Rejoiner::new();
        let mut found: Vec<_> =
            lines.iter().flat_map(|line| rejoiner.push(line.as_bytes())).collect();
        found.extend(rejoiner.finish());
        let found: Vec<_> =
            found.iter().map(|it| (std::str::from_utf8(&it.text).unwrap(), it.lines)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn an_event_wrapped_anywhere_is_put_together() {
        let event = r#"{"type":"text","text":"a \"b\" \\ {[é","n":[1,-2.5e3,true,null,{}],"o":{}}"#;
        for cut in (1..event.len()).filter(|&cut| event.is_char_boundary(cut)) {
            let (first, second) = event.split_at(cut);
            check(&[first, second, "after"], &[(event, 2), ("after", 1)]);
        }
        let columns: Vec<String> =
            event.chars().collect::<Vec<_>>().chunks(7).map(|it| it.iter().collect()).collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        check(&columns, &[(event, columns.len())]);
    }

    #[test]
    fn a_pretty_printed_event_is_put_together() {
        check(
            &["{\r", "  \"type\": \"result\",", "  \"usage\": {}", "}", "{\"type\":\"x\"}"],
            &[(r#"{  "type": "result",  "usage": {}}"#, 4), ("{\"type\":\"x\"}", 1)],
        );
    }

    #[test]
    fn an_event_that_was_cut_off_does_not_swallow_the_next() {
        let cut = r#"{"type":"assistant","text":"half a sen"#;
        let next = r#"{"type":"result"}"#;
        check(&[cut, next], &[(cut, 1), (next, 1)]);
        check(&[next, cut], &[(next, 1), (cut, 1)]);
        check(&["[09:00] log", next], &[("[09:00] log", 1), (next, 1)]);
        check(&["plain", "", next], &[("plain", 1), ("", 1), (next, 1)]);
    }

    #[test]
    fn no_more_than_the_cap_is_held() {
        let mut rejoiner = Rejoiner::with_cap(10);
        assert!(rejoiner.push(b"{\"a\":\"").is_empty());
        let released = rejoiner.push(b"0123456789");
        assert_eq!(released.len(), 2);
        assert_eq!(released[1].text, b"0123456789");
    }
}
