//! Claude Code's headless `stream-json` protocol: bytes to lines to events, and what may be said
//! back.
//!
//! Reading is total. A [`Splitter`] cuts the stream into lines, [`read`] turns each into one or
//! more [`Line`]s, and every `Line` has a [`Reading`]: an [`event`], an unknown kind, a known
//! kind in an unexpected shape, or noise. None of these is an error, none changes the bytes, and a
//! text delta costs no allocation.
//!
//! ```
//! use towpath_wire::event::{Body, Delta, Stream};
//! use towpath_wire::{Reading, Splitter, read};
//!
//! let stream = br#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}}
//! {"type":"result","subtype":"success","is_error":true,"result":"API Error: 500"}
//! "#;
//!
//! let mut splitter = Splitter::new();
//! let mut pieces = splitter.feed(stream);
//! let mut said = String::new();
//! let mut failed = false;
//! while let Some(piece) = pieces.next() {
//!     for line in read(piece.bytes) {
//!         let Reading::Event(event) = line.reading else { continue };
//!         match event.body {
//!             Body::Stream(Stream::BlockDelta { delta: Delta::Text(text), .. }) => {
//!                 text.decode_into(&mut said);
//!             }
//!             Body::TurnEnded(turn) => failed = turn.failed(),
//!             _ => {}
//!         }
//!     }
//! }
//! assert_eq!(said, "Hi");
//! assert!(failed, "an API failure is a `success` with `is_error`");
//! ```
//!
//! Writing, in [`outgoing`], builds every line from values: there is no way to put a line on the agent's
//! stdin that it would take for fatal, or to relay somebody else's JSON as a message of its own.
//!
//! What followers conclude from events is in [`analysis`], so that they cannot disagree: which call
//! a result belongs to, which file it changed, whether a turn failed, what it cost.
//!
//! What Towpath itself adds to a session's record, between the lines of the agent, are [`note`]s.
//!
//! Deliberately absent: I/O, a runtime, clocks, and any state but the line being read.

pub mod analysis;
pub mod consent;
mod delta_head;
pub mod event;
mod flat;
pub mod json;
mod kind;
mod line;
mod lines;
mod names;
pub mod note;
pub mod outgoing;
mod reader;
mod record;
mod rejoiner;
mod splitter;

pub use event::Event;
pub use kind::Kind;
pub use line::{Dialect, Line, Mismatch, Noise, Reading, Unknown};
pub use lines::{Lines, read};
pub use record::{Origin, RecordedLine};
pub use rejoiner::{Rejoined, Rejoiner};
pub use splitter::{DEFAULT_CAP, Piece, PieceEnd, Pieces, Splitter};
