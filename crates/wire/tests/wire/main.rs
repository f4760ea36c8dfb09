//! The protocol as a whole: captures, agreement with other parsers, and lines for the agent.

mod agreement;
mod captures;
mod outgoing;
mod readings;
mod recordings;
