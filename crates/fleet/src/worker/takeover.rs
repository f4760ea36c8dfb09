//! Taking sessions over, giving them away, and what is left when another worker was faster.
//!
//! ```text
//!  TakeOver ─► ask the owner to release ─► replay the log ─► claim ─► restore files ─► open the session
//!                 (skipped if it is away)        ▲            │ lost
//!                                                └────────────┘
//! ```
//!
//! Opening ends the open turn, voids open requests and marks prompts that the agent had been given as
//! indeterminate, as after the death of an agent. A take-over that was cut off is finished at the next start.

use std::time::Duration;

use bytes::Bytes;
use journal::{Batch, JournalChange, NewEntry, Origin, SessionId, SessionRecord, StateChange};
use serde::{Deserialize, Serialize};
use session::{CommandOutput, SessionOptions};
use tracing::{info, warn};
use wire::note::{Actor, HoldReason, Note, QueuePolicy};

use super::saving::SavedTurn;
use super::{FOLLOWER, SharedWorker, WorkerError};
use crate::bus::{BusError, LogMessage, LogPosition};
use crate::claim::{Claim, ClaimOutcome, LocalCopy, LocalCopyState};
use crate::files;
use crate::mirror::{Mirror, MirrorError};
use crate::pack::{Pack, PackHeader, PackKind, WorkerId};
use crate::question::{WorkerAnswer, WorkerFailure, WorkerQuestion, decode_answer};
use crate::ship::ShipStop;

/// How long the owner may take to give a session away. One that takes longer counts as away: what it appends
/// later is refused.
pub(super) const RELEASE_TIMEOUT: Duration = Duration::from_secs(40);

/// How long a turn may take to obey an interrupt before its agent is killed.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a log that goes on is replayed and claimed again.
const CLAIMS: u32 = 50;

/// The pause after an append that did not surely succeed.
const CLAIM_PAUSE: Duration = Duration::from_millis(100);

/// The time between two looks at a turn that is being interrupted.
const INTERRUPT_POLL: Duration = Duration::from_millis(20);

/// The keys of sessions that are being taken over, before their ids.
const TAKING: &str = "taking/";

/// What a worker says that has put a hold on the queue while it gave the session away.
const HELD: &str = "held";

/// A take-over that has begun.
#[derive(Debug, Serialize, Deserialize)]
struct PendingTakeover {
    from: String,
    released: bool,
    /// Whether the queue goes on by itself.
    resumes_queue: bool,
    /// The epoch that is claimed. Earlier versions did not store it.
    #[serde(default)]
    epoch: Option<u64>,
}

impl SharedWorker {
    /// Takes a session over: from any worker, or only if `from` still owns it.
    pub(super) async fn take_over(
        &self,
        session: SessionId,
        from: Option<&WorkerId>,
    ) -> WorkerAnswer {
        let lock = self.session_lock(session);
        let _lock = lock.lock().await;
        let (_, header) = self.log_end(session).await?.ok_or(no_session(session))?;
        if header.worker.data == self.id.data
            && header.kind != PackKind::Released
            && self.copy_state(session).await.map_err(|it| failed(&it))?.0
                == LocalCopyState::Present
            && !matches!(self.shipper.stop_reason(session), Some(ShipStop::Outdated { .. }))
        {
            let tenure = self.shipper.tenure(session);
            return self.shipped(session, tenure, CommandOutput::None).await;
        }
        if from.is_some_and(|from| *from != header.worker) {
            return Err(WorkerFailure::NotOwner { owner: header.worker.name });
        }
        let mut pending = PendingTakeover {
            from: header.worker.name.clone(),
            released: header.kind == PackKind::Released,
            resumes_queue: false,
            epoch: Some(header.epoch + 1),
        };
        // A machine that has the name of this one is gone: this one has its lease.
        if !pending.released && header.worker.name != self.id.name {
            match self.ask_to_release(&header.worker.name, session).await? {
                Some(held) => (pending.released, pending.resumes_queue) = (true, held),
                None => {
                    info!(%session, owner = header.worker.name, "the owner of a session is away");
                }
            }
        }
        // An earlier copy of it may have something that was never shipped.
        let given_up = self.give_up_copy(session, &header.worker, header.epoch).await;
        given_up.map_err(|error| failed(&error))?;
        self.take(session, &header, &pending).await?;
        let tenure = self.shipper.tenure(session);
        self.shipped(session, tenure, CommandOutput::None).await
    }

    /// Replaces a copy that lacks changes which this worker has shipped: the session is taken over from this worker
    /// itself. `end` is the last message of the log.
    pub(super) async fn replace_copy(
        &self,
        session: SessionId,
        end: &PackHeader,
    ) -> Result<(), WorkerError> {
        let pending = PendingTakeover {
            from: self.id.name.clone(),
            released: end.kind == PackKind::Released,
            resumes_queue: false,
            epoch: Some(end.epoch + 1),
        };
        self.give_up_copy(session, &end.worker, end.epoch).await?;
        match self.take(session, end, &pending).await {
            Ok(()) | Err(WorkerFailure::NotOwner { .. }) => Ok(()),
            Err(failure) => Err(WorkerError::Outdated { session, failure }),
        }
    }

    /// Replays the log, claims the session and goes on with it. There is no copy of it any more.
    async fn take(
        &self,
        session: SessionId,
        end: &PackHeader,
        pending: &PendingTakeover,
    ) -> Result<(), WorkerFailure> {
        self.mark_pending(session, Some(pending)).await?;
        match self.replay_and_claim(session, end).await {
            Ok(epoch) => self.finish_takeover(session, pending, epoch).await,
            Err(failure) => {
                let _ = self.forget_copy(session, Vec::new()).await;
                self.mark_pending(session, None).await?;
                Err(failure)
            }
        }
    }

    /// Asks the owner to give a session away. Returns whether its queue waits for that reason; none if the
    /// owner does not answer.
    async fn ask_to_release(
        &self,
        owner: &str,
        session: SessionId,
    ) -> Result<Option<bool>, WorkerFailure> {
        let question = WorkerQuestion::Release { session }.encode();
        match self.bus.ask(owner, question, RELEASE_TIMEOUT).await {
            Ok(answer) => match decode_answer(&answer) {
                Ok(CommandOutput::Payload(said)) => Ok(Some(said.as_deref() == Some(HELD))),
                Ok(_) => Ok(Some(false)),
                // It has learned only now that it does not own the session any more.
                Err(WorkerFailure::NotOwner { .. } | WorkerFailure::NoSuchSession(_)) => Ok(None),
                Err(failure) => Err(failure),
            },
            Err(BusError::NoListener | BusError::Unavailable(_)) => Ok(None),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Replays the log into the journal and claims the session, until that succeeds or another worker is
    /// faster. `seen` is the last message of the owner from whom it is taken. Returns the epoch that begins.
    async fn replay_and_claim(
        &self,
        session: SessionId,
        seen: &PackHeader,
    ) -> Result<u64, WorkerFailure> {
        let journal = self.sessions.journal().clone();
        let mirror = Mirror::open(std::sync::Arc::clone(&self.bus), journal).await;
        let mirror = mirror.map_err(|error| failed(&error))?;
        mirror.restart(session).await.map_err(|error| failed(&error))?;
        for _ in 0..CLAIMS {
            match mirror.catch_up(session).await {
                Ok(()) => {}
                Err(MirrorError::Bus(error)) => {
                    info!(%session, %error, "the log of a session cannot be read yet");
                    tokio::time::sleep(CLAIM_PAUSE).await;
                    continue;
                }
                Err(error) => return Err(failed(&error)),
            }
            let cursor = mirror.cursor(session).unwrap_or_default();
            if self.sessions.journal().session(session).await.is_ok_and(|it| it.is_none()) {
                return Err(no_session(session));
            }
            if cursor.epoch() > seen.epoch {
                let owner = cursor.owner().map(|(worker, _)| worker.name.clone());
                return Err(WorkerFailure::NotOwner { owner: owner.unwrap_or_default() });
            }
            let claim = Claim::new(&cursor, self.id.clone());
            match self.claim(session, &claim).await {
                ClaimOutcome::Won => return Ok(claim.pack.header.epoch),
                ClaimOutcome::Lost => {}
                ClaimOutcome::Missing => tokio::time::sleep(CLAIM_PAUSE).await,
            }
        }
        Err(WorkerFailure::Failed(
            "the session goes on elsewhere, so it could not be taken over; try again".to_owned(),
        ))
    }

    async fn claim(&self, session: SessionId, claim: &Claim) -> ClaimOutcome {
        let payload = claim.pack.payload.clone();
        if self.bus.append(session, claim.expected, payload).await.is_ok() {
            return ClaimOutcome::Won;
        }
        // It may have been stored nevertheless: only the log knows.
        match self.log_end(session).await {
            Ok(end) => claim.outcome(end.as_ref()),
            Err(_) => ClaimOutcome::Missing,
        }
    }

    /// Goes on with a session that this worker has claimed.
    async fn finish_takeover(
        &self,
        session: SessionId,
        pending: &PendingTakeover,
        epoch: u64,
    ) -> Result<(), WorkerFailure> {
        self.shipper.forget(session);
        let record = self.sessions.journal().session(session).await.map_err(|it| failed(&it))?;
        let record = record.ok_or(no_session(session))?;
        let mut notes = vec![Note::TakenOver {
            from: pending.from.clone(),
            to: self.id.name.clone(),
            released: pending.released,
        }];
        let mut batch = Batch { at: now(), ..Batch::default() };
        if let Some(session_files) = &self.config.files {
            let (saved, problems) = files::load(&*self.bus, session, record.turn_ended).await;
            notes.extend(problems.into_iter().map(|text| Note::Problem { text }));
            let restored = session_files.restore(record.clone(), saved).await;
            notes.extend(restored.problems.into_iter().map(|text| Note::Problem { text }));
            if restored.directory != record.directory {
                batch.change.directory = Some(restored.directory);
            }
        }
        batch.entries = notes.iter().map(entry).collect();
        self.sessions.journal().write(session, batch).await.map_err(|it| failed(&it))?;
        // They are what was restored just now.
        self.mark_saved(session, SavedTurn::new(record.turn_ended)).await;
        let done = vec![
            Self::owned_since(session, Some(epoch)),
            StateChange { key: format!("{TAKING}{session}"), value: None },
        ];
        let written = self.sessions.journal().write_state(FOLLOWER, done).await;
        written.map_err(|error| failed(&error))?;
        let opened = self.sessions.open(session).await?;
        if pending.resumes_queue && is_interrupted(&record) {
            opened.resume_queue(actor(&self.id.name)).await?;
        }
        info!(%session, from = pending.from, "a session was taken over");
        Ok(())
    }

    /// Finishes the take-overs that an earlier process had begun.
    pub(super) async fn finish_takeovers(&self) -> Result<(), WorkerError> {
        for (key, value) in self.sessions.journal().read_state(FOLLOWER).await? {
            let id = key.strip_prefix(TAKING).and_then(|id| id.parse::<SessionId>().ok());
            let Some(session) = id else { continue };
            let pending = serde_json::from_slice::<PendingTakeover>(&value);
            let end = self.log_end(session).await;
            let end = end.map_err(|it| BusError::Unavailable(it.to_string()))?;
            let end = end.map(|(_, header)| header);
            let last = self.sessions.journal().change_number(session).await?;
            let epoch = pending.as_ref().ok().and_then(|it| it.epoch);
            let state =
                LocalCopyState::of_pending(LocalCopy { last, epoch }, &self.id, end.as_ref());
            match (state, pending, end) {
                (LocalCopyState::Present, Ok(pending), Some(end)) => {
                    let finished = self.finish_takeover(session, &pending, end.epoch).await;
                    if let Err(failure) = finished {
                        warn!(%session, %failure, "a take-over could not be finished");
                    }
                }
                (LocalCopyState::Outdated, _, Some(end)) => {
                    self.replace_copy(session, &end).await?;
                }
                _ => self.forget_copy(session, vec![StateChange { key, value: None }]).await?,
            }
        }
        Ok(())
    }

    /// Gives a session away: a running turn is interrupted, and its queue waits for the next owner.
    pub(super) async fn release(&self, session: SessionId) -> WorkerAnswer {
        if matches!(self.shipper.stop_reason(session), Some(ShipStop::Outdated { .. })) {
            // The servers have more of it than this worker.
            return Err(no_session(session));
        }
        self.require_owner(session)?;
        let lock = self.session_lock(session);
        let _lock = lock.lock().await;
        self.releasing().insert(session);
        let released = self.release_locked(session).await;
        self.releasing().remove(&session);
        released
    }

    async fn release_locked(&self, session: SessionId) -> WorkerAnswer {
        let journal = self.sessions.journal();
        let tenure = self.shipper.tenure(session);
        let record = journal.session(session).await.map_err(|it| failed(&it))?;
        let record = record.ok_or(no_session(session))?;
        let was_held = is_held(&record);
        if record.turn > record.turn_ended {
            let driven = self.sessions.open(session).await?;
            let interrupt = driven.interrupt(QueuePolicy::Hold, actor(&self.id.name));
            let _ = tokio::time::timeout(INTERRUPT_TIMEOUT, interrupt).await;
            let ended = async {
                while let Ok(Some(record)) = journal.session(session).await
                    && record.turn > record.turn_ended
                {
                    tokio::time::sleep(INTERRUPT_POLL).await;
                }
            };
            let _ = tokio::time::timeout(INTERRUPT_TIMEOUT, ended).await;
        }
        self.sessions.abandon(session).await?;
        self.save_before_release(session).await;
        let record = journal.session(session).await.map_err(|it| failed(&it))?;
        let held = !was_held && record.as_ref().is_some_and(is_interrupted);
        self.shipped(session, tenure, CommandOutput::None).await?;
        match self.shipper.release(session).await {
            ShipStop::Released => {}
            stop => {
                // The worker that asked did not wait any longer.
                if let ShipStop::Fenced { by, epoch } = &stop {
                    let given_up = self.give_up_copy(session, by, *epoch).await;
                    given_up.map_err(|error| failed(&error))?;
                }
                return Err(super::stopped(&stop));
            }
        }
        // Everything is shipped, so nothing is lost with the copy.
        self.forget_copy(session, Vec::new()).await.map_err(|error| failed(&error))?;
        Ok(CommandOutput::Payload(held.then(|| HELD.to_owned())))
    }

    /// Ends the agent of a session that is not this worker's any more. What was not shipped is kept as a
    /// tail, and then the copy is removed. `by` and `epoch` are those of the last message of the log.
    pub(super) async fn give_up_copy(
        &self,
        session: SessionId,
        by: &WorkerId,
        epoch: u64,
    ) -> Result<(), WorkerError> {
        // Before the outbox is removed: what waits for it would take it for shipped.
        self.shipper.stop(session, ShipStop::Fenced { by: by.clone(), epoch });
        let journal = self.sessions.journal();
        if journal.session(session).await?.is_none() {
            return Ok(self.forget_copy(session, Vec::new()).await?);
        }
        match self.sessions.abandon(session).await {
            Ok(()) | Err(session::OpenError::NoSuchSession(_)) => {}
            Err(error) => warn!(%session, %error, "could not stop the agent"),
        }
        let tail = self.keep_tail(session, epoch).await?;
        let state =
            tail.map(|(key, tail)| StateChange { key, value: serde_json::to_vec(&tail).ok() });
        Ok(self.forget_copy(session, state.into_iter().collect()).await?)
    }

    /// Removes the copy of a session that another worker owns.
    async fn forget_copy(
        &self,
        session: SessionId,
        mut state: Vec<StateChange>,
    ) -> Result<(), journal::Error> {
        self.release_project(session).await;
        state.extend([self.forget_saved(session), Self::owned_since(session, None)]);
        self.sessions.journal().discard_replayed(session, FOLLOWER, state).await?;
        self.sessions.remove_live_directory(session).await;
        self.tails_changed.notify_one();
        Ok(())
    }

    async fn mark_pending(
        &self,
        session: SessionId,
        pending: Option<&PendingTakeover>,
    ) -> Result<(), WorkerFailure> {
        let value = pending.and_then(|it| serde_json::to_vec(it).ok());
        let change = StateChange { key: format!("{TAKING}{session}"), value };
        let written = self.sessions.journal().write_state(FOLLOWER, vec![change]).await;
        written.map(drop).map_err(|error| failed(&error))
    }

    /// The last message of a log.
    pub(super) async fn log_end(
        &self,
        session: SessionId,
    ) -> Result<Option<(LogPosition, PackHeader)>, WorkerFailure> {
        let last = self.bus.last(session).await.map_err(|error| failed(&error))?;
        let header = |last: LogMessage| {
            let pack = Pack::decode(last.payload).map_err(|error| failed(&error))?;
            Ok((last.position, pack.header))
        };
        last.map(header).transpose()
    }
}

/// Whether queued prompts wait.
fn is_held(record: &SessionRecord) -> bool {
    hold(record).is_some()
}

/// Whether queued prompts wait because the turn was interrupted.
fn is_interrupted(record: &SessionRecord) -> bool {
    hold(record) == Some(HoldReason::Interrupted)
}

fn hold(record: &SessionRecord) -> Option<HoldReason> {
    SessionOptions::from_json(&record.options, record.directory.clone()).ok()?.queue_hold
}

/// An entry with a note.
pub(super) fn entry(note: &Note) -> NewEntry {
    NewEntry { origin: Origin::Towpath, bytes: Bytes::from(note.to_line()), transient: false }
}

/// The worker, where a person would be named.
fn actor(worker: &str) -> Actor {
    Actor { name: format!("worker {worker}"), via: "fleet".to_owned() }
}

/// The entries of a change, if it is a batch.
pub(super) fn entries_of<'a>(change: &'a JournalChange<'_>) -> &'a [NewEntry] {
    match change {
        JournalChange::Write { batch, .. } => &batch.entries,
        _ => &[],
    }
}

pub(super) fn failed(error: &dyn std::error::Error) -> WorkerFailure {
    WorkerFailure::Failed(error.to_string())
}

fn no_session(session: SessionId) -> WorkerFailure {
    WorkerFailure::NoSuchSession(session)
}

/// Milliseconds since 1970.
pub(super) fn now() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0)
}
