//! The conversation as a browser builds it from frames.

use std::collections::BTreeMap;

use serde_json::Value;

/// The items of a conversation that a follower has received.
#[derive(Debug, Default)]
pub(crate) struct FollowerDocument {
    items: BTreeMap<String, Value>,
    /// The length of the settled part of each streaming item, in UTF-16 code units.
    settled: BTreeMap<String, u64>,
    pub(crate) revision: u64,
    /// Frames and patches that do not apply to the items.
    pub(crate) mismatches: u32,
}

impl FollowerDocument {
    pub(crate) fn apply(&mut self, frame: &[u8]) {
        let Ok(frame) = serde_json::from_slice::<Value>(frame) else {
            self.mismatches += 1;
            return;
        };
        match frame["frame"].as_str() {
            Some("snapshot") => {
                self.items.clear();
                self.settled.clear();
                frame["items"].as_array().into_iter().flatten().for_each(|it| self.put(it));
                self.revision = frame["revision"].as_u64().unwrap_or(0);
            }
            Some("update") => {
                if frame["from"].as_u64().is_none_or(|from| from > self.revision) {
                    self.mismatches += 1;
                }
                frame["patches"].as_array().into_iter().flatten().for_each(|it| self.patch(it));
                self.revision = frame["to"].as_u64().unwrap_or(0);
            }
            _ => {}
        }
    }

    fn patch(&mut self, patch: &Value) {
        let id = patch["id"].as_str().unwrap_or_default();
        match patch["patch"].as_str() {
            Some("item") => self.put(&patch["item"]),
            Some("gone") => {
                self.items.remove(id);
                self.settled.remove(id);
            }
            Some("grow") => {
                let more = patch["settled"].as_str().unwrap_or_default();
                match self.settled.get_mut(id) {
                    Some(known) if Some(*known) == patch["at"].as_u64() => {
                        *known += more.encode_utf16().count() as u64;
                    }
                    _ => self.mismatches += 1,
                }
            }
            _ => {}
        }
    }

    fn put(&mut self, item: &Value) {
        let id = item["id"].as_str().unwrap_or_default().to_owned();
        match item["settled"].as_u64() {
            Some(units) => drop(self.settled.insert(id.clone(), units)),
            None => drop(self.settled.remove(&id)),
        }
        self.items.insert(id, item.clone());
    }

    /// Whether this has every item of `other`, unchanged.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        let same = |(id, item): (&String, &Value)| self.items.get(id) == Some(item);
        self.revision == other.revision && other.items.iter().all(same)
    }

    /// Whether an item contains the text.
    pub(crate) fn contains(&self, text: &str) -> bool {
        self.items.values().any(|item| item.to_string().contains(text))
    }
}
