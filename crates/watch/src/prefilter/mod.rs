//! Finds the few lines of a stream that must be parsed.
//!
//! Most of a stream is deltas and results that change no file. Parsing them would cost more than copying
//! them. So the prefilter looks only at the start of a line and for keywords that every line about a
//! call contains. A line that may be relevant is emitted whole, whatever the order, repetition or
//! escaping of its keys. A line that is too long to buffer is emitted [abridged](abridger).

mod abridger;
mod keywords;

use memchr::memchr;

use abridger::Abridger;
use keywords::Keywords;

/// The size of the window. Lines up to about this length are emitted whole.
const WINDOW: usize = 512 << 10;

/// The length from which a line is cheaper to abridge and parse than to parse, if its long strings are
/// not needed: finding the end of a string is a fourth of the work.
const LONG_LINE: usize = 16 << 10;

/// The minimum size of the buffer for a read.
const MIN_BUFFER: usize = 128 << 10;

/// What is needed besides the calls.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interest {
    /// Results, because calls wait for them.
    pub(crate) results: bool,
    /// The texts of the user and the agent.
    pub(crate) texts: bool,
    /// Complete lines, not abridged ones.
    pub(crate) whole: bool,
    /// Every line, because an event may be spread over several.
    pub(crate) all: bool,
}

/// A line that may be relevant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilteredLine<'a> {
    /// A line, without its newline.
    Line(&'a [u8]),
    /// A line, or an object of it, without its long strings.
    Abridged(&'a [u8]),
    /// A line that is too long even when abridged.
    Unreadable,
}

/// How a line that is longer than the window is treated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LongLine {
    Abridged,
    /// It is not relevant.
    Skipped,
}

/// Filters a stream.
pub(crate) struct Prefilter {
    window: Vec<u8>,
    /// The start of the current line.
    start: usize,
    /// The end of the part after `start` that has no newline.
    searched: usize,
    end: usize,
    keywords: Keywords,
    abridger: Abridger,
    long_line: Option<LongLine>,
}

impl Default for Prefilter {
    fn default() -> Self {
        Self {
            window: vec![0; WINDOW],
            start: 0,
            searched: 0,
            end: 0,
            keywords: Keywords::default(),
            abridger: Abridger::default(),
            long_line: None,
        }
    }
}

impl Prefilter {
    /// The buffer for the next bytes of the stream.
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        if self.window.len() - self.end < MIN_BUFFER {
            self.compact();
        }
        &mut self.window[self.end..]
    }

    /// Processes `count` bytes that were written to the buffer and emits the lines that may be
    /// relevant. `emit` returns what is needed of the next line.
    pub(crate) fn advance(
        &mut self,
        count: usize,
        mut interest: Interest,
        mut emit: impl FnMut(FilteredLine<'_>) -> Interest,
    ) {
        self.end += count;
        self.keywords.extend(self.searched);
        while let Some(length) = memchr(b'\n', &self.window[self.searched..self.end]) {
            let newline = self.searched + length;
            if let Some(treatment) = self.long_line.take() {
                if treatment == LongLine::Abridged {
                    self.abridger.push(&self.window[self.start..newline], &mut |it| {
                        interest = emit(it);
                    });
                    self.abridger.finish(&mut |it| interest = emit(it));
                }
            } else if self.keywords.is_relevant(
                &self.window[..self.end],
                self.start,
                newline,
                interest,
            ) {
                let line = &self.window[self.start..newline];
                if interest.whole || line.len() < LONG_LINE {
                    interest = emit(FilteredLine::Line(line));
                } else {
                    self.abridger.push(line, &mut |it| interest = emit(it));
                    self.abridger.finish(&mut |it| interest = emit(it));
                }
            }
            self.start = newline + 1;
            self.searched = self.start;
        }
        self.searched = self.end;
        if self.long_line.is_none() && self.end - self.start > WINDOW - MIN_BUFFER {
            let relevant =
                self.keywords.may_be_relevant(&self.window[..self.end], self.start, interest);
            self.long_line = Some(if relevant { LongLine::Abridged } else { LongLine::Skipped });
        }
        if self.long_line == Some(LongLine::Abridged) {
            self.abridger.push(&self.window[self.start..self.end], &mut |it| {
                emit(it);
            });
        }
        if self.long_line.is_some() || self.start == self.end {
            self.clear();
        }
    }

    /// Ends the stream and emits the line without a newline, if there is one.
    pub(crate) fn finish(&mut self, mut emit: impl FnMut(FilteredLine<'_>)) {
        match self.long_line.take() {
            Some(LongLine::Abridged) => self.abridger.finish(&mut emit),
            None if self.start < self.end => {
                emit(FilteredLine::Line(&self.window[self.start..self.end]));
            }
            Some(LongLine::Skipped) | None => {}
        }
        self.clear();
    }

    fn clear(&mut self) {
        (self.start, self.searched, self.end) = (0, 0, 0);
        self.keywords.reset();
    }

    /// Moves the current line to the front of the window.
    fn compact(&mut self) {
        self.window.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.searched -= self.start;
        self.start = 0;
        self.keywords.reset();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{FilteredLine, Interest, Prefilter, WINDOW};

    const ALL: Interest = Interest { results: true, texts: true, whole: true, all: false };
    const CALLS: Interest = Interest { results: false, texts: false, whole: false, all: false };

    /// The emitted lines of a stream that arrives in chunks of `size`.
    fn filter(stream: &[u8], size: usize, interest: Interest) -> Vec<String> {
        let mut prefilter = Prefilter::default();
        let mut found = Vec::new();
        let mut emit = |it: FilteredLine<'_>| match it {
            FilteredLine::Line(line) => found.push(String::from_utf8_lossy(line).into_owned()),
            FilteredLine::Abridged(line) => {
                found.push(format!("~{}", String::from_utf8_lossy(line)));
            }
            FilteredLine::Unreadable => found.push("unreadable".to_owned()),
        };
        let mut left = stream;
        while !left.is_empty() {
            let buffer = prefilter.buffer();
            let count = buffer.len().min(size).min(left.len());
            buffer[..count].copy_from_slice(&left[..count]);
            left = &left[count..];
            prefilter.advance(count, interest, |it| {
                emit(it);
                interest
            });
        }
        prefilter.finish(&mut emit);
        found
    }

    const DELTA: &str = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}},"parent_tool_use_id":null}"#;
    const CALL: &str = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"a","name":"Write","input":{"file_path":"a"}}]}}"#;
    const RESULT: &str =
        r#"{"type":"user","message":{"content":[{"tool_use_id":"a","type":"tool_result"}]}}"#;
    const TEXT: &str = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"x"}]}}"#;
    const INIT: &str = r#"{"type":"system","subtype":"init"}"#;

    #[test]
    fn only_lines_that_may_be_relevant_are_emitted() {
        let stream = [INIT, DELTA, CALL, DELTA, RESULT, TEXT, DELTA].join("\n");
        for size in [1, 7, 100, 10_000] {
            assert_eq!(filter(stream.as_bytes(), size, CALLS), [INIT, CALL, DELTA], "{size}");
            let results = Interest { results: true, ..CALLS };
            assert_eq!(
                filter(stream.as_bytes(), size, results),
                [INIT, CALL, RESULT, DELTA],
                "{size}"
            );
            let all = [INIT, CALL, RESULT, TEXT, DELTA];
            assert_eq!(filter(stream.as_bytes(), size, ALL), all, "{size}");
        }
    }

    #[test]
    fn a_second_type_and_an_escaped_keyword_are_found() {
        let twice = DELTA.replace("null}", r#"null,"type":"tool_use","toolName":"Write"}"#);
        let escaped = CALL.replace("tool_use", r"tool_us\u0065");
        let coloured = DELTA.replace(r#""x""#, r#""\u001b[1m""#);
        let stream = [&twice, DELTA, &escaped, &coloured, ""].join("\n");
        for size in [1, 10, 100_000] {
            assert_eq!(filter(stream.as_bytes(), size, CALLS), [&*twice, &*escaped], "{size}");
        }
    }

    #[test]
    fn a_line_longer_than_the_window_is_abridged_wherever_its_path_is() {
        let content = "x\\\"\\\\".repeat(WINDOW);
        for input in [
            format!(r#"{{"file_path":"a","content":"{content}"}}"#),
            format!(r#"{{"content":"{content}","file_path":"a"}}"#),
        ] {
            let call = CALL.replace(r#"{"file_path":"a"}"#, &input);
            let short = input.replace(&content, "");
            let short = format!("~{}", CALL.replace(r#"{"file_path":"a"}"#, &short));
            for size in [1000, 4096, WINDOW] {
                let stream = format!("{DELTA}\n{call}\n{RESULT}\r\n");
                let results = Interest { results: true, ..CALLS };
                let found = filter(stream.as_bytes(), size, results);
                assert_eq!(found, [short.clone(), format!("{RESULT}\r")], "{size}");
            }
        }
    }

    #[test]
    fn a_result_longer_than_the_window_is_read_if_a_call_waits_for_it() {
        let content = "y".repeat(2 * WINDOW);
        let result = format!(
            r#"{{"type":"user","message":{{"content":[{{"content":"{content}","type":"tool_result"}}]}}}}"#
        );
        let stream = format!("{result}\n{INIT}\n");
        assert_eq!(filter(stream.as_bytes(), 9000, CALLS), [INIT]);
        let results = Interest { results: true, ..CALLS };
        let short = format!("~{}", result.replace(&content, ""));
        assert_eq!(filter(stream.as_bytes(), 9000, results), [&*short, INIT]);
    }

    #[test]
    fn an_escape_at_the_end_of_a_chunk_is_remembered() {
        // Sequences of backslashes, cut anywhere, before a quote that closes and one that does not.
        for backslashes in 0..6 {
            let inside = format!("{}{}\\\"", "z".repeat(13 << 10), "\\\\".repeat(backslashes));
            let call = CALL.replace(r#""a"}"#, &format!(r#""a","content":"{inside}{inside}"}}"#));
            let padded = format!("{call}{}", " ".repeat(WINDOW));
            let short = format!("~{}", CALL.replace(r#""a"}"#, r#""a","content":""}"#));
            for size in [13, 997, 4096] {
                let found = filter(padded.as_bytes(), size, CALLS);
                assert_eq!(found, [&*short], "{backslashes} {size}");
            }
        }
    }

    #[test]
    fn a_long_line_is_abridged_unless_whole_lines_are_needed() {
        let content = "x\\n".repeat(10_000);
        let call = CALL.replace(r#""a"}"#, &format!(r#""a","content":"{content}"}}"#));
        let stream = format!("{call}\n{INIT}\n");
        let short = format!("~{}", call.replace(&content, ""));
        assert_eq!(filter(stream.as_bytes(), 7000, CALLS), [&*short, INIT]);
        assert_eq!(filter(stream.as_bytes(), 7000, ALL), [&*call, INIT]);
    }

    #[test]
    fn a_call_with_a_hundred_thousand_small_edits_is_abridged_too() {
        let edits = vec![r#"{"old_string":"a","new_string":"b"}"#; 100_000].join(",");
        let input = format!(r#"{{"edits":[{edits}],"file_path":"a"}}"#);
        let call = CALL.replace(r#"{"file_path":"a"}"#, &input);
        let found = filter(call.as_bytes(), 4096, CALLS);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].ends_with(r#"],"file_path":"a"}}]}}"#),
            "{}",
            &found[0][found[0].len() - 80..]
        );
        assert!(found[0].len() < WINDOW);
        let line: serde_json::Value = serde_json::from_str(&found[0][1..]).unwrap();
        assert_eq!(line["message"]["content"][0]["input"]["file_path"], "a");
    }

    #[test]
    fn a_session_in_one_array_is_emitted_message_by_message() {
        let long = TEXT.replace(r#""x""#, &format!("\"{}\"", "y".repeat(100_000)));
        let mut events = vec![&*long; 20];
        events.extend([CALL, RESULT]);
        let found = filter(format!("[{}]\n{INIT}\n", events.join(",")).as_bytes(), 5000, CALLS);
        assert_eq!(found.len(), 23);
        assert_eq!(found[20], format!("~,{CALL}"));
        assert_eq!(found[22], INIT);
    }

    #[test]
    fn an_endless_line_that_is_not_json_is_given_up_and_the_next_one_read() {
        let noise = "[1,2],".repeat(1 << 20);
        let found = filter(format!("{noise}\n{INIT}\n").as_bytes(), 50_000, CALLS);
        assert_eq!(found, ["unreadable", INIT]);
    }

    proptest! {
        #[test]
        fn any_chunks_give_the_same_lines(
            lines in proptest::collection::vec(
                prop_oneof![Just(DELTA), Just(CALL), Just(RESULT), Just(TEXT), Just(INIT), Just(""), Just("\u{2028}\\u0074 tool_use\"")], 0..30),
            size in 1_usize..400,
        ) {
            let stream = lines.join("\n");
            let whole = filter(stream.as_bytes(), usize::MAX, ALL);
            prop_assert_eq!(&whole, &filter(stream.as_bytes(), size, ALL));
            let expected: Vec<&str> = lines
                .iter()
                .enumerate()
                .filter(|(n, line)| !(**line == DELTA && n + 1 < lines.len()))
                .filter(|(n, line)| !(line.is_empty() && n + 1 == lines.len()))
                .map(|(_, line)| *line)
                .collect();
            prop_assert_eq!(whole, expected);
        }
    }
}
