//! Keywords that every line about a tool call contains.
//!
//! A call is a block of type `tool_use` and its result one of type `tool_result`, in every dialect. A
//! line without these keywords is not about a call and need not be parsed. The searches run over the
//! whole window, not line by line, because most lines are short.
//!
//! Only an escaped letter can hide a keyword, so messages are searched for escaped letters, too. One
//! case is missed: a delta with a second, escaped type further on.

use memchr::memmem::Finder;

use super::Interest;

/// The start of most lines of a live stream.
const STREAM_EVENT: &[u8] = br#"{"type":"stream_event","#;
const ASSISTANT: &[u8] = br#"{"type":"assistant","#;
const USER: &[u8] = br#"{"type":"user","#;

/// The keywords, and where each occurs next.
pub(super) struct Keywords {
    call: Keyword,
    result: Keyword,
    escape: Finder<'static>,
}

impl Default for Keywords {
    fn default() -> Self {
        Self {
            call: Keyword::new(br#"tool_use""#),
            result: Keyword::new(br#"tool_result""#),
            escape: Finder::new(br"\u00"),
        }
    }
}

impl Keywords {
    /// Whether the line from `start` to `end` may be relevant.
    pub(super) fn is_relevant(
        &mut self,
        window: &[u8],
        start: usize,
        end: usize,
        interest: Interest,
    ) -> bool {
        if interest.all
            || self.call.is_within(window, start, end)
            || (interest.results && self.result.is_within(window, start, end))
        {
            return true;
        }
        let line = &window[start..end];
        if line.starts_with(STREAM_EVENT) {
            false
        } else if line.starts_with(ASSISTANT) {
            interest.texts || self.has_escaped_letter(line)
        } else if line.starts_with(USER) {
            interest.texts || (interest.results && self.has_escaped_letter(line))
        } else {
            true
        }
    }

    /// Whether the line that starts at `start` and does not fit into the window may be relevant. Its
    /// keyword may follow later.
    pub(super) fn may_be_relevant(
        &mut self,
        window: &[u8],
        start: usize,
        interest: Interest,
    ) -> bool {
        let beginning = &window[start..];
        if beginning.starts_with(STREAM_EVENT) {
            self.call.is_within(window, start, window.len())
        } else if beginning.starts_with(USER) {
            interest.texts || interest.results || self.call.is_within(window, start, window.len())
        } else {
            true
        }
    }

    fn has_escaped_letter(&self, line: &[u8]) -> bool {
        // Lower codes are control characters, which are frequent in the output of terminals.
        let digits =
            self.escape.find_iter(line).map(|at| line.get(at + self.escape.needle().len()));
        digits.flatten().any(|digit| matches!(digit, b'2'..=b'7'))
    }

    /// The window has grown. It was searched up to `searched`.
    pub(super) fn extend(&mut self, searched: usize) {
        for keyword in [&mut self.call, &mut self.result] {
            keyword.extend(searched);
        }
    }

    /// The content of the window was moved or removed.
    pub(super) fn reset(&mut self) {
        for keyword in [&mut self.call, &mut self.result] {
            keyword.next = NextMatch::Unknown { from: 0 };
        }
    }
}

/// A keyword, and where it occurs next.
struct Keyword {
    finder: Finder<'static>,
    next: NextMatch,
}

#[derive(Clone, Copy)]
enum NextMatch {
    /// Not before `from`.
    Unknown {
        from: usize,
    },
    At(usize),
    /// Not in the window.
    Nowhere,
}

impl Keyword {
    fn new(keyword: &'static [u8]) -> Self {
        Self { finder: Finder::new(keyword), next: NextMatch::Unknown { from: 0 } }
    }

    fn extend(&mut self, searched: usize) {
        if let NextMatch::Nowhere = self.next {
            // The keyword may have started at the end of the searched part.
            let from = (searched + 1).saturating_sub(self.finder.needle().len());
            self.next = NextMatch::Unknown { from };
        }
    }

    /// Whether the keyword starts between `start` and `end`.
    fn is_within(&mut self, window: &[u8], start: usize, end: usize) -> bool {
        loop {
            let from = match self.next {
                NextMatch::Nowhere => return false,
                NextMatch::At(at) if at >= start => return at < end,
                NextMatch::At(_) => start,
                NextMatch::Unknown { from } => from.max(start),
            };
            self.next = match self.finder.find(&window[from..]) {
                Some(at) => NextMatch::At(from + at),
                None => NextMatch::Nowhere,
            };
        }
    }
}
