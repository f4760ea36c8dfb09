//! What agents left that are gone with their shims, brought into the journal without driving anything.
//!
//! A command that only lists sessions must show how their last turns ended, but it must not set an
//! agent to work on prompts that wait: that is for who opens the session.

use journal::{Batch, SessionId, SessionRecord, Status};
use tokio::sync::mpsc;
use tracing::warn;

use crate::home::Home;
use crate::machine::Limits;
use crate::owner::{Owner, OwnerError, now};
use crate::sessions::{OpenError, Sessions};
use crate::shim::{AttachError, Held, Link, Ownership};

impl Sessions {
    /// Reads what dead agents left of every session nobody drives. Starts nothing, and leaves agents
    /// that live alone. Says what could not be read.
    pub async fn gather(&self) -> Result<Vec<(SessionId, OpenError)>, OpenError> {
        let mut failed = Vec::new();
        for record in self.journal().sessions().await? {
            if !self.has_remains(&record) {
                continue;
            }
            match self.gather_one(&record).await {
                Ok(()) | Err(OpenError::Held(Held::By { .. })) => {}
                Err(problem) => {
                    warn!(session = %record.id, error = %problem, "could not read what an agent left");
                    failed.push((record.id, problem));
                }
            }
        }
        Ok(failed)
    }

    async fn gather_one(&self, record: &SessionRecord) -> Result<(), OpenError> {
        let id = record.id;
        let live = self.home().live_directory(id);
        let ownership = Ownership::take(&live)?;
        if record.spool.run > 0
            && !matches!(Link::attach(&live, record.spool.offset).await, Err(AttachError::Nobody))
        {
            return Ok(());
        }
        // A machine without a restart left takes the death in and does nothing about it.
        let limits = Limits { restarts: 0, ..self.home().limits };
        let home = Home { limits, ..self.home().clone() };
        let (_mailbox, mail) = mpsc::channel(1);
        let arrived = Owner::arrive(id, home, self.journal().clone(), ownership, mail).await;
        arrived.map(drop).map_err(|error| match error {
            OwnerError::Journal(error) => OpenError::Journal(error),
            error => OpenError::TakeOver(Box::new(error)),
        })?;
        let now_is = self.journal().session(id).await?.map(|it| it.status);
        if now_is == Some(Status::Failed) && record.status != Status::Failed {
            // It could be resumed; it only was not, here.
            let mut batch = Batch { at: now(), ..Batch::default() };
            batch.change.status = Some(Status::Dead);
            self.journal().write(id, batch).await?;
        }
        Ok(())
    }
}
