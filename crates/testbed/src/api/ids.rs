//! Ids as the API makes them.
//!
//! Two servers never make the same id: the CLI takes two messages with one id for one message, even
//! when they lie in a transcript from yesterday. Within a server they count up.

use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

/// A source of ids.
#[derive(Debug)]
pub(super) struct Ids {
    salt: String,
    next: AtomicU64,
}

impl Ids {
    pub(super) fn new() -> Self {
        let mut salt = Uuid::new_v4().simple().to_string();
        salt.truncate(10);
        Self { salt, next: AtomicU64::new(1) }
    }

    /// The id of a message: `msg_01…`.
    pub(super) fn message(&self) -> String {
        self.id("msg")
    }

    /// The id of a tool call: `toolu_01…`.
    pub(super) fn call(&self) -> String {
        self.id("toolu")
    }

    /// The id of a request: `req_01…`.
    pub(super) fn request(&self) -> String {
        self.id("req")
    }

    fn id(&self, prefix: &str) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}_01{}{number:012}", self.salt)
    }
}

#[cfg(test)]
mod tests {
    use super::Ids;

    #[test]
    fn ids_differ_within_a_server_and_between_servers() {
        let (one, other) = (Ids::new(), Ids::new());
        assert_ne!(one.message(), one.message());
        assert_ne!(one.message(), other.message());
        assert!(one.call().starts_with("toolu_01") && one.request().starts_with("req_01"));
    }
}
