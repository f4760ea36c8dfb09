//! Sessions on many machines.
//!
//! A *worker* is a machine that drives sessions, a *gateway* serves pages and programs, and both
//! are connected by a [`Bus`](bus::Bus): NATS JetStream, or its double in memory.
//!
//! ```text
//!  browser ─┐                          ┌─ ask(worker) ─────────► worker: Sessions, shims, journal
//!  Telegram ┼─ gateway ──── Bus ───────┤                            │
//!  API ─────┘  mirror journal          └─ log of the session ◄──────┘ Shipper
//! ```
//!
//! The journal of the worker stays the truth of the sessions that it drives. What it commits is also
//! in its outbox, in the same transaction. The [shipper](ship) packs the outbox of each session into
//! messages and appends them to the session's log on the bus, one at a time, each expecting the one
//! before it. A [mirror] replays the logs into a journal of the gateway, so everything above a
//! journal works in a gateway as it does on one machine.
//!
//! **Who owns a session is said in its own log.** Every message has an epoch and the name of a worker.
//! A worker that takes a session over appends a message of the next epoch, and the bus refuses the appends of
//! the former owner from then on. A worker's lease only says that it is probably alive.
//!
//! The agent never waits for the bus: what it prints is committed locally and shipped when the bus
//! is there. A command from another machine is confirmed after the message with its effects is stored.
//!
//! This crate is the only one that knows NATS.

pub mod bus;
pub mod claim;
pub mod election;
mod exchange;
pub mod fenced_state;
pub mod files;
pub mod gateway;
pub mod lease;
pub mod mirror;
pub mod pack;
pub mod place;
mod project_relay;
pub mod question;
pub mod setup;
pub mod ship;
pub mod start_claim;
mod watching;
pub mod worker;

#[cfg(test)]
mod tests;
