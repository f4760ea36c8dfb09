//! Bracket nesting, and detecting the end of JSON that arrives in parts.
//!
//! Skipping a value must not recurse, because a line may nest 100,000 levels deep, and must know
//! whether `]` or `}` closes next. The first 64 levels cost no allocation, deeper ones a bit each.

/// A stack of open brackets.
#[derive(Default)]
pub(crate) struct Nesting {
    /// The innermost brackets, the last opened in the lowest bit; 1 is an object.
    inner: u64,
    /// The number of bits in use in `inner`.
    count: u32,
    /// Full words of outer brackets.
    outer: Vec<u64>,
}

impl Nesting {
    #[inline]
    pub(crate) fn open(&mut self, object: bool) {
        if self.count == u64::BITS {
            self.outer.push(self.inner);
            self.count = 0;
        }
        self.inner = (self.inner << 1) | u64::from(object);
        self.count += 1;
    }

    /// Closes the innermost bracket; false if it is of the other kind or none is open.
    #[inline]
    pub(crate) fn close(&mut self, object: bool) -> bool {
        if self.count == 0 {
            let Some(word) = self.outer.pop() else { return false };
            self.inner = word;
            self.count = u64::BITS;
        }
        let same = (self.inner & 1 == 1) == object;
        self.inner >>= 1;
        self.count -= 1;
        same
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.outer.is_empty()
    }

    /// Whether the innermost open bracket is an object's.
    #[inline]
    pub(crate) fn in_object(&self) -> bool {
        if self.count == 0 {
            self.outer.last().is_some_and(|word| word & 1 == 1)
        } else {
            self.inner & 1 == 1
        }
    }
}

/// Tracks whether text that arrives in parts can still become one object or array.
#[derive(Default)]
pub(crate) struct Outline {
    nesting: Nesting,
    position: OutlinePosition,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum OutlinePosition {
    /// Before the opening bracket.
    #[default]
    Start,
    /// Before a key, or the end of an empty object.
    Key,
    InString {
        key: bool,
        escaped: bool,
    },
    Colon,
    /// Before a value; in an empty array also before its end.
    Value,
    InWord,
    /// After a value.
    Comma,
    Complete,
    Broken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutlineProgress {
    Partial,
    Complete,
    Broken,
}

impl Outline {
    /// Appends the next part of the text.
    pub(crate) fn extend(&mut self, bytes: &[u8]) -> OutlineProgress {
        for &byte in bytes {
            self.position = self.step(byte);
            if self.position == OutlinePosition::Broken {
                return OutlineProgress::Broken;
            }
        }
        if self.position == OutlinePosition::Complete {
            OutlineProgress::Complete
        } else {
            OutlineProgress::Partial
        }
    }

    fn step(&mut self, byte: u8) -> OutlinePosition {
        match (self.position, byte) {
            (OutlinePosition::InString { key, escaped: true }, _) => {
                OutlinePosition::InString { key, escaped: false }
            }
            (OutlinePosition::InString { key, .. }, b'\\') => {
                OutlinePosition::InString { key, escaped: true }
            }
            (OutlinePosition::InString { key: true, .. }, b'"') => OutlinePosition::Colon,
            (OutlinePosition::InString { key: false, .. }, b'"') => OutlinePosition::Comma,
            (OutlinePosition::InString { .. }, 0..0x20) => OutlinePosition::Broken,
            (string @ OutlinePosition::InString { .. }, _) => string,
            (OutlinePosition::InWord, _) if !is_word(byte) => {
                self.position = OutlinePosition::Comma;
                self.step(byte)
            }
            (position, b' ' | b'\t' | b'\r' | b'\n') => position,
            (OutlinePosition::Start | OutlinePosition::Value, b'{') => self.open(true),
            (OutlinePosition::Start | OutlinePosition::Value, b'[') => self.open(false),
            (OutlinePosition::Value, b'"') => {
                OutlinePosition::InString { key: false, escaped: false }
            }
            (OutlinePosition::Value, b'-' | b'0'..=b'9' | b't' | b'f' | b'n')
            | (OutlinePosition::InWord, _) => OutlinePosition::InWord,
            (OutlinePosition::Value, b']')
            | (OutlinePosition::Key, b'}')
            | (OutlinePosition::Comma, b']' | b'}') => self.close(byte == b'}'),
            (OutlinePosition::Key, b'"') => OutlinePosition::InString { key: true, escaped: false },
            (OutlinePosition::Comma, b',') if self.nesting.in_object() => OutlinePosition::Key,
            (OutlinePosition::Colon, b':') | (OutlinePosition::Comma, b',') => {
                OutlinePosition::Value
            }
            _ => OutlinePosition::Broken,
        }
    }

    fn open(&mut self, object: bool) -> OutlinePosition {
        self.nesting.open(object);
        if object { OutlinePosition::Key } else { OutlinePosition::Value }
    }

    fn close(&mut self, object: bool) -> OutlinePosition {
        match self.nesting.close(object) {
            false => OutlinePosition::Broken,
            true if self.nesting.is_empty() => OutlinePosition::Complete,
            true => OutlinePosition::Comma,
        }
    }
}

/// Part of a number, `true`, `false` or `null`. The strict parser validates them later.
fn is_word(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'+' | b'-' | b'E')
}

#[cfg(test)]
mod tests {
    use super::Nesting;

    #[test]
    fn brackets_close_in_reverse_order_at_any_depth() {
        let mut nesting = Nesting::default();
        let brackets: Vec<bool> = (0..1000).map(|n| n % 3 == 0).collect();
        for &object in &brackets {
            nesting.open(object);
            assert_eq!(nesting.in_object(), object);
        }
        for &object in brackets.iter().rev() {
            assert_eq!(nesting.in_object(), object);
            assert!(nesting.close(object));
        }
        assert!(nesting.is_empty());
        assert!(!nesting.close(true));
    }
}
