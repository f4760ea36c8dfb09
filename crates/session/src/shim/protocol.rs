//! The protocol on the shim's socket: frames, the handshake, commands and events.
//!
//! A frame is a kind (one byte), a length (four bytes, little endian) and that many bytes. Both
//! sides first send a hello with their [`ProtocolVersion`]. A shim outlives the Towpath that
//! started it, so the two may be of different releases: within a major version, fields and frames
//! are only added, and the receiver ignores those it does not know. Different major versions refuse
//! each other.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::launch::{ExitStatus, RunEnd, RunId};

/// The longest payload of a frame.
const MAX_PAYLOAD: usize = 64 << 20;

/// The most bytes in one write.
pub const MAX_WRITE: usize = MAX_PAYLOAD - 8;

const HEADER: usize = 5;

/// How much capacity a [`Deframer`] keeps after a long frame.
const IDLE_CAPACITY: usize = 256 << 10;

/// A version of the protocol on the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtocolVersion {
    /// Both sides must have the same.
    pub major: u32,
    /// Grows when fields or frames are added.
    pub minor: u32,
}

impl ProtocolVersion {
    /// The version of this program.
    pub const CURRENT: Self = Self { major: 1, minor: 1 };

    pub(super) fn is_compatible(self) -> bool {
        self.major == Self::CURRENT.major
    }
}

impl std::fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The first frame of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OwnerHello {
    pub(super) version: ProtocolVersion,
    /// The offset from which on it kind the agent's output.
    pub(super) from: u64,
    /// Its process, which is reported to others that try to attach.
    #[serde(default)]
    pub(super) pid: Option<i32>,
}

/// The first frame of a shim: the state of its agent when an owner attaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimHello {
    pub version: ProtocolVersion,
    /// The first offset in the spool. It is behind the requested one only if an owner acknowledged
    /// the output in between.
    pub start: u64,
    /// How many bytes the agent has printed so far.
    pub end: u64,
    /// How the agent exited, if it has. Its output comes nevertheless, and then
    /// [`ShimEvent::Exited`].
    #[serde(default)]
    pub exit: Option<ExitStatus>,
    /// The shim's process.
    #[serde(default)]
    pub shim: Option<i32>,
    /// The agent's process.
    #[serde(default)]
    pub agent: Option<i32>,
    #[serde(default)]
    pub run: Option<RunId>,
    /// The number of the last [`ShimCommand::Write`] that the shim has received; 0 if none.
    #[serde(default)]
    pub last_write: u64,
    #[serde(default)]
    pub stdin: StdinState,
    /// Why the spool cannot be written, if it cannot.
    #[serde(default, rename = "trouble")]
    pub spool_failure: Option<SpoolFailure>,
}

/// Whether lines can still be written to the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdinState {
    #[default]
    Open,
    /// The agent's stdin is closed or about to be: the agent is ending.
    Closed,
}

/// Why the shim refuses an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AttachRefusal {
    /// The process of the current owner, if there is one and it is known.
    #[serde(default)]
    pub(super) owner: Option<i32>,
    /// The shim's version, if the versions do not fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<ProtocolVersion>,
}

/// What an owner tells a shim to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShimCommand {
    /// Write these bytes to the agent's stdin.
    Write {
        /// One more than the write before. The shim ignores a number it has seen, so it is safe to
        /// repeat a write that a lost connection may have swallowed.
        number: u64,
        /// Whole lines.
        bytes: Vec<u8>,
    },
    /// Close the agent's stdin after all writes: it finishes its turn and exits.
    CloseStdin,
    /// Send a signal to the agent and everything it started.
    Signal(AgentSignal),
    /// Stop the agent: close its stdin, after `timeout` terminate it, and soon after kill it.
    Stop { timeout: Duration },
    /// The owner has stored everything before this offset; the spool may drop it.
    Acknowledge(u64),
    /// The owner disconnects on purpose.
    Detach,
    /// Answer with the same number. Since version 1.1.
    Ping(u64),
}

/// A signal to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentSignal {
    /// `SIGINT`.
    Interrupt,
    /// `SIGTERM`.
    Terminate,
    /// `SIGKILL`, after all processes were stopped so that none escapes.
    Kill,
}

/// What a shim reports to its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShimEvent {
    /// The agent printed something. Pieces come in order and without gaps; they end anywhere.
    Output { offset: u64, bytes: Vec<u8> },
    /// The agent wrote to stderr. Best effort: an owner that does not read in time misses some of
    /// it.
    Stderr(Vec<u8>),
    /// All writes up to this number are in the agent's pipe. Reported to every new owner.
    Written(u64),
    /// A write was refused: too much is pending, the agent's stdin is closed, or the number leaves
    /// a gap. Nothing of it reached the agent.
    WriteRefused {
        number: u64,
        /// The last write that was accepted.
        last: u64,
    },
    /// The agent has exited. All its output has come before this.
    Exited {
        status: ExitStatus,
        /// How many bytes it printed in all.
        end: u64,
    },
    /// The spool cannot be written. Nothing is lost, but the agent's output waits.
    SpoolFailed(SpoolFailure),
    /// The spool can be written again.
    SpoolRecovered,
    /// The answer to a [`ShimCommand::Ping`].
    Pong(u64),
}

/// Why a spool cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolFailure {
    /// The error of the spool's file system, usually that it is full.
    pub spool: String,
}

/// Kinds of frames. They are part of the protocol: never reused, never renumbered.
mod kind {
    pub(super) const OWNER_HELLO: u8 = 1;
    pub(super) const WRITE: u8 = 2;
    pub(super) const CLOSE_STDIN: u8 = 3;
    pub(super) const SIGNAL: u8 = 4;
    pub(super) const STOP: u8 = 5;
    pub(super) const ACKNOWLEDGE: u8 = 6;
    pub(super) const DETACH: u8 = 7;
    pub(super) const PING: u8 = 8;

    pub(super) const SHIM_HELLO: u8 = 129;
    pub(super) const OUTPUT: u8 = 130;
    pub(super) const STDERR: u8 = 131;
    pub(super) const EXITED: u8 = 132;
    pub(super) const REFUSED: u8 = 133;
    pub(super) const SPOOL_FAILED: u8 = 134;
    pub(super) const SPOOL_RECOVERED: u8 = 135;
    pub(super) const WRITTEN: u8 = 136;
    pub(super) const WRITE_REFUSED: u8 = 137;
    pub(super) const PONG: u8 = 138;
}

/// A frame from an owner.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OwnerFrame {
    Hello(OwnerHello),
    Command(ShimCommand),
}

/// A frame from a shim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ShimFrame {
    Hello(ShimHello),
    Refused(AttachRefusal),
    Event(ShimEvent),
}

impl OwnerHello {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        encode_json(out, kind::OWNER_HELLO, self);
    }
}

impl ShimHello {
    /// Whether the shim answers a [`ShimCommand::Ping`].
    pub fn answers_pings(&self) -> bool {
        self.version.minor >= 1
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        encode_json(out, kind::SHIM_HELLO, self);
    }
}

impl AttachRefusal {
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        encode_json(out, kind::REFUSED, &self);
    }
}

impl ShimCommand {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Write { number, bytes } => {
                encode(out, kind::WRITE, &[&number.to_le_bytes(), bytes]);
            }
            Self::CloseStdin => encode(out, kind::CLOSE_STDIN, &[]),
            Self::Signal(signal) => {
                let number = match signal {
                    AgentSignal::Interrupt => 2,
                    AgentSignal::Terminate => 15,
                    AgentSignal::Kill => 9,
                };
                encode(out, kind::SIGNAL, &[&[number]]);
            }
            Self::Stop { timeout } => {
                let millis = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
                encode(out, kind::STOP, &[&millis.to_le_bytes()]);
            }
            Self::Acknowledge(offset) => {
                encode(out, kind::ACKNOWLEDGE, &[&offset.to_le_bytes()]);
            }
            Self::Detach => encode(out, kind::DETACH, &[]),
            Self::Ping(number) => encode(out, kind::PING, &[&number.to_le_bytes()]),
        }
    }
}

impl ShimEvent {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Output { offset, bytes } => encode_output(out, *offset, bytes),
            Self::Stderr(bytes) => encode(out, kind::STDERR, &[bytes]),
            Self::Written(number) => encode(out, kind::WRITTEN, &[&number.to_le_bytes()]),
            Self::WriteRefused { number, last } => {
                encode(out, kind::WRITE_REFUSED, &[&number.to_le_bytes(), &last.to_le_bytes()]);
            }
            Self::Exited { status, end } => {
                encode_json(out, kind::EXITED, &RunEnd { exit: *status, end: *end });
            }
            Self::SpoolFailed(failure) => encode_json(out, kind::SPOOL_FAILED, failure),
            Self::SpoolRecovered => encode(out, kind::SPOOL_RECOVERED, &[]),
            Self::Pong(number) => encode(out, kind::PONG, &[&number.to_le_bytes()]),
        }
    }
}

/// Encodes [`ShimEvent::Output`] without owning the bytes.
pub(super) fn encode_output(out: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    encode(out, kind::OUTPUT, &[&offset.to_le_bytes(), bytes]);
}

impl OwnerFrame {
    /// Decodes a frame; none if this version does not know it.
    pub(super) fn decode(frame: RawFrame<'_>) -> Option<Self> {
        let payload = frame.payload;
        Some(Self::Command(match frame.kind {
            kind::OWNER_HELLO => return serde_json::from_slice(payload).ok().map(Self::Hello),
            kind::WRITE => {
                let (number, bytes) = payload.split_first_chunk()?;
                ShimCommand::Write { number: u64::from_le_bytes(*number), bytes: bytes.to_vec() }
            }
            kind::CLOSE_STDIN => ShimCommand::CloseStdin,
            kind::SIGNAL => ShimCommand::Signal(match payload.first()? {
                2 => AgentSignal::Interrupt,
                15 => AgentSignal::Terminate,
                9 => AgentSignal::Kill,
                _ => return None,
            }),
            kind::STOP => {
                let (millis, _) = payload.split_first_chunk()?;
                let millis = u32::from_le_bytes(*millis);
                ShimCommand::Stop { timeout: Duration::from_millis(millis.into()) }
            }
            kind::ACKNOWLEDGE => {
                let (offset, _) = payload.split_first_chunk()?;
                ShimCommand::Acknowledge(u64::from_le_bytes(*offset))
            }
            kind::DETACH => ShimCommand::Detach,
            kind::PING => {
                let (number, _) = payload.split_first_chunk()?;
                ShimCommand::Ping(u64::from_le_bytes(*number))
            }
            _ => return None,
        }))
    }
}

impl ShimFrame {
    /// Decodes a frame; none if this version does not know it.
    pub(super) fn decode(frame: RawFrame<'_>) -> Option<Self> {
        let payload = frame.payload;
        Some(Self::Event(match frame.kind {
            kind::SHIM_HELLO => return serde_json::from_slice(payload).ok().map(Self::Hello),
            kind::REFUSED => return serde_json::from_slice(payload).ok().map(Self::Refused),
            kind::OUTPUT => {
                let (offset, bytes) = payload.split_first_chunk()?;
                ShimEvent::Output { offset: u64::from_le_bytes(*offset), bytes: bytes.to_vec() }
            }
            kind::STDERR => ShimEvent::Stderr(payload.to_vec()),
            kind::EXITED => {
                let RunEnd { exit, end } = serde_json::from_slice(payload).ok()?;
                ShimEvent::Exited { status: exit, end }
            }
            kind::SPOOL_FAILED => ShimEvent::SpoolFailed(serde_json::from_slice(payload).ok()?),
            kind::SPOOL_RECOVERED => ShimEvent::SpoolRecovered,
            kind::WRITTEN => {
                let (number, _) = payload.split_first_chunk()?;
                ShimEvent::Written(u64::from_le_bytes(*number))
            }
            kind::PONG => {
                let (number, _) = payload.split_first_chunk()?;
                ShimEvent::Pong(u64::from_le_bytes(*number))
            }
            kind::WRITE_REFUSED => {
                let (number, rest) = payload.split_first_chunk()?;
                let (last, _) = rest.split_first_chunk()?;
                let (number, last) = (u64::from_le_bytes(*number), u64::from_le_bytes(*last));
                ShimEvent::WriteRefused { number, last }
            }
            _ => return None,
        }))
    }
}

/// A frame in the buffer of a [`Deframer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawFrame<'a> {
    pub(super) kind: u8,
    pub(super) payload: &'a [u8],
}

/// A frame claims to be longer than any frame: the other side does not speak this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {0} bytes")]
pub(super) struct FrameTooLong(usize);

/// Appends a frame whose payload is these parts.
fn encode(out: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    debug_assert!(length <= MAX_PAYLOAD, "callers check the length");
    out.reserve(HEADER + length);
    out.push(kind);
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Appends a frame whose payload is JSON, so that fields can be added later.
fn encode_json(out: &mut Vec<u8>, kind: u8, value: &impl Serialize) {
    let json = serde_json::to_vec(value).unwrap_or_default();
    encode(out, kind, &[&json]);
}

/// Turns bytes in chunks of any size into frames.
#[derive(Debug, Default)]
pub(super) struct Deframer {
    buffer: Vec<u8>,
    /// How much of the buffer was returned as frames.
    consumed: usize,
}

impl Deframer {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.consumed);
        self.consumed = 0;
        if self.buffer.is_empty() {
            self.buffer.shrink_to(IDLE_CAPACITY);
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete frame, if there is one.
    pub(super) fn next(&mut self) -> Result<Option<RawFrame<'_>>, FrameTooLong> {
        let rest = &self.buffer[self.consumed..];
        let Some((header, rest)) = rest.split_first_chunk::<HEADER>() else { return Ok(None) };
        let [kind, length @ ..] = *header;
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > MAX_PAYLOAD {
            return Err(FrameTooLong(length));
        }
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        self.consumed += HEADER + length;
        Ok(Some(RawFrame { kind, payload }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Deframer, FrameTooLong, MAX_PAYLOAD, RawFrame, encode};

    proptest! {
        #[test]
        fn frames_are_the_same_however_the_bytes_are_cut(
            frames in proptest::collection::vec(
                (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..12),
            size in 1_usize..30,
        ) {
            let mut bytes = Vec::new();
            for (kind, payload) in &frames {
                encode(&mut bytes, *kind, &[payload]);
            }
            let mut deframer = Deframer::default();
            let mut decoded = Vec::new();
            for chunk in bytes.chunks(size) {
                deframer.feed(chunk);
                while let Some(RawFrame { kind, payload }) = deframer.next().unwrap() {
                    decoded.push((kind, payload.to_vec()));
                }
            }
            prop_assert_eq!(decoded, frames);
        }
    }

    #[test]
    fn an_impossible_length_is_refused_before_memory_is_reserved_for_it() {
        let mut deframer = Deframer::default();
        deframer.feed(&[1, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(deframer.next(), Err(FrameTooLong(u32::MAX as usize)));
        assert!(MAX_PAYLOAD < u32::MAX as usize);
    }
}
