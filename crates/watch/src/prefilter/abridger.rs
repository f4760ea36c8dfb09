//! Shortens lines that are too long to buffer.
//!
//! A line is long because of a string: the content of a file, an image, the output of a tool. No
//! decision depends on a long string. So strings longer than [`MAX_STRING`] become empty, and the rest
//! is the same JSON for the same reader. If that is still too much, arrays and objects that are nested
//! deeper than everything that is read become empty, too.
//!
//! Each object is emitted when it closes, so a whole session in one array needs no more memory than its
//! longest message. Nothing is validated here: text that is not JSON becomes other text that is not.

use memchr::{memchr, memchr2};

use super::FilteredLine;

/// The longest string that is kept. A path of 4096 bytes fits, even with all characters escaped.
const MAX_STRING: usize = 12 << 10;

/// The length of an abridged line from which deep containers are emptied.
const LONG_LINE: usize = 128 << 10;

/// The length of an abridged line from which it is given up.
const MAX_LINE: usize = 1 << 20;

/// The depth of a call's input: line, message, content, block, input.
const DEEPEST_OBJECT: u32 = 5;

/// Abridges one line at a time.
#[derive(Default)]
pub(super) struct Abridger {
    output: Vec<u8>,
    state: AbridgerState,
    depth: u32,
    /// The depth of the container whose content is skipped.
    skipping: Option<u32>,
    /// The line is an array of objects.
    in_array: bool,
    given_up: bool,
}

#[derive(Clone, Copy, Default)]
enum AbridgerState {
    #[default]
    Between,
    /// In a string whose content starts at `from` in the output.
    String { from: usize, escaped: bool },
    /// In a string that is too long and was removed.
    LongString { escaped: bool },
}

impl Abridger {
    /// Adds more of the line.
    pub(super) fn push(&mut self, mut bytes: &[u8], emit: &mut impl FnMut(FilteredLine<'_>)) {
        while let Some((&first, rest)) = bytes.split_first() {
            if self.given_up {
                return;
            }
            match self.state {
                AbridgerState::Between => {
                    self.between(first, emit);
                    bytes = rest;
                }
                AbridgerState::String { from, escaped: true } => {
                    self.output.push(first);
                    self.state = AbridgerState::String { from, escaped: false };
                    bytes = rest;
                }
                AbridgerState::String { from, escaped: false } => {
                    bytes = self.in_string(bytes, from);
                }
                AbridgerState::LongString { escaped } => {
                    bytes = self.in_long_string(bytes, escaped);
                }
            }
        }
    }

    /// Ends the line.
    pub(super) fn finish(&mut self, emit: &mut impl FnMut(FilteredLine<'_>)) {
        if self.given_up {
            emit(FilteredLine::Unreadable);
        } else if self.output.iter().any(|byte| !matches!(byte, b' ' | b'\r' | b']' | b',')) {
            emit(FilteredLine::Abridged(&self.output));
        }
        *self = Self::default();
    }

    fn between(&mut self, byte: u8, emit: &mut impl FnMut(FilteredLine<'_>)) {
        match byte {
            b'"' => {
                self.keep(byte);
                self.state = match self.skipping {
                    Some(_) => AbridgerState::LongString { escaped: false },
                    None => AbridgerState::String { from: self.output.len(), escaped: false },
                };
                return;
            }
            b'{' | b'[' => {
                if self.depth == 0 {
                    self.in_array = byte == b'[';
                }
                self.keep(byte);
                self.depth += 1;
                let deepest = if byte == b'{' { DEEPEST_OBJECT } else { DEEPEST_OBJECT - 1 };
                if self.output.len() > LONG_LINE && self.depth > deepest && self.skipping.is_none()
                {
                    self.skipping = Some(self.depth);
                }
            }
            b'}' | b']' => {
                if self.skipping == Some(self.depth) {
                    self.skipping = None;
                }
                self.keep(byte);
                self.depth = self.depth.saturating_sub(1);
                if byte == b'}' && self.depth == u32::from(self.in_array) {
                    emit(FilteredLine::Abridged(&self.output));
                    self.output.clear();
                }
            }
            _ => self.keep(byte),
        }
        if self.output.len() > MAX_LINE {
            self.given_up = true;
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.skipping.is_none() {
            self.output.push(byte);
        }
    }

    /// Reads a string up to its next quote or backslash. Returns the rest.
    fn in_string<'a>(&mut self, bytes: &'a [u8], from: usize) -> &'a [u8] {
        // Looking at more bytes is not needed to know that the string is too long.
        let start = &bytes[..bytes.len().min(MAX_STRING + 1)];
        let mark = memchr2(b'"', b'\\', start);
        let length = mark.map_or(start.len(), |mark| mark + 1);
        let escaped = mark.is_some_and(|mark| start[mark] == b'\\');
        let closed = mark.is_some_and(|mark| start[mark] == b'"');
        self.output.extend_from_slice(&start[..length]);
        let long = self.output.len() - from > MAX_STRING;
        if long {
            self.output.truncate(from);
        }
        self.state = match (closed, long) {
            (true, true) => {
                self.output.push(b'"');
                AbridgerState::Between
            }
            (true, false) => AbridgerState::Between,
            (false, true) => AbridgerState::LongString { escaped },
            (false, false) => AbridgerState::String { from, escaped },
        };
        &bytes[length..]
    }

    /// Skips a string that is too long. Returns the rest. Only quotes are searched for: the text of a
    /// file has fewer quotes than escapes.
    fn in_long_string<'a>(&mut self, bytes: &'a [u8], escaped: bool) -> &'a [u8] {
        let mut at = 0;
        while let Some(mark) = memchr(b'"', &bytes[at..]) {
            let quote = at + mark;
            at = quote + 1;
            if !ends_in_escape(&bytes[..quote], escaped) {
                self.keep(b'"');
                self.state = AbridgerState::Between;
                return &bytes[at..];
            }
        }
        self.state = AbridgerState::LongString { escaped: ends_in_escape(bytes, escaped) };
        &[]
    }
}

/// Whether the byte after these is escaped. `first` tells whether the first of them is.
fn ends_in_escape(bytes: &[u8], first: bool) -> bool {
    let backslashes = bytes.iter().rev().take_while(|&&byte| byte == b'\\').count();
    let all = backslashes == bytes.len();
    (backslashes % 2 == 1) != (all && first)
}
