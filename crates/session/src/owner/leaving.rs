//! How an owner ends: it detaches from its agent or kills it.

use std::time::Duration;

use tokio::sync::oneshot;

use super::Owner;
use crate::session::LeaveOutcome;
use crate::shim::ShimCommand;

/// How long a connection may take to send what is queued when it is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How an owner ended.
#[derive(Debug)]
pub(crate) struct OwnerEnd {
    /// For the client that released the session. It may be sent only after the ownership is released.
    pub(crate) notice: Option<LeaveNotice>,
    /// Whether the session is to be deleted.
    pub(crate) delete: bool,
}

/// Tells the client that released the session that it is released, once the ownership is too.
#[derive(Debug)]
pub(crate) struct LeaveNotice {
    pub(super) done: oneshot::Sender<LeaveOutcome>,
    pub(super) outcome: LeaveOutcome,
}

impl LeaveNotice {
    pub(crate) fn send(self) {
        // The client that asked for it may have gone.
        let _ = self.done.send(self.outcome);
    }
}

/// Who asked the owner to leave, and whether the agent is killed.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) done: Option<oneshot::Sender<LeaveOutcome>>,
    pub(super) kills: bool,
}

impl Owner {
    /// Closes the connection, once what is queued has gone out. A shim that is stopped is not
    /// waited for.
    pub(super) async fn disconnect(&mut self) {
        self.outbox = None;
        if let Some(connection) = self.connection.take() {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, connection.close()).await;
        }
    }

    /// Detaches from the shim: the agent finishes its turn, and the next owner reads its output. Or
    /// kills the agent and waits until it is gone.
    pub(super) async fn leave(&mut self, kills: bool) {
        if let Some(starting) = self.starting.take() {
            // A shim that is being started would start its agent unseen.
            if let Ok(Ok(Some((_, connection)))) = starting.await {
                self.use_connection(connection);
            }
        }
        if let Some(attaching) = self.attaching.take() {
            attaching.abort();
            let _ = attaching.await;
        }
        if kills {
            self.kill_agent().await;
        } else if let Some(outbox) = &self.outbox {
            outbox.send(ShimCommand::Detach);
        }
        self.disconnect().await;
        if let Some(compaction) = self.compaction.take() {
            let _ = compaction.await;
        }
    }
}
