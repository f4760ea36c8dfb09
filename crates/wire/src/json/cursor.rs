//! One strict walk over a line.
//!
//! A [`Cursor`] stands on a byte and either takes the value there or says what is wrong: not JSON,
//! or JSON of another shape than expected. It takes no value twice, so a typed reading costs one
//! pass, and a later duplicate of a key simply overwrites the earlier one, as everywhere else.

use std::fmt;

use super::nesting::Nesting;
use super::raw::{Raw, Shape};
use super::scan;
use super::text::Text;

/// Why a value could not be taken.
pub(crate) enum ParseError {
    /// The bytes are not JSON; where they stop being it does not matter.
    NotJson,
    /// JSON, but not of the shape expected.
    ShapeError(Box<ShapeError>),
    /// The line's `type` or `subtype` is not the one this reading began with.
    Retyped,
}

/// A value of an unexpected shape, and where it stands.
#[derive(Debug)]
pub(crate) struct ShapeError {
    /// Keys from the value outwards.
    path: Vec<String>,
    expected: &'static str,
    found: Option<Shape>,
}

impl ShapeError {
    /// `key` should be there and is not.
    pub(crate) fn missing(key: &str) -> ParseError {
        ParseError::misfit("a value", None).under(key)
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

impl ParseError {
    #[cold]
    fn misfit(expected: &'static str, found: Option<Shape>) -> Self {
        Self::ShapeError(Box::new(ShapeError { path: Vec::new(), expected, found }))
    }

    /// Notes that the trouble lies inside `key`.
    #[cold]
    pub(crate) fn under(mut self, key: &str) -> Self {
        if let Self::ShapeError(misfit) = &mut self {
            misfit.path.push(key.to_owned());
        }
        self
    }
}

/// A value that was stepped over, its shape known and its syntax checked.
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

    pub(crate) fn misfit(self, expected: &'static str) -> ParseError {
        ParseError::misfit(expected, Some(self.shape))
    }

    #[inline]
    pub(crate) fn text(self) -> Result<Text<'a>, ParseError> {
        self.optional_text()?.ok_or_else(|| self.misfit("a string"))
    }

    /// A string, or nothing for `null`.
    #[inline]
    pub(crate) fn optional_text(self) -> Result<Option<Text<'a>>, ParseError> {
        match self.shape {
            Shape::String => Ok(Some(self.as_text())),
            Shape::Null => Ok(None),
            _ => Err(self.misfit("a string")),
        }
    }

    /// The string, where it is one.
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
            _ => Err(self.misfit("true or false")),
        }
    }

    /// A number as the nearest `f64`, or nothing for `null`.
    pub(crate) fn optional_number(self) -> Result<Option<f64>, ParseError> {
        match self.shape {
            Shape::Number => Ok(self.raw.parse().ok()),
            Shape::Null => Ok(None),
            _ => Err(self.misfit("a number")),
        }
    }

    /// A number of things: fractions are cut, what is below zero is zero.
    pub(crate) fn optional_count(self) -> Result<Option<u64>, ParseError> {
        match self.shape {
            Shape::Number => Ok(Some(count(self.raw))),
            Shape::Null => Ok(None),
            _ => Err(self.misfit("a number")),
        }
    }

    /// The value as it stands, or nothing for `null`.
    pub(crate) fn optional_raw(self) -> Option<Raw<'a>> {
        (self.shape != Shape::Null).then(|| self.raw())
    }

    /// The value as it stands if it is an object, nothing for `null`.
    pub(crate) fn optional_object(self) -> Result<Option<Raw<'a>>, ParseError> {
        match self.shape {
            Shape::Object => Ok(Some(self.raw())),
            Shape::Null => Ok(None),
            _ => Err(self.misfit("an object")),
        }
    }

    /// The value as it stands if it is an array, nothing for `null`.
    pub(crate) fn optional_array(self) -> Result<Option<Raw<'a>>, ParseError> {
        match self.shape {
            Shape::Array => Ok(Some(self.raw())),
            Shape::Null => Ok(None),
            _ => Err(self.misfit("an array")),
        }
    }
}

fn count(number: &str) -> u64 {
    number.parse().unwrap_or_else(|_| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` saturates, which is what a count that makes no sense should do"
        )]
        number.parse::<f64>().map_or(0, |float| float as u64)
    })
}

/// A place in a line that is known to be UTF-8.
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

    /// How many bytes lie behind it.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// What lies between here and `end`, both of which stand around one checked value.
    pub(crate) fn raw_up_to(&self, end: &Self) -> Raw<'a> {
        Raw::checked(&self.line[self.at..end.at])
    }

    /// The byte under the cursor; NUL, which is no JSON, at the end.
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
        // The CLI writes none, so the first look usually ends it.
        while self.byte() <= b' ' && matches!(self.byte(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    /// Steps over `expected` if it is next.
    #[inline]
    pub(crate) fn eat(&mut self, expected: u8) -> bool {
        let found = self.byte() == expected;
        self.at += usize::from(found);
        found
    }

    #[inline]
    fn must(&mut self, expected: u8) -> Result<(), ParseError> {
        if self.eat(expected) { Ok(()) } else { Err(ParseError::NotJson) }
    }

    /// Walks the object under the cursor; `visit` takes the value of each key in turn.
    #[inline]
    pub(crate) fn fields(
        &mut self,
        mut visit: impl FnMut(&mut Self, &str) -> Result<(), ParseError>,
    ) -> Result<(), ParseError> {
        self.must_stand_on(b'{', "an object")?;
        self.skip_space();
        if self.eat(b'}') {
            return Ok(());
        }
        self.field(&mut visit)?;
        self.more_fields(visit)
    }

    /// Walks the rest of an object from behind one of its values.
    #[inline]
    pub(crate) fn more_fields(
        &mut self,
        mut visit: impl FnMut(&mut Self, &str) -> Result<(), ParseError>,
    ) -> Result<(), ParseError> {
        loop {
            self.skip_space();
            if !self.eat(b',') {
                return self.must(b'}');
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
        visit(self, &key).map_err(|trouble| trouble.under(&key))
    }

    /// Walks the array under the cursor; `visit` takes each item in turn.
    #[inline]
    pub(crate) fn items(
        &mut self,
        mut visit: impl FnMut(&mut Self, usize) -> Result<(), ParseError>,
    ) -> Result<(), ParseError> {
        self.must_stand_on(b'[', "an array")?;
        self.skip_space();
        if self.eat(b']') {
            return Ok(());
        }
        let mut index = 0;
        loop {
            visit(self, index).map_err(|trouble| trouble.under(&format!("[{index}]")))?;
            index += 1;
            self.skip_space();
            if self.eat(b',') {
                self.skip_space();
                continue;
            }
            return self.must(b']');
        }
    }

    fn must_stand_on(&mut self, open: u8, expected: &'static str) -> Result<(), ParseError> {
        if self.eat(open) {
            return Ok(());
        }
        Err(self.value()?.misfit(expected))
    }

    /// A key, its colon and the space around it.
    #[inline]
    pub(crate) fn key(&mut self) -> Result<Text<'a>, ParseError> {
        self.must(b'"')?;
        let key = self.string()?;
        self.skip_space();
        self.must(b':')?;
        self.skip_space();
        Ok(key)
    }

    /// The shape of the value under the cursor, judged by its first byte.
    #[inline]
    pub(crate) fn shape(&self) -> Result<Shape, ParseError> {
        Shape::of_first(self.byte()).ok_or(ParseError::NotJson)
    }

    /// Takes the value under the cursor, whatever it is.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<JsonValue<'a>, ParseError> {
        let start = self.at;
        let shape = self.shape()?;
        let escaped = self.skip_shape(shape)?;
        Ok(JsonValue { raw: &self.line[start..self.at], shape, escaped })
    }

    /// Steps over the value under the cursor.
    #[inline]
    pub(crate) fn skip(&mut self) -> Result<(), ParseError> {
        let shape = self.shape()?;
        self.skip_shape(shape).map(drop)
    }

    #[inline]
    /// Steps over a value of this shape; says whether it is a string with escapes.
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

    /// The string whose opening quote was just taken.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<Text<'a>, ParseError> {
        let quote = self.at - 1;
        let escaped = self.skip_string()?;
        Ok(Text::checked(&self.line[quote..self.at - 1], escaped))
    }

    /// Steps behind the closing quote; says whether there were escapes.
    #[inline]
    fn skip_string(&mut self) -> Result<bool, ParseError> {
        let end = scan::string_end(self.line.as_bytes(), self.at).ok_or(ParseError::NotJson)?;
        self.at = end.quote + 1;
        Ok(end.escaped)
    }

    /// Steps over `word` if it is next.
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
        // A leading zero stands alone.
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

    /// At least one digit.
    fn skip_digits(&mut self) -> Result<(), ParseError> {
        let start = self.at;
        while self.byte().is_ascii_digit() {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(ParseError::NotJson) }
    }

    /// Steps over an object or array without recursion.
    fn skip_container(&mut self) -> Result<(), ParseError> {
        let mut nesting = Nesting::default();
        loop {
            // At the start of a value.
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
            // Behind a value, or before the bracket that closes an empty container.
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
