//! Creating and deleting sessions, and the working trees that are made for them.

use std::path::PathBuf;
use std::sync::Arc;

use journal::SessionId;
use session::{CommandOutput, SessionSpec, WorktreeRemoval, WorktreeService};
use tracing::warn;

use super::{FOLLOWER, SharedWorker};
use crate::question::{WorkerAnswer, WorkerFailure};
use crate::ship::Tenure;
use crate::start_claim::claim_start;

impl SharedWorker {
    /// Creates a session. The same question again is the same session.
    pub(super) async fn create(
        &self,
        id: SessionId,
        spec: SessionSpec,
        new_worktree: Option<String>,
    ) -> WorkerAnswer {
        let mut directories = spec.options.extra_directories.clone();
        directories.push(spec.options.directory.clone());
        self.require_directories(directories).await?;
        let tenure = self.require_owner(id)?;
        match new_worktree {
            Some(about) => self.create_in_worktree(id, spec, about).await?,
            None => self.claim_and_store(id, spec).await?,
        }
        self.shipped(id, tenure, CommandOutput::None).await
    }

    async fn create_in_worktree(
        &self,
        id: SessionId,
        mut spec: SessionSpec,
        about: String,
    ) -> Result<(), WorkerFailure> {
        // The same question may come again before it is answered, and must not make a second one.
        let lock = self.session_lock(id);
        let _lock = lock.lock().await;
        if self.exists(id).await? {
            return Ok(());
        }
        let created = self.worktrees()?.create(spec.options.directory.clone(), about).await;
        let directory = created.map_err(WorkerFailure::Failed)?;
        spec.options.directory.clone_from(&directory);
        let stored = self.claim_and_store(id, spec).await;
        if stored.is_err() {
            self.remove_worktree(directory).await;
        }
        stored
    }

    /// Deletes a session. Its working tree is removed afterwards, when no agent works there any more.
    pub(super) async fn delete(
        &self,
        session: SessionId,
        tenure: Tenure,
        worktree: Option<WorktreeRemoval>,
    ) -> WorkerAnswer {
        let removable = match worktree {
            Some(removal) => {
                let found = self.worktrees()?.removable(session, removal).await;
                Some(found.map_err(WorkerFailure::Failed)?)
            }
            None => None,
        };
        self.sessions.delete(session).await?;
        let forgotten = vec![self.forget_saved(session), Self::owned_since(session, None)];
        if let Err(error) = self.sessions.journal().write_state(FOLLOWER, forgotten).await {
            warn!(%session, %error, "what was recorded of a deleted session stays behind");
        }
        self.release_project(session).await;
        if let Some(directory) = removable {
            self.remove_worktree(directory).await;
        }
        self.shipped(session, tenure, CommandOutput::None).await
    }

    async fn claim_and_store(&self, id: SessionId, spec: SessionSpec) -> Result<(), WorkerFailure> {
        let epoch = claim_start(&self.bus, id, &self.id).await?;
        let owned = vec![Self::owned_since(id, Some(epoch))];
        let recorded = self.sessions.journal().write_state(FOLLOWER, owned).await;
        recorded.map_err(|error| WorkerFailure::Failed(error.to_string()))?;
        match self.sessions.store(spec).await.map_err(WorkerFailure::from) {
            // The same question again.
            Ok(_) | Err(WorkerFailure::SessionExists(_)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    async fn exists(&self, id: SessionId) -> Result<bool, WorkerFailure> {
        let record = self.sessions.journal().session(id).await;
        Ok(record.map_err(|error| WorkerFailure::Failed(error.to_string()))?.is_some())
    }

    fn worktrees(&self) -> Result<&Arc<dyn WorktreeService>, WorkerFailure> {
        let none = || WorkerFailure::Failed("the worker does not make working trees".to_owned());
        self.config.worktrees.as_ref().ok_or_else(none)
    }

    /// Removes a working tree. If that fails, it stays behind and nothing is lost.
    async fn remove_worktree(&self, directory: PathBuf) {
        let Some(worktrees) = &self.config.worktrees else { return };
        let shown = directory.display().to_string();
        if let Err(error) = worktrees.remove(directory).await {
            warn!(%error, path = %shown, "a working tree stays behind");
        }
    }
}
