//! What an owner says to a shim.

use std::time::Duration;

use super::frame::{self, Frame};
use super::greeting::OwnerHello;

/// The most bytes one write may have.
pub const LONGEST_WRITE: usize = frame::LONGEST - 8;

/// What an owner tells a shim to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Write these bytes to the agent's stdin.
    Write {
        /// One more than the write before. One the shim has had is ignored, so that it is safe to send
        /// again what a lost connection may have swallowed.
        number: u64,
        /// Whole lines.
        bytes: Vec<u8>,
    },
    /// Close the agent's stdin once all writes have gone out: it finishes its turn and ends.
    CloseStdin,
    /// Send a signal to the agent and everything it started.
    Signal(Signal),
    /// End the agent: close its stdin, after `patience` terminate it, and kill what is left soon after.
    End {
        /// How long the agent may take to finish by itself.
        patience: Duration,
    },
    /// Everything before this offset is kept elsewhere; the spool may drop it.
    Kept(u64),
    /// The owner leaves on purpose.
    Bye,
}

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `SIGINT`.
    Interrupt,
    /// `SIGTERM`.
    Terminate,
    /// `SIGKILL`, after everything was stopped so that nothing escapes.
    Kill,
}

/// Numbers of frames. They are part of the protocol: never reused, never renumbered.
mod kind {
    pub(super) const HELLO: u8 = 1;
    pub(super) const WRITE: u8 = 2;
    pub(super) const CLOSE_STDIN: u8 = 3;
    pub(super) const SIGNAL: u8 = 4;
    pub(super) const END: u8 = 5;
    pub(super) const KEPT: u8 = 6;
    pub(super) const BYE: u8 = 7;
}

/// What comes from an owner, as the shim reads it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    Hello(OwnerHello),
    Order(Order),
}

impl OwnerHello {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        frame::put_json(out, kind::HELLO, self);
    }
}

impl Order {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Write { number, bytes } => {
                frame::put(out, kind::WRITE, &[&number.to_le_bytes(), bytes]);
            }
            Self::CloseStdin => frame::put(out, kind::CLOSE_STDIN, &[]),
            Self::Signal(signal) => {
                let number = match signal {
                    Signal::Interrupt => 2,
                    Signal::Terminate => 15,
                    Signal::Kill => 9,
                };
                frame::put(out, kind::SIGNAL, &[&[number]]);
            }
            Self::End { patience } => {
                let millis = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
                frame::put(out, kind::END, &[&millis.to_le_bytes()]);
            }
            Self::Kept(offset) => frame::put(out, kind::KEPT, &[&offset.to_le_bytes()]),
            Self::Bye => frame::put(out, kind::BYE, &[]),
        }
    }
}

impl Said {
    /// What a frame says; nothing if it says nothing this program knows.
    pub(super) fn read(frame: Frame<'_>) -> Option<Self> {
        let payload = frame.payload;
        Some(Self::Order(match frame.kind {
            kind::HELLO => return serde_json::from_slice(payload).ok().map(Self::Hello),
            kind::WRITE => {
                let (number, bytes) = payload.split_first_chunk()?;
                Order::Write { number: u64::from_le_bytes(*number), bytes: bytes.to_vec() }
            }
            kind::CLOSE_STDIN => Order::CloseStdin,
            kind::SIGNAL => Order::Signal(match payload.first()? {
                2 => Signal::Interrupt,
                15 => Signal::Terminate,
                9 => Signal::Kill,
                _ => return None,
            }),
            kind::END => {
                let (millis, _) = payload.split_first_chunk()?;
                let millis = u32::from_le_bytes(*millis);
                Order::End { patience: Duration::from_millis(millis.into()) }
            }
            kind::KEPT => {
                let (offset, _) = payload.split_first_chunk()?;
                Order::Kept(u64::from_le_bytes(*offset))
            }
            kind::BYE => Order::Bye,
            _ => return None,
        }))
    }
}
