//! What went wrong, in the several ways the protocol says it.

use crate::json::{Cursor, Shape, Text, Trouble};

/// An error as a word (`"rate_limit"`) or as an object with a type and a message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fault<'a> {
    /// What sort of error it is.
    pub name: Option<Text<'a>>,
    /// What it says to a person.
    pub message: Option<Text<'a>>,
}

impl<'a> Fault<'a> {
    /// Reads a word or an object; `null` is no fault.
    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Option<Self>, Trouble> {
        match cursor.shape()? {
            Shape::Object => {
                let mut fault = Self::default();
                cursor.fields(|cursor, key| {
                    match key {
                        "type" | "code" => fault.name = cursor.value()?.text_if_string(),
                        "message" => fault.message = cursor.value()?.text_if_string(),
                        // The API's own envelope: `{"type":"error","error":{…}}`.
                        "error" if cursor.shape()? == Shape::Object => {
                            if let Some(inner) = Self::read(cursor)? {
                                fault = inner;
                            }
                        }
                        _ => cursor.skip()?,
                    }
                    Ok(())
                })?;
                Ok(Some(fault))
            }
            _ => Ok(cursor
                .value()?
                .optional_text()?
                .map(|name| Self { name: Some(name), message: None })),
        }
    }
}
