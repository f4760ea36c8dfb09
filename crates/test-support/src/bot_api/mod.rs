//! A double of Telegram's Bot API that is as strict as the real one.
//!
//! A [`BotApi`] listens on loopback and answers a bot as Telegram does, with the same methods,
//! limits, rates and error descriptions. A test acts as the users in the chats (`user_*`,
//! [`BotApiUserMessage`]) and inspects what the chats show ([`MessageSnapshot`],
//! [`DraftSnapshot`]). The bot's calls are logged ([`BotApiCall`]), and so is every call that broke
//! a rate limit ([`BotApiViolation`]). Calls and the network fail on demand ([`BotApiFault`],
//! [`BotApiNetwork`]).
//!
//! All of the server's state is behind one lock. A call is carried out on it in one step that
//! neither waits nor uses the network; only long polls, webhooks and faults are outside of it. Time
//! is measured on the API's own clock, which [`BotApiOptions::speed`] can make faster.
//!
//! Deliberately absent: the Markdown parse modes (rejected), inline mode, payments, and methods
//! named in the response of a webhook.

mod call;
mod fault;
mod inspection;
mod limiter;
mod method;
mod server;
mod service;
mod state;
mod text;
mod updates;
mod users;

pub use call::{BotApiCall, BotApiError, BotApiOutcome};
pub use fault::{BotApiFault, BotApiFaultSpan, BotApiNetwork};
pub use inspection::{BotApiWaitError, DraftSnapshot, MediaSnapshot, MessageSnapshot};
pub use limiter::{BotApiLimit, BotApiRates, BotApiViolation};
pub use server::{BotApi, BotApiOptions};
pub use state::{
    BotApiButtonSelector, BotApiCallbackAnswer, BotApiCallbackId, BotApiChatId, BotApiMediaKind,
    BotApiMessageId, BotApiThreadId, BotApiUserId,
};
pub use text::{BotApiEntity, BotApiStyle};
pub use users::{BotApiTapError, BotApiUserMessage};
