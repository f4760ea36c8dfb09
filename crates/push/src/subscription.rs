//! A subscription: where a browser receives messages, and the keys that they are encrypted for.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use thiserror::Error;

use crate::endpoint::PushEndpoint;

/// The length of an uncompressed point of the curve P-256.
pub(crate) const PUBLIC_KEY_BYTES: usize = 65;

/// The length of the secret that authenticates messages.
pub(crate) const AUTH_BYTES: usize = 16;

/// What a browser gives to be sent messages. `Debug` does not show its secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct PushSubscription {
    pub endpoint: PushEndpoint,
    pub(crate) public_key: [u8; PUBLIC_KEY_BYTES],
    pub(crate) auth: [u8; AUTH_BYTES],
}

/// Why the keys of a subscription cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SubscriptionError {
    #[error("`p256dh` is not an uncompressed point of P-256, in URL-safe base64")]
    PublicKey,
    #[error("`auth` is not {AUTH_BYTES} bytes in URL-safe base64")]
    Auth,
}

impl PushSubscription {
    /// The keys as browsers write them: URL-safe base64, with or without padding.
    pub fn new(
        endpoint: PushEndpoint,
        p256dh: &str,
        auth: &str,
    ) -> Result<Self, SubscriptionError> {
        let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text.trim_end_matches('='));
        let public_key = decode(p256dh).ok().and_then(|it| it.try_into().ok());
        let public_key: [u8; PUBLIC_KEY_BYTES] = public_key.ok_or(SubscriptionError::PublicKey)?;
        if public_key[0] != 4 {
            return Err(SubscriptionError::PublicKey);
        }
        let auth = decode(auth).ok().and_then(|it| it.try_into().ok());
        let auth = auth.ok_or(SubscriptionError::Auth)?;
        Ok(Self { endpoint, public_key, auth })
    }

    pub fn p256dh(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.public_key)
    }

    pub fn auth(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.auth)
    }
}

impl fmt::Debug for PushSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushSubscription").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
