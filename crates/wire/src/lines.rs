//! Finds the objects in a line of the stream: nearly always one, sometimes several.
//!
//! Recordings may have `data: ` or a log's timestamp before an event, several events on a line, or
//! a whole run in one array. An object counts as an event only if it is not inside a JSON string
//! and only objects follow it to the end of the line.

use memchr::memchr_iter;

use crate::acp::event::chunk;
use crate::json::Cursor;
use crate::line::{Dialect, Line, Noise, Reading};
use crate::reader::{Object, delta, is_json, object_at};

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The number of braces that are tried as the start of an object after a prefix. A log prefix may
/// contain a few braces, but a line of a million braces must not cost a million attempts.
const PREFIX_ATTEMPTS: usize = 8;

/// Reads a line, given without its newline.
///
/// Returns at least one [`Line`]. The concatenated bytes of all of them are the line.
///
/// ```
/// use towpath_wire::{Reading, read};
///
/// let line = read(br#"data: {"type":"system","subtype":"init","session_id":"s1"}"#)
///     .next()
///     .unwrap();
/// let Reading::Event(event) = line.reading else { panic!() };
/// assert_eq!(event.kind.to_string(), "system/init");
/// assert_eq!(event.envelope.session_id.unwrap(), "s1");
///
/// let new = read(br#"{"type":"from_next_year"}"#).next().unwrap();
/// assert!(matches!(new.reading, Reading::Unknown(_)));
/// ```
pub fn read(line: &[u8]) -> Lines<'_> {
    Lines { bytes: line, text: "", at: 0, position: LinePosition::Start }
}

/// The readings of one line.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    bytes: &'a [u8],
    /// The line, after validation as UTF-8.
    text: &'a str,
    /// The offset of the next reading.
    at: usize,
    position: LinePosition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinePosition {
    Start,
    /// After an object that is not the end of the line.
    Between,
    /// The same, inside an array.
    InArray,
    Done,
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    #[inline]
    fn next(&mut self) -> Option<Line<'a>> {
        match self.position {
            LinePosition::Start => Some(self.read_first()),
            LinePosition::Between | LinePosition::InArray => Some(self.read_next()),
            LinePosition::Done => None,
        }
    }
}

impl<'a> Lines<'a> {
    #[inline]
    fn read_first(&mut self) -> Line<'a> {
        let Ok(text) = simdutf8::basic::from_utf8(self.bytes) else {
            return self.finish_as_noise(Noise::NotUtf8);
        };
        self.text = text;
        if let Some(event) = delta(text) {
            self.position = LinePosition::Done;
            let reading = Reading::Event(event);
            return Line { bytes: self.bytes, dialect: Dialect::StreamJson, reading };
        }
        if let Some(event) = chunk(text) {
            self.position = LinePosition::Done;
            let reading = Reading::Event(event);
            return Line { bytes: self.bytes, dialect: Dialect::Acp, reading };
        }
        let start = content_start(text);
        match text.as_bytes().get(start) {
            None => self.finish_as_noise(Noise::Blank),
            Some(b'{') => match object_at(text, start) {
                Some(object) => self.emit(object, LinePosition::Between),
                None => self.finish_as_noise(Noise::NotJson),
            },
            Some(b'[') => self.read_array(start),
            Some(_) => self.find_after_prefix(start),
        }
    }

    fn read_array(&mut self, start: usize) -> Line<'a> {
        let mut cursor = Cursor::starting_at(self.text, start + 1);
        cursor.skip_space();
        match object_at(self.text, cursor.position()) {
            Some(object) => self.emit(object, LinePosition::InArray),
            // A log's `[timestamp]`, or an array of other values.
            None => self.find_after_prefix(start),
        }
    }

    /// Searches for an object after a prefix.
    fn find_after_prefix(&mut self, start: usize) -> Line<'a> {
        let line = self.text.as_bytes();
        let mut quotes = 0;
        let mut counted = 0;
        for open in memchr_iter(b'{', line).take(PREFIX_ATTEMPTS) {
            quotes += memchr_iter(b'"', &line[counted..open]).count();
            counted = open;
            // Inside quotes it is part of a string, not an event.
            if quotes % 2 == 1 {
                continue;
            }
            if let Some(object) = object_at(self.text, open)
                && !matches!(object.reading, Reading::Noise(_))
                && only_objects_follow(self.text, object.end)
            {
                return self.emit(object, LinePosition::Between);
            }
        }
        let json = is_json(&self.text[start..]);
        self.finish_as_noise(if json { Noise::Untyped } else { Noise::NotJson })
    }

    /// Reads what follows an object.
    fn read_next(&mut self) -> Line<'a> {
        let mut cursor = Cursor::starting_at(self.text, self.at);
        cursor.skip_space();
        if cursor.eat(b',') {
            cursor.skip_space();
        }
        match object_at(self.text, cursor.position()) {
            Some(object) => self.emit(object, self.position),
            None => self.finish_as_noise(Noise::NotJson),
        }
    }

    /// Returns an object with the bytes since the previous one, and those to the end of the line if
    /// it is the last one.
    fn emit(&mut self, object: Object<'a>, position: LinePosition) -> Line<'a> {
        let mut cursor = Cursor::starting_at(self.text, object.end);
        cursor.skip_space();
        if position == LinePosition::InArray && cursor.eat(b']') {
            cursor.skip_space();
        }
        let end = if cursor.at_end() {
            self.position = LinePosition::Done;
            self.bytes.len()
        } else {
            self.position = position;
            object.end
        };
        let bytes = &self.bytes[self.at..end];
        self.at = end;
        let dialect = match object.dialect {
            Dialect::StreamJson if position == LinePosition::InArray => Dialect::JsonArray,
            dialect => dialect,
        };
        Line { bytes, dialect, reading: object.reading }
    }

    fn finish_as_noise(&mut self, noise: Noise) -> Line<'a> {
        self.position = LinePosition::Done;
        let bytes = &self.bytes[self.at..];
        Line { bytes, dialect: Dialect::StreamJson, reading: Reading::Noise(noise) }
    }
}

/// The offset of the content, after a byte order mark and white space.
#[inline]
fn content_start(text: &str) -> usize {
    if text.starts_with('{') {
        return 0;
    }
    let after_mark = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    text.len() - after_mark.trim_ascii_start().len()
}

fn only_objects_follow(text: &str, end: usize) -> bool {
    let mut cursor = Cursor::starting_at(text, end);
    loop {
        cursor.skip_space();
        if cursor.at_end() {
            return true;
        }
        if cursor.byte() != b'{' || cursor.skip().is_err() {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::line::{Noise, Reading};

    /// Compares a short form of each reading, and checks that no byte is lost.
    #[track_caller]
    fn check(line: impl AsRef<[u8]>, expected: &[&str]) {
        let line = line.as_ref();
        let lines: Vec<_> = read(line).collect();
        let bytes: Vec<u8> = lines.iter().flat_map(|line| line.bytes).copied().collect();
        assert_eq!(bytes, line);
        let found: Vec<_> = lines
            .iter()
            .map(|line| match &line.reading {
                Reading::Noise(noise) => format!("noise: {noise}"),
                Reading::Event(event) => format!("{} {}", line.dialect.name(), event.kind),
                Reading::Unknown(unknown) => format!("unknown {}", unknown.kind),
                Reading::Mismatch(mismatch) => format!("mismatch {}", mismatch.kind),
            })
            .collect();
        assert_eq!(found, expected);
    }

    const KEEP: &str = r#"{"type":"keep_alive"}"#;
    const EVENT: &str = "stream-json keep_alive";

    #[test]
    fn objects_are_found_alone_side_by_side_in_an_array_and_after_a_prefix() {
        check(KEEP, &[EVENT]);
        check(format!(" \t{KEEP} \r"), &[EVENT]);
        check(format!("\u{feff}{KEEP}"), &[EVENT]);
        check(format!("{KEEP}{KEEP}"), &[EVENT, EVENT]);
        check(format!("{KEEP} {KEEP}, {KEEP} "), &[EVENT, EVENT, EVENT]);
        check(format!("[{KEEP}]"), &["json-array keep_alive"]);
        check(format!(" [ {KEEP} , {KEEP} ] "), &["json-array keep_alive"; 2]);
        check(format!("data: {KEEP}"), &[EVENT]);
        check(format!(">>> {KEEP}{KEEP}"), &[EVENT, EVENT]);
        check(format!("[2026-11-15T09:00:00Z INFO agent] {KEEP}"), &[EVENT]);
        check(format!("time=\"09:00\" {{pid 4}} msg={KEEP}"), &[EVENT]);
        check(format!("\u{1b}[2m09:00\u{1b}[0m {KEEP}\r"), &[EVENT]);
    }

    #[test]
    fn text_inside_strings_is_never_an_event() {
        check(format!("\"{KEEP}\""), &["noise: not JSON"]);
        check(format!("he wrote \"see {KEEP}"), &["noise: not JSON"]);
        check(format!("echo '{KEEP}' | claude"), &["noise: not JSON"]);
        check(r#"{"type":"keep_alive","text":"{\"type\":\"result\"}"}"#, &[EVENT]);
        check(format!(r#"{{"type":"assistant","text":"cut off {KEEP}"#), &["noise: not JSON"]);
    }

    #[test]
    fn other_text_after_an_event_is_separate_noise() {
        check(format!("{KEEP}garbage"), &[EVENT, "noise: not JSON"]);
        check(format!("{KEEP}{{\"type\":"), &[EVENT, "noise: not JSON"]);
        check(format!("[{KEEP},5]"), &["json-array keep_alive", "noise: not JSON"]);
        check(format!("[{KEEP}"), &["json-array keep_alive"]);
    }

    #[test]
    fn everything_else_is_noise_with_a_reason() {
        check("", &["noise: blank"]);
        check(" \t\r", &["noise: blank"]);
        check("\u{feff}", &["noise: blank"]);
        check("ok", &["noise: not JSON"]);
        check("{", &["noise: not JSON"]);
        check("{}", &["noise: JSON without a `type`"]);
        check(r#"{"type":5}"#, &["noise: JSON without a `type`"]);
        check("[1,2]", &["noise: JSON without a `type`"]);
        check("[]", &["noise: JSON without a `type`"]);
        check("42", &["noise: JSON without a `type`"]);
        check("\"text\"", &["noise: JSON without a `type`"]);
        check(b"{\"type\":\"\xff\"}", &["noise: not UTF-8"]);
        check(b"\0", &["noise: not JSON"]);
        check("{\"type\":\"a\nb\"}", &["noise: not JSON"]);
        check("\u{1b}[?25h", &["noise: not JSON"]);
    }

    #[test]
    fn a_line_of_a_million_braces_is_read_quickly() {
        check("{".repeat(1_000_000), &["noise: not JSON"]);
        check(format!("x{}", "{\"a\":".repeat(300_000)), &["noise: not JSON"]);
        let deep = format!(
            r#"{{"type":"keep_alive","deep":{}{}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        check(deep, &[EVENT]);
    }

    #[test]
    fn an_empty_line_has_one_reading() {
        assert!(matches!(
            read(b"").next().map(|line| line.reading),
            Some(Reading::Noise(Noise::Blank))
        ));
    }
}
