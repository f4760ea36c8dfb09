//! The Messages API, played from a script.
//!
//! A [`Server`] listens on loopback and answers as the real API does: the same events, ids, headers
//! and errors. What it says comes from a [`Model`]: the replies of a [`Script`], a [`Shelf`] of
//! scenarios, or made up on the spot. What it was asked is kept as [`RecordedRequest`]s.
//!
//! Deciding which reply answers which request is pure; only [`Server`] and what it hands a request
//! to touch the network. Nothing here sleeps to wait for something: a held reply waits for its gate.

mod act;
mod answer;
mod catalogue;
mod composer;
mod connection;
mod delivery;
mod event;
mod gate;
mod ids;
mod improvise;
mod log;
mod model;
mod pieces;
mod recording;
mod refusal;
mod request;
mod route;
mod script;
mod server;
mod shelf;
mod stage;
mod upstream;
mod usage;

pub use log::{Kind, RecordedRequest};
pub use model::Model;
pub use recording::BadRecording;
pub use script::Script;
pub use server::{Error, Options, Server};
pub use shelf::Shelf;
