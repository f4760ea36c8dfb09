//! `towpath serve` from outside: the built binary, the built-in agent, a scripted API, and clients
//! that speak HTTP and WebSocket.

#![expect(clippy::disallowed_methods, reason = "tests start the program they test")]

mod attacks;
mod following;
mod prompting;
mod restarting;
mod schema;
mod stage;
mod watching;
