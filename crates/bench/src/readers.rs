//! Three ways to read a line: Towpath's, `serde_json::Value` and the crate `claude-codes`.
//!
//! Each passes its result to `black_box`, so that the compiler removes no part of the work.

use std::hint::black_box;

use claude_codes::ClaudeOutput;
use serde_json::Value;
use wire::acp::event::{AcpEvent, AgentUpdate};
use wire::event::{Body, Delta, Event, Stream};
use wire::{Reading, read};

/// Reads with `wire`. The text of a delta is decoded into `text`, which is reused.
pub(crate) fn towpath(line: &[u8], text: &mut String) {
    for line in read(line) {
        if let Reading::Event(Event {
            body: Body::Stream(Stream::BlockDelta { delta: Delta::Text(delta), .. }),
            ..
        }) = &line.reading
        {
            text.clear();
            delta.decode_into(text);
            black_box(&*text);
        }
        if let Reading::Event(Event { body: Body::Acp(message), .. }) = &line.reading
            && let AcpEvent::Update { update: AgentUpdate::Chunk { text: Some(chunk), .. }, .. } =
                message
        {
            text.clear();
            chunk.decode_into(text);
            black_box(&*text);
        }
        black_box(&line);
    }
}

/// Reads into a tree of values.
pub(crate) fn value(line: &[u8]) {
    let _ = black_box(serde_json::from_slice::<Value>(line));
}

/// Reads with the crate `claude-codes`; returns whether it accepted the line.
pub(crate) fn claude_codes(line: &[u8]) -> bool {
    black_box(serde_json::from_slice::<ClaudeOutput>(line)).is_ok()
}
