//! Bytes in chunks of any size to lines.
//!
//! Lines end at `\n` and nowhere else: the CLI writes U+2028 as it is up to 2.1.37, and a `\r`
//! belongs to the line. What goes in comes out: the pieces, each with the newline its
//! [`PieceEnd`] names, are the stream again, byte for byte.

use memchr::memchr;

/// The longest line that is held whole unless said otherwise: 64 MiB.
pub const DEFAULT_CAP: usize = 64 << 20;

/// What is kept for further lines once long ones have become rare.
const KEPT_CAPACITY: usize = 1 << 20;

/// How many copied lines in a row must fit that before what a long one took is given back. Giving
/// it back at once costs a page fault for every 4 KiB of the next: with pictures in the stream,
/// a fifth of all time.
const PATIENCE: u32 = 256;

/// Cuts a stream into lines.
///
/// A line inside one chunk is handed on where it lies; only a line that spans chunks is copied. A
/// line longer than the cap is handed on in pieces as they come, so memory stays below the cap
/// whatever the stream does.
///
/// ```
/// use towpath_wire::Splitter;
///
/// let mut splitter = Splitter::new();
/// let mut lines = Vec::new();
/// for chunk in ["{\"type\":", "\"a\"}\n{}\nre", "st"] {
///     let mut pieces = splitter.feed(chunk.as_bytes());
///     while let Some(piece) = pieces.next() {
///         lines.push(String::from_utf8_lossy(piece.bytes).into_owned());
///     }
/// }
/// let last = splitter.finish().unwrap();
/// lines.push(String::from_utf8_lossy(last.bytes).into_owned());
/// assert_eq!(lines, [r#"{"type":"a"}"#, "{}", "rest"]);
/// ```
#[derive(Debug)]
pub struct Splitter {
    cap: usize,
    /// The beginning of a line whose end has not come, or a line that was handed on and is to be
    /// forgotten.
    held: Vec<u8>,
    held_is_spent: bool,
    /// Copied lines since the last long one.
    short_in_a_row: u32,
    /// In the middle of a line longer than the cap.
    in_long_line: bool,
}

/// A line, or a piece of one that is too long to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The bytes, without the newline.
    pub bytes: &'a [u8],
    /// Whether it goes on where the piece before left off.
    pub continued: bool,
    /// What stands behind it.
    pub end: PieceEnd,
}

/// What stands behind a [`Piece`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceEnd {
    /// A newline.
    Newline,
    /// The end of the stream.
    Stream,
    /// More of the same line.
    More,
}

impl Piece<'_> {
    /// Whether it is a line, not a piece of one.
    pub fn is_whole(&self) -> bool {
        !self.continued && self.end != PieceEnd::More
    }
}

impl Default for Splitter {
    fn default() -> Self {
        Self::new()
    }
}

impl Splitter {
    /// A splitter with the [default cap](DEFAULT_CAP).
    pub fn new() -> Self {
        Self::with_cap(DEFAULT_CAP)
    }

    /// A splitter that holds lines of up to `cap` bytes, and at least one.
    pub fn with_cap(cap: usize) -> Self {
        Self {
            cap: cap.max(1),
            held: Vec::new(),
            held_is_spent: false,
            short_in_a_row: 0,
            in_long_line: false,
        }
    }

    /// Takes the next chunk; the pieces it completes must be taken before the one after it.
    pub fn feed<'a>(&'a mut self, chunk: &'a [u8]) -> Pieces<'a> {
        Pieces { splitter: self, rest: chunk }
    }

    /// Ends the stream: what has come since the last newline.
    pub fn finish(&mut self) -> Option<Piece<'_>> {
        self.forget_spent();
        let continued = std::mem::take(&mut self.in_long_line);
        self.held_is_spent = true;
        (continued || !self.held.is_empty()).then_some(Piece {
            bytes: &self.held,
            continued,
            end: PieceEnd::Stream,
        })
    }

    fn forget_spent(&mut self) {
        if !std::mem::take(&mut self.held_is_spent) {
            return;
        }
        let short = self.held.len() <= KEPT_CAPACITY;
        self.short_in_a_row = if short { self.short_in_a_row + 1 } else { 0 };
        self.held.clear();
        if self.short_in_a_row == PATIENCE {
            self.short_in_a_row = 0;
            self.held.shrink_to(KEPT_CAPACITY);
        }
    }
}

/// The pieces a chunk completes.
#[derive(Debug)]
pub struct Pieces<'a> {
    splitter: &'a mut Splitter,
    rest: &'a [u8],
}

impl Pieces<'_> {
    /// The next piece. It may lie in the splitter, hence no `Iterator`.
    #[expect(clippy::should_implement_trait, reason = "the item borrows from the iterator")]
    pub fn next(&mut self) -> Option<Piece<'_>> {
        let splitter = &mut *self.splitter;
        splitter.forget_spent();
        if self.rest.is_empty() {
            return None;
        }
        let newline = memchr(b'\n', self.rest);
        let length = newline.unwrap_or(self.rest.len());
        let end = if newline.is_some() { PieceEnd::Newline } else { PieceEnd::More };

        if splitter.in_long_line {
            splitter.in_long_line = newline.is_none();
            let bytes = take(&mut self.rest, length, newline);
            return Some(Piece { bytes, continued: true, end });
        }
        if splitter.held.len() + length > splitter.cap {
            splitter.in_long_line = true;
            let bytes = if splitter.held.is_empty() {
                take(&mut self.rest, splitter.cap, None)
            } else {
                splitter.held_is_spent = true;
                &splitter.held
            };
            return Some(Piece { bytes, continued: false, end: PieceEnd::More });
        }
        if newline.is_some() && splitter.held.is_empty() {
            let bytes = take(&mut self.rest, length, newline);
            return Some(Piece { bytes, continued: false, end });
        }
        splitter.held.extend_from_slice(take(&mut self.rest, length, newline));
        newline?;
        splitter.held_is_spent = true;
        Some(Piece { bytes: &splitter.held, continued: false, end })
    }
}

/// Cuts `length` bytes off the front of `rest`, and the newline behind them if there is one.
fn take<'a>(rest: &mut &'a [u8], length: usize, newline: Option<usize>) -> &'a [u8] {
    let (taken, left) = rest.split_at(length);
    *rest = if newline.is_some() { &left[1..] } else { left };
    taken
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{PieceEnd, Splitter};

    /// Lines as (bytes, too long to be held, ended by a newline), whatever pieces they came in.
    fn lines(stream: &[u8], cap: usize, cuts: &[usize]) -> Vec<(Vec<u8>, bool, bool)> {
        let mut splitter = Splitter::with_cap(cap);
        let mut lines: Vec<(Vec<u8>, bool, bool)> = Vec::new();
        let mut add = |piece: super::Piece<'_>| {
            if !piece.continued {
                lines.push((Vec::new(), !piece.is_whole(), false));
            }
            let line = lines.last_mut().unwrap();
            line.0.extend_from_slice(piece.bytes);
            line.2 = piece.end == PieceEnd::Newline;
        };
        let mut from = 0;
        for &cut in cuts.iter().chain([&stream.len()]) {
            let to = cut.clamp(from, stream.len());
            let mut pieces = splitter.feed(&stream[from..to]);
            while let Some(piece) = pieces.next() {
                add(piece);
            }
            from = to;
        }
        if let Some(piece) = splitter.finish() {
            add(piece);
        }
        lines
    }

    fn joined(lines: &[(Vec<u8>, bool, bool)]) -> Vec<u8> {
        lines
            .iter()
            .flat_map(|(line, _, newline)| line.iter().copied().chain(newline.then_some(b'\n')))
            .collect()
    }

    #[test]
    fn only_a_newline_ends_a_line() {
        let stream = "\u{feff}{}\r\n\n a\0b\u{2028}c \n\r\nlast".as_bytes();
        let found = lines(stream, 100, &[]);
        let texts: Vec<_> = found.iter().map(|line| String::from_utf8_lossy(&line.0)).collect();
        assert_eq!(texts, ["\u{feff}{}\r", "", " a\0b\u{2028}c ", "\r", "last"]);
        assert!(!found[4].2);
        assert_eq!(joined(&found), stream);
    }

    #[test]
    fn a_line_beyond_the_cap_is_passed_on_in_pieces() {
        let mut splitter = Splitter::with_cap(4);
        let mut pieces = splitter.feed(b"1234\n12345\nab");
        let mut next = || pieces.next().map(|it| (it.bytes.to_vec(), it.continued, it.end));
        assert_eq!(next(), Some((b"1234".to_vec(), false, PieceEnd::Newline)));
        assert_eq!(next(), Some((b"1234".to_vec(), false, PieceEnd::More)));
        assert_eq!(next(), Some((b"5".to_vec(), true, PieceEnd::Newline)));
        assert_eq!(next(), None);
        let mut pieces = splitter.feed(b"cde");
        let mut next = || pieces.next().map(|it| (it.bytes.to_vec(), it.continued, it.end));
        assert_eq!(next(), Some((b"ab".to_vec(), false, PieceEnd::More)));
        assert_eq!(next(), Some((b"cde".to_vec(), true, PieceEnd::More)));
        assert_eq!(next(), None);
        let last = splitter.finish().unwrap();
        assert_eq!((last.bytes, last.continued, last.end), (&b""[..], true, PieceEnd::Stream));
        assert_eq!(splitter.finish(), None);
    }

    #[test]
    fn memory_is_given_back_when_long_lines_have_become_rare() {
        let mut splitter = Splitter::new();
        let half = vec![b'x'; 3 << 20];
        assert!(splitter.feed(&half).next().is_none());
        assert_eq!(splitter.feed(b"y\n").next().unwrap().bytes.len(), (3 << 20) + 1);
        for _ in 0..=super::PATIENCE {
            assert!(splitter.held.capacity() > 3 << 20);
            assert!(splitter.feed(b"a").next().is_none());
            assert_eq!(splitter.feed(b"b\n").next().unwrap().bytes, b"ab");
        }
        assert!(splitter.feed(b"").next().is_none());
        assert!(splitter.held.capacity() <= super::KEPT_CAPACITY);
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_lines(
            stream in proptest::collection::vec(
                prop_oneof![4 => any::<u8>(), 2 => Just(b'\n'), 1 => Just(b'\r')], 0..200),
            mut cuts in proptest::collection::vec(0_usize..200, 0..12),
            cap in 1_usize..60,
        ) {
            cuts.sort_unstable();
            let whole = lines(&stream, cap, &[]);
            let chunked = lines(&stream, cap, &cuts);
            prop_assert_eq!(&whole, &chunked);
            prop_assert_eq!(joined(&chunked), &stream[..]);
            for (line, too_long, _) in &chunked {
                prop_assert_eq!(*too_long, line.len() > cap);
            }
        }
    }
}
