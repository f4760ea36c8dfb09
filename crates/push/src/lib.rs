//! Web Push: messages to browsers that are not open.
//!
//! ```text
//!  event ── encrypt (RFC 8291) ── sign (VAPID, RFC 8292) ── POST ──► push service ──► service worker
//! ```
//!
//! The push service belongs to the maker of the browser. It sees the size and the time of a
//! message, and neither its text nor its sender.
//!
//! The address of a push service comes from a client, so it is checked before it is stored and again
//! whenever its name is resolved: no client can make the server send requests into its own network.
//!
//! Deliberately absent: what is worth a message, and to whom it is sent. The caller decides.

mod encryption;
mod endpoint;
mod message;
mod outbox;
mod push_client;
mod subscription;
mod vapid_key;

pub use endpoint::{EndpointError, EndpointPolicy, PushEndpoint};
pub use message::{MAX_PAYLOAD_BYTES, PushMessage, Urgency};
pub use outbox::Outbox;
pub use push_client::{PushClient, PushClientError, PushResult};
pub use subscription::{PushSubscription, SubscriptionError};
pub use vapid_key::{VapidKey, VapidKeyError};

#[cfg(test)]
mod tests;
