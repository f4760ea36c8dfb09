//! Support for tests: doubles of Telegram's Bot API and of a push service, a recording agent, NATS
//! servers, failures of disks, networks and clocks, and installers for third-party programs.
//!
//! No shipped crate depends on this one. Like `testbed`, it shares no type with the product, so a
//! misspelled field name cannot pass on both sides.

pub mod agent_recorder;
pub mod bot_api;
pub mod loop_disk;
pub mod nats_servers;
pub mod network;
pub mod other_agents;
pub mod packages;
pub mod push_service;
pub mod skewed_clock;
pub mod small_disk;
pub mod test_run;

/// An HTTP client that uses no proxy.
///
/// # Panics
///
/// If the client cannot be built.
pub fn http_client() -> reqwest::Client {
    // `reqwest` is built without a provider of cryptography. Later calls change nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A test may take longer between two requests than a server keeps a connection open.
    let builder = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
    builder.build().expect("an HTTP client can be built")
}
