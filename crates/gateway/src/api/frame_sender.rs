//! Sends frames over a WebSocket, with the memory that long ones need.

use std::time::Duration;

use axum::extract::ws::{Message, Utf8Bytes};
use futures_util::{Sink, SinkExt as _};
use tokio::time::timeout;

use crate::limits::SMALL_BYTES;
use crate::memory_pool::{Leased, MemoryPool};

/// A client that does not take a frame for this long is disconnected; it may reconnect.
pub(super) const SEND_TIMEOUT: Duration = Duration::from_mins(1);

/// The memory of a frame that is being sent. Short ones need none.
pub(super) struct FrameLease(Option<Leased<()>>);

impl FrameLease {
    /// Waits until there is memory for the frame.
    pub(super) async fn new(memory: &MemoryPool, frame: &Utf8Bytes) -> Self {
        if frame.len() <= SMALL_BYTES {
            return Self(None);
        }
        Self(Some(memory.lease(frame.len()).await.send(())))
    }

    /// Returns when the client has stalled for so long that it lost the memory.
    pub(super) async fn revoked(&self) {
        match &self.0 {
            Some(lease) => lease.revoked().await,
            None => std::future::pending().await,
        }
    }
}

/// Sends frames to a client.
pub(super) struct FrameSender<S> {
    pub(super) socket: S,
    pub(super) memory: MemoryPool,
}

impl<S: Sink<Message> + Unpin> FrameSender<S> {
    /// Sends a frame; `None` if the client is gone or takes too long. A long frame is copied for
    /// each client, so it needs memory of the pool, which a client that stalls may lose.
    pub(super) async fn send(&mut self, frame: Utf8Bytes) -> Option<()> {
        let lease = FrameLease::new(&self.memory, &frame).await;
        tokio::select! {
            sent = timeout(SEND_TIMEOUT, self.socket.send(Message::Text(frame))) => sent.ok()?.ok(),
            () = lease.revoked() => None,
        }
    }
}
