//! Stopping the agents of all sessions, including those that are just being started.

use std::time::Duration;

use journal::{SessionId, SessionRecord};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::warn;
use wire::note::PromptState;

use super::{OpenError, SessionSlot, Sessions, with_causes};
use crate::session::{LeaveOutcome, Session};
use crate::shim::{self, OwnershipError};

/// How long an agent may take to exit after it was told to.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a session may take to close its agent: the shim takes several steps, and the last output
/// must be stored.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(16);

const CLOSE_POLL: Duration = Duration::from_millis(20);

/// What [`Sessions::stop`] did with a session.
#[derive(Clone, Debug)]
pub struct StoppedSession {
    pub id: SessionId,
    /// Whether it had an agent.
    pub had_agent: bool,
    /// Whether the last changes of the session were stored.
    pub left: LeaveOutcome,
    /// Why its agent may still run; none if it was stopped.
    pub failure: Option<OpenError>,
}

impl Sessions {
    /// Stops driving all sessions, and stops all agents that no other process drives, with
    /// everything they started. Returns the sessions whose agents ran, or whose last changes could not
    /// be stored.
    ///
    /// A prompt that has not reached its agent stays in its queue.
    pub async fn stop(&self) -> Result<Vec<StoppedSession>, OpenError> {
        if self.is_relayed() {
            // What other machines drive has nothing to store here.
            let _ = self.release().await;
            return Ok(Vec::new());
        }
        let mut stops = JoinSet::new();
        let mut slots = std::mem::take(&mut *self.slots());
        for record in self.journal().sessions().await? {
            let (this, slot) = (self.clone(), slots.remove(&record.id));
            stops.spawn(async move {
                let id = record.id;
                let mut left = LeaveOutcome::Stored;
                let (had_agent, failure) = match this.stop_one(&record, slot, &mut left).await {
                    Ok(ran) => (ran, None),
                    Err(OpenError::Owned(OwnershipError::Owned { .. })) => (false, None),
                    Err(error) => {
                        warn!(session = %id, error = %with_causes(&error), "could not stop an agent");
                        (true, Some(error))
                    }
                };
                let is_worth_telling = had_agent || left == LeaveOutcome::NotStored;
                is_worth_telling.then_some(StoppedSession { id, had_agent, left, failure })
            });
        }
        let mut stopped = Vec::new();
        while let Some(stop) = stops.join_next().await {
            stopped.extend(stop.ok().flatten());
        }
        stopped.sort_by_key(|it| it.id.0);
        Ok(stopped)
    }

    /// Kills the agent of a session that belongs to another machine now, and reads what it had still printed
    /// into the journal. No agent is started.
    pub async fn abandon(&self, id: SessionId) -> Result<(), OpenError> {
        self.end_agent(id).await?;
        match self.journal().session(id).await? {
            Some(record) if record.damage.is_none() && self.needs_takeover(&record) => {
                self.collect_one(&record).await
            }
            _ => Ok(()),
        }
    }

    /// Removes the files of the agent of a session that is no longer in the journal.
    pub async fn remove_live_directory(&self, id: SessionId) {
        let _ = tokio::fs::remove_dir_all(self.config().live_directory(id)).await;
    }

    /// Stops driving all sessions, and stops the agents of those that this process drove. Agents of
    /// other sessions are left alone.
    pub(crate) async fn retire(&self) {
        let mut closings = JoinSet::new();
        for (_, slot) in std::mem::take(&mut *self.slots()) {
            let this = self.clone();
            closings.spawn(async move {
                match slot {
                    SessionSlot::Driven(session) => {
                        this.close(&session).await;
                        session.release().await;
                    }
                    SessionSlot::Remote(session) => drop(session.release().await),
                    SessionSlot::Opening(opening) => opening.cancel().await,
                    SessionSlot::Failed(_) | SessionSlot::Deleting => {}
                }
            });
        }
        while closings.join_next().await.is_some() {}
    }

    /// Stops the agent of one session. Returns whether one ran. `left` is what became of the last
    /// changes if this process drove the session, also if its agent could not be stopped.
    async fn stop_one(
        &self,
        record: &SessionRecord,
        slot: Option<SessionSlot>,
        left: &mut LeaveOutcome,
    ) -> Result<bool, OpenError> {
        let id = record.id;
        let live = self.config().live_directory(id);
        let mut ran = false;
        match slot {
            Some(SessionSlot::Driven(session)) => {
                ran = shim::is_running(&live);
                self.close(&session).await;
                // It also waits for an agent that is just being started.
                *left = session.release().await;
            }
            Some(SessionSlot::Remote(session)) => *left = session.release().await,
            Some(SessionSlot::Opening(opening)) => opening.cancel().await,
            Some(SessionSlot::Failed(_) | SessionSlot::Deleting) | None => {}
        }
        if !live.is_dir() || !shim::is_running(&live) && !self.needs_takeover(record) {
            return Ok(ran);
        }
        let ownership = self.acquire(id).await?;
        let stopped = shim::stop_everything(&live, EXIT_TIMEOUT).await;
        drop(ownership);
        ran |= stopped.map_err(|error| OpenError::Takeover(std::sync::Arc::new(error)))?;
        if let Some(record) = self.journal().session(id).await?
            && record.damage.is_none()
            && self.needs_takeover(&record)
        {
            self.collect_one(&record).await?;
        }
        Ok(ran)
    }

    /// Has a session close its agent, and waits until the last output is stored. With prompts in its
    /// queue the session would start another agent for them, so it is left as it is.
    async fn close(&self, session: &Session) {
        let prompts = self.journal().open_prompts(session.id()).await.unwrap_or_default();
        if prompts.iter().any(|prompt| prompt.state == PromptState::Queued) {
            return;
        }
        let closed = async {
            if session.close().await.is_err() {
                return;
            }
            while let Ok(Some(record)) = self.journal().session(session.id()).await
                && self.needs_takeover(&record)
            {
                tokio::time::sleep(CLOSE_POLL).await;
            }
        };
        let _ = timeout(CLOSE_TIMEOUT, closed).await;
    }
}
