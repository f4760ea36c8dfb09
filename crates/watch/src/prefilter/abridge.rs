//! Lines too long to be held, made short enough to be read.
//!
//! What makes a line long is a string: a file's content, a picture, a tool's output. What is decided
//! on is never in a long one. So strings longer than [`LONG`] become empty as they pass, and what is
//! left is the same JSON otherwise, for the same reader. If that is still too much, arrays and
//! objects nested deeper than anything that is decided on become empty too.
//!
//! Each object is handed on when it closes, so a whole session in one array needs no more memory
//! than its longest message. Nothing is checked here: text that is no JSON comes out as some other
//! text that is none.

use memchr::{memchr, memchr2};

use super::FilteredLine;

/// The longest string that is kept: a path of 4096 bytes fits, also where every character that is
/// not ASCII is written as an escape.
const LONG: usize = 12 << 10;

/// How much may be left of a line before deep containers are left out.
const MUCH: usize = 128 << 10;

/// How much may be left of a line at all.
const TOO_MUCH: usize = 1 << 20;

/// The container of a call's input is an object at this depth: line, message, content, block, input.
const DEEPEST_OBJECT: u32 = 5;

/// What is left of a line.
#[derive(Default)]
pub(super) struct Abridger {
    left: Vec<u8>,
    place: AbridgerState,
    depth: u32,
    /// The depth of the container whose content is being left out.
    leaving_out: Option<u32>,
    /// The line is an array of objects.
    in_array: bool,
    given_up: bool,
}

#[derive(Clone, Copy, Default)]
enum AbridgerState {
    #[default]
    Between,
    /// In a string, of which `left` holds what is behind its opening quote at `from`.
    String { from: usize, escaped: bool },
    /// In a string that turned out to be long.
    LongString { escaped: bool },
}

impl Abridger {
    /// Takes more of the line.
    pub(super) fn take(&mut self, mut bytes: &[u8], hand_on: &mut impl FnMut(FilteredLine<'_>)) {
        while let Some((&first, rest)) = bytes.split_first() {
            if self.given_up {
                return;
            }
            match self.place {
                AbridgerState::Between => {
                    self.between(first, hand_on);
                    bytes = rest;
                }
                AbridgerState::String { from, escaped: true } => {
                    self.left.push(first);
                    self.place = AbridgerState::String { from, escaped: false };
                    bytes = rest;
                }
                AbridgerState::String { from, escaped: false } => {
                    bytes = self.in_string(bytes, from)
                }
                AbridgerState::LongString { escaped } => {
                    bytes = self.in_long_string(bytes, escaped)
                }
            }
        }
    }

    /// Ends the line.
    pub(super) fn finish(&mut self, hand_on: &mut impl FnMut(FilteredLine<'_>)) {
        if self.given_up {
            hand_on(FilteredLine::Unreadable);
        } else if self.left.iter().any(|byte| !matches!(byte, b' ' | b'\r' | b']' | b',')) {
            hand_on(FilteredLine::Abridged(&self.left));
        }
        *self = Self::default();
    }

    fn between(&mut self, byte: u8, hand_on: &mut impl FnMut(FilteredLine<'_>)) {
        match byte {
            b'"' => {
                self.keep(byte);
                self.place = match self.leaving_out {
                    Some(_) => AbridgerState::LongString { escaped: false },
                    None => AbridgerState::String { from: self.left.len(), escaped: false },
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
                if self.left.len() > MUCH && self.depth > deepest && self.leaving_out.is_none() {
                    self.leaving_out = Some(self.depth);
                }
            }
            b'}' | b']' => {
                if self.leaving_out == Some(self.depth) {
                    self.leaving_out = None;
                }
                self.keep(byte);
                self.depth = self.depth.saturating_sub(1);
                if byte == b'}' && self.depth == u32::from(self.in_array) {
                    hand_on(FilteredLine::Abridged(&self.left));
                    self.left.clear();
                }
            }
            _ => self.keep(byte),
        }
        if self.left.len() > TOO_MUCH {
            self.given_up = true;
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.leaving_out.is_none() {
            self.left.push(byte);
        }
    }

    /// Goes through a string up to its next mark, and gives what is behind that.
    fn in_string<'a>(&mut self, bytes: &'a [u8], from: usize) -> &'a [u8] {
        // What is kept is little, so only so much need be looked at before it is known to be long.
        let near = &bytes[..bytes.len().min(LONG + 1)];
        let mark = memchr2(b'"', b'\\', near);
        let passed = mark.map_or(near.len(), |mark| mark + 1);
        let escaped = mark.is_some_and(|mark| near[mark] == b'\\');
        let closed = mark.is_some_and(|mark| near[mark] == b'"');
        self.left.extend_from_slice(&near[..passed]);
        let long = self.left.len() - from > LONG;
        if long {
            self.left.truncate(from);
        }
        self.place = match (closed, long) {
            (true, true) => {
                self.left.push(b'"');
                AbridgerState::Between
            }
            (true, false) => AbridgerState::Between,
            (false, true) => AbridgerState::LongString { escaped },
            (false, false) => AbridgerState::String { from, escaped },
        };
        &bytes[passed..]
    }

    /// Goes through a string of which nothing is kept, and gives what is behind it. Only quotes are
    /// looked for: in a file's text there are fewer of them than escapes.
    fn in_long_string<'a>(&mut self, bytes: &'a [u8], escaped: bool) -> &'a [u8] {
        let mut at = 0;
        while let Some(mark) = memchr(b'"', &bytes[at..]) {
            let quote = at + mark;
            at = quote + 1;
            if !ends_in_escape(&bytes[..quote], escaped) {
                self.keep(b'"');
                self.place = AbridgerState::Between;
                return &bytes[at..];
            }
        }
        self.place = AbridgerState::LongString { escaped: ends_in_escape(bytes, escaped) };
        &[]
    }
}

/// Whether what follows the bytes is escaped, given whether their first is.
fn ends_in_escape(bytes: &[u8], first: bool) -> bool {
    let backslashes = bytes.iter().rev().take_while(|&&byte| byte == b'\\').count();
    let all = backslashes == bytes.len();
    (backslashes % 2 == 1) != (all && first)
}
