//! The Bot API over HTTP, as a bot and the people in its chats see it.

mod calling;
mod changing;
mod chats;
mod drafts;
mod faults;
mod files;
mod polling;
mod rates;
mod stand;
mod tapping;
mod texts;
mod topics;
mod webhooks;
