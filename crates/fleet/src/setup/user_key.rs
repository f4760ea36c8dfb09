//! A key pair with which a user signs in at the servers.

use nkeys::KeyPair;

use crate::bus::BusError;

/// A key pair of a user. The private part is in no debug output.
pub struct UserKey {
    pair: KeyPair,
}

impl UserKey {
    /// Makes a new one.
    pub fn generate() -> Self {
        Self { pair: KeyPair::new_user() }
    }

    /// What the configuration of the servers names the user by (`U…`).
    pub fn public(&self) -> String {
        self.pair.public_key()
    }

    /// What the file that is given with `--creds` contains (`SU…`).
    pub fn private(&self) -> Result<String, BusError> {
        let failed = |error: nkeys::error::Error| BusError::Setup(error.to_string());
        self.pair.seed().map_err(failed)
    }
}

impl std::fmt::Debug for UserKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserKey").field("public", &self.public()).finish_non_exhaustive()
    }
}
