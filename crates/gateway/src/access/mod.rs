//! Who may do what: keys, their roles, and how often one may guess.

mod attempts;
mod key;
mod keyring;
mod pass;
mod secret;

pub use key::{Key, Role, Sort};
pub use keyring::{Keyring, KeyringError};
pub use secret::Secret;

pub(crate) use attempts::Attempts;
pub(crate) use pass::{Pass, look_around};
pub(crate) use secret::Digest;
