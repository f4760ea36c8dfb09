//! What a shim says to its owner.

use serde::{Deserialize, Serialize};

use super::exit::{Ended, Exit};
use super::frame::{self, Frame};
use super::greeting::ShimHello;

/// What an owner hears from its shim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The agent printed this. Pieces come in order and without a gap; they end anywhere in a line.
    Output {
        /// Where it begins.
        offset: u64,
        /// What was printed.
        bytes: Vec<u8>,
    },
    /// The agent complained. Best effort: an owner that does not read in time misses some of it.
    Stderr(Vec<u8>),
    /// All writes up to this number are in the agent's pipe. Said to every new owner, if there were any.
    Written(u64),
    /// A write was not taken: too much is pending, or the agent's stdin is closed, or its number leaves
    /// a gap. Nothing of it reached the agent.
    Unwritten {
        /// The write.
        number: u64,
        /// The last one taken.
        last: u64,
    },
    /// The agent has ended, and everything it printed has come before this.
    Exited {
        /// How.
        exit: Exit,
        /// How many bytes it printed in all.
        end: u64,
    },
    /// Something stands in the shim's way; nothing is lost, but nothing moves on.
    Trouble(Trouble),
    /// It does no longer.
    Eased,
}

/// What stands in a shim's way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// What the spool's file system says: most likely that it is full.
    pub spool: String,
}

/// Numbers of frames. They are part of the protocol: never reused, never renumbered.
mod kind {
    pub(super) const HELLO: u8 = 129;
    pub(super) const OUTPUT: u8 = 130;
    pub(super) const STDERR: u8 = 131;
    pub(super) const EXITED: u8 = 132;
    pub(super) const REFUSED: u8 = 133;
    pub(super) const TROUBLE: u8 = 134;
    pub(super) const EASED: u8 = 135;
    pub(super) const WRITTEN: u8 = 136;
    pub(super) const UNWRITTEN: u8 = 137;
}

/// Somebody else is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refused {
    /// Who, where known.
    #[serde(default)]
    pub(super) owner: Option<i32>,
}

/// What comes from a shim, as an owner reads it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told {
    Hello(ShimHello),
    Refused(Refused),
    News(News),
}

impl ShimHello {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        frame::put_json(out, kind::HELLO, self);
    }
}

impl Refused {
    pub(super) fn put(self, out: &mut Vec<u8>) {
        frame::put_json(out, kind::REFUSED, &self);
    }
}

/// Puts [`News::Output`] without owning the bytes.
pub(super) fn put_output(out: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    frame::put(out, kind::OUTPUT, &[&offset.to_le_bytes(), bytes]);
}

impl News {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Output { offset, bytes } => put_output(out, *offset, bytes),
            Self::Stderr(bytes) => frame::put(out, kind::STDERR, &[bytes]),
            Self::Written(number) => frame::put(out, kind::WRITTEN, &[&number.to_le_bytes()]),
            Self::Unwritten { number, last } => {
                frame::put(out, kind::UNWRITTEN, &[&number.to_le_bytes(), &last.to_le_bytes()]);
            }
            Self::Exited { exit, end } => {
                frame::put_json(out, kind::EXITED, &Ended { exit: *exit, end: *end });
            }
            Self::Trouble(trouble) => frame::put_json(out, kind::TROUBLE, trouble),
            Self::Eased => frame::put(out, kind::EASED, &[]),
        }
    }
}

impl Told {
    /// What a frame says; nothing if it says nothing this program knows.
    pub(super) fn read(frame: Frame<'_>) -> Option<Self> {
        let payload = frame.payload;
        Some(Self::News(match frame.kind {
            kind::HELLO => return serde_json::from_slice(payload).ok().map(Self::Hello),
            kind::REFUSED => return serde_json::from_slice(payload).ok().map(Self::Refused),
            kind::OUTPUT => {
                let (offset, bytes) = payload.split_first_chunk()?;
                News::Output { offset: u64::from_le_bytes(*offset), bytes: bytes.to_vec() }
            }
            kind::STDERR => News::Stderr(payload.to_vec()),
            kind::EXITED => {
                let Ended { exit, end } = serde_json::from_slice(payload).ok()?;
                News::Exited { exit, end }
            }
            kind::TROUBLE => News::Trouble(serde_json::from_slice(payload).ok()?),
            kind::EASED => News::Eased,
            kind::WRITTEN => {
                let (number, _) = payload.split_first_chunk()?;
                News::Written(u64::from_le_bytes(*number))
            }
            kind::UNWRITTEN => {
                let (number, rest) = payload.split_first_chunk()?;
                let (last, _) = rest.split_first_chunk()?;
                let (number, last) = (u64::from_le_bytes(*number), u64::from_le_bytes(*last));
                News::Unwritten { number, last }
            }
            _ => return None,
        }))
    }
}
