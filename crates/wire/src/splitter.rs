//! Splits a stream that arrives in chunks of any size into lines.
//!
//! Only `\n` ends a line: the CLI up to 2.1.37 writes U+2028 unescaped, and a `\r` belongs to the
//! line. No byte is lost: concatenating the pieces, with a newline after each that ends with
//! [`PieceEnd::Newline`], gives the original stream.

use memchr::memchr;

/// The default limit for a line that is buffered whole: 64 MiB.
pub const DEFAULT_CAP: usize = 64 << 20;

/// The buffer capacity that is kept when long lines have become rare.
const RETAINED_CAPACITY: usize = 1 << 20;

/// The number of consecutive short copied lines after which the buffer shrinks. Shrinking after
/// every long line would cost a page fault per 4 KiB of the next one, which took a fifth of the
/// time on streams with images.
const SHRINK_AFTER: u32 = 256;

/// Splits a stream into lines.
///
/// A line inside one chunk is returned without copying; only a line that spans chunks is copied. A
/// line longer than the cap is returned in pieces as they arrive, so the buffer never exceeds the
/// cap.
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
    /// The start of an incomplete line, or a line that was returned and will be cleared.
    buffer: Vec<u8>,
    buffer_is_consumed: bool,
    /// The number of copied lines since the last long one.
    short_in_a_row: u32,
    /// The stream is inside a line longer than the cap.
    in_long_line: bool,
}

/// A line, or a part of a line that is longer than the cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The bytes, without the newline.
    pub bytes: &'a [u8],
    /// Whether it continues the line of the previous piece.
    pub continued: bool,
    /// What follows the bytes.
    pub end: PieceEnd,
}

/// What follows a [`Piece`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceEnd {
    Newline,
    /// The end of the stream.
    Stream,
    /// More of the same line.
    More,
}

impl Piece<'_> {
    /// Whether it is a whole line.
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

    /// A splitter that buffers lines of up to `cap` bytes; a cap of 0 counts as 1.
    pub fn with_cap(cap: usize) -> Self {
        Self {
            cap: cap.max(1),
            buffer: Vec::new(),
            buffer_is_consumed: false,
            short_in_a_row: 0,
            in_long_line: false,
        }
    }

    /// A splitter for a stream that begins inside a line longer than the cap.
    pub fn inside_long_line(cap: usize) -> Self {
        Self { in_long_line: true, ..Self::with_cap(cap) }
    }

    /// How long a line may be that is buffered whole.
    pub fn cap(&self) -> usize {
        self.cap
    }

    /// Adds the next chunk. The caller must consume all returned pieces before it feeds another
    /// chunk.
    pub fn feed<'a>(&'a mut self, chunk: &'a [u8]) -> Pieces<'a> {
        Pieces { splitter: self, rest: chunk }
    }

    /// Ends the stream; returns the bytes after the last newline.
    pub fn finish(&mut self) -> Option<Piece<'_>> {
        self.clear_consumed();
        let continued = std::mem::take(&mut self.in_long_line);
        self.buffer_is_consumed = true;
        (continued || !self.buffer.is_empty()).then_some(Piece {
            bytes: &self.buffer,
            continued,
            end: PieceEnd::Stream,
        })
    }

    fn clear_consumed(&mut self) {
        if !std::mem::take(&mut self.buffer_is_consumed) {
            return;
        }
        let short = self.buffer.len() <= RETAINED_CAPACITY;
        self.short_in_a_row = if short { self.short_in_a_row + 1 } else { 0 };
        self.buffer.clear();
        if self.short_in_a_row == SHRINK_AFTER {
            self.short_in_a_row = 0;
            self.buffer.shrink_to(RETAINED_CAPACITY);
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
    /// The next piece. It may borrow from the splitter, so this is not an `Iterator`.
    #[expect(clippy::should_implement_trait, reason = "the item borrows from the iterator")]
    pub fn next(&mut self) -> Option<Piece<'_>> {
        let splitter = &mut *self.splitter;
        splitter.clear_consumed();
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
        if splitter.buffer.len() + length > splitter.cap {
            splitter.in_long_line = true;
            let bytes = if splitter.buffer.is_empty() {
                take(&mut self.rest, splitter.cap, None)
            } else {
                splitter.buffer_is_consumed = true;
                &splitter.buffer
            };
            return Some(Piece { bytes, continued: false, end: PieceEnd::More });
        }
        if newline.is_some() && splitter.buffer.is_empty() {
            let bytes = take(&mut self.rest, length, newline);
            return Some(Piece { bytes, continued: false, end });
        }
        splitter.buffer.extend_from_slice(take(&mut self.rest, length, newline));
        newline?;
        splitter.buffer_is_consumed = true;
        Some(Piece { bytes: &splitter.buffer, continued: false, end })
    }
}

/// Removes `length` bytes, and the newline after them if there is one, from the front of `rest`.
fn take<'a>(rest: &mut &'a [u8], length: usize, newline: Option<usize>) -> &'a [u8] {
    let (head, tail) = rest.split_at(length);
    *rest = if newline.is_some() { &tail[1..] } else { tail };
    head
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Piece, PieceEnd, Splitter};

    /// Lines as (bytes, longer than the cap, ended by a newline), joined from their pieces.
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
    fn a_stream_may_begin_inside_a_long_line() {
        let mut splitter = Splitter::inside_long_line(4);
        let mut pieces = splitter.feed(b"xx\nab\n");
        let rest = Piece { bytes: b"xx", continued: true, end: PieceEnd::Newline };
        assert_eq!(pieces.next(), Some(rest));
        let next = Piece { bytes: b"ab", continued: false, end: PieceEnd::Newline };
        assert_eq!(pieces.next(), Some(next));
        assert_eq!(pieces.next(), None);
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
    fn a_line_longer_than_the_cap_is_returned_in_pieces() {
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
    fn the_buffer_shrinks_when_long_lines_have_become_rare() {
        let mut splitter = Splitter::new();
        let half = vec![b'x'; 3 << 20];
        assert!(splitter.feed(&half).next().is_none());
        assert_eq!(splitter.feed(b"y\n").next().unwrap().bytes.len(), (3 << 20) + 1);
        for _ in 0..=super::SHRINK_AFTER {
            assert!(splitter.buffer.capacity() > 3 << 20);
            assert!(splitter.feed(b"a").next().is_none());
            assert_eq!(splitter.feed(b"b\n").next().unwrap().bytes, b"ab");
        }
        assert!(splitter.feed(b"").next().is_none());
        assert!(splitter.buffer.capacity() <= super::RETAINED_CAPACITY);
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
