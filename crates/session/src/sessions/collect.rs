//! Reading the output of dead agents without driving their sessions.

use journal::{Batch, SessionId, SessionRecord, SessionStatus};
use tokio::sync::mpsc;
use tracing::warn;

use super::{OpenError, Sessions, with_causes};
use crate::config::{SessionLimits, SessionsConfig};
use crate::options::SessionOptions;
use crate::owner::{Owner, ShimQuestion, now};
use crate::shim::{self, Ownership, OwnershipError};

/// How long a session must have been unused until another process counts it as ended: one that was
/// just created has no owner yet.
const UNUSED_MILLIS: u64 = 60_000;

impl Sessions {
    /// Reads the output of dead agents into the journal, for every session that no process drives.
    /// Starts no agent, leaves running agents alone, and returns the failures.
    ///
    /// A command that only lists sessions must show how their last turns ended, but it must not
    /// start an agent for prompts that wait.
    pub async fn collect(&self) -> Result<Vec<(SessionId, OpenError)>, OpenError> {
        if self.is_relayed() {
            return Ok(Vec::new());
        }
        let mut failed = Vec::new();
        for record in self.journal().sessions().await? {
            if !self.needs_takeover(&record) {
                self.delete_if_ended(&record).await;
                continue;
            }
            match self.collect_one(&record).await {
                Ok(()) | Err(OpenError::Owned(OwnershipError::Owned { .. })) => {}
                Err(problem) => {
                    let error = with_causes(&problem);
                    warn!(session = %record.id, %error, "could not read the output of an agent");
                    failed.push((record.id, problem));
                }
            }
        }
        Ok(failed)
    }

    /// Deletes a session that is to be deleted when it has ended, if no process uses it any more: the
    /// one that did was killed, or left while the agent worked.
    pub(super) async fn delete_if_ended(&self, record: &SessionRecord) {
        let options = SessionOptions::from_json(&record.options, record.directory.clone());
        if !options.is_ok_and(|it| it.delete_when_ended && it.schedules.is_empty())
            || record.active.saturating_add(UNUSED_MILLIS) > now()
            || self.slots().contains_key(&record.id)
            || !self.journal().open_prompts(record.id).await.is_ok_and(|it| it.is_empty())
        {
            return;
        }
        // Another process that has it open has the lock.
        match Ownership::take(&self.config().live_directory(record.id)) {
            Ok(ownership) => drop(ownership),
            Err(_) => return,
        }
        if let Err(error) = self.delete(record.id).await {
            let error = with_causes(&error);
            warn!(session = %record.id, %error, "could not delete a session that has ended");
        }
    }

    /// Reads the output of a session's dead agent, unless another process drives the session.
    pub(super) async fn collect_one(&self, record: &SessionRecord) -> Result<(), OpenError> {
        let id = record.id;
        if let Some(reason) = record.damage.clone() {
            return Err(OpenError::Damaged { id, reason });
        }
        let live = self.config().live_directory(id);
        let ownership = Ownership::take(&live)?;
        // The lock shows it even if the shim does not answer.
        if record.spool.run > 0 && shim::is_running(&live) {
            return Ok(());
        }
        // A machine without restarts records the exit and starts no new process.
        let limits = SessionLimits { restarts: 0, sends_scheduled: false, ..self.config().limits };
        let config = SessionsConfig { limits, ..self.config().clone() };
        let (_commands, receiver) = mpsc::channel(1);
        let question = ShimQuestion::default();
        Owner::take_over(id, config, self.journal().clone(), ownership, receiver, question).await?;
        let status = self.journal().session(id).await?.map(|it| it.status);
        if status == Some(SessionStatus::Failed) && record.status != SessionStatus::Failed {
            // It did not use up its restarts: none was allowed here.
            let mut batch = Batch { at: now(), ..Batch::default() };
            batch.change.status = Some(SessionStatus::Dead);
            self.journal().write(id, batch).await?;
        }
        Ok(())
    }
}
