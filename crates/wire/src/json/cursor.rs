//! A strict JSON parser that walks a line once.
//!
//! A [`Cursor`] reads the value at its position or returns an error: not JSON, or JSON of another
//! shape than expected. It reads each value once, so reading a typed event takes one pass. A later
//! duplicate of a key overwrites the earlier one, as in `serde_json`.

use std::fmt;

use super::nesting::Nesting;
use super::raw::{Raw, Shape};
use super::scan;
use super::text::Text;

/// Keys are cut to this length in the path of an error.
const MAX_KEY_BYTES: usize = 100;

/// Why a value could not be read.
pub(crate) enum ParseError {
    /// The bytes are not JSON. No caller needs the position.
    NotJson,
    /// JSON of another shape than expected.
    ShapeError(Box<ShapeError>),
    /// A later `type` or `subtype` differs from the one this reading assumed.
    Retyped,
}

/// A value of an unexpected shape, with its path.
#[derive(Debug)]
pub(crate) struct ShapeError {
    /// Keys from the innermost to the outermost.
    path: Vec<String>,
    expected: &'static str,
    found: Option<Shape>,
}

impl ShapeError {
    /// The required `key` is missing.
    pub(crate) fn missing(key: &str) -> ParseError {
        ParseError::shape_error("a value", None).under(key)
    }
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, key) in self.path.iter().rev().enumerate() {
            let dot = if depth == 0 || key.starts_with('[') { "" } else { "." };
            write!(f, "{dot}{key}")?;
        }
        match self.found {
            Some(found) => write!(f, ": expected {}, found {found}", self.expected),
            None => f.write_str(": missing"),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson => f.write_str("not JSON"),
            Self::ShapeError(error) => error.fmt(f),
            Self::Retyped => f.write_str("a later `type` differs"),
        }
    }
}

impl ParseError {
    #[cold]
    fn shape_error(expected: &'static str, found: Option<Shape>) -> Self {
        Self::ShapeError(Box::new(ShapeError { path: Vec::new(), expected, found }))
    }

    /// Adds `key` to the path of the error. A long key is cut, because the path is shown in one line.
    #[cold]
    pub(crate) fn under(mut self, key: &str) -> Self {
        if let Self::ShapeError(error) = &mut self {
            error.path.push(key[..key.floor_char_boundary(MAX_KEY_BYTES)].to_owned());
        }
        self
    }
}

/// A validated value with its shape.
#[derive(Clone, Copy)]
pub(crate) struct JsonValue<'a> {
    raw: &'a str,
    shape: Shape,
    escaped: bool,
}

impl<'a> JsonValue<'a> {
    pub(crate) fn raw(self) -> Raw<'a> {
        Raw::checked(self.raw)
    }

    pub(crate) fn shape_error(self, expected: &'static str) -> ParseError {
        ParseError::shape_error(expected, Some(self.shape))
    }

    #[inline]
    pub(crate) fn text(self) -> Result<Text<'a>, ParseError> {
        self.optional_text()?.ok_or_else(|| self.shape_error("a string"))
    }

    /// The string; `None` for `null`.
    #[inline]
    pub(crate) fn optional_text(self) -> Result<Option<Text<'a>>, ParseError> {
        match self.shape {
            Shape::String => Ok(Some(self.as_text())),
            Shape::Null => Ok(None),
            _ => Err(self.shape_error("a string")),
        }
    }

    /// `None` if the value is not a string.
    pub(crate) fn text_if_string(self) -> Option<Text<'a>> {
        (self.shape == Shape::String).then(|| self.as_text())
    }

    #[inline]
    fn as_text(self) -> Text<'a> {
        Text::checked(&self.raw[..self.raw.len() - 1], self.escaped)
    }

    pub(crate) fn optional_bool(self) -> Result<Option<bool>, ParseError> {
        match self.shape {
            Shape::Bool => Ok(Some(self.raw == "true")),
            Shape::Null => Ok(None),
            _ => Err(self.shape_error("true or false")),
        }
    }

    /// The number as the nearest `f64`; `None` for `null`.
    pub(crate) fn optional_number(self) -> Result<Option<f64>, ParseError> {
        match self.shape {
            Shape::Number => Ok(self.raw.parse().ok()),
            Shape::Null => Ok(None),
            _ => Err(self.shape_error("a number")),
        }
    }

    /// The number as a count: fractions are truncated and negative numbers become zero.
    pub(crate) fn optional_count(self) -> Result<Option<u64>, ParseError> {
        match self.shape {
            Shape::Number => Ok(Some(count(self.raw))),
            Shape::Null => Ok(None),
            _ => Err(self.shape_error("a number")),
        }
    }

    /// The value unchanged; `None` for `null`.
    pub(crate) fn optional_raw(self) -> Option<Raw<'a>> {
        (self.shape != Shape::Null).then(|| self.raw())
    }

    /// The object unchanged; `None` for `null`.
    pub(crate) fn optional_object(self) -> Result<Option<Raw<'a>>, ParseError> {
        match self.shape {
            Shape::Object => Ok(Some(self.raw())),
            Shape::Null => Ok(None),
            _ => Err(self.shape_error("an object")),
        }
    }

    /// The array unchanged; `None` for `null`.
    pub(crate) fn optional_array(self) -> Result<Option<Raw<'a>>, ParseError> {
        match self.shape {
            Shape::Array => Ok(Some(self.raw())),
            Shape::Null => Ok(None),
            _ => Err(self.shape_error("an array")),
        }
    }
}

fn count(number: &str) -> u64 {
    number.parse().unwrap_or_else(|_| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` saturates, which is right for a count out of range"
        )]
        number.parse::<f64>().map_or(0, |float| float as u64)
    })
}

/// A position in a line that is valid UTF-8.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(line: &'a str) -> Self {
        Self { line, at: 0 }
    }

    pub(crate) fn starting_at(line: &'a str, at: usize) -> Self {
        Self { line, at }
    }

    /// The offset of the next byte.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// The validated value between this cursor and `end`.
    pub(crate) fn raw_up_to(&self, end: &Self) -> Raw<'a> {
        Raw::checked(&self.line[self.at..end.at])
    }

    /// The next byte; at the end NUL, which is not valid JSON.
    #[inline]
    pub(crate) fn byte(&self) -> u8 {
        self.line.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    #[inline]
    pub(crate) fn at_end(&self) -> bool {
        self.at >= self.line.len()
    }

    #[inline]
    pub(crate) fn skip_space(&mut self) {
        // The CLI writes no white space, so the first comparison usually ends the loop.
        while self.byte() <= b' ' && matches!(self.byte(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    /// Skips `expected` if it is the next byte.
    #[inline]
    pub(crate) fn eat(&mut self, expected: u8) -> bool {
        let found = self.byte() == expected;
        self.at += usize::from(found);
        found
    }

    #[inline]
    fn expect_byte(&mut self, expected: u8) -> Result<(), ParseError> {
        if self.eat(expected) { Ok(()) } else { Err(ParseError::NotJson) }
    }

    /// Reads an object; `visit` must read the value of each key.
    #[inline]
    pub(crate) fn fields(
        &mut self,
        mut visit: impl FnMut(&mut Self, &str) -> Result<(), ParseError>,
    ) -> Result<(), ParseError> {
        self.expect_open(b'{', "an object")?;
        self.skip_space();
        if self.eat(b'}') {
            return Ok(());
        }
        self.field(&mut visit)?;
        self.more_fields(visit)
    }

    /// Reads the rest of an object, starting after one of its values.
    #[inline]
    pub(crate) fn more_fields(
        &mut self,
        mut visit: impl FnMut(&mut Self, &str) -> Result<(), ParseError>,
    ) -> Result<(), ParseError> {
        loop {
            self.skip_space();
            if !self.eat(b',') {
                return self.expect_byte(b'}');
            }
            self.skip_space();
            self.field(&mut visit)?;
        }
    }

    #[inline]
    fn field(
        &mut self,
        visit: &mut impl FnMut(&mut Self, &str) -> Result<(), ParseError>,
    ) -> Result<(), ParseError> {
        let key = self.key()?.decode();
        visit(self, &key).map_err(|error| error.under(&key))
    }

    /// Reads an array; `visit` must read each item.
    #[inline]
    pub(crate) fn items(
        &mut self,
        mut visit: impl FnMut(&mut Self, usize) -> Result<(), ParseError>,
    ) -> Result<(), ParseError> {
        self.expect_open(b'[', "an array")?;
        self.skip_space();
        if self.eat(b']') {
            return Ok(());
        }
        let mut index = 0;
        loop {
            visit(self, index).map_err(|error| error.under(&format!("[{index}]")))?;
            index += 1;
            self.skip_space();
            if self.eat(b',') {
                self.skip_space();
                continue;
            }
            return self.expect_byte(b']');
        }
    }

    fn expect_open(&mut self, open: u8, expected: &'static str) -> Result<(), ParseError> {
        if self.eat(open) {
            return Ok(());
        }
        Err(self.value()?.shape_error(expected))
    }

    /// Reads a key, its colon and the white space around it.
    #[inline]
    pub(crate) fn key(&mut self) -> Result<Text<'a>, ParseError> {
        self.expect_byte(b'"')?;
        let key = self.string()?;
        self.skip_space();
        self.expect_byte(b':')?;
        self.skip_space();
        Ok(key)
    }

    /// The shape of the next value, according to its first byte.
    #[inline]
    pub(crate) fn shape(&self) -> Result<Shape, ParseError> {
        Shape::of_first(self.byte()).ok_or(ParseError::NotJson)
    }

    /// Reads a value of any shape.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<JsonValue<'a>, ParseError> {
        let start = self.at;
        let shape = self.shape()?;
        let escaped = self.skip_shape(shape)?;
        Ok(JsonValue { raw: &self.line[start..self.at], shape, escaped })
    }

    /// Reads the value of `key` with `read`. If it has another shape, it is skipped and the difference
    /// is added to `unexpected`, so that one odd field does not make the whole line unreadable.
    #[inline]
    pub(crate) fn lenient<T>(
        &mut self,
        key: &str,
        unexpected: &mut Vec<String>,
        read: impl FnOnce(&mut Self) -> Result<Option<T>, ParseError>,
    ) -> Result<Option<T>, ParseError> {
        let start = self.clone();
        match read(self) {
            Err(ParseError::ShapeError(error)) => {
                unexpected.push(ParseError::ShapeError(error).under(key).to_string());
                *self = start;
                self.skip()?;
                Ok(None)
            }
            other => other,
        }
    }

    /// Skips a value of any shape.
    #[inline]
    pub(crate) fn skip(&mut self) -> Result<(), ParseError> {
        let shape = self.shape()?;
        self.skip_shape(shape).map(drop)
    }

    /// Skips a value of this shape; returns whether it is a string with escapes.
    #[inline]
    fn skip_shape(&mut self, shape: Shape) -> Result<bool, ParseError> {
        match shape {
            Shape::String => {
                self.at += 1;
                return self.skip_string();
            }
            Shape::Object | Shape::Array => self.skip_container()?,
            Shape::Number => self.skip_number()?,
            Shape::Bool if self.byte() == b't' => self.skip_word("true")?,
            Shape::Bool => self.skip_word("false")?,
            Shape::Null => self.skip_word("null")?,
        }
        Ok(false)
    }

    /// Reads the rest of a string after its opening quote.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<Text<'a>, ParseError> {
        let quote = self.at - 1;
        let escaped = self.skip_string()?;
        Ok(Text::checked(&self.line[quote..self.at - 1], escaped))
    }

    /// Skips the rest of a string after its opening quote; returns whether it has escapes.
    #[inline]
    fn skip_string(&mut self) -> Result<bool, ParseError> {
        let end = scan::string_end(self.line.as_bytes(), self.at).ok_or(ParseError::NotJson)?;
        self.at = end.quote + 1;
        Ok(end.escaped)
    }

    /// Skips `word` if it is next.
    #[inline]
    pub(crate) fn eat_all(&mut self, word: &[u8]) -> bool {
        let found = self.line.as_bytes()[self.at..].starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn skip_word(&mut self, word: &str) -> Result<(), ParseError> {
        if self.eat_all(word.as_bytes()) { Ok(()) } else { Err(ParseError::NotJson) }
    }

    fn skip_number(&mut self) -> Result<(), ParseError> {
        self.eat(b'-');
        // No digit may follow a leading zero.
        if !self.eat(b'0') {
            self.skip_digits()?;
        }
        if self.eat(b'.') {
            self.skip_digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            if !self.eat(b'+') {
                self.eat(b'-');
            }
            self.skip_digits()?;
        }
        Ok(())
    }

    /// Skips one or more digits.
    fn skip_digits(&mut self) -> Result<(), ParseError> {
        let start = self.at;
        while self.byte().is_ascii_digit() {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(ParseError::NotJson) }
    }

    /// Skips an object or array without recursion.
    fn skip_container(&mut self) -> Result<(), ParseError> {
        let mut nesting = Nesting::default();
        loop {
            // Before a value.
            match self.byte() {
                b'{' => {
                    self.at += 1;
                    nesting.open(true);
                    self.skip_space();
                    if self.byte() != b'}' {
                        self.key()?;
                        continue;
                    }
                }
                b'[' => {
                    self.at += 1;
                    nesting.open(false);
                    self.skip_space();
                    if self.byte() != b']' {
                        continue;
                    }
                }
                b'"' => {
                    self.at += 1;
                    self.skip_string()?;
                }
                b'-' | b'0'..=b'9' => self.skip_number()?,
                b't' => self.skip_word("true")?,
                b'f' => self.skip_word("false")?,
                b'n' => self.skip_word("null")?,
                _ => return Err(ParseError::NotJson),
            }
            // After a value, or before the bracket that closes an empty container.
            loop {
                self.skip_space();
                match self.byte() {
                    b',' => {
                        self.at += 1;
                        self.skip_space();
                        if nesting.in_object() {
                            self.key()?;
                        }
                        break;
                    }
                    bracket @ (b'}' | b']') => {
                        self.at += 1;
                        if !nesting.close(bracket == b'}') {
                            return Err(ParseError::NotJson);
                        }
                        if nesting.is_empty() {
                            return Ok(());
                        }
                    }
                    _ => return Err(ParseError::NotJson),
                }
            }
        }
    }
}
