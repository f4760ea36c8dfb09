//! Commands that wait for a shim.

use tokio::sync::mpsc;

use crate::shim::{ShimCommand, ShimCommandSender};

/// Sends commands to a shim without waiting for it: an owner must answer its clients even if its
/// shim is stopped. What can pile up is little, because the machine waits for the agent.
#[derive(Debug)]
pub(super) struct ShimOutbox {
    queue: mpsc::UnboundedSender<ShimCommand>,
}

impl ShimOutbox {
    pub(super) fn new(shim: ShimCommandSender) -> Self {
        let (queue, mut commands) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(command) = commands.recv().await {
                if let Err(error) = shim.send(command).await {
                    // A dead shim is noticed when its connection ends.
                    tracing::debug!(%error, "a command did not reach the shim");
                }
            }
        });
        Self { queue }
    }

    pub(super) fn send(&self, command: ShimCommand) {
        // The task ends only after this.
        let _ = self.queue.send(command);
    }
}
