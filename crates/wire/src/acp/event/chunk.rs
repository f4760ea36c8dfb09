//! Chunks of text, which are nearly all lines of an agent, in exactly the form that agents write them.
//!
//! Everything else is read field by field, which takes several times as long.

use super::{AcpEvent, AgentUpdate, ChunkAuthor};
use crate::event::{Body, Envelope, Event};
use crate::json::{Cursor, Raw, Text};
use crate::kind::Kind;

const HEAD: &[u8] = br#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":""#;
const UPDATE: &[u8] = br#","update":{"sessionUpdate":""#;
const METHOD: Text<'static> = Text::word("\"session/update");

/// Reads a chunk of text; `None` for any other line.
#[inline]
pub(crate) fn chunk(line: &str) -> Option<Event<'_>> {
    let mut cursor = Cursor::new(line);
    if !cursor.eat_all(HEAD) {
        return None;
    }
    let session = cursor.string().ok()?;
    if !cursor.eat_all(UPDATE) {
        return None;
    }
    let kind = cursor.string().ok()?;
    let author = match kind.raw() {
        "agent_message_chunk" => ChunkAuthor::Agent,
        "agent_thought_chunk" => ChunkAuthor::Thought,
        _ => return None,
    };
    let (mut message, mut content) = (None, None);
    loop {
        if content.is_none() && cursor.eat_all(br#","content":"#) {
            content = Some(text_block(&mut cursor)?);
        } else if message.is_none() && cursor.eat_all(br#","messageId":""#) {
            message = Some(cursor.string().ok()?);
        } else {
            break;
        }
    }
    if !cursor.eat_all(b"}}}") || !cursor.at_end() {
        return None;
    }
    let (content, text) = content?;
    let update = AgentUpdate::Chunk { author, message, content, text: Some(text) };
    Some(Event {
        kind: Kind { name: METHOD, subtype: Some(kind) },
        envelope: Envelope::default(),
        body: Body::Acp(AcpEvent::Update { session: Some(session), update, meta: None }),
        unexpected: Vec::new(),
    })
}

/// A block with a text and its type, in either order.
#[inline]
fn text_block<'a>(cursor: &mut Cursor<'a>) -> Option<(Raw<'a>, Text<'a>)> {
    let start = cursor.clone();
    let end: &[u8] = if cursor.eat_all(br#"{"type":"text","text":""#) {
        b"}"
    } else if cursor.eat_all(br#"{"text":""#) {
        br#","type":"text"}"#
    } else {
        return None;
    };
    let text = cursor.string().ok()?;
    cursor.eat_all(end).then(|| (start.raw_up_to(cursor), text))
}

#[cfg(test)]
mod tests {
    use super::chunk;
    use crate::Reading;
    use crate::event::Body;
    use crate::reader::object_at;

    /// Lines in the forms of several agents.
    const CHUNKS: [&str; 5] = [
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a\n\u00e9"}}}}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""},"messageId":"m"}}}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_thought_chunk","messageId":"m","content":{"type":"text","text":"é"}}}}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"\"","update":{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"text":"a","type":"text"}}}}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"","update":{"sessionUpdate":"agent_message_chunk","messageId":"","content":{"text":"}}}","type":"text"}}}}"#,
    ];

    #[test]
    fn a_chunk_is_read_as_it_is_read_field_by_field() {
        for line in CHUNKS {
            let fast = chunk(line).expect(line);
            let Some(Reading::Event(slow)) = object_at(line, 0).map(|it| it.reading) else {
                panic!("{line}")
            };
            assert_eq!(fast.kind, slow.kind, "{line}");
            let (Body::Acp(fast), Body::Acp(slow)) = (&fast.body, &slow.body) else { panic!() };
            assert_eq!(format!("{fast:?}"), format!("{slow:?}"), "{line}");
        }
    }

    #[test]
    fn any_other_line_is_left_to_the_rest() {
        for line in CHUNKS {
            for end in 0..line.len() {
                if line.is_char_boundary(end) {
                    assert!(chunk(&line[..end]).is_none(), "{}", &line[..end]);
                }
            }
        }
        for (old, new) in [
            ("}}}}", "}}}} "),
            ("}}}}", "}}}},"),
            ("agent_", "user_"),
            ("\"content\"", "\"x\":1,\"content\""),
            ("\"type\":\"text\"", "\"type\":\"image\""),
            ("\"jsonrpc\"", "\"id\":1,\"jsonrpc\""),
            ("\"params\":{", "\"params\":{\"_meta\":{},"),
        ] {
            for line in CHUNKS {
                let other = line.replacen(old, new, 1);
                assert!(other == line || chunk(&other).is_none(), "{other}");
            }
        }
    }
}
