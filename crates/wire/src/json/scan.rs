//! Finding where strings end: the loop in which reading spends most of its time.
//!
//! Sixteen bytes are compared at once and their marks gathered into a word, through the safe
//! vectors of `wide`. Measured on tool traffic this is three times as fast as looking at eight
//! bytes in a machine word, and within a tenth of hand-written intrinsics, which would be unsafe.

use wide::u8x16;

/// A bit for each byte that is a quote, a backslash or a control character.
#[inline]
fn marks(block: &[u8; 16]) -> u32 {
    let bytes = u8x16::from(*block);
    let quotes = bytes.simd_eq(u8x16::splat(b'"'));
    let backslashes = bytes.simd_eq(u8x16::splat(b'\\'));
    let controls = bytes.min(u8x16::splat(0x1f)).simd_eq(bytes);
    (quotes | backslashes | controls).to_bitmask()
}

/// What stands at a mark.
enum ScanMark {
    Quote,
    /// A backslash, and how long the escape is that it begins.
    Escape(usize),
    /// Something that ends the search without success.
    Stray,
}

impl ScanMark {
    #[inline]
    fn at<const STRICT: bool>(bytes: &[u8], mark: usize) -> Self {
        if STRICT { Self::strictly(bytes, mark) } else { Self::loosely(bytes, mark) }
    }

    /// What stands at a mark, where only good escapes may be and no control character.
    #[expect(clippy::inline_always, reason = "left to itself, a call per escape: 7 % of reading")]
    #[inline(always)]
    fn strictly(bytes: &[u8], mark: usize) -> Self {
        match bytes[mark] {
            b'"' => Self::Quote,
            b'\\' => match bytes.get(mark + 1) {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Self::Escape(2),
                Some(b'u') if has_four_digits(bytes, mark + 2) => Self::Escape(6),
                _ => Self::Stray,
            },
            _ => Self::Stray,
        }
    }

    /// What stands at a mark, where anything may be.
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

/// Where a string ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StringEnd {
    /// The closing quote.
    pub(crate) quote: usize,
    /// Whether there were escapes before it.
    pub(crate) escaped: bool,
}

/// The end of the string whose first character is at `at`; `STRICT` tells how marks are judged.
#[inline]
fn closing_quote<const STRICT: bool>(bytes: &[u8], mut at: usize) -> Option<StringEnd> {
    let mut escaped = false;
    // Most strings of an event are keys, ids and short words, which end within a few small blocks.
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
            ScanMark::Stray => return None,
        }
    }
    closing_quote_of_long::<STRICT>(bytes, at, escaped)
}

/// The same for long text, which is full of escapes: the marks of a block are gone through one by
/// one instead of looking at the block anew behind each.
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
                ScanMark::Stray => return None,
            }
        }
        at = next;
    }
}

#[inline]
fn block_at<const LENGTH: usize>(bytes: &[u8], at: usize) -> Option<&[u8; LENGTH]> {
    bytes.get(at..)?.first_chunk()
}

/// The end of the string whose first character is at `at`, if all that comes before it may stand in
/// a JSON string.
#[inline]
pub(crate) fn string_end(bytes: &[u8], at: usize) -> Option<StringEnd> {
    closing_quote::<true>(bytes, at)
}

/// The position after the closing quote of the string whose first character is at `at`, or the end.
#[inline]
pub(crate) fn string_end_loosely(bytes: &[u8], at: usize) -> usize {
    closing_quote::<false>(bytes, at).map_or(bytes.len(), |end| end.quote + 1)
}

/// Steps over one value without checking it: from its first byte to the one after its last.
///
/// On valid JSON this agrees with a strict walk; on anything else it ends somewhere, and never
/// panics. It is for finding a line's kind where the line may be passed on unread.
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

    /// Bytes that look like marks in single bits, and non-ASCII.
    fn filler(length: usize) -> Vec<u8> {
        let alike = [0x21, 0x23, 0x5d, 0x5b, 0x20, 0x7f, 0x80, 0xff, 0xa2, 0xdc];
        (0..length).map(|n| alike[n % alike.len()]).collect()
    }

    #[test]
    fn the_closing_quote_is_found_at_every_offset_and_length() {
        for length in 0..200 {
            let mut bytes = filler(length);
            assert_eq!(string_end(&bytes, 0), None);
            assert_eq!(string_end_loosely(&bytes, 0), length);
            for place in 0..length {
                bytes[place] = b'"';
                let end = StringEnd { quote: place, escaped: false };
                assert_eq!(string_end(&bytes, 0), Some(end), "{length} {place}");
                assert_eq!(string_end_loosely(&bytes, 0), place + 1);
                bytes = filler(length);
            }
        }
    }

    #[test]
    fn escapes_are_stepped_over_and_strays_refused_wherever_they_stand() {
        for before in 0..140 {
            for (part, good) in [
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
                assert_eq!(string_end(&bytes, 0), good.then_some(end), "{before} {part:?}");
            }
        }
        assert_eq!(string_end(b"\\", 0), None);
        assert_eq!(string_end(b"\\u12", 0), None);
    }
}
