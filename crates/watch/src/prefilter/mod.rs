//! From a stream of bytes to the few lines that must be read.
//!
//! Most of a stream is deltas and results that change no file, and reading them would cost more than
//! passing them on. So lines are looked at only as far as it takes to know that they cannot matter:
//! by where they begin, and by words that a line about a call must hold. What may matter is handed
//! on whole, however its keys are ordered, repeated or escaped; what is too long to be held is handed
//! on [abridged](abridge).

mod abridge;
mod keywords;

use memchr::memchr;

use abridge::Abridger;
use keywords::Keywords;

/// How much of the stream is held: lines up to about this length are read whole.
const WINDOW: usize = 512 << 10;

/// Lines from here on are cheaper to abridge and read than to read, if nobody wants what is in their
/// strings: looking for the end of a string is a fourth of the work.
const LONG_LINE: usize = 16 << 10;

/// The least room that a piece of the stream is read into.
const ROOM: usize = 128 << 10;

/// What is wanted beyond the calls.
#[expect(clippy::struct_excessive_bools, reason = "each is wanted or not, on its own")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interest {
    /// Results, because there are calls that wait for theirs.
    pub(crate) results: bool,
    /// What the agent and the person said.
    pub(crate) words: bool,
    /// Lines with all that is in them.
    pub(crate) whole: bool,
    /// ActionTrigger line, because one alone may be part of something.
    pub(crate) all: bool,
}

/// A line that may matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilteredLine<'a> {
    /// A line, without its newline.
    Line(&'a [u8]),
    /// A line whose longest strings were made empty, or an object of one.
    Abridged(&'a [u8]),
    /// A line that was too long for either.
    Unreadable,
}

/// What is done with a line that is longer than the window.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LongLine {
    Abridged,
    /// It cannot matter.
    PassedOver,
}

/// The stream as it passes.
pub(crate) struct Prefilter {
    window: Vec<u8>,
    /// Where the line begins that has not ended yet.
    start: usize,
    /// Up to where there is no newline behind `start`.
    looked: usize,
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
            looked: 0,
            end: 0,
            keywords: Keywords::default(),
            abridger: Abridger::default(),
            long_line: None,
        }
    }
}

impl Prefilter {
    /// Where the next piece of the stream is to be put.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.window.len() - self.end < ROOM {
            self.make_room();
        }
        &mut self.window[self.end..]
    }

    /// Takes in what was put into the room, and hands on the lines that may matter. What is wanted
    /// may change with each of them, so it is what the caller answers.
    pub(crate) fn put(
        &mut self,
        count: usize,
        mut interest: Interest,
        mut hand_on: impl FnMut(FilteredLine<'_>) -> Interest,
    ) {
        self.end += count;
        self.keywords.forget_absence(self.looked);
        while let Some(length) = memchr(b'\n', &self.window[self.looked..self.end]) {
            let newline = self.looked + length;
            if let Some(what) = self.long_line.take() {
                if what == LongLine::Abridged {
                    self.abridger.take(&self.window[self.start..newline], &mut |it| {
                        interest = hand_on(it);
                    });
                    self.abridger.finish(&mut |it| interest = hand_on(it));
                }
            } else if self.keywords.matter(&self.window[..self.end], self.start, newline, interest)
            {
                let line = &self.window[self.start..newline];
                if interest.whole || line.len() < LONG_LINE {
                    interest = hand_on(FilteredLine::Line(line));
                } else {
                    self.abridger.take(line, &mut |it| interest = hand_on(it));
                    self.abridger.finish(&mut |it| interest = hand_on(it));
                }
            }
            self.start = newline + 1;
            self.looked = self.start;
        }
        self.looked = self.end;
        if self.long_line.is_none() && self.end - self.start > WINDOW - ROOM {
            let matters = self.keywords.may_come(&self.window[..self.end], self.start, interest);
            self.long_line = Some(if matters { LongLine::Abridged } else { LongLine::PassedOver });
        }
        if self.long_line == Some(LongLine::Abridged) {
            self.abridger.take(&self.window[self.start..self.end], &mut |it| {
                hand_on(it);
            });
        }
        if self.long_line.is_some() || self.start == self.end {
            self.clear();
        }
    }

    /// Ends the stream: what came since the last newline.
    pub(crate) fn finish(&mut self, mut hand_on: impl FnMut(FilteredLine<'_>)) {
        match self.long_line.take() {
            Some(LongLine::Abridged) => self.abridger.finish(&mut hand_on),
            None if self.start < self.end => {
                hand_on(FilteredLine::Line(&self.window[self.start..self.end]));
            }
            Some(LongLine::PassedOver) | None => {}
        }
        self.clear();
    }

    fn clear(&mut self) {
        (self.start, self.looked, self.end) = (0, 0, 0);
        self.keywords.restart();
    }

    /// Moves the line that has not ended to the front.
    fn make_room(&mut self) {
        self.window.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.looked -= self.start;
        self.start = 0;
        self.keywords.restart();
    }
}

#[cfg(test)]
mod tests;
