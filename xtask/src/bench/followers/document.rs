//! What a browser would have of a conversation, put together from frames.

use std::collections::BTreeMap;

use serde_json::Value;

/// The items of a conversation, as far as they were sent.
#[derive(Debug, Default)]
pub(super) struct Document {
    items: BTreeMap<String, Value>,
    /// How long the settled part of what is being written is, in UTF-16 code units.
    settled: BTreeMap<String, u64>,
    pub(super) revision: u64,
    /// Frames that did not fit what was there.
    pub(super) misfits: u32,
}

impl Document {
    pub(super) fn take(&mut self, frame: &[u8]) {
        let Ok(frame) = serde_json::from_slice::<Value>(frame) else {
            self.misfits += 1;
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
                    self.misfits += 1;
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
                    _ => self.misfits += 1,
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

    /// Whether all that another has is here, the same.
    pub(super) fn has_all_of(&self, other: &Self) -> bool {
        let same = |(id, item): (&String, &Value)| self.items.get(id) == Some(item);
        self.revision == other.revision && other.items.iter().all(same)
    }

    /// Whether a text stands somewhere in it.
    pub(super) fn shows(&self, text: &str) -> bool {
        self.items.values().any(|item| item.to_string().contains(text))
    }
}
