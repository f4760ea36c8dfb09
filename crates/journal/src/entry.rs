//! One line of a session's record.

use bytes::Bytes;
use wire::{Origin, RecordedLine};

use crate::id::Seq;

/// A line of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number in the session.
    pub seq: Seq,
    /// When it was written down, in milliseconds since 1970.
    pub at: u64,
    /// Who wrote it.
    pub origin: Origin,
    /// The line without its newline, exactly as it came. May be a part of a larger buffer that it
    /// keeps alive; copy it to hold on to it for long.
    pub bytes: Bytes,
}

/// A line that is to be written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// Who wrote it.
    pub origin: Origin,
    /// The line without its newline.
    pub bytes: Bytes,
    /// Whether it may be lost with the machine, because what it says will come again, whole.
    pub transient: bool,
}

impl Entry {
    /// The entry as readers of any journal get it.
    pub fn line(&self) -> RecordedLine<'_> {
        RecordedLine { seq: self.seq.0, at: self.at, origin: self.origin, bytes: &self.bytes }
    }
}

/// How an origin is stored.
pub(crate) fn origin_code(origin: Origin) -> u8 {
    match origin {
        Origin::Agent => 0,
        Origin::Towpath => 1,
    }
}

pub(crate) fn origin_from_code(code: u8) -> Option<Origin> {
    match code {
        0 => Some(Origin::Agent),
        1 => Some(Origin::Towpath),
        _ => None,
    }
}
