//! `towpath acp` with a client of our own that is strict about JSON-RPC, and the built-in agent.

mod client;
mod conversations;
#[expect(dead_code, reason = "other test binaries use the rest")]
#[path = "../run/home.rs"]
mod home;
mod protocol;
mod several_clients;
