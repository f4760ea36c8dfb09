//! A scripted Messages API, which also speaks `OpenAI` Responses, Chat Completions and Gemini.
//!
//! An [`ApiServer`] listens on loopback and answers as the real APIs do, with the same events, ids,
//! headers and errors. The replies come from an [`ApiModel`]: the replies of one [`ApiScript`], an
//! [`ApiScriptSet`] of several scenarios, or replies generated from the request. Requests are kept as
//! [`ApiRequestRecord`]s.
//!
//! Choosing the reply for a request is pure; only the server and its request handler use the network.
//! A reply that must wait for the test waits for a gate, never for a fixed time.

mod backend;
mod batches;
mod dialect;
mod event;
mod generated;
mod log;
mod mcp_server;
mod models;
mod paced_stream;
mod recording;
mod reply;
mod request;
mod route;
mod script;
mod server;
mod shaped;
mod stream;

pub use log::{ApiRequestKind, ApiRequestRecord};
pub use recording::ApiRecordingError;
pub use script::{ApiModel, ApiScript, ApiScriptSet};
pub use server::{ApiOptions, ApiServer, ApiServerError};
