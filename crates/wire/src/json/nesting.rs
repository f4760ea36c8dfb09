//! Bracket nesting, and detecting the end of JSON that arrives in parts.
//!
//! Skipping a value must not recurse, because a line may nest 100,000 levels deep, and must know
//! whether `]` or `}` closes next. The first 64 levels cost no allocation, deeper ones a bit each.

/// A stack of open brackets.
#[derive(Default)]
pub(crate) struct Nesting {
    /// The innermost brackets, the newest in the lowest bit; 1 is an object.
    near: u64,
    /// How many bits of `near` are in use.
    count: u32,
    /// Full words of outer brackets.
    far: Vec<u64>,
}

impl Nesting {
    #[inline]
    pub(crate) fn open(&mut self, object: bool) {
        if self.count == u64::BITS {
            self.far.push(self.near);
            self.count = 0;
        }
        self.near = (self.near << 1) | u64::from(object);
        self.count += 1;
    }

    /// Closes the innermost bracket; false where it is of the other sort or none is open.
    #[inline]
    pub(crate) fn close(&mut self, object: bool) -> bool {
        if self.count == 0 {
            let Some(word) = self.far.pop() else { return false };
            self.near = word;
            self.count = u64::BITS;
        }
        let same = (self.near & 1 == 1) == object;
        self.near >>= 1;
        self.count -= 1;
        same
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.far.is_empty()
    }

    /// Whether the innermost open bracket is an object's.
    #[inline]
    pub(crate) fn in_object(&self) -> bool {
        if self.count == 0 {
            self.far.last().is_some_and(|word| word & 1 == 1)
        } else {
            self.near & 1 == 1
        }
    }
}

/// How far a text is on its way to being one object or array.
#[derive(Default)]
pub(crate) struct Outline {
    nesting: Nesting,
    place: OutlinePosition,
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
    /// Behind a value.
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
    /// Takes more of the text.
    pub(crate) fn extend(&mut self, bytes: &[u8]) -> OutlineProgress {
        for &byte in bytes {
            self.place = self.step(byte);
            if self.place == OutlinePosition::Broken {
                return OutlineProgress::Broken;
            }
        }
        if self.place == OutlinePosition::Complete {
            OutlineProgress::Complete
        } else {
            OutlineProgress::Partial
        }
    }

    fn step(&mut self, byte: u8) -> OutlinePosition {
        match (self.place, byte) {
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
                self.place = OutlinePosition::Comma;
                self.step(byte)
            }
            (place, b' ' | b'\t' | b'\r' | b'\n') => place,
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

/// Part of a number, `true`, `false` or `null`; the strict walk tells good ones from bad.
fn is_word(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'+' | b'-' | b'E')
}

#[cfg(test)]
mod tests {
    use super::Nesting;

    #[test]
    fn brackets_close_in_the_order_they_opened_however_deep() {
        let mut nesting = Nesting::default();
        let sorts: Vec<bool> = (0..1000).map(|n| n % 3 == 0).collect();
        for &object in &sorts {
            nesting.open(object);
            assert_eq!(nesting.in_object(), object);
        }
        for &object in sorts.iter().rev() {
            assert_eq!(nesting.in_object(), object);
            assert!(nesting.close(object));
        }
        assert!(nesting.is_empty());
        assert!(!nesting.close(true));
    }
}
