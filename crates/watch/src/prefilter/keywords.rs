//! Words without which a line cannot be about a call.
//!
//! A call is a block of type `tool_use` and its result one of type `tool_result`, in every dialect.
//! So a line without these words is not about a call, whatever else it holds and however often it
//! says what it is, and need not be read to know it. The searches run ahead over everything that has
//! come, not line by line, for most lines are short.
//!
//! Only an escape for a letter can hide a word. Lines that begin as messages are searched for those
//! too; a delta that further on says that it is something else, and says even that in escapes, is
//! the one thing taken for what it seems.

use memchr::memmem::Finder;

use super::Interest;

/// Begins every line that a live stream is mostly made of.
const STREAM_EVENT: &[u8] = br#"{"type":"stream_event","#;
const ASSISTANT: &[u8] = br#"{"type":"assistant","#;
const USER: &[u8] = br#"{"type":"user","#;

/// The words.
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
    /// Whether the line from `start` to `end` may matter.
    pub(super) fn matter(
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
            interest.words || self.has_escaped_letter(line)
        } else if line.starts_with(USER) {
            interest.words || (interest.results && self.has_escaped_letter(line))
        } else {
            true
        }
    }

    /// Whether the line that begins at `start` and goes on behind the window may matter: what makes
    /// it matter may be still to come.
    pub(super) fn may_come(&mut self, window: &[u8], start: usize, interest: Interest) -> bool {
        let beginning = &window[start..];
        if beginning.starts_with(STREAM_EVENT) {
            self.call.is_within(window, start, window.len())
        } else if beginning.starts_with(USER) {
            interest.words || interest.results || self.call.is_within(window, start, window.len())
        } else {
            true
        }
    }

    fn has_escaped_letter(&self, line: &[u8]) -> bool {
        // Escapes below these are control characters, of which terminals' output is full.
        let digits =
            self.escape.find_iter(line).map(|at| line.get(at + self.escape.needle().len()));
        digits.flatten().any(|digit| matches!(digit, b'2'..=b'7'))
    }

    /// More has come behind what was searched.
    pub(super) fn forget_absence(&mut self, looked: usize) {
        for mark in [&mut self.call, &mut self.result] {
            mark.forget_absence(looked);
        }
    }

    /// What was searched lies elsewhere now.
    pub(super) fn restart(&mut self) {
        for mark in [&mut self.call, &mut self.result] {
            mark.next = NextMatch::Unknown { from: 0 };
        }
    }
}

/// A word, and where it stands next.
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
    /// Nowhere in what has come.
    Nowhere,
}

impl Keyword {
    fn new(word: &'static [u8]) -> Self {
        Self { finder: Finder::new(word), next: NextMatch::Unknown { from: 0 } }
    }

    fn forget_absence(&mut self, looked: usize) {
        if let NextMatch::Nowhere = self.next {
            // The word may have begun at the end of what had come.
            let from = (looked + 1).saturating_sub(self.finder.needle().len());
            self.next = NextMatch::Unknown { from };
        }
    }

    /// Whether the word stands between `start` and `end`.
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
