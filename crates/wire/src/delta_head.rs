//! The beginning that most lines of a live stream share.
//!
//! Most lines are deltas of one block, and the CLI writes each of them with the same seventy bytes
//! before the piece itself, in every version that streams (1.0.128 to 2.1.325). Recognising those
//! bytes whole made reading a stream of deltas 2.7 times as fast as walking them key by key. A line
//! that begins in any other way is no worse off: it is walked.

const HEAD: &[u8] = br#"{"type":"stream_event","event":{"type":"content_block_delta","index":"#;
const DELTA: &[u8] = br#","delta":{"type":""#;

/// What such a line begins with.
pub(crate) struct DeltaHead {
    pub(crate) index: u64,
    pub(crate) sort: DeltaKind,
    /// Where the piece begins, behind its opening quote.
    pub(crate) piece: usize,
}

/// Which sort of delta it is.
#[derive(Clone, Copy)]
pub(crate) enum DeltaKind {
    Text,
    InputJson,
    Thinking,
}

/// What follows the piece's closing quote if nothing else is in the delta or the event.
pub(crate) const TAIL: &[u8] = b"}}";

/// What follows the event, in this order, each with a string behind it but the second.
pub(crate) const SESSION_ID: &[u8] = br#","session_id":""#;
pub(crate) const NO_PARENT: &[u8] = br#","parent_tool_use_id":null"#;
pub(crate) const UUID: &[u8] = br#","uuid":""#;

/// Recognises the beginning of a delta's line.
#[inline]
pub(crate) fn delta_head(line: &[u8]) -> Option<DeltaHead> {
    let rest = line.strip_prefix(HEAD)?;
    let (index, rest) = match rest {
        [digit @ b'0'..=b'9', b',', ..] => (u64::from(digit - b'0'), &rest[1..]),
        [tens @ b'1'..=b'9', ones @ b'0'..=b'9', b',', ..] => {
            (u64::from(tens - b'0') * 10 + u64::from(ones - b'0'), &rest[2..])
        }
        _ => return None,
    };
    let rest = rest.strip_prefix(DELTA)?;
    let (sort, rest) = if let Some(rest) = rest.strip_prefix(br#"text_delta","text":""#) {
        (DeltaKind::Text, rest)
    } else if let Some(rest) = rest.strip_prefix(br#"input_json_delta","partial_json":""#) {
        (DeltaKind::InputJson, rest)
    } else {
        (DeltaKind::Thinking, rest.strip_prefix(br#"thinking_delta","thinking":""#)?)
    };
    Some(DeltaHead { index, sort, piece: line.len() - rest.len() })
}
