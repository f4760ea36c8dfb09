//! Shipping: what the outbox of this worker's journal has is appended to the logs of its sessions.
//!
//! Each session with something in the outbox has a task, which has at most one append on its way. It packs
//! whatever has come together meanwhile. The agent never waits for it: what it prints is in the journal and
//! the outbox first. While the servers are away, the tasks try again until they are back. `pace` says when
//! streamed text is shipped.

mod core;
mod pace;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use journal::{Journal, SessionId};
use thiserror::Error;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tracing::{debug, warn};

pub use self::core::{ShipCore, ShipEffect, ShipInput, ShipStop};
use self::pace::ShipPace;
pub use self::pace::UNWATCHED_INTERVAL;
pub use self::table::{Confirmation, ShipTable, ShippedSession, Tenure};
use crate::bus::{Bus, BusError, LogMessage, Reconnected};
use crate::pack::{Pack, PackError, WorkerId};

/// How much of an outbox is packed at once.
const READ_BYTES: usize = 2 << 20;

/// How many sessions are shipped at the same time. Others wait.
const CONCURRENT_SESSIONS: usize = 64;

/// The pauses after a failure: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// How many stopped sessions may wait to be handled. The task of a further one waits.
const STOPPED_QUEUE: usize = 64;

/// A session that is not shipped any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoppedShipping {
    pub session: SessionId,
    pub reason: ShipStop,
}

/// Ships the outbox of one journal. Clones are the same shipper.
#[derive(Clone, Debug)]
pub struct Shipper {
    shared: Arc<SharedShipper>,
}

#[derive(Debug)]
struct SharedShipper {
    bus: Arc<dyn Bus>,
    journal: Journal,
    table: Mutex<ShipTable>,
    /// Counts the changes of `table`.
    progress: watch::Sender<u64>,
    /// Sessions whose logs must be read although nothing of them is in the outbox.
    unknown: Mutex<HashSet<SessionId>>,
    has_unknown: Notify,
    pace: ShipPace,
    stopped: mpsc::Sender<StoppedShipping>,
    permits: Semaphore,
}

/// Why an effect could not be performed.
#[derive(Debug, Error)]
enum ShipError {
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error(transparent)]
    Journal(#[from] journal::Error),
    #[error("the last message of the log cannot be read: {0}")]
    Pack(#[from] PackError),
}

impl Shipper {
    /// A shipper, and the sessions that it stops shipping. Streamed text of sessions that no client follows is
    /// shipped every `unwatched_interval`.
    pub fn new(
        bus: Arc<dyn Bus>,
        journal: Journal,
        worker: WorkerId,
        unwatched_interval: Duration,
    ) -> (Self, mpsc::Receiver<StoppedShipping>) {
        let (stopped, receiver) = mpsc::channel(STOPPED_QUEUE);
        let shared = SharedShipper {
            bus,
            journal,
            table: Mutex::new(ShipTable::new(worker)),
            progress: watch::Sender::new(0),
            unknown: Mutex::default(),
            has_unknown: Notify::new(),
            pace: ShipPace::new(unwatched_interval),
            stopped,
            permits: Semaphore::new(CONCURRENT_SESSIONS),
        };
        (Self { shared: Arc::new(shared) }, receiver)
    }

    /// Ships until it is dropped.
    pub async fn run(self) {
        let mut changes = self.shared.journal.outbox_changes();
        let mut tasks: JoinSet<SessionId> = JoinSet::new();
        let mut active = HashSet::new();
        loop {
            let mut pause = None;
            changes.borrow_and_update();
            match self.shared.journal.outbox_sessions().await {
                Ok(sessions) => {
                    let unknown = std::mem::take(&mut *self.unknown());
                    for session in sessions.into_iter().chain(unknown) {
                        if self.table().shipping(session).is_some() && active.insert(session) {
                            let this = self.clone();
                            tasks.spawn(async move {
                                this.ship(session).await;
                                session
                            });
                        }
                    }
                }
                Err(journal::Error::Closed) => return,
                Err(error) => {
                    warn!(%error, "the outbox cannot be read");
                    pause = Some(LAST_PAUSE);
                }
            }
            tokio::select! {
                filled = changes.changed() => if filled.is_err() { return },
                () = self.shared.has_unknown.notified() => {}
                Some(done) = tasks.join_next() => {
                    if let Ok(session) = done {
                        active.remove(&session);
                    }
                }
                () = async { tokio::time::sleep(pause.unwrap_or_default()).await },
                    if pause.is_some() => {}
            }
        }
    }

    /// The time in which this worker has the present copy of a session. What waits for the copy's changes names it.
    pub fn tenure(&self, session: SessionId) -> Tenure {
        self.table().tenure(session)
    }

    /// Waits until the changes of a session up to a number are stored in its log.
    pub async fn shipped(
        &self,
        session: SessionId,
        tenure: Tenure,
        number: u64,
    ) -> Result<(), ShipStop> {
        self.shared.pace.want(session, number);
        let mut progress = self.shared.progress.subscribe();
        loop {
            progress.borrow_and_update();
            match self.table().confirmation(session, tenure, number) {
                Confirmation::Stored => return Ok(()),
                Confirmation::Stopped(reason) => return Err(reason),
                Confirmation::Waiting => {}
                // After a restart nothing is known of a session whose outbox is empty.
                Confirmation::Unknown => {
                    self.unknown().insert(session);
                    self.shared.has_unknown.notify_one();
                }
            }
            // The sender is in `self`.
            let _ = progress.changed().await;
        }
    }

    /// Someone looks at a session, for so long at least: streamed text is shipped at once.
    pub fn watch(&self, session: SessionId, lifetime: Duration) {
        self.shared.pace.watch(session, lifetime);
    }

    /// Why a session is not shipped any more.
    pub fn stop_reason(&self, session: SessionId) -> Option<ShipStop> {
        self.table().stop_reason(session)
    }

    /// Confirms and ships nothing of a session any more. Must be called before its outbox is removed.
    pub fn stop(&self, session: SessionId, stop: ShipStop) {
        self.table().stop(session, stop);
        self.shared.progress.send_modify(|count| *count += 1);
    }

    /// Forgets what is known about the log of a session, which this worker has taken over.
    pub fn forget(&self, session: SessionId) {
        self.table().begin(session);
        self.shared.pace.forget(session);
        self.shared.progress.send_modify(|count| *count += 1);
    }

    /// Gives a session away whose changes are all shipped and to which nothing is written any more.
    pub async fn release(&self, session: SessionId) -> ShipStop {
        let (mut shipped, mut effect) = self.table().begin_release(session);
        let mut pause = FIRST_PAUSE;
        loop {
            if let ShipEffect::Stop(stop) = &effect {
                self.table().finish_release(session, &shipped);
                self.shared.progress.send_modify(|count| *count += 1);
                return stop.clone();
            }
            match self.perform(session, &mut shipped, &effect).await {
                Ok(Some(input)) => effect = shipped.core.on(input),
                Ok(None) => effect = shipped.core.resume(),
                Err(error) => {
                    debug!(%session, %error, "a session could not be given away; trying again");
                    if matches!(effect, ShipEffect::Append { .. }) {
                        effect = shipped.core.on(ShipInput::NotAppended);
                    }
                }
            }
            if !matches!(effect, ShipEffect::Stop(_)) {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LAST_PAUSE);
            }
        }
    }

    /// Ships one session until its outbox is empty.
    async fn ship(&self, session: SessionId) {
        let SharedShipper { pace, permits, journal, .. } = &*self.shared;
        let mut wakes = (pace.wakes(), journal.urgent_outbox_changes());
        let Ok(mut permit) = permits.acquire().await else { return };
        let Some(mut shipped) = self.table().shipping(session) else { return };
        let mut effect = shipped.core.resume();
        let mut pause = FIRST_PAUSE;
        loop {
            wakes.0.borrow_and_update();
            wakes.1.borrow_and_update();
            let reconnected = self.shared.bus.reconnected();
            match self.perform(session, &mut shipped, &effect).await {
                Ok(Some(input)) => {
                    if let ShipInput::Outbox(page) = &input
                        && let Some(due) = pace.held_until(session, page)
                    {
                        // Others may ship meanwhile. The outbox is read again, since more has come.
                        drop((input, permit));
                        tokio::select! {
                            () = tokio::time::sleep_until(due) => {}
                            _ = wakes.0.changed() => {}
                            changed = wakes.1.changed() => if changed.is_err() { return },
                        }
                        let Ok(acquired) = permits.acquire().await else { return };
                        permit = acquired;
                        continue;
                    }
                    if matches!(input, ShipInput::NotAppended) {
                        pause = pause_or(reconnected, pause).await;
                    } else if matches!(input, ShipInput::Appended(_)) {
                        pause = FIRST_PAUSE;
                        pace.appended(session);
                    }
                    effect = shipped.core.on(input);
                    if !self.table().learn(session, &shipped) {
                        return;
                    }
                    self.shared.progress.send_modify(|count| *count += 1);
                }
                Ok(None) => break,
                Err(ShipError::Journal(journal::Error::Closed)) => return,
                Err(error) => {
                    debug!(%session, %error, "a session could not be shipped; trying again");
                    pause = pause_or(reconnected, pause).await;
                    if matches!(effect, ShipEffect::Append { .. }) {
                        effect = shipped.core.on(ShipInput::NotAppended);
                    }
                }
            }
        }
        if let ShipEffect::Stop(reason) = effect {
            warn!(%session, ?reason, "a session is not shipped any more");
            // If nothing receives it, the worker is being stopped.
            let _ = self.shared.stopped.send(StoppedShipping { session, reason }).await;
        }
    }

    /// Performs an effect. Returns what the core learns from it, or nothing if the work is done.
    async fn perform(
        &self,
        session: SessionId,
        shipped: &mut ShippedSession,
        effect: &ShipEffect,
    ) -> Result<Option<ShipInput>, ShipError> {
        let SharedShipper { bus, journal, .. } = &*self.shared;
        let input = match effect {
            ShipEffect::ReadLogEnd => {
                let header = |last: LogMessage| {
                    Ok::<_, PackError>((last.position, Pack::decode(last.payload)?.header))
                };
                ShipInput::LogEnd(bus.last(session).await?.map(header).transpose()?)
            }
            ShipEffect::ReadOutbox { shipped: upto } => {
                let page = journal.read_outbox_after(session, *upto, READ_BYTES).await?;
                // If the log has more than the journal, the rows are not what was shipped under their numbers. A
                // deleted session has no number.
                let is_outdated = page.last > 0 && page.last < *upto;
                if *upto > shipped.removed && !is_outdated {
                    match journal.remove_outbox(session, *upto).await {
                        Ok(()) => shipped.removed = *upto,
                        // A full disk does not keep the rest from being shipped. If nothing else is to do, the removal
                        // is tried again after a pause.
                        Err(journal::Error::Full) if !page.rows.is_empty() => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                ShipInput::Outbox(page)
            }
            ShipEffect::Append { expected, pack } => {
                if let Some((name, content)) = &pack.object {
                    bus.put_object(name, content.clone()).await?;
                }
                match bus.append(session, *expected, pack.payload.clone()).await {
                    Ok(position) => ShipInput::Appended(position),
                    Err(BusError::Conflict | BusError::Unsure(_)) => ShipInput::NotAppended,
                    Err(error) => return Err(error.into()),
                }
            }
            ShipEffect::PutSnapshot => {
                warn!(%session, "changes are missing in the outbox; sending the whole session");
                journal.put_snapshot(session).await?;
                ShipInput::Outbox(journal.read_outbox(session, READ_BYTES).await?)
            }
            ShipEffect::Idle | ShipEffect::Stop(_) => return Ok(None),
        };
        Ok(Some(input))
    }

    fn table(&self) -> MutexGuard<'_, ShipTable> {
        self.shared.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        self.shared.unknown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for a while, or until there is a connection again. Returns the next pause.
async fn pause_or(reconnected: Reconnected, pause: Duration) -> Duration {
    tokio::select! {
        () = tokio::time::sleep(pause) => (pause * 2).min(LAST_PAUSE),
        () = reconnected => FIRST_PAUSE,
    }
}
