//! Ids of control requests: what the answer must carry, and how a session names a request.
//!
//! The CLI writes texts. A request with another id waits for its answer all the same, so a number is
//! repeated as it was written, and a request without an id gets a name, so that a person sees it.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::json::{Raw, Shape, Text};

/// The key of a request begins with this if its id is a number.
const NUMBER: &str = "number:";

/// Likewise if no answer can carry an id.
const NONE: &str = "unanswerable:";

/// Likewise if its id is a text that would be taken for one of these.
const TEXT: &str = "text:";

/// A longer number is none that a program counts with.
const MAX_NUMBER: usize = 40;

/// The id of a control request.
#[derive(Clone, Copy, Debug)]
pub enum RequestId<'a> {
    Text(Text<'a>),
    /// The answer repeats it as it was written.
    Number(Raw<'a>),
    /// There is none, or one that no answer can carry. The content of the line identifies the request.
    None(Raw<'a>),
}

impl<'a> RequestId<'a> {
    /// An id that an answer can carry.
    pub fn of(value: Raw<'a>) -> Option<Self> {
        match value.shape() {
            Shape::Number if value.as_str().len() <= MAX_NUMBER => Some(Self::Number(value)),
            _ => value.text().map(Self::Text),
        }
    }

    /// The name of the request in its session. No two ids have the same.
    pub fn key(self) -> Cow<'a, str> {
        match self {
            Self::Text(text) => {
                let text = text.decode();
                if [NUMBER, NONE, TEXT].iter().any(|prefix| text.starts_with(prefix)) {
                    format!("{TEXT}{text}").into()
                } else {
                    text
                }
            }
            Self::Number(number) => format!("{NUMBER}{}", number.as_str()).into(),
            Self::None(content) => key_without_id(content.as_str().as_bytes()).into(),
        }
    }

    /// Whether an answer can carry it.
    pub fn is_usable(self) -> bool {
        !matches!(self, Self::None(_))
    }
}

/// The name of a request without an id, from its line or from the start of it.
pub fn key_without_id(line: &[u8]) -> String {
    // FNV-1a: the name is the same in every process and every version.
    let hash = line.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{NONE}{hash:016x}")
}

/// Whether the request with a key can be answered.
pub fn is_answerable(key: &str) -> bool {
    !key.starts_with(NONE)
}

/// The id in a line for the agent, from the key of its request.
#[derive(Clone, Copy)]
pub(crate) struct ReplyId<'a>(pub(crate) &'a str);

impl Serialize for ReplyId<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number = self.0.strip_prefix(NUMBER).and_then(Raw::parse);
        match number.filter(|number| number.shape() == Shape::Number) {
            Some(number) => number.serialize(serializer),
            None => self.0.strip_prefix(TEXT).unwrap_or(self.0).serialize(serializer),
        }
    }
}

/// The id as it was written.
impl Serialize for RequestId<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Number(number) => number.serialize(serializer),
            Self::None(_) => serializer.serialize_none(),
        }
    }
}

impl PartialEq<str> for RequestId<'_> {
    fn eq(&self, key: &str) -> bool {
        self.key() == key
    }
}

impl PartialEq<&str> for RequestId<'_> {
    fn eq(&self, key: &&str) -> bool {
        self.key() == *key
    }
}

impl From<RequestId<'_>> for String {
    fn from(id: RequestId<'_>) -> Self {
        id.key().into_owned()
    }
}

impl fmt::Display for RequestId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key())
    }
}

#[cfg(test)]
mod tests {
    use super::{ReplyId, RequestId, is_answerable};
    use crate::json::Raw;

    fn key(json: &str) -> Option<String> {
        RequestId::of(Raw::parse(json).unwrap()).map(String::from)
    }

    #[test]
    fn an_answer_carries_the_id_as_it_was_written() {
        for id in [
            "\"r\"",
            "\"\"",
            "7",
            "-1",
            "1.50",
            "12345678901234567890",
            "1e400",
            "\"7\"",
            "\"number:7\"",
            "\"text:number:7\"",
            "\"text:\"",
            "\"unanswerable:0\"",
            "\"a\\\"b\"",
        ] {
            let key = key(id).unwrap();
            assert_eq!(serde_json::to_string(&ReplyId(&key)).unwrap(), id);
            assert!(is_answerable(&key), "{key}");
        }
    }

    #[test]
    fn different_ids_have_different_keys() {
        let ids = ["7", "\"7\"", "\"number:7\"", "\"text:number:7\"", "7.0"];
        let keys: std::collections::BTreeSet<_> = ids.iter().map(|id| key(id)).collect();
        assert_eq!(keys.len(), ids.len());
    }

    #[test]
    fn what_no_answer_can_carry_is_no_id() {
        let long = "1".repeat(41);
        for json in ["null", "true", "[]", "{}", "[7]", &long] {
            assert_eq!(key(json), None, "{json}");
        }
        let none = RequestId::None(Raw::parse("{}").unwrap());
        assert!(!is_answerable(&none.key()));
    }
}
