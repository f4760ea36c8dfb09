//! `towpath serve` end to end: the built binary, the built-in agent, a scripted API, and clients
//! over HTTP and WebSocket.

#![expect(clippy::disallowed_methods, reason = "tests start the program they test")]

mod fixture;
mod logging;
mod memory;
mod prompts;
mod restart;
mod schema;
mod security;
mod stop;
mod streams;
mod watch;
