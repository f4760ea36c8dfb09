//! Server-sent events, read from bytes that come in any portions.

use serde_json::Value;

/// Bytes so far without an end of line.
#[derive(Debug, Default)]
pub(crate) struct Events {
    buffer: Vec<u8>,
    data: String,
}

impl Events {
    /// Takes bytes; the events they complete, or the data that is none.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<Result<Value, String>> {
        self.buffer.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            if let Some(data) = line.strip_prefix("data:") {
                self.data.push_str(data.trim_start());
            } else if line.is_empty() && !self.data.is_empty() {
                let data = std::mem::take(&mut self.data);
                events.push(serde_json::from_str(&data).map_err(|_| data));
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Events;

    #[test]
    fn events_come_out_whole_however_the_bytes_come() {
        let text =
            "event: a\ndata: {\"n\":1}\n\n: ping\r\ndata: {\"n\":\r\ndata: 2}\r\n\r\ndata: no\n\n";
        let mut events = Events::default();
        let read: Vec<_> = text.bytes().flat_map(|byte| events.take(&[byte])).collect();
        assert_eq!(read, [Ok(json!({"n": 1})), Ok(json!({"n": 2})), Err("no".to_owned())]);
    }
}
