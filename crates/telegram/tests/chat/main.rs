//! What a chat says: tables of what happens in a session and what its people are told.

mod answers;
mod cards;
mod crashes;
mod failures;
mod passing;
mod room;
mod script;
mod telegram;
