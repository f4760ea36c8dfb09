//! The key that identifies this server to push services (VAPID, RFC 8292), and the file it is in.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::error::Unspecified;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde::Serialize;
use thiserror::Error;

use crate::endpoint::PushEndpoint;

/// How long a signature counts, in seconds. Push services refuse more than a day, and clocks differ.
const SIGNATURE_SECONDS: u64 = 12 * 60 * 60;

/// `{"typ":"JWT","alg":"ES256"}`.
const HEADER: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJFUzI1NiJ9";

/// A push service may write here about messages that cause trouble. Some refuse a signature without
/// it.
const CONTACT: &str = "mailto:towpath@example.com";

/// The key that signs requests to push services. Subscriptions are bound to it.
pub struct VapidKey {
    pair: EcdsaKeyPair,
    public: String,
}

/// Why there is no key.
#[derive(Debug, Error)]
pub enum VapidKeyError {
    #[error("could not use the key of push messages `{path}`")]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "the key of push messages `{0}` is damaged; remove it to get a new one, which every browser \
         has to be subscribed with again"
    )]
    Damaged(PathBuf),
    #[error("the system provided no random numbers")]
    NoRandomness,
}

#[derive(Serialize)]
struct SignatureClaims<'a> {
    aud: &'a str,
    exp: u64,
    sub: &'a str,
}

impl VapidKey {
    /// Reads the key from a file that only this user can read. Creates it if there is none.
    pub fn open(path: &Path) -> Result<Self, VapidKeyError> {
        let io_error = |source| VapidKeyError::Io { path: path.to_owned(), source };
        match fs::read_to_string(path) {
            Ok(text) => {
                let document = BASE64_URL_SAFE_NO_PAD.decode(text.trim()).ok();
                let key = document.and_then(|it| Self::from_document(&it).ok());
                key.ok_or_else(|| VapidKeyError::Damaged(path.to_owned()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let random = SystemRandom::new();
                let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
                let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random);
                let document = document.map_err(|_| VapidKeyError::NoRandomness)?;
                let key = Self::from_document(document.as_ref());
                let key = key.map_err(|_| VapidKeyError::NoRandomness)?;
                write_private(path, document.as_ref()).map_err(io_error)?;
                Ok(key)
            }
            Err(source) => Err(io_error(source)),
        }
    }

    /// The key that browsers subscribe with, in URL-safe base64.
    pub fn public(&self) -> &str {
        &self.public
    }

    /// The header `Authorization` of a request to a push service. `now` is in milliseconds since 1970.
    pub(crate) fn authorize(
        &self,
        endpoint: &PushEndpoint,
        now: u64,
    ) -> Result<String, Unspecified> {
        let (aud, exp) = (endpoint.origin(), now / 1000 + SIGNATURE_SECONDS);
        let claims = SignatureClaims { aud: &aud, exp, sub: CONTACT };
        let claims = serde_json::to_vec(&claims).map_err(|_| Unspecified)?;
        let signed = format!("{HEADER}.{}", BASE64_URL_SAFE_NO_PAD.encode(claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes())?;
        let signature = BASE64_URL_SAFE_NO_PAD.encode(signature);
        Ok(format!("vapid t={signed}.{signature}, k={}", self.public))
    }

    fn from_document(document: &[u8]) -> Result<Self, Unspecified> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document, &random);
        let pair = pair.map_err(|_| Unspecified)?;
        let public = BASE64_URL_SAFE_NO_PAD.encode(pair.public_key());
        Ok(Self { pair, public })
    }
}

impl fmt::Debug for VapidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VapidKey").field("public", &self.public).finish_non_exhaustive()
    }
}

/// Writes the key under another name first, so that a crash leaves none or a whole one.
fn write_private(path: &Path, document: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(BASE64_URL_SAFE_NO_PAD.encode(document).as_bytes())?;
    file.sync_all()?;
    fs::rename(new, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::{HEADER, VapidKey, VapidKeyError};
    use base64::Engine as _;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;

    #[test]
    fn the_key_is_made_once_and_only_this_user_can_read_it() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("push.key");
        let first = VapidKey::open(&path).unwrap();
        assert_eq!(first.public(), VapidKey::open(&path).unwrap().public());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let stored = std::fs::read_to_string(&path).unwrap();
        assert!(!format!("{first:?}").contains(&stored));
        std::fs::write(&path, &stored[1..]).unwrap();
        assert!(matches!(VapidKey::open(&path), Err(VapidKeyError::Damaged(_))));
        assert!(path.exists(), "a damaged key is not replaced");
    }

    #[test]
    fn the_header_of_a_signature_says_what_it_is() {
        let header = BASE64_URL_SAFE_NO_PAD.decode(HEADER).unwrap();
        assert_eq!(header, br#"{"typ":"JWT","alg":"ES256"}"#);
    }
}
