//! Deleting sessions, and ending their agents.

use std::sync::Arc;
use std::time::Duration;

use journal::SessionId;
use tracing::warn;

use super::{OpenError, SessionSlot, Sessions};
use crate::remote::RemoteConnection;
use crate::shim::{self, OwnershipError};
use crate::worktree_service::WorktreeRemoval;

/// How long another process may take to delete a session that it drives.
const DELETION_TIMEOUT: Duration = Duration::from_secs(5);

const DELETION_POLL: Duration = Duration::from_millis(20);

impl Sessions {
    /// Deletes a session. Its agent is killed first, and none is started for waiting prompts.
    pub async fn delete(&self, id: SessionId) -> Result<(), OpenError> {
        if let Some(relay) = &self.shared.relay {
            return relay.delete(id, None).await;
        }
        let before = self.slots().insert(id, SessionSlot::Deleting);
        let deleted = self.delete_slot(id, before).await;
        self.slots().remove(&id);
        self.change_problems();
        deleted
    }

    /// Deletes a session, and then the working tree that was made for it, on the machine that drives it; none if
    /// that is this one.
    pub async fn delete_with_worktree(
        &self,
        id: SessionId,
        removal: WorktreeRemoval,
    ) -> Option<Result<(), OpenError>> {
        let relay = self.shared.relay.as_ref()?;
        Some(relay.delete(id, Some(removal)).await)
    }

    /// Kills the agent of a session and stops driving it. The journal stays as it is.
    pub async fn end_agent(&self, id: SessionId) -> Result<(), OpenError> {
        let slot = self.slots().remove(&id);
        end_slot(slot).await;
        let ownership = self.acquire(id).await?;
        let live = self.shared.config.live_directory(id);
        let stopped = shim::stop_everything(&live, Duration::ZERO).await;
        drop(ownership);
        self.change_problems();
        stopped.map(drop).map_err(|error| OpenError::Takeover(Arc::new(error)))
    }

    async fn delete_slot(&self, id: SessionId, slot: Option<SessionSlot>) -> Result<(), OpenError> {
        let was_remote = matches!(slot, Some(SessionSlot::Remote(_)));
        end_slot(slot).await;
        let live = self.shared.config.live_directory(id);
        let existed = self.shared.journal.session(id).await?.is_some();
        if let Ok(connection) = RemoteConnection::open(&live, &self.shared.config.runtime).await {
            connection.delete_session().await;
            // The owner disconnects its clients before it deletes the session.
            let start = tokio::time::Instant::now();
            while self.shared.journal.session(id).await?.is_some()
                && start.elapsed() < DELETION_TIMEOUT
            {
                tokio::time::sleep(DELETION_POLL).await;
            }
        }
        let ownership = match self.acquire(id).await {
            // The process that drove it has deleted it.
            Err(OpenError::NoSuchSession(_)) if existed || was_remote => return Ok(()),
            Ok(ownership) => {
                let stopped = shim::stop_everything(&live, Duration::ZERO).await;
                stopped.map_err(|error| OpenError::Takeover(Arc::new(error)))?;
                Some(ownership)
            }
            Err(OpenError::Owned(OwnershipError::Io(error))) => {
                // Nothing can run in a directory that no shim would accept.
                warn!(session = %id, %error, "deleting a session whose directory is unusable");
                None
            }
            Err(error) => return Err(error),
        };
        self.shared.journal.delete(id).await?;
        let _ = tokio::fs::remove_dir_all(live).await;
        // The ownership lasts until the directory is gone.
        drop(ownership);
        Ok(())
    }
}

/// Ends what this process does with a session. Its agent is killed.
async fn end_slot(slot: Option<SessionSlot>) {
    match slot {
        Some(SessionSlot::Driven(session) | SessionSlot::Remote(session)) => {
            session.destroy().await;
        }
        Some(SessionSlot::Opening(opening)) => opening.cancel().await,
        Some(SessionSlot::Failed(_) | SessionSlot::Deleting) | None => {}
    }
}
