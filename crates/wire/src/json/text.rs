//! A JSON string that is decoded only when somebody asks.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

/// A string of the line as it stands between its quotes: checked, not yet decoded.
///
/// Reading one allocates nothing, whatever it holds; [`Text::decode`] copies only where the
/// string has escapes. A lone surrogate, which the CLI writes when a chunk ends inside an emoji
/// and which Rust strings cannot hold, decodes to U+FFFD.
///
/// ```
/// use towpath_wire::json::Raw;
///
/// let text = Raw::parse(r#""caf\u00e9""#).unwrap().text().unwrap();
/// assert_eq!(text.raw(), r"caf\u00e9");
/// assert_eq!(text, "café");
/// ```
#[derive(Clone, Copy)]
pub struct Text<'a> {
    raw: &'a str,
}

impl<'a> Text<'a> {
    /// The characters between the quotes of a JSON string, whose escapes are known to be good.
    #[inline]
    pub(crate) const fn checked(raw: &'a str) -> Self {
        Self { raw }
    }

    /// The characters between the quotes as the line has them, escapes included.
    pub fn raw(self) -> &'a str {
        self.raw
    }

    /// Whether it holds no character at all.
    pub fn is_empty(self) -> bool {
        self.raw.is_empty()
    }

    /// What the string says.
    #[inline]
    pub fn decode(self) -> Cow<'a, str> {
        if self.is_escaped() {
            let mut out = String::with_capacity(self.raw.len());
            self.decode_into(&mut out);
            Cow::Owned(out)
        } else {
            Cow::Borrowed(self.raw)
        }
    }

    /// Appends what the string says to `out`.
    pub fn decode_into(self, out: &mut String) {
        for part in self.parts() {
            match part {
                Part::Run(run) => out.push_str(run),
                Part::Char(char) => out.push(char),
            }
        }
    }

    /// Looked up rather than remembered: a flag would make every event a tenth larger.
    #[inline]
    fn is_escaped(self) -> bool {
        memchr::memchr(b'\\', self.raw.as_bytes()).is_some()
    }

    fn parts(self) -> Parts<'a> {
        Parts { rest: self.raw }
    }

    fn chars(self) -> impl Iterator<Item = char> + 'a {
        self.parts().flat_map(|part| {
            let (run, char) = match part {
                Part::Run(run) => (run, None),
                Part::Char(char) => ("", Some(char)),
            };
            run.chars().chain(char)
        })
    }
}

enum Part<'a> {
    Run(&'a str),
    Char(char),
}

/// Runs without escapes, and the characters the escapes stand for.
struct Parts<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        match memchr::memchr(b'\\', self.rest.as_bytes()) {
            Some(0) => {
                let (char, length) = escape(self.rest.as_bytes());
                self.rest = self.rest.get(length..).unwrap_or_default();
                Some(Part::Char(char))
            }
            found => {
                let (run, rest) = self.rest.split_at(found.unwrap_or(self.rest.len()));
                self.rest = rest;
                Some(Part::Run(run))
            }
        }
    }
}

/// What the checked escape at the start of `bytes` stands for, and its length.
fn escape(bytes: &[u8]) -> (char, usize) {
    let simple = match bytes.get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode_escape(bytes),
        Some(&other) => char::from(other),
        None => char::REPLACEMENT_CHARACTER,
    };
    (simple, 2)
}

fn unicode_escape(bytes: &[u8]) -> (char, usize) {
    let Some(unit) = code_unit(bytes) else { return (char::REPLACEMENT_CHARACTER, 6) };
    if let 0xd800..=0xdbff = unit
        && let Some(low @ 0xdc00..=0xdfff) = bytes.get(6..).and_then(code_unit)
    {
        let code = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12);
    }
    (char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER), 6)
}

/// The UTF-16 unit of a `\uXXXX` at the start of `bytes`.
fn code_unit(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.strip_prefix(b"\\u")?.first_chunk::<4>()?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit * 16 + char::from(digit).to_digit(16)?))
}

impl PartialEq<str> for Text<'_> {
    #[inline]
    fn eq(&self, other: &str) -> bool {
        // An escape is longer than what it stands for, so most comparisons end here.
        if self.raw.len() < other.len() {
            return false;
        }
        if self.is_escaped() { self.chars().eq(other.chars()) } else { self.raw == other }
    }
}

impl PartialEq<&str> for Text<'_> {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw || self.chars().eq(other.chars())
    }
}

impl Eq for Text<'_> {}

impl Hash for Text<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.decode().hash(state);
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        self.parts().try_for_each(|part| match part {
            Part::Run(run) => f.write_str(run),
            Part::Char(char) => f.write_char(char),
        })
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.decode(), f)
    }
}

impl serde::Serialize for Text<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.decode())
    }
}

impl From<Text<'_>> for String {
    fn from(text: Text<'_>) -> Self {
        text.decode().into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::Text;

    #[track_caller]
    fn check(raw: &str, meaning: &str) {
        let text = Text::checked(raw);
        assert_eq!(text.decode(), meaning);
        assert_eq!(text, meaning);
        assert_eq!(text.to_string(), meaning);
        let again = serde_json::to_string(meaning).unwrap();
        assert_eq!(text, Text::checked(again.trim_matches('"')));
    }

    #[test]
    fn escapes_decode_to_what_they_stand_for() {
        check("", "");
        check("plain", "plain");
        check(r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t");
        check(r"caf\u00e9 and \u00E9", "café and é");
        check(r"a\ud83d\ude00b", "a😀b");
    }

    #[test]
    fn a_lone_surrogate_becomes_a_replacement_character() {
        check(r"\ud83d", "\u{fffd}");
        check(r"\ude00x", "\u{fffd}x");
        check(r"\ud83d\ud83d\ude00", "\u{fffd}😀");
        check(r"\ud83d\n", "\u{fffd}\n");
    }
}
