//! The Telegram bridge: a chat, or a topic of one, is a session.
//!
//! ```text
//!  Telegram ── updates ─►  front (pure) ── deeds ─►  desk ── Session (handle)
//!      ▲                                              │
//!      └── calls ──  pace ◄── next ──  chat (pure) ◄──┘ updates of the fold ◄── journal
//! ```
//!
//! [`front`] reads what people send: messages become prompts, commands and taps become [`Deed`]s.
//! A [`chat`] is a replica of a session: it holds the part of the conversation that its people have
//! not been told yet, and says on request what the most urgent [`Call`] is. There is never more than
//! one call of a place under way, so nothing overtakes anything, and what is said is decided at the
//! last moment: an edit is always the newest. [`pace`] says when a chat may be spoken to.
//!
//! What a chat was told is [`memory`], kept in the journal's file before it matters: after a crash
//! the chat goes on where it was, for everything else about it can be folded again.
//!
//! Deliberately absent: the environment, printing, and any text for a person outside
//! [`chat`] and [`replies`].

mod bot;
mod call;
pub mod chat;
mod deed;
mod desk;
pub mod front;
pub mod memory;
pub mod pace;
mod place;
pub mod replies;
mod settings;
pub mod update;

pub use call::{Button, Buttons, Call, Failure, Reply, SendMessage, Words};
pub use deed::{Attachment, Deed, Draft, Left, reworded};
pub use desk::Bridge;
pub use place::{ChatId, Kind, MessageId, Place, ThreadId, UserId};
pub use settings::{Api, BadApi, Error, Plain, Settings, Token};
