//! Support for tests: a double of Telegram's Bot API, and installers for third-party programs.
//!
//! No shipped crate depends on this one. Like `testbed`, it shares no type with the product, so a
//! misspelled field name cannot pass on both sides.

pub mod bot_api;
pub mod packages;

/// An HTTP client that uses no proxy.
///
/// # Panics
///
/// If the client cannot be built.
pub fn http_client() -> reqwest::Client {
    // `reqwest` is built without a provider of cryptography. Later calls change nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("an HTTP client can be built")
}
