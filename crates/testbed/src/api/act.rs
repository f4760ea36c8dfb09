//! What happens while a reply is sent.

use std::time::Duration;

use bytes::Bytes;

/// What goes out in one piece at most; a longer reply is cut so that it need not be copied.
pub(super) const CHUNK: usize = 64 << 10;

/// Something that happens while a reply is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Bytes go out.
    Send(Bytes),
    /// Time passes.
    Pause(Duration),
    /// It waits at a gate.
    Hold(String),
    /// The connection breaks.
    Break,
    /// Nothing more happens.
    Stall,
}

/// Has what was gathered go out.
pub(super) fn flush(buffer: &mut Vec<u8>, acts: &mut Vec<Act>) {
    if !buffer.is_empty() {
        acts.push(Act::Send(std::mem::take(buffer).into()));
    }
}
