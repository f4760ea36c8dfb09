//! A corpus as a session would print it: pieces framed by the message they belong to.
//!
//! The corpora have lines of the right kinds and sizes, but a message's lines do not name the same
//! message, and the pieces of a call stand by themselves. The journal goes by both.

use bytes::Bytes;

/// The lines of a corpus, by turns.
pub(super) fn turns(lines: &[&[u8]]) -> Vec<Vec<Bytes>> {
    let mut framing = Framing::default();
    for line in lines {
        framing.take(line);
    }
    framing.turns
}

#[derive(Default)]
struct Framing {
    turns: Vec<Vec<Bytes>>,
    turn: Vec<Bytes>,
    messages: u64,
    /// Pieces of a call that is not there yet.
    pieces: Vec<Bytes>,
}

impl Framing {
    fn take(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        if text.contains(r#"{"type":"message_start""#) {
            self.messages += 1;
            self.turn.push(self.renamed(&text));
        } else if text.contains(r#""delta":{"type":"input_json_delta""#) {
            self.pieces.push(Bytes::copy_from_slice(line));
        } else if text.starts_with(r#"{"type":"assistant""#) {
            match between(&text, r#""type":"tool_use","id":""#, "\"") {
                Some(call) if !self.pieces.is_empty() => self.frame(call, &text),
                _ => self.turn.push(self.renamed(&text)),
            }
        } else {
            self.turn.push(Bytes::copy_from_slice(line));
        }
        if text.starts_with(r#"{"type":"result""#) {
            self.turns.push(std::mem::take(&mut self.turn));
        }
    }

    /// A call with its pieces, as a message of its own.
    fn frame(&mut self, call: &str, whole: &str) {
        self.messages += 1;
        let session = between(whole, r#""session_id":""#, "\"").unwrap_or_default();
        let uuid = between(whole, r#""uuid":""#, "\"").unwrap_or_default();
        let event = |event: String| {
            Bytes::from(format!(
                r#"{{"type":"stream_event","event":{event},"session_id":"{session}","parent_tool_use_id":null,"uuid":"{uuid}"}}"#
            ))
        };
        let message = self.messages;
        self.turn.push(event(format!(
            r#"{{"type":"message_start","message":{{"id":"msg_{message:08}","type":"message","role":"assistant","content":[]}}}}"#
        )));
        self.turn.push(event(format!(
            r#"{{"type":"content_block_start","index":1,"content_block":{{"type":"tool_use","id":"{call}","name":"Edit","input":{{}}}}}}"#
        )));
        self.turn.append(&mut self.pieces);
        self.turn.push(self.renamed(whole));
        self.turn.push(event(r#"{"type":"content_block_stop","index":1}"#.to_owned()));
        self.turn.push(event(r#"{"type":"message_stop"}"#.to_owned()));
    }

    /// The line with the current message's id.
    fn renamed(&self, line: &str) -> Bytes {
        match line.split_once(r#""id":"msg_"#) {
            Some((before, after)) => {
                let after = after.get(8..).unwrap_or_default();
                Bytes::from(format!(r#"{before}"id":"msg_{:08}{after}"#, self.messages))
            }
            None => Bytes::copy_from_slice(line.as_bytes()),
        }
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(after).map(|(it, _)| it)
}
