//! JSON values that are kept unchanged.

use std::borrow::Cow;
use std::fmt;

use serde_json::value::RawValue;

use super::cursor::Cursor;
use super::text::Text;

/// The type of a JSON value. Its first byte determines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// `-1.5e3`
    Number,
    /// `true`, `false`
    Bool,
    /// `null`
    Null,
}

impl Shape {
    #[inline]
    pub(crate) fn of_first(byte: u8) -> Option<Self> {
        Some(match byte {
            b'{' => Self::Object,
            b'[' => Self::Array,
            b'"' => Self::String,
            b'-' | b'0'..=b'9' => Self::Number,
            b't' | b'f' => Self::Bool,
            b'n' => Self::Null,
            _ => return None,
        })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::String => "a string",
            Self::Number => "a number",
            Self::Bool => "true or false",
            Self::Null => "null",
        })
    }
}

/// A JSON value exactly as in the line: validated and borrowed, but not interpreted.
///
/// Values for which this crate has no type are available as `Raw`: tool inputs, structured results,
/// lists of commands. Each access parses the text again, so keep the result.
///
/// ```
/// use towpath_wire::json::Raw;
///
/// let input = Raw::parse(r#"{"file_path":"src/main.rs","replace_all":false}"#).unwrap();
/// assert_eq!(input.get("file_path").unwrap().text().unwrap(), "src/main.rs");
/// assert!(input.get("offset").is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a>(&'a str);

impl<'a> Raw<'a> {
    /// `None` unless `text` is one JSON value, optionally with white space around it.
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut cursor = Cursor::new(text);
        cursor.skip_space();
        let value = cursor.value().ok()?;
        cursor.skip_space();
        cursor.at_end().then(|| value.raw())
    }

    #[inline]
    pub(crate) fn checked(text: &'a str) -> Self {
        Self(text)
    }

    pub fn as_str(self) -> &'a str {
        self.0
    }

    pub fn shape(self) -> Shape {
        Shape::of_first(self.0.as_bytes()[0]).unwrap_or(Shape::Null)
    }

    /// `None` if the value is not a string.
    pub fn text(self) -> Option<Text<'a>> {
        Cursor::new(self.0).value().ok()?.text_if_string()
    }

    /// The value for a person: the decoded string, or the JSON of any other value.
    ///
    /// ```
    /// use towpath_wire::json::Raw;
    ///
    /// assert_eq!(Raw::parse(r#""a\u0062""#).unwrap().readable(), "ab");
    /// assert_eq!(Raw::parse("[1]").unwrap().readable(), "[1]");
    /// ```
    pub fn readable(self) -> Cow<'a, str> {
        self.text().map_or(Cow::Borrowed(self.0), Text::decode)
    }

    /// The number as the nearest `f64`; `None` if the value is not a number.
    pub fn number(self) -> Option<f64> {
        (self.shape() == Shape::Number).then(|| self.0.parse().ok())?
    }

    /// `None` if the value is not a Boolean.
    pub fn boolean(self) -> Option<bool> {
        (self.shape() == Shape::Bool).then_some(self.0 == "true")
    }

    /// The value of `key`, the last one if there are duplicates. `None` if there is no such key or
    /// this is not an object.
    pub fn get(self, key: &str) -> Option<Raw<'a>> {
        self.fields().filter(|(name, _)| *name == *key).last().map(|(_, value)| value)
    }

    /// Keys and values in order; empty if this is not an object.
    pub fn fields(self) -> Fields<'a> {
        Fields(RawWalk::into(self.0, Shape::Object))
    }

    /// Items in order; empty if this is not an array.
    pub fn items(self) -> Items<'a> {
        Items(RawWalk::into(self.0, Shape::Array))
    }
}

impl fmt::Debug for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Display for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Serializes the text unchanged, byte for byte.
impl serde::Serialize for Raw<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// Iterates over a container whose text is already validated, so it cannot fail.
#[derive(Clone)]
struct RawWalk<'a> {
    cursor: Cursor<'a>,
    done: bool,
}

impl<'a> RawWalk<'a> {
    fn into(text: &'a str, shape: Shape) -> Self {
        let fits = Shape::of_first(text.as_bytes()[0]) == Some(shape);
        Self { cursor: Cursor::starting_at(text, 1), done: !fits }
    }

    /// Moves to the next entry, past the comma before it.
    fn advance(&mut self) -> Option<&mut Cursor<'a>> {
        self.cursor.skip_space();
        self.cursor.eat(b',');
        self.cursor.skip_space();
        self.done = self.done || matches!(self.cursor.byte(), b'}' | b']' | 0);
        (!self.done).then_some(&mut self.cursor)
    }
}

/// The keys and values of an object.
#[derive(Clone)]
pub struct Fields<'a>(RawWalk<'a>);

impl<'a> Iterator for Fields<'a> {
    type Item = (Text<'a>, Raw<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let cursor = self.0.advance()?;
        let key = cursor.key().ok()?;
        Some((key, cursor.value().ok()?.raw()))
    }
}

/// The items of an array.
#[derive(Clone)]
pub struct Items<'a>(RawWalk<'a>);

impl<'a> Iterator for Items<'a> {
    type Item = Raw<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.advance()?.value().ok()?.raw())
    }
}
