//! The Bot API double over HTTP, as a bot and the users in its chats see it.

mod chats;
mod fixture;
mod messages;
mod server;
mod updates;
