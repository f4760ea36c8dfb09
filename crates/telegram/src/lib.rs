//! The Telegram bridge: each chat, or topic of a chat, shows one session.
//!
//! ```text
//!  Telegram ── updates ─►  inbound (pure) ── actions ─►  dispatcher ── Session (handle)
//!      ▲                                                    │
//!      └── calls ── rate limiter ◄── next call ── chat ◄────┘ document updates ◄── journal
//! ```
//!
//! [`inbound`] reads what users send: messages become prompts, commands and taps become
//! [`InboundAction`]s. A [`chat`] is a replica of a session: it holds the part of the conversation
//! that is not delivered yet and returns, on request, the most urgent [`BotCall`]. A chat has at most
//! one call in flight, so messages cannot overtake each other, and the content of a call is decided
//! when the call is made, so an edit always shows the newest state. The [`rate_limiter`] decides when
//! a chat may be sent something.
//!
//! What a chat has been sent is its [`checkpoint`]. It is stored in the journal's file before the
//! next call is made, so a chat continues after a crash where it stopped. In a fleet it is stored on the
//! servers instead ([`StateStore`]), so that the chat continues in another process.
//!
//! This crate does not read the environment and does not print. All text for users is in [`chat`] and
//! [`replies`].

mod address;
mod bot;
mod bridge;
pub mod chat;
pub mod checkpoint;
mod dispatcher;
pub mod inbound;
pub mod rate_limiter;
pub mod replies;
mod state_store;
pub mod update;

pub use address::{ChatAddress, ChatId, ChatKind, MessageId, TelegramUserId, TopicId};
pub use bot::{
    BotButton, BotCall, BotCallError, BotKeyboard, BotResponse, MessageText, OutgoingMessage,
};
pub use bridge::{ApiAddress, ApiAddressError, BotToken, Bridge, BridgeConfig, Error, PlainHttp};
pub use inbound::{InboundAction, InboundFile, PromptDraft, RejectedContent};
pub use state_store::{StateStore, StateStoreError, StoreFuture};
