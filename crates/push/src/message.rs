//! A message before it is encrypted.

use std::time::Duration;

/// The largest payload: with the header and the tag of its encryption it makes a body of 4096 bytes,
/// which is all that push services have to accept.
pub const MAX_PAYLOAD_BYTES: usize = 3993;

/// A message for one subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushMessage {
    /// What the service worker receives, at most [`MAX_PAYLOAD_BYTES`].
    pub payload: Vec<u8>,
    /// How long the push service keeps it for a device that is not connected.
    pub ttl: Duration,
    pub urgency: Urgency,
    /// A newer message replaces an older one with the same topic that is not delivered yet: up to 32
    /// characters of the URL-safe base64 alphabet.
    pub topic: Option<String>,
}

/// Whether a message may wake a device that saves power (RFC 8030, section 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    Low,
    Normal,
    High,
}

impl Urgency {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
        }
    }
}
