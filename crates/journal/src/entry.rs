//! One line of a session's record.

use bytes::Bytes;

use crate::id::Seq;

/// Who wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The agent, on its stdout.
    Agent,
    /// Towpath: a note between the agent's lines.
    Towpath,
}

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

impl Origin {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Agent => 0,
            Self::Towpath => 1,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Agent),
            1 => Some(Self::Towpath),
            _ => None,
        }
    }
}
