//! A JSON string that is decoded on demand.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

/// A JSON string of the line without its quotes: validated, not yet decoded.
///
/// Reading one never allocates; [`Text::decode`] copies only if the string has escapes. The CLI
/// writes a lone surrogate when a chunk ends inside an emoji. Rust strings cannot hold one, so it
/// decodes to U+FFFD.
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
    /// The characters between the quotes. If none of them is an escape, the opening quote is
    /// included. An encoded string cannot start with a quote, so the two cases are distinct, and no
    /// separate flag has to be stored in every event.
    encoded: &'a str,
}

impl<'a> Text<'a> {
    /// The empty string.
    pub(crate) const EMPTY: Text<'static> = Text::word("\"");

    /// A validated string: `quoted` includes the opening quote but not the closing one.
    #[inline]
    pub(crate) fn checked(quoted: &'a str, escaped: bool) -> Self {
        Self { encoded: if escaped { &quoted[1..] } else { quoted } }
    }

    /// A constant without escapes, written with its opening quote: `"\"success"`.
    pub(crate) const fn word(quoted: &'static str) -> Self {
        Self { encoded: quoted }
    }

    #[inline]
    fn plain(self) -> Option<&'a str> {
        self.encoded.strip_prefix('"')
    }

    /// The characters between the quotes, with escapes not decoded.
    #[inline]
    pub fn raw(self) -> &'a str {
        self.plain().unwrap_or(self.encoded)
    }

    pub fn is_empty(self) -> bool {
        self.raw().is_empty()
    }

    /// The decoded string.
    #[inline]
    pub fn decode(self) -> Cow<'a, str> {
        match self.plain() {
            Some(plain) => Cow::Borrowed(plain),
            None => Cow::Owned(self.decode_escapes()),
        }
    }

    fn decode_escapes(self) -> String {
        let mut out = String::with_capacity(self.encoded.len());
        self.decode_into(&mut out);
        out
    }

    /// Appends the decoded string to `out`.
    pub fn decode_into(self, out: &mut String) {
        for part in self.parts() {
            match part {
                TextPart::Run(run) => out.push_str(run),
                TextPart::Char(char) => out.push(char),
            }
        }
    }

    fn parts(self) -> TextParts<'a> {
        TextParts { rest: self.raw() }
    }

    fn chars(self) -> impl Iterator<Item = char> + 'a {
        self.parts().flat_map(|part| {
            let (run, char) = match part {
                TextPart::Run(run) => (run, None),
                TextPart::Char(char) => ("", Some(char)),
            };
            run.chars().chain(char)
        })
    }
}

enum TextPart<'a> {
    Run(&'a str),
    Char(char),
}

/// Splits a string into runs without escapes and decoded escapes.
struct TextParts<'a> {
    rest: &'a str,
}

impl<'a> Iterator for TextParts<'a> {
    type Item = TextPart<'a>;

    fn next(&mut self) -> Option<TextPart<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        match memchr::memchr(b'\\', self.rest.as_bytes()) {
            Some(0) => {
                let (char, length) = escape(self.rest.as_bytes());
                self.rest = self.rest.get(length..).unwrap_or_default();
                Some(TextPart::Char(char))
            }
            found => {
                let (run, rest) = self.rest.split_at(found.unwrap_or(self.rest.len()));
                self.rest = rest;
                Some(TextPart::Run(run))
            }
        }
    }
}

/// Decodes the valid escape at the start of `bytes`; returns the character and the escape's length.
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

/// The UTF-16 code unit of the `\uXXXX` at the start of `bytes`.
fn code_unit(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.strip_prefix(b"\\u")?.first_chunk::<4>()?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit * 16 + char::from(digit).to_digit(16)?))
}

impl PartialEq<str> for Text<'_> {
    #[inline]
    fn eq(&self, other: &str) -> bool {
        match self.plain() {
            Some(plain) => plain == other,
            None => self.chars().eq(other.chars()),
        }
    }
}

impl PartialEq<&str> for Text<'_> {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.encoded == other.encoded || self.chars().eq(other.chars())
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
            TextPart::Run(run) => f.write_str(run),
            TextPart::Char(char) => f.write_char(char),
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
    fn check(raw: &str, expected: &str) {
        let quoted = format!("\"{raw}");
        let text = Text::checked(&quoted, raw.contains('\\'));
        assert_eq!(text.decode(), expected);
        assert_eq!(text, expected);
        assert_eq!(text.to_string(), expected);
        let encoded = serde_json::to_string(expected).unwrap();
        let encoded = encoded.strip_suffix('"').unwrap();
        assert_eq!(text, Text::checked(encoded, encoded.contains('\\')));
    }

    #[test]
    fn escapes_are_decoded() {
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
