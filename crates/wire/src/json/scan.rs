//! Finds the end of strings: the loop in which reading spends most of its time.
//!
//! It compares sixteen bytes at once with the safe vectors of `wide` and collects the matches in a
//! bit mask. On lines of tool calls this is three times as fast as comparing eight bytes in a
//! machine word, and within ten percent of hand-written intrinsics, which would be unsafe.

use wide::u8x16;

/// A bit mask of the bytes that are a quote, a backslash or a control character.
#[inline]
fn marks(block: &[u8; 16]) -> u32 {
    let bytes = u8x16::from(*block);
    let quotes = bytes.simd_eq(u8x16::splat(b'"'));
    let backslashes = bytes.simd_eq(u8x16::splat(b'\\'));
    let controls = bytes.min(u8x16::splat(0x1f)).simd_eq(bytes);
    (quotes | backslashes | controls).to_bitmask()
}

/// The meaning of a marked byte.
enum ScanMark {
    Quote,
    /// An escape, with its length.
    Escape(usize),
    /// A byte or an escape that a JSON string must not contain.
    Invalid,
}

impl ScanMark {
    #[inline]
    fn at<const STRICT: bool>(bytes: &[u8], mark: usize) -> Self {
        if STRICT { Self::strictly(bytes, mark) } else { Self::loosely(bytes, mark) }
    }

    /// Accepts only valid escapes and no control characters.
    #[expect(
        clippy::inline_always,
        reason = "otherwise a call per escape, which costs 7 % of reading"
    )]
    #[inline(always)]
    fn strictly(bytes: &[u8], mark: usize) -> Self {
        match bytes[mark] {
            b'"' => Self::Quote,
            b'\\' => match bytes.get(mark + 1) {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Self::Escape(2),
                Some(b'u') if has_four_digits(bytes, mark + 2) => Self::Escape(6),
                _ => Self::Invalid,
            },
            _ => Self::Invalid,
        }
    }

    /// Accepts any escape and any control character.
    #[inline]
    fn loosely(bytes: &[u8], mark: usize) -> Self {
        match bytes[mark] {
            b'"' => Self::Quote,
            b'\\' => Self::Escape(2),
            _ => Self::Escape(1),
        }
    }
}

fn has_four_digits(bytes: &[u8], at: usize) -> bool {
    bytes.get(at..at + 4).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StringEnd {
    pub(crate) quote: usize,
    pub(crate) escaped: bool,
}

/// The end of the string whose first character is at `at`; `STRICT` selects the validation.
#[inline]
fn closing_quote<const STRICT: bool>(bytes: &[u8], mut at: usize) -> Option<StringEnd> {
    let mut escaped = false;
    // Most strings of an event are keys, ids and short words, so they end within a few blocks.
    for _ in 0..3 {
        let Some(block) = block_at(bytes, at) else { break };
        let found = marks(block);
        if found == 0 {
            at += 16;
            continue;
        }
        let mark = at + found.trailing_zeros() as usize;
        match ScanMark::at::<STRICT>(bytes, mark) {
            ScanMark::Quote => return Some(StringEnd { quote: mark, escaped }),
            ScanMark::Escape(length) => {
                escaped = true;
                at = mark + length;
            }
            ScanMark::Invalid => return None,
        }
    }
    closing_quote_of_long::<STRICT>(bytes, at, escaped)
}

/// The same for long text, which has many escapes: it iterates over the marks of a block instead of
/// scanning again after each escape.
fn closing_quote_of_long<const STRICT: bool>(
    bytes: &[u8],
    mut at: usize,
    mut escaped: bool,
) -> Option<StringEnd> {
    loop {
        let (mut found, length) = if let Some(block) = block_at::<64>(bytes, at) {
            let parts = block.as_chunks::<16>().0.iter().rev();
            (parts.fold(0, |found, part| (found << 16) | u64::from(marks(part))), 64)
        } else if let Some(block) = block_at(bytes, at) {
            (u64::from(marks(block)), 16)
        } else {
            let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
            let mut padded = [b' '; 16];
            padded[..rest.len()].copy_from_slice(rest);
            (u64::from(marks(&padded)), 16)
        };
        let mut next = at + length;
        while found != 0 {
            let mark = at + found.trailing_zeros() as usize;
            match ScanMark::at::<STRICT>(bytes, mark) {
                ScanMark::Quote => return Some(StringEnd { quote: mark, escaped }),
                ScanMark::Escape(escape) => {
                    escaped = true;
                    if mark + escape >= at + length {
                        next = mark + escape;
                        break;
                    }
                    found &= u64::MAX << (mark + escape - at);
                }
                ScanMark::Invalid => return None,
            }
        }
        at = next;
    }
}

#[inline]
fn block_at<const LENGTH: usize>(bytes: &[u8], at: usize) -> Option<&[u8; LENGTH]> {
    bytes.get(at..)?.first_chunk()
}

/// The end of the string whose first character is at `at`; `None` if the string is not valid JSON.
#[inline]
pub(crate) fn string_end(bytes: &[u8], at: usize) -> Option<StringEnd> {
    closing_quote::<true>(bytes, at)
}

/// The position after the closing quote of the string whose first character is at `at`; the end of
/// `bytes` if there is no closing quote.
#[inline]
pub(crate) fn string_end_loosely(bytes: &[u8], at: usize) -> usize {
    closing_quote::<false>(bytes, at).map_or(bytes.len(), |end| end.quote + 1)
}

/// The position after the value that starts at `at`, without validation.
///
/// On valid JSON the result is that of the strict parser. On other input it is unspecified, but
/// there is no panic. [`Kind::find`](crate::Kind::find) uses it for lines that are forwarded
/// unread.
pub(crate) fn skip_loosely(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => {
                at = string_end_loosely(bytes, at);
                if depth == 0 {
                    return at;
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 1 => depth -= 1,
            b'}' | b']' if depth == 1 => return at,
            b',' | b'}' | b']' if depth == 0 => return at - 1,
            _ => {}
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::{StringEnd, string_end, string_end_loosely};

    /// Bytes that differ from marked bytes by a single bit, and non-ASCII bytes.
    fn filler(length: usize) -> Vec<u8> {
        let similar = [0x21, 0x23, 0x5d, 0x5b, 0x20, 0x7f, 0x80, 0xff, 0xa2, 0xdc];
        (0..length).map(|n| similar[n % similar.len()]).collect()
    }

    #[test]
    fn the_closing_quote_is_found_at_every_offset_and_length() {
        for length in 0..200 {
            let mut bytes = filler(length);
            assert_eq!(string_end(&bytes, 0), None);
            assert_eq!(string_end_loosely(&bytes, 0), length);
            for position in 0..length {
                bytes[position] = b'"';
                let end = StringEnd { quote: position, escaped: false };
                assert_eq!(string_end(&bytes, 0), Some(end), "{length} {position}");
                assert_eq!(string_end_loosely(&bytes, 0), position + 1);
                bytes = filler(length);
            }
        }
    }

    #[test]
    fn escapes_are_skipped_and_invalid_bytes_rejected_at_every_offset() {
        for before in 0..140 {
            for (part, valid) in [
                (&b"\\\""[..], true),
                (b"\\\\", true),
                (b"\\u0022", true),
                (b"\\n\\\"\\\\", true),
                (b"\\x", false),
                (b"\\u00g0", false),
                (b"\n", false),
                (b"\0", false),
                (b"\x1f", false),
            ] {
                let mut bytes = filler(before);
                bytes.extend_from_slice(part);
                bytes.extend(filler(before % 70));
                let quote = bytes.len();
                bytes.extend_from_slice(b"\" and more \"");
                let end = StringEnd { quote, escaped: true };
                assert_eq!(string_end(&bytes, 0), valid.then_some(end), "{before} {part:?}");
            }
        }
        assert_eq!(string_end(b"\\", 0), None);
        assert_eq!(string_end(b"\\u12", 0), None);
    }
}
