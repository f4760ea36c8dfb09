//! Joins events that a terminal or a pretty-printer split into several lines.
//!
//! It is used on request, if the first JSON of a file [begins](Rejoiner::is_needed_after) like pretty-printed
//! JSON, and from the first line on that [looks](Rejoiner::looks_wrapped) like a row of a terminal. The CLI writes
//! one event per line, even to a terminal, so such rows were copied from a screen. In the CLI's own
//! output a line with an incomplete object was truncated; then the next line is the next event, the two
//! cannot become one object, and both are given back unchanged.

use crate::json::{Outline, OutlineProgress};

/// How many bytes a row of a terminal has. A character may have several.
const MIN_ROW: usize = 20;
const MAX_ROW: usize = 1000;

/// Joins lines that belong to one event.
///
/// Lines are buffered while they can still become one object. When the text can no longer become
/// one, or exceeds the cap, the lines are returned unchanged.
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
    pending: Vec<Vec<u8>>,
    pending_bytes: usize,
    outline: Outline,
}

/// A line, or several joined into one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejoined {
    /// The text on one line.
    pub text: Vec<u8>,
    /// The number of original lines.
    pub lines: usize,
}

impl Rejoiner {
    /// A rejoiner with the default cap of a [`Splitter`](crate::Splitter).
    pub fn new() -> Self {
        Self::with_cap(crate::DEFAULT_CAP)
    }

    /// A rejoiner that buffers at most `cap` bytes.
    pub fn with_cap(cap: usize) -> Self {
        Self { cap, ..Self::default() }
    }

    /// Whether a file is pretty-printed, as far as a line at its beginning says: it is if the line
    /// consists of opening brackets, and is not if the line is a whole value. `None` if the line is
    /// something else, such as a message of the program that started the agent; then the next one
    /// may say it.
    ///
    /// ```
    /// use towpath_wire::Rejoiner;
    ///
    /// assert_eq!(Rejoiner::is_needed_after(b"{\r"), Some(true));
    /// assert_eq!(Rejoiner::is_needed_after(b"[ {"), Some(true));
    /// assert_eq!(Rejoiner::is_needed_after(br#"{"type":"result"}"#), Some(false));
    /// assert_eq!(Rejoiner::is_needed_after(b"[09:00] starting"), None);
    /// assert_eq!(Rejoiner::is_needed_after(b""), None);
    /// ```
    pub fn is_needed_after(line: &[u8]) -> Option<bool> {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
        let brackets = |byte: &u8| matches!(byte, b'{' | b'[' | b' ');
        // A line of many brackets is not something that a program printed for people.
        if matches!(line.len(), 1..=8) && line.iter().all(brackets) {
            return Some(true);
        }
        let is_whole = starts_container(line)
            && matches!(Outline::default().extend(line), OutlineProgress::Complete);
        is_whole.then_some(false)
    }

    /// Whether a line may be the first row of an event that was copied from a terminal: an object
    /// begins in it and does not end, and it is no longer than a row.
    ///
    /// ```
    /// use towpath_wire::Rejoiner;
    ///
    /// assert!(Rejoiner::looks_wrapped(br#"{"type":"assistant","message":{"co"#));
    /// assert!(!Rejoiner::looks_wrapped(br#"{"type":"keep_alive"}"#));
    /// assert!(!Rejoiner::looks_wrapped(b"plain words"));
    /// ```
    pub fn looks_wrapped(line: &[u8]) -> bool {
        let line = line.trim_ascii_end();
        // An event may follow `data: ` or a timestamp, but not on a screen.
        (MIN_ROW..=MAX_ROW).contains(&line.len())
            && line.starts_with(b"{\"")
            && !line.ends_with(b"}")
    }

    /// Adds a line without its newline; returns the lines that are complete now.
    pub fn push(&mut self, line: &[u8]) -> Vec<Rejoined> {
        let mut output = Vec::new();
        if !self.pending.is_empty() {
            match self.try_extend(line) {
                OutlineProgress::Partial => return output,
                OutlineProgress::Complete => {
                    output.push(self.join());
                    return output;
                }
                OutlineProgress::Broken => output = self.release(),
            }
        }
        if starts_container(line) && self.try_extend(line) == OutlineProgress::Partial {
            return output;
        }
        self.reset();
        output.push(Rejoined { text: line.to_vec(), lines: 1 });
        output
    }

    /// Ends the stream; returns the buffered lines unchanged.
    pub fn finish(&mut self) -> Vec<Rejoined> {
        self.release()
    }

    fn try_extend(&mut self, line: &[u8]) -> OutlineProgress {
        self.pending_bytes += line.len();
        if self.pending_bytes > self.cap {
            return OutlineProgress::Broken;
        }
        // The terminal added the carriage return along with the newline.
        let progress = self.outline.extend(line.strip_suffix(b"\r").unwrap_or(line));
        if progress != OutlineProgress::Broken {
            self.pending.push(line.to_vec());
        }
        progress
    }

    fn join(&mut self) -> Rejoined {
        let lines = self.pending.len();
        let text =
            self.pending.iter().flat_map(|line| line.strip_suffix(b"\r").unwrap_or(line)).copied();
        let joined = Rejoined { text: text.collect(), lines };
        self.reset();
        joined
    }

    fn release(&mut self) -> Vec<Rejoined> {
        let pending = std::mem::take(&mut self.pending);
        self.reset();
        pending.into_iter().map(|text| Rejoined { text, lines: 1 }).collect()
    }

    fn reset(&mut self) {
        self.pending.clear();
        self.pending_bytes = 0;
        self.outline = Outline::default();
    }
}

fn starts_container(line: &[u8]) -> bool {
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
    fn an_event_wrapped_anywhere_is_joined() {
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
    fn a_pretty_printed_event_is_joined() {
        check(
            &["{\r", "  \"type\": \"result\",", "  \"usage\": {}", "}", "{\"type\":\"x\"}"],
            &[(r#"{  "type": "result",  "usage": {}}"#, 4), ("{\"type\":\"x\"}", 1)],
        );
    }

    #[test]
    fn a_truncated_event_does_not_absorb_the_next() {
        let cut = r#"{"type":"assistant","text":"half a sen"#;
        let next = r#"{"type":"result"}"#;
        check(&[cut, next], &[(cut, 1), (next, 1)]);
        check(&[next, cut], &[(next, 1), (cut, 1)]);
        check(&["[09:00] log", next], &[("[09:00] log", 1), (next, 1)]);
        check(&["plain", "", next], &[("plain", 1), ("", 1), (next, 1)]);
    }

    #[test]
    fn no_more_than_the_cap_is_buffered() {
        let mut rejoiner = Rejoiner::with_cap(10);
        assert!(rejoiner.push(b"{\"a\":\"").is_empty());
        let released = rejoiner.push(b"0123456789");
        assert_eq!(released.len(), 2);
        assert_eq!(released[1].text, b"0123456789");
    }
}
