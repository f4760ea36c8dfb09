//! Claude Code's headless `stream-json` protocol: parsing the agent's output into events, and
//! building lines for its input.
//!
//! Reading never fails. A [`Splitter`] splits the stream into lines, [`read`] turns each into one
//! or more [`Line`]s, and every `Line` has a [`Reading`]: an [`event`], an unknown kind, a known
//! kind in an unexpected shape, or noise. None of these is an error, none changes the bytes, and
//! reading a text delta allocates nothing.
//!
//! ```
//! use towpath_wire::event::{Body, Delta, Stream};
//! use towpath_wire::{Reading, Splitter, read};
//!
//! let stream =
//! br#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}}
//! {"type":"result","subtype":"success","is_error":true,"result":"API Error: 500"}
//! "#;
//!
//! let mut splitter = Splitter::new();
//! let mut pieces = splitter.feed(stream);
//! let mut output = String::new();
//! let mut failed = false;
//! while let Some(piece) = pieces.next() {
//!     for line in read(piece.bytes) {
//!         let Reading::Event(event) = line.reading else { continue };
//!         match event.body {
//!             Body::Stream(Stream::BlockDelta { delta: Delta::Text(text), .. }) => {
//!                 text.decode_into(&mut output);
//!             }
//!             Body::TurnEnded(turn) => failed = turn.failed(),
//!             _ => {}
//!         }
//!     }
//! }
//! assert_eq!(output, "Hi");
//! assert!(failed, "an API failure is a `success` with `is_error`");
//! ```
//!
//! Writing, in [`outgoing`], builds every line from typed values. It cannot produce a line that
//! makes the agent exit, and it cannot send JSON from another source as a protocol message.
//!
//! [`analysis`] derives facts from events: which call a result belongs to, which file it changed,
//! how many tokens were used. All followers share it, so they cannot disagree.
//!
//! [`acp`] is the protocol that editors speak with agents.
//!
//! [`other_agents`] reads what other agents write, in their own formats.
//!
//! A [`note`] is a line that Towpath itself adds to a session's journal, between the agent's lines.
//!
//! The crate has no I/O, no async runtime and no clock.

pub mod acp;
pub mod analysis;
pub mod consent;
mod delta_head;
pub mod event;
pub mod explanation;
mod flat;
pub mod json;
mod kind;
mod line;
mod lines;
mod names;
pub mod note;
pub mod other_agents;
pub mod outgoing;
mod reader;
mod record;
mod rejoiner;
mod request_id;
mod splitter;
mod turn;

pub use event::Event;
pub use kind::Kind;
pub use line::{Dialect, Line, Mismatch, Noise, Reading, Unknown};
pub use lines::{Lines, read};
pub use record::{Origin, RecordedLine};
pub use rejoiner::{Rejoined, Rejoiner};
pub use request_id::{RequestId, is_answerable, key_without_id};
pub use splitter::{DEFAULT_CAP, Piece, PieceEnd, Pieces, Splitter};
pub use turn::{ReportedState, TurnResult, TurnSignal, UnknownRequest, without_id};
