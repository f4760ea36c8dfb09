//! Opening one session, in a task of its own.
//!
//! The task first becomes the session's owner, then takes the session over. It goes on when no client
//! waits for it: a shim that is stopped is asked again until it answers.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use journal::SessionId;
use rustix::process::{Pid, test_kill_process};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::{error, warn};

use super::{OpenError, SessionSlot, Sessions, with_causes};
use crate::owner::{Owner, OwnerError};
use crate::session::Session;
use crate::shim::{self, AttachError, Ownership, OwnershipError};

/// How many commands may wait for an owner. When the channel is full, the sender waits.
const COMMAND_QUEUE: usize = 64;

/// How long to wait for another process that drives the session: a Towpath that is being restarted
/// takes a moment to go away.
const OTHER_OWNER_TIMEOUT: Duration = Duration::from_secs(3);

/// How long to wait for an owner that is surely going away: its process has exited, or it is an
/// earlier owner in this process. On a loaded machine the kernel takes a while to close its files.
const LAST_OWNER_TIMEOUT: Duration = Duration::from_secs(10);

const OWNERSHIP_RETRY: Duration = Duration::from_millis(20);

/// How long a shim may take until it counts as silent.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(3);

/// The time between two attempts to reach a silent shim.
const SILENCE_RETRY: Duration = Duration::from_secs(1);

/// A session that is being opened.
#[derive(Debug)]
pub(super) struct Opening {
    stage: watch::Receiver<OpeningStage>,
    task: AbortHandle,
}

/// How far an opening is.
#[derive(Clone, Debug)]
enum OpeningStage {
    /// The session is being locked.
    Locking,
    /// The session is being read, and its shim is asked.
    TakingOver,
    /// The shim runs and does not answer.
    Silent,
    Opened(Session),
    Failed(OpenError),
}

/// Waits for an [`Opening`].
pub(super) struct OpeningWaiter {
    stage: watch::Receiver<OpeningStage>,
}

impl Opening {
    pub(super) fn start(sessions: &Sessions, id: SessionId) -> Self {
        let (sender, stage) = watch::channel(OpeningStage::Locking);
        let task = tokio::spawn(run(sessions.clone(), id, sender)).abort_handle();
        Self { stage, task }
    }

    pub(super) fn waiter(&self) -> OpeningWaiter {
        OpeningWaiter { stage: self.stage.clone() }
    }

    pub(super) fn is_silent(&self) -> bool {
        matches!(*self.stage.borrow(), OpeningStage::Silent)
    }

    /// Whether its task has ended without a result, because it panicked.
    pub(super) fn is_over(&self) -> bool {
        self.stage.has_changed().is_err()
    }

    /// Ends the opening, and waits until the session is no longer locked.
    pub(super) async fn cancel(self) {
        let Self { mut stage, task } = self;
        task.abort();
        while stage.changed().await.is_ok() {}
    }
}

impl OpeningWaiter {
    /// Waits until the session is open, cannot be opened, or does not answer.
    pub(super) async fn wait(mut self) -> Result<Session, OpenError> {
        loop {
            match &*self.stage.borrow_and_update() {
                OpeningStage::Locking | OpeningStage::TakingOver => {}
                OpeningStage::Silent => return Err(OpenError::NotResponding),
                OpeningStage::Opened(session) => return Ok(session.clone()),
                OpeningStage::Failed(error) => return Err(error.clone()),
            }
            if self.stage.changed().await.is_err() {
                // It is not opened again here: this process may be about to release all sessions.
                let text = "the session was released or deleted while it was opened";
                return Err(OpenError::Takeover(Arc::new(io::Error::other(text))));
            }
        }
    }
}

/// Opens the session and drives it until its owner ends. The sender is dropped last, so that a
/// cancelled opening holds no lock any more when it is seen to be over.
async fn run(sessions: Sessions, id: SessionId, stage: watch::Sender<OpeningStage>) {
    let opened = {
        let opening = sessions.open_slot(id, &stage);
        tokio::pin!(opening);
        loop {
            tokio::select! {
                opened = &mut opening => break opened,
                () = tokio::time::sleep(SILENCE_TIMEOUT) => {
                    let waits = matches!(*stage.borrow(), OpeningStage::TakingOver);
                    if waits && sessions.is_shim_running(id).await {
                        warn!(session = %id, "the shim does not answer; trying again until it does");
                        stage.send_replace(OpeningStage::Silent);
                        sessions.change_problems();
                    }
                }
            }
        }
    };
    let (session, owner) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            sessions.fail(id, &error);
            stage.send_replace(OpeningStage::Failed(error));
            return;
        }
    };
    sessions.slots().insert(id, SessionSlot::Driven(session.clone()));
    sessions.change_problems();
    stage.send_replace(OpeningStage::Opened(session));
    // From here on the session is released through its handle, and not by cancelling this task.
    tokio::spawn(drive(sessions, id, owner));
}

/// Drives a session until its owner ends.
async fn drive(sessions: Sessions, id: SessionId, owner: Owner) {
    let ended = tokio::spawn(owner.run()).await;
    sessions.remove_closed(id);
    match ended {
        Ok(Ok(None)) => {}
        Ok(Ok(Some(notice))) => notice.send(),
        Ok(Err(problem)) => {
            error!(session = %id, error = %with_causes(&problem), "a session failed");
        }
        Err(panic) => error!(session = %id, %panic, "a session's owner panicked"),
    }
}

impl Sessions {
    /// Takes a session over, however long its shim takes to answer.
    async fn open_slot(
        &self,
        id: SessionId,
        stage: &watch::Sender<OpeningStage>,
    ) -> Result<(Session, Owner), OpenError> {
        let record = self.journal().session(id).await?;
        if let Some(reason) = record.and_then(|record| record.damage) {
            return Err(OpenError::Damaged { id, reason });
        }
        loop {
            let ownership = self.acquire(id).await?;
            stage.send_if_modified(|stage| {
                let first = matches!(stage, OpeningStage::Locking);
                if first {
                    *stage = OpeningStage::TakingOver;
                }
                first
            });
            let (commands, receiver) = mpsc::channel(COMMAND_QUEUE);
            let (config, journal) = (self.config().clone(), self.journal().clone());
            match Owner::take_over(id, config, journal.clone(), ownership, receiver).await {
                Ok(owner) => return Ok((Session { id, journal, commands }, owner)),
                Err(OwnerError::Shim(AttachError::Io(error))) if is_silence(&error) => {
                    stage.send_replace(OpeningStage::Silent);
                    self.change_problems();
                    tokio::time::sleep(SILENCE_RETRY).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for the right to drive a session.
    pub(super) async fn acquire(&self, id: SessionId) -> Result<Ownership, OpenError> {
        let live = self.config().live_directory(id);
        let start = Instant::now();
        loop {
            if self.journal().session(id).await?.is_none() {
                return Err(OpenError::NoSuchSession(id));
            }
            match take_ownership(&live).await {
                Ok(ownership) => {
                    // It may have been deleted while another process had it.
                    if self.journal().session(id).await?.is_none() {
                        let _ = tokio::fs::remove_dir_all(&live).await;
                        return Err(OpenError::NoSuchSession(id));
                    }
                    return Ok(ownership);
                }
                Err(OwnershipError::Owned { pid }) if start.elapsed() < owner_timeout(pid) => {}
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(OWNERSHIP_RETRY).await;
        }
    }

    /// Records why a session could not be opened.
    fn fail(&self, id: SessionId, error: &OpenError) {
        let mut slots = self.slots();
        match error {
            // These are no faults of the session.
            OpenError::NoSuchSession(_) | OpenError::Owned(OwnershipError::Owned { .. }) => {
                slots.remove(&id);
            }
            error => {
                let reason = with_causes(error);
                warn!(session = %id, error = %reason, "could not open a session");
                slots.insert(id, SessionSlot::Failed(reason));
            }
        }
        drop(slots);
        self.change_problems();
    }

    /// Whether the session's shim runs. A disk that does not answer counts as a shim that does not.
    async fn is_shim_running(&self, id: SessionId) -> bool {
        let live = self.config().live_directory(id);
        let check = tokio::task::spawn_blocking(move || shim::is_running(&live));
        match tokio::time::timeout(SILENCE_RETRY, check).await {
            Ok(running) => running.unwrap_or(false),
            Err(_) => true,
        }
    }
}

/// Takes the lock in a thread of its own: a disk that hangs must not hold up other sessions.
async fn take_ownership(live: &Path) -> Result<Ownership, OwnershipError> {
    let live = live.to_owned();
    let taken = tokio::task::spawn_blocking(move || Ownership::take(&live)).await;
    taken.unwrap_or_else(|error| Err(io::Error::other(error).into()))
}

/// How long to wait for the process that drives a session.
fn owner_timeout(pid: Option<i32>) -> Duration {
    let ours = i32::try_from(std::process::id()).ok();
    let runs = |pid| Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok());
    if pid == ours || pid.is_none_or(|pid| !runs(pid)) {
        LAST_OWNER_TIMEOUT
    } else {
        OTHER_OWNER_TIMEOUT
    }
}

/// Whether a shim that runs did not answer: it took too long, or nothing more fits into the queue
/// of its socket.
fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}
