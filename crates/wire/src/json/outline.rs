//! JSON that arrives in parts: complete, not yet, or never.
//!
//! Only as strict as rejoining needs: it knows brackets, strings and what may follow what, so that
//! text which cannot be the rest of an object is noticed at once. Whether the whole is JSON, the
//! strict walk over it decides.

use super::nesting::Nesting;

/// How far a text is on its way to being one object or array.
#[derive(Default)]
pub(crate) struct Outline {
    nesting: Nesting,
    place: Place,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
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
pub(crate) enum Progress {
    Partial,
    Complete,
    Broken,
}

impl Outline {
    /// Takes more of the text.
    pub(crate) fn extend(&mut self, bytes: &[u8]) -> Progress {
        for &byte in bytes {
            self.place = self.step(byte);
            if self.place == Place::Broken {
                return Progress::Broken;
            }
        }
        if self.place == Place::Complete { Progress::Complete } else { Progress::Partial }
    }

    fn step(&mut self, byte: u8) -> Place {
        match (self.place, byte) {
            (Place::InString { key, escaped: true }, _) => Place::InString { key, escaped: false },
            (Place::InString { key, .. }, b'\\') => Place::InString { key, escaped: true },
            (Place::InString { key: true, .. }, b'"') => Place::Colon,
            (Place::InString { key: false, .. }, b'"') => Place::Comma,
            (Place::InString { .. }, 0..0x20) => Place::Broken,
            (string @ Place::InString { .. }, _) => string,
            (Place::InWord, _) if !is_word(byte) => {
                self.place = Place::Comma;
                self.step(byte)
            }
            (place, b' ' | b'\t' | b'\r' | b'\n') => place,
            (Place::Start | Place::Value, b'{') => self.open(true),
            (Place::Start | Place::Value, b'[') => self.open(false),
            (Place::Value, b'"') => Place::InString { key: false, escaped: false },
            (Place::Value, b'-' | b'0'..=b'9' | b't' | b'f' | b'n') | (Place::InWord, _) => {
                Place::InWord
            }
            (Place::Value, b']') | (Place::Key, b'}') | (Place::Comma, b']' | b'}') => {
                self.close(byte == b'}')
            }
            (Place::Key, b'"') => Place::InString { key: true, escaped: false },
            (Place::Comma, b',') if self.nesting.in_object() => Place::Key,
            (Place::Colon, b':') | (Place::Comma, b',') => Place::Value,
            _ => Place::Broken,
        }
    }

    fn open(&mut self, object: bool) -> Place {
        self.nesting.open(object);
        if object { Place::Key } else { Place::Value }
    }

    fn close(&mut self, object: bool) -> Place {
        match self.nesting.close(object) {
            false => Place::Broken,
            true if self.nesting.is_empty() => Place::Complete,
            true => Place::Comma,
        }
    }
}

/// Part of a number, `true`, `false` or `null`; the strict walk tells good ones from bad.
fn is_word(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'+' | b'-' | b'E')
}
