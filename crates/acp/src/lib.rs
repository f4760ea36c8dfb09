//! Towpath as an agent of the Agent Client Protocol, independent of the transport.
//!
//! ```text
//!  client ── lines ─►  AgentConnection ── inputs ─►  AttachedSession ── commands ─►  Session
//!         ◄─ lines ──────────────────────────────── Translator ◄── Fold ◄── journal
//! ```
//!
//! An [`AgentConnection`] is one client. For each session that the client opened there is a task that
//! follows the session's journal, translates what changes into updates of the protocol, asks the client
//! for permission when the agent does, and answers its prompts when their turns are over. A connection
//! is a follower like any other: when it ends, nothing happens to the sessions.

mod attached;
mod config;
mod connection;
mod prompt_content;
mod session_link;
mod session_list;
mod session_requests;
mod translate;

pub use config::{
    AcpConfig, AcpRole, BoxedFuture, LocalOpener, PlainDefaults, SessionDefaults, SessionOpener,
};
pub use connection::AgentConnection;
