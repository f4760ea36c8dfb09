//! Opening one session, in a task of its own.
//!
//! The task first becomes the session's owner, then takes the session over. It goes on when no client
//! waits for it: a shim that is stopped is asked again until it answers.

use std::io;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use journal::SessionId;
use rustix::process::{Pid, test_kill_process};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::{error, warn};

use super::{OpenError, SessionSlot, Sessions, with_causes};
use crate::host::{HostError, HostLauncher};
use crate::owner::{Owner, OwnerEnd, OwnerError, ShimQuestion};
use crate::remote::{RemoteConnection, RemoteEnd, RemoteOwner};
use crate::session::{LeaveOutcome, Session};
use crate::shim::{self, AttachError, Ownership, OwnershipError};

/// How many commands may wait for an owner. When the channel is full, the sender waits.
const COMMAND_QUEUE: usize = 64;

/// How long to wait for another process that drives the session: a Towpath that is being restarted
/// takes a moment to go away.
const OTHER_OWNER_TIMEOUT: Duration = Duration::from_secs(3);

/// How long to wait for an owner that is surely going away: its process has exited, or it is an
/// earlier owner in this process. On a loaded machine the kernel takes a while to close its files.
const LAST_OWNER_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the session host is asked to open a session that is free again right after.
const MAX_HOSTINGS: u32 = 3;

const OWNERSHIP_RETRY: Duration = Duration::from_millis(20);

/// How long a shim may take to answer until it counts as silent. One that says that it still has its
/// last owner has answered.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long taking over a session may take until its shim counts as silent, whatever takes the time: a
/// last owner that does not go away, or a disk.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(12);

/// The time between two looks at a session that is being taken over.
const SILENCE_CHECK: Duration = Duration::from_millis(500);

/// The time between two attempts to reach a silent shim.
const SILENCE_RETRY: Duration = Duration::from_secs(1);

/// A session that is being opened.
#[derive(Debug)]
pub(crate) struct Opening {
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

/// What carries out the commands of a session that is open.
enum Driver {
    Owner(Box<Owner>),
    Remote(Box<RemoteOwner>, RemoteConnection),
}

/// How this process may reach a session.
enum Access {
    Owned(Ownership),
    /// Another process drives it.
    Remote(RemoteConnection),
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

    /// Whether its task has ended without a result, because it was cancelled.
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
        let question = ShimQuestion::default();
        let opening = AssertUnwindSafe(sessions.open_slot(id, &stage, &question)).catch_unwind();
        tokio::pin!(opening);
        let mut waiting = Duration::ZERO;
        loop {
            tokio::select! {
                opened = &mut opening => break opened.unwrap_or_else(|_| Err(panicked())),
                () = tokio::time::sleep(SILENCE_CHECK) => {
                    if !matches!(*stage.borrow(), OpeningStage::TakingOver) {
                        continue;
                    }
                    waiting += SILENCE_CHECK;
                    if question.unanswered() >= SILENCE_TIMEOUT
                        || waiting >= TAKEOVER_TIMEOUT && sessions.is_shim_running(id).await
                    {
                        warn!(session = %id, "the shim does not answer; trying again until it does");
                        stage.send_replace(OpeningStage::Silent);
                        sessions.change_problems();
                    }
                }
            }
        }
    };
    let (session, driver) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            sessions.fail(id, &error);
            stage.send_replace(OpeningStage::Failed(error));
            return;
        }
    };
    let slot = match &driver {
        Driver::Owner(_) => SessionSlot::Driven(session.clone()),
        Driver::Remote(..) => SessionSlot::Remote(session.clone()),
    };
    sessions.slots().insert(id, slot);
    sessions.change_problems();
    stage.send_replace(OpeningStage::Opened(session.clone()));
    // From here on the session is released through its handle, and not by cancelling this task.
    tokio::spawn(async move {
        let task = {
            let sessions = sessions.clone();
            tokio::spawn(async move {
                match driver {
                    Driver::Owner(owner) => drive(sessions, session, *owner).await,
                    Driver::Remote(remote, connection) => {
                        Box::pin(relay(sessions, session, *remote, connection)).await;
                    }
                }
            })
        };
        if task.await.is_err_and(|error| error.is_panic()) {
            sessions.fail_closed(id, &panicked());
        }
    });
}

/// Passes commands on to the process that drives a session. Drives it if that process goes away and
/// no other takes its place.
async fn relay(
    sessions: Sessions,
    session: Session,
    remote: RemoteOwner,
    connection: RemoteConnection,
) {
    let id = session.id();
    let (ownership, commands, unanswered) = match remote.run(connection).await {
        RemoteEnd::Released(done) => {
            sessions.remove_closed(id);
            if let Some(done) = done {
                let _ = done.send(LeaveOutcome::Stored);
            }
            return;
        }
        RemoteEnd::Inherited { ownership, commands, unanswered } => {
            (ownership, commands, unanswered)
        }
    };
    let (config, journal) = (sessions.config().clone(), sessions.journal().clone());
    let question = ShimQuestion::default();
    match Owner::take_over(id, config, journal, ownership, commands, question).await {
        Ok(mut owner) => {
            owner.repeat(unanswered);
            let session = Session { silence: owner.silence(), ..session };
            sessions.slots().insert(id, SessionSlot::Driven(session.clone()));
            drive(sessions, session, owner).await;
        }
        Err(error) => sessions.fail(id, &error.into()),
    }
}

/// Drives a session until its owner ends.
async fn drive(sessions: Sessions, session: Session, mut owner: Owner) {
    let id = session.id();
    let mut silence = owner.silence();
    owner.listen(sessions.clone(), session);
    let mut running = tokio::spawn(owner.run());
    let ended = loop {
        tokio::select! {
            ended = &mut running => break ended,
            Ok(()) = silence.changed() => sessions.change_problems(),
        }
    };
    match ended {
        Ok(Ok(OwnerEnd { notice, delete })) => {
            sessions.remove_closed(id);
            sessions.change_problems();
            if delete && let Err(error) = sessions.delete(id).await {
                warn!(session = %id, %error, "could not delete a session that has ended");
            }
            if let Some(notice) = notice {
                notice.send();
            }
        }
        Ok(Err(problem)) => sessions.fail_closed(id, &problem.into()),
        Err(panic) => {
            error!(session = %id, %panic, "a session's owner panicked");
            sessions.fail_closed(id, &panicked());
        }
    }
}

/// The error of a session whose task panicked. The panic itself was logged where it happened.
fn panicked() -> OpenError {
    let text = "an internal error in Towpath; its log says more";
    OpenError::Takeover(Arc::new(io::Error::other(text)))
}

impl Sessions {
    /// Takes a session over, however long its shim takes to answer.
    async fn open_slot(
        &self,
        id: SessionId,
        stage: &watch::Sender<OpeningStage>,
        question: &ShimQuestion,
    ) -> Result<(Session, Driver), OpenError> {
        let record = self.journal().session(id).await?;
        #[cfg(test)]
        super::test_setup::panic_if_asked(id);
        if let Some(reason) = record.and_then(|record| record.damage) {
            return Err(OpenError::Damaged { id, reason });
        }
        loop {
            let (commands, receiver) = mpsc::channel(COMMAND_QUEUE);
            let (config, journal) = (self.config().clone(), self.journal().clone());
            let ownership = match self.acquire_or_connect(id).await? {
                Access::Owned(ownership) => ownership,
                Access::Remote(connection) => {
                    let host = self.shared.host.clone();
                    let remote = RemoteOwner::new(id, journal.clone(), &config, host, receiver);
                    let driver = Driver::Remote(Box::new(remote), connection);
                    // The process that drives it knows whether its shim answers.
                    let (_, silence) = watch::channel(false);
                    return Ok((Session { id, journal, commands, silence }, driver));
                }
            };
            stage.send_if_modified(|stage| {
                let first = matches!(stage, OpeningStage::Locking);
                if first {
                    *stage = OpeningStage::TakingOver;
                }
                first
            });
            let question = question.clone();
            match Owner::take_over(id, config, journal.clone(), ownership, receiver, question).await
            {
                Ok(owner) => {
                    let session = Session { id, journal, commands, silence: owner.silence() };
                    return Ok((session, Driver::Owner(Box::new(owner))));
                }
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
        match self.wait_for_access(id, None).await? {
            Access::Owned(ownership) => Ok(ownership),
            Access::Remote(_) => Err(OwnershipError::Owned { pid: None }.into()),
        }
    }

    /// Waits for the right to drive a session, or for a connection to the process that has it.
    async fn acquire_or_connect(&self, id: SessionId) -> Result<Access, OpenError> {
        self.wait_for_access(id, Some(&self.config().runtime)).await
    }

    /// Waits for the right to drive a session. With `runtime`, a connection to the process that has
    /// it will do.
    async fn wait_for_access(
        &self,
        id: SessionId,
        runtime: Option<&Path>,
    ) -> Result<Access, OpenError> {
        let live = self.config().live_directory(id);
        // A session that is about to be deleted needs no host.
        let mut host = self.shared.host.as_ref().filter(|_| runtime.is_some());
        let mut hosted = 0;
        let mut start = Instant::now();
        loop {
            if self.journal().session(id).await?.is_none() {
                return Err(OpenError::NoSuchSession(id));
            }
            match take_ownership(&live).await {
                Ok(ownership) if host.is_some() => {
                    drop(ownership);
                    hosted += 1;
                    if hosted > MAX_HOSTINGS || !open_in_host(host, id).await? {
                        host = None;
                    }
                    start = Instant::now();
                }
                Ok(ownership) => {
                    // It may have been deleted while another process had it.
                    if self.journal().session(id).await?.is_none() {
                        let _ = tokio::fs::remove_dir_all(&live).await;
                        return Err(OpenError::NoSuchSession(id));
                    }
                    return Ok(Access::Owned(ownership));
                }
                Err(OwnershipError::Owned { pid }) => {
                    if let Some(runtime) = runtime {
                        match RemoteConnection::open(&live, runtime).await {
                            Ok(connection) => return Ok(Access::Remote(connection)),
                            // It may be a background host, which makes way for this version.
                            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                                hosted += 1;
                                if hosted <= MAX_HOSTINGS && open_in_host(host, id).await? {
                                    start = Instant::now();
                                }
                            }
                            Err(_) => {}
                        }
                    }
                    if start.elapsed() >= owner_timeout(pid) {
                        return Err(OwnershipError::Owned { pid }.into());
                    }
                }
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

    /// Records why a session that was open can no longer be used, unless it was released or opened
    /// again in the meantime. The next `open` tries again.
    fn fail_closed(&self, id: SessionId, error: &OpenError) {
        let mut slots = self.slots();
        if let Some(SessionSlot::Driven(session) | SessionSlot::Remote(session)) = slots.get(&id)
            && session.commands.is_closed()
        {
            let reason = with_causes(error);
            error!(session = %id, error = %reason, "a session failed");
            if let OpenError::Journal(journal::Error::NoSuchSession(_)) = error {
                // Another process has deleted it.
                slots.remove(&id);
            } else {
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

/// Has the session host open a session. Returns whether it did; otherwise this process has to.
async fn open_in_host(host: Option<&HostLauncher>, id: SessionId) -> Result<bool, OpenError> {
    let Some(host) = host else { return Ok(false) };
    match host.open(id).await {
        Ok(()) => Ok(true),
        Err(HostError::NoSuchSession(_)) => Err(OpenError::NoSuchSession(id)),
        Err(HostError::NotResponding) => Err(OpenError::NotResponding),
        Err(error) => {
            let error = with_causes(&error);
            warn!(session = %id, %error, "no session host drives a session; this process does");
            Ok(false)
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
