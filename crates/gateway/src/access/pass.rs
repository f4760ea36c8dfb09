//! What a stream is open by.
//!
//! A request is judged when it comes; a stream goes on for hours. So a stream holds a pass, which
//! lapses when the key it was opened with is taken back, wherever that happens.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tracing::warn;

use super::{Digest, Keyring};
use crate::clock::now;

/// How often the keys are looked at: another process may have changed them.
const EVERY: Duration = Duration::from_secs(1);

/// What a stream is open by.
#[derive(Debug)]
pub(crate) struct Pass {
    /// Nothing where somebody in front of the server says who may come in.
    key: Option<Digest>,
    keyring: Arc<Keyring>,
    changes: watch::Receiver<()>,
}

impl Pass {
    pub(crate) fn new(key: Option<Digest>, keyring: Arc<Keyring>) -> Self {
        let changes = keyring.changes();
        Self { key, keyring, changes }
    }

    /// Waits until it is worth nothing any more.
    pub(crate) async fn lapsed(mut self) {
        let Some(key) = self.key else { return std::future::pending().await };
        // Whoever cannot read the keys cannot say that one still holds.
        while self.keyring.holds(&key, now()).unwrap_or(false) {
            if self.changes.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Notices what other processes do to the keys.
pub(crate) async fn look_around(keyring: Arc<Keyring>) {
    loop {
        if let Err(error) = keyring.tokens() {
            warn!(%error, "the keys cannot be looked at");
        }
        sleep(EVERY).await;
    }
}
