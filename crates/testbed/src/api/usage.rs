//! Token counts: estimated the way a person would, a token for four bytes.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

/// The `usage` object of a message.
///
/// Counts a scenario gives take the place of the usual ones; others of its keys are added.
pub(super) struct Usage<'a> {
    pub(super) at: Moment,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) given: Option<&'a Map<String, Value>>,
}

/// When in the life of a message it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// In `message_start`, with one token out.
    Start,
    /// In `message_delta`, which counts and says nothing else.
    End,
    /// In a message that comes whole.
    Whole,
}

#[derive(serde::Serialize)]
struct CacheCreation {
    ephemeral_5m_input_tokens: u64,
    ephemeral_1h_input_tokens: u64,
}

const NAMES: [&str; 6] = [
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "cache_creation",
    "output_tokens",
    "service_tier",
];

impl Serialize for Usage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for name in NAMES {
            match (name, self.given.and_then(|given| given.get(name))) {
                ("output_tokens", _) if self.at == Moment::Start => {
                    map.serialize_entry(name, &1)?;
                }
                (_, Some(given)) => map.serialize_entry(name, given)?,
                ("input_tokens", None) => map.serialize_entry(name, &self.input_tokens)?,
                ("output_tokens", None) => map.serialize_entry(name, &self.output_tokens)?,
                ("service_tier" | "cache_creation", None) if self.at == Moment::End => {}
                ("service_tier", None) => map.serialize_entry(name, "standard")?,
                ("cache_creation", None) => map.serialize_entry(
                    name,
                    &CacheCreation { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
                )?,
                (_, None) => map.serialize_entry(name, &0)?,
            }
        }
        for (name, value) in self.given.into_iter().flatten() {
            if !NAMES.contains(&name.as_str()) {
                map.serialize_entry(name, value)?;
            }
        }
        map.end()
    }
}

/// How many tokens so many bytes are.
pub(super) fn tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4).max(1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Moment, Usage};

    #[test]
    fn given_counts_take_the_place_of_the_usual_ones() {
        let given = json!({"cache_read_input_tokens": 900, "output_tokens": 7, "extra": {"a": 1}});
        let at = |at| {
            let usage = Usage { at, input_tokens: 5, output_tokens: 3, given: given.as_object() };
            serde_json::to_value(usage).unwrap()
        };
        let whole = json!({
            "input_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 900,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 7, "service_tier": "standard", "extra": {"a": 1},
        });
        assert_eq!(at(Moment::Whole), whole);
        assert_eq!(at(Moment::Start)["output_tokens"], 1);
        let end = json!({
            "input_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 900,
            "output_tokens": 7, "extra": {"a": 1},
        });
        assert_eq!(at(Moment::End), end);
    }
}
