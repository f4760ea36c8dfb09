//! Lines for the agent's stdin.
//!
//! Every line is built from typed values. The CLI exits on a malformed line, an empty line or a
//! wrong role, runs shell commands from a `bash_command` line without asking, and hangs on some
//! requests with a missing field. So no function accepts a ready-made line, and no value can
//! produce such a line.

mod acp;
mod prompt;
mod reply;
mod request;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::json::{Raw, Shape};

pub use acp::{AcpOptionValue, AcpReply, AcpRequest, FormAnswer, SessionStart};
pub use prompt::{EmptyPrompt, Image, ImageError, MediaType, OutgoingPrompt, Priority};
pub use reply::{
    Behavior, ControlReply, DenyReply, Destination, PermissionMode, PermissionRule,
    PermissionUpdate, QuestionAnswers, hook_denial,
};
pub use request::{HookEventName, HookMatcher, Initialize, OutgoingRequest, SettingsSource};

/// A line for the agent's stdin: one JSON object without newlines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingLine(String);

impl OutgoingLine {
    fn of(value: &impl Serialize) -> Self {
        let text = serde_json::to_string(value);
        Self(text.expect("strings, numbers and valid JSON serialize"))
    }

    /// A request of the host; the response will carry `request_id`.
    pub fn request(request_id: &str, request: &OutgoingRequest) -> Self {
        Self::of(&OutgoingEnvelope::ControlRequest { request_id, request })
    }

    /// A reply to the agent's request with the [key](crate::RequestId::key) `request`.
    pub fn reply(request: &str, reply: &ControlReply) -> Self {
        Self::of(&OutgoingEnvelope::ControlResponse { response: reply.envelope(request) })
    }

    /// Withdraws a request of the host.
    pub fn cancel(request_id: &str) -> Self {
        Self::of(&OutgoingEnvelope::ControlCancelRequest { request_id })
    }

    /// A keep-alive, which the CLI ignores.
    pub fn keep_alive() -> Self {
        Self::of(&OutgoingEnvelope::KeepAlive)
    }

    /// The line without a newline.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The line with its newline, so that one write sends it.
    pub fn into_bytes(self) -> Vec<u8> {
        let mut bytes = self.0.into_bytes();
        bytes.push(b'\n');
        bytes
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OutgoingEnvelope<'a> {
    ControlRequest { request_id: &'a str, request: &'a OutgoingRequest },
    ControlResponse { response: reply::ReplyEnvelope<'a> },
    ControlCancelRequest { request_id: &'a str },
    KeepAlive,
}

/// A JSON object on one line: a tool's input, a hook's output, settings.
///
/// The content is unchanged, including duplicate keys and long numbers. Only the white space
/// between tokens is removed, because a newline there would end the line too early.
#[derive(Clone, Debug)]
pub struct JsonObject(Box<RawValue>);

/// The text is not one JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a JSON object")]
pub struct NotAnObject;

impl JsonObject {
    /// `{}`
    pub fn empty() -> Self {
        Self::from_valid("{}".to_owned())
    }

    /// Validates `text`.
    pub fn parse(text: &str) -> Result<Self, NotAnObject> {
        Raw::parse(text).ok_or(NotAnObject).and_then(Self::try_from)
    }

    /// An object with the given fields in order.
    pub(super) fn of<'a>(fields: impl IntoIterator<Item = (String, Raw<'a>)>) -> Self {
        let mut text = String::from("{");
        for (key, value) in fields {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&serde_json::Value::String(key).to_string());
            text.push(':');
            push_compact(&mut text, value.as_str());
        }
        text.push('}');
        Self::from_valid(text)
    }

    /// The object's text, on one line.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The object as [`Raw`], for access to its fields.
    pub fn as_raw(&self) -> Raw<'_> {
        Raw::checked(self.0.get())
    }

    fn from_valid(text: String) -> Self {
        // This crate's parser validated the text, and it accepts the same syntax as `serde_json`.
        Self(RawValue::from_string(text).expect("valid JSON"))
    }
}

impl TryFrom<Raw<'_>> for JsonObject {
    type Error = NotAnObject;

    fn try_from(raw: Raw<'_>) -> Result<Self, NotAnObject> {
        if raw.shape() != Shape::Object {
            return Err(NotAnObject);
        }
        let mut text = String::with_capacity(raw.as_str().len());
        push_compact(&mut text, raw.as_str());
        Ok(Self::from_valid(text))
    }
}

/// Appends valid JSON without the white space between its tokens.
fn push_compact(out: &mut String, json: &str) {
    let mut in_string = false;
    let mut escaped = false;
    out.extend(json.chars().filter(|&char| {
        if in_string {
            (escaped, in_string) = (char == '\\' && !escaped, char != '"' || escaped);
            return true;
        }
        in_string = char == '"';
        !matches!(char, ' ' | '\t' | '\n' | '\r')
    }));
}

impl PartialEq for JsonObject {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for JsonObject {}

impl Serialize for JsonObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::{JsonObject, NotAnObject};

    #[test]
    fn the_content_of_an_object_is_unchanged_on_one_line() {
        let text =
            "{ \"a\" :\n\t0.19243785000000002 ,\r\n \"a\":\"x \\\" \\\\\\u00e9 \\n\", \"b\":[ ] }";
        let expected = "{\"a\":0.19243785000000002,\"a\":\"x \\\" \\\\\\u00e9 \\n\",\"b\":[]}";
        assert_eq!(JsonObject::parse(text).unwrap().as_str(), expected);
    }

    #[test]
    fn anything_but_an_object_is_rejected() {
        for text in ["", "null", "[]", "5", "\"{}\"", "{", "{}{}", "{\"a\":\"\n\"}"] {
            assert_eq!(JsonObject::parse(text), Err(NotAnObject), "{text}");
        }
    }
}
