//! What only tests need: a double of Telegram's Bot API, and installers for outside programs.
//!
//! No shipped crate depends on this one. Like `testbed`, it shares no type with the product: a
//! misspelled field name must not pass on both sides.

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
