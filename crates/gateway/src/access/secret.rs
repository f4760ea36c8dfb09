//! Secrets, and what is kept of them.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// What a person or program proves itself with. Not shown by `Debug`, and never written down.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// All that is kept of a secret. Secrets are 256 random bits, so neither salt nor slowness would
/// add anything, and how long a comparison takes tells nothing of the secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Digest(String);

impl Secret {
    /// A new one.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(BASE64_URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// One that somebody presents.
    pub fn presented(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The secret itself, to be handed to its owner.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(crate) fn digest(&self) -> Digest {
        Digest(BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(self.0.as_bytes())))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn a_secret_does_not_show_itself() {
        let secret = Secret::random().unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert_eq!(secret.reveal().len(), 43);
        assert_ne!(secret, Secret::random().unwrap());
        assert_eq!(secret.digest(), Secret::presented(secret.reveal()).digest());
    }
}
