//! Keys: what is known of a secret and of whoever holds it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Digest;

/// What somebody may do. Each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Read.
    Watch,
    /// Prompt, answer, change sessions.
    Drive,
    /// Keep tokens.
    Admin,
}

/// How a key is presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// Written in a link or a program's settings.
    Token,
    /// Held by a browser, in exchange for a token.
    Cookie,
}

/// What is known of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// Whose it is; a cookie has the name of the token it was had for.
    pub name: String,
    /// What its holder may do.
    pub role: Role,
    /// How it is presented.
    pub sort: Sort,
    pub(crate) digest: Digest,
    /// When it was made, in milliseconds since 1970.
    pub created: u64,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

impl Key {
    /// Whether it has not ended.
    pub(super) fn is_valid(&self, now: u64) -> bool {
        self.expires.is_none_or(|expires| expires > now)
    }
}
