//! What a server said in a stream of events.

use serde_json::Value;

/// A reply: its words, and in how many pieces they came.
pub(super) struct Reply {
    pub(super) text: String,
    pub(super) pieces: usize,
}

impl Reply {
    pub(super) fn of_stream(events: &[u8]) -> Self {
        let events = String::from_utf8_lossy(events);
        let data = events.lines().filter_map(|line| line.strip_prefix("data: "));
        let mut reply = Self { text: String::new(), pieces: 0 };
        for event in data.filter_map(|data| serde_json::from_str::<Value>(data).ok()) {
            if let Some(text) = event["delta"]["text"].as_str() {
                reply.text.push_str(text);
                reply.pieces += 1;
            }
        }
        reply
    }
}
