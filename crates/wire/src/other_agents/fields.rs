//! The fields of an object whose keys come in any order, read by name.

use std::borrow::Cow;

use crate::event::Usage;
use crate::json::{Cursor, JsonValue, ParseError, Raw, Shape, ShapeError, Text};

/// An object. A `null` counts as absent; another shape than the wanted one is an error with its path.
#[derive(Clone, Copy)]
pub(super) struct ObjectFields<'a> {
    object: Raw<'a>,
}

impl<'a> ObjectFields<'a> {
    pub(super) fn new(object: Raw<'a>) -> Self {
        Self { object }
    }

    pub(super) fn raw(self) -> Raw<'a> {
        self.object
    }

    pub(super) fn has(self, key: &str) -> bool {
        self.object.get(key).is_some()
    }

    /// Whether the value of `key` has this shape.
    pub(super) fn is(self, key: &str, shape: Shape) -> bool {
        self.object.get(key).is_some_and(|value| value.shape() == shape)
    }

    /// The value of `key` in any shape.
    pub(super) fn any(self, key: &str) -> Option<Raw<'a>> {
        self.object.get(key).filter(|value| value.shape() != Shape::Null)
    }

    fn read<T>(
        self,
        key: &str,
        read: impl FnOnce(JsonValue<'a>) -> Result<Option<T>, ParseError>,
    ) -> Result<Option<T>, ParseError> {
        let Some(value) = self.object.get(key) else { return Ok(None) };
        Cursor::new(value.as_str()).value().and_then(read).map_err(|error| error.under(key))
    }

    pub(super) fn text(self, key: &str) -> Result<Option<Cow<'a, str>>, ParseError> {
        Ok(self.read(key, JsonValue::optional_text)?.map(Text::decode))
    }

    pub(super) fn needed_text(self, key: &str) -> Result<Cow<'a, str>, ParseError> {
        self.text(key)?.ok_or_else(|| ShapeError::missing(key))
    }

    /// The text of a field that nothing is decided on.
    pub(super) fn text_if_string(self, key: &str) -> Option<Cow<'a, str>> {
        self.object.get(key).and_then(Raw::text).map(Text::decode)
    }

    pub(super) fn flag(self, key: &str) -> Result<Option<bool>, ParseError> {
        self.read(key, JsonValue::optional_bool)
    }

    pub(super) fn number(self, key: &str) -> Result<Option<f64>, ParseError> {
        self.read(key, JsonValue::optional_number)
    }

    pub(super) fn count(self, key: &str) -> Result<Option<u64>, ParseError> {
        self.read(key, JsonValue::optional_count)
    }

    pub(super) fn object(self, key: &str) -> Result<Option<Self>, ParseError> {
        Ok(self.read(key, JsonValue::optional_object)?.map(Self::new))
    }

    pub(super) fn needed_object(self, key: &str) -> Result<Self, ParseError> {
        self.object(key)?.ok_or_else(|| ShapeError::missing(key))
    }

    /// The items of an array, none if it is absent.
    pub(super) fn items(
        self,
        key: &str,
    ) -> Result<impl Iterator<Item = Raw<'a>> + use<'a>, ParseError> {
        let array = self.read(key, JsonValue::optional_array)?;
        Ok(array.into_iter().flat_map(Raw::items))
    }

    /// The objects in an array, none if it is absent.
    pub(super) fn objects(
        self,
        key: &str,
    ) -> Result<impl Iterator<Item = Self> + use<'a>, ParseError> {
        Ok(self.items(key)?.filter(|it| it.shape() == Shape::Object).map(Self::new))
    }

    /// The texts of the parts of a message, joined: a string, or an array of objects with a `text`.
    pub(super) fn joined_text(self, key: &str) -> Result<Cow<'a, str>, ParseError> {
        match self.any(key) {
            None => Ok(Cow::Borrowed("")),
            Some(value) if value.shape() == Shape::Array => {
                let mut texts = value.items().filter_map(|part| {
                    let text = part.get("text").or(Some(part)).and_then(Raw::text);
                    text.map(Text::decode).filter(|text| !text.is_empty())
                });
                let Some(mut joined) = texts.next() else { return Ok(Cow::Borrowed("")) };
                for text in texts {
                    let joined = joined.to_mut();
                    if !joined.ends_with('\n') {
                        joined.push('\n');
                    }
                    joined.push_str(&text);
                }
                Ok(joined)
            }
            Some(_) => self.needed_text(key),
        }
    }

    /// Token counts with the keys that an agent uses for them: input without cache, output, read from
    /// the cache, written to it.
    pub(super) fn usage(self, keys: [&str; 4]) -> Result<Usage, ParseError> {
        Ok(Usage {
            input_tokens: self.count(keys[0])?,
            output_tokens: self.count(keys[1])?,
            cache_read_input_tokens: self.count(keys[2])?,
            cache_creation_input_tokens: self.count(keys[3])?,
        })
    }

    /// The same for agents whose input contains what was read from the cache.
    pub(super) fn usage_with_cache_in_input(self, keys: [&str; 4]) -> Result<Usage, ParseError> {
        let usage = self.usage(keys)?;
        let cached = usage.cache_read_input_tokens.unwrap_or(0);
        let input_tokens = usage.input_tokens.map(|all| all.saturating_sub(cached));
        Ok(Usage { input_tokens, ..usage })
    }

    /// An error for a person: a string, or an object with a `message`, which may be nested.
    pub(super) fn error(self, key: &str) -> Option<Cow<'a, str>> {
        let mut error = self.any(key)?;
        for inner in ["data", "error"] {
            if let Some(nested) = error.get(inner).filter(|it| it.get("message").is_some()) {
                error = nested;
            }
        }
        let text = error.get("message").or(Some(error)).and_then(Raw::text).map(Text::decode);
        Some(text.map_or(Cow::Borrowed(error.as_str()), readable_error))
    }
}

/// The message inside an error that is the API's reply as text; any other text as it is.
pub(super) fn readable_error(text: Cow<'_, str>) -> Cow<'_, str> {
    let message = |reply: Raw<'_>| {
        let inner = reply.get("error").unwrap_or(reply);
        Some(inner.get("message")?.text()?.decode().into_owned())
    };
    let inside = Raw::parse(text.trim()).filter(|it| it.shape() == Shape::Object);
    inside.and_then(message).map_or(text, Cow::Owned)
}
