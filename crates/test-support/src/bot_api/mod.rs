//! Telegram's Bot API, as strict as the real one, with hands and eyes for the people in its chats.
//!
//! A [`BotApi`] listens on loopback and answers a bot as Telegram does: the same methods, limits,
//! rates and descriptions of what went wrong. A test plays the people: it says, edits, taps and
//! blocks ([`Said`], `user_*`), and looks at what they see ([`Seen`], [`Draft`]). What the bot did
//! is in the [`Call`] log, what it should not have done in the [`Breach`]es, and the network fails
//! on command ([`Fault`], [`Network`]).
//!
//! Everything the server knows is one `World` behind one lock. A call is carried out on it in one
//! step, by code that neither waits nor touches the network; only long polls, webhooks and faults
//! live outside. Time is the API's own: [`BotApiOptions::speed`] makes its clock run faster.
//!
//! Deliberately absent: the Markdown parse modes (refused), inline mode, payments, and methods
//! named in a webhook's response.

mod callback;
mod chat;
mod clock;
mod command;
mod connection;
mod entity;
mod eyes;
mod fault;
mod file;
mod hands;
mod html;
mod ids;
mod image;
mod limiter;
mod link;
mod log;
mod markup;
mod message;
mod method;
mod multipart;
mod network;
mod options;
mod params;
mod poll;
mod refusal;
mod render;
mod rich;
mod said;
mod seen;
mod server;
mod stage;
mod update;
mod webhook;
mod world;

pub use callback::CallbackAnswer;
pub use entity::{Entity, Style};
pub use eyes::NotSeen;
pub use fault::{Fault, Span};
pub use hands::CannotTap;
pub use ids::{CallbackId, ChatId, MessageId, ThreadId, UserId};
pub use limiter::{Breach, Excess};
pub use log::{Call, Outcome};
pub use markup::Button;
pub use message::MediaKind;
pub use network::Network;
pub use options::{BotApiOptions, Rates};
pub use refusal::Refusal;
pub use said::Said;
pub use seen::{Draft, Seen, SeenMedia};
pub use server::{BotApi, Error};
