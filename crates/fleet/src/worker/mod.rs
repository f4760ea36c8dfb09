//! A worker: drives sessions, ships what they write, and answers the questions of gateways.
//!
//! A question is answered after its effects are in the log of the session, on a majority of the servers. A
//! session that another worker has taken over is *fenced*: its agent is killed, and what was not shipped
//! becomes a tail.

mod creation;
mod directories;
mod exchanges;
mod policy;
mod saving;
mod tail;
mod takeover;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use journal::{Journal, SessionId, SessionStatus, StateChange};
use session::{
    CommandOutput, GateFuture, ProjectService, PromptConfirmation, Roots, SessionSpec, Sessions,
    WorktreeService,
};
use thiserror::Error;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, info, warn};
use uuid::Uuid;

use crate::bus::{Bus, BusError, BusQuestion};
use crate::claim::{LocalCopy, LocalCopyState};
use crate::files::SessionFiles;
use crate::lease::{LeaseError, RENEWAL, Renewal, WorkerLease, WorkerStatus};
use crate::pack::{Pack, PackHeader, WorkerId};
use crate::question::{WorkerAnswer, WorkerFailure, WorkerQuestion, encode_answer, encode_reply};
use crate::ship::{ShipStop, Shipper, StoppedShipping, Tenure};
use crate::watching;

/// The follower state of workers.
const FOLLOWER: &str = "fleet-worker";

/// The keys of the epochs in which this worker got its copies, before the ids of sessions.
const OWNED: &str = "owned/";

/// The key of the id of the data directory.
const DATA_ID: &str = "data";

/// How many questions are answered at the same time. Others wait on the bus, which refuses what is too much.
const CONCURRENT_QUESTIONS: usize = 256;

/// How long the effects of a question may take to be shipped.
const SHIPPING_TIMEOUT: Duration = Duration::from_secs(20);

/// The pauses until a lost subscription is tried again: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// How a worker presents itself.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    pub name: String,
    pub pool: Option<String>,
    pub slots: u32,
    pub roots: Roots,
    /// The version of Towpath.
    pub version: String,
    /// Saves and restores what sessions need besides their journal; nothing is if there is none.
    pub files: Option<Arc<dyn SessionFiles>>,
    /// Answers requests about the projects of sessions; without it they are refused.
    pub projects: Option<Arc<dyn ProjectService>>,
    /// Makes and removes working trees for sessions; without it, questions about them are refused.
    pub worktrees: Option<Arc<dyn WorktreeService>>,
    /// How long another worker must be away until its sessions are taken over; never if there is none.
    pub takeover: Option<Duration>,
    /// How often streamed text is shipped of sessions that no client follows.
    pub unwatched_interval: Duration,
}

/// Why a worker could not start.
#[derive(Debug, Error)]
pub enum WorkerError {
    #[error(transparent)]
    Lease(#[from] LeaseError),
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error("could not use the journal")]
    Journal(#[from] journal::Error),
    #[error("could not keep what was not sent of session `{session}`")]
    Tail { session: SessionId, source: std::io::Error },
    #[error("could not replace the older copy of session `{session}`: {failure}")]
    Outdated { session: SessionId, failure: WorkerFailure },
}

/// A worker that is connected.
#[derive(Debug)]
pub struct Worker {
    shared: Arc<SharedWorker>,
    lease: WorkerLease,
    stopped: mpsc::Receiver<StoppedShipping>,
    questions: mpsc::Receiver<BusQuestion>,
}

#[derive(Debug)]
struct SharedWorker {
    bus: Arc<dyn Bus>,
    sessions: Sessions,
    shipper: Shipper,
    id: WorkerId,
    config: WorkerConfig,
    /// Only one thing at a time decides where a session belongs.
    locks: Mutex<HashMap<SessionId, Arc<tokio::sync::Mutex<()>>>>,
    /// Sessions that are being given away.
    releasing: Mutex<HashSet<SessionId>>,
    /// There may be a tail to deliver.
    tails_changed: Notify,
    saved: Mutex<saving::SavedTurns>,
    exchanges: exchanges::Exchanges,
    /// When the lease was renewed last.
    renewed: Mutex<Instant>,
}

/// Prompts wait until their records are in the log.
#[derive(Debug)]
struct ShippedPrompts {
    shipper: Shipper,
    journal: Journal,
}

impl PromptConfirmation for ShippedPrompts {
    fn confirmed(&self, session: SessionId) -> GateFuture<'_> {
        Box::pin(async move {
            let tenure = self.shipper.tenure(session);
            let Ok(page) = self.journal.read_outbox(session, 1).await else { return false };
            // The copy of a session that was just given up has no changes.
            page.last > 0 && self.shipper.shipped(session, tenure, page.last).await.is_ok()
        })
    }
}

impl Worker {
    /// Connects a worker. None of its sessions is driven before.
    pub async fn connect(
        bus: Arc<dyn Bus>,
        sessions: Sessions,
        config: WorkerConfig,
    ) -> Result<Self, WorkerError> {
        let journal = sessions.journal().clone();
        let id = WorkerId { name: config.name.clone(), data: data_id(&journal).await? };
        journal.keep_outbox().await?;
        for (session, error) in journal.fill_outbox().await? {
            warn!(%session, %error, "a session cannot be read, so no other machine will have it");
        }
        let (shipper, stopped) =
            Shipper::new(Arc::clone(&bus), journal.clone(), id.clone(), config.unwatched_interval);
        let confirmation = ShippedPrompts { shipper: shipper.clone(), journal };
        sessions.config().prompt_gate.set(Arc::new(confirmation));
        let shared = SharedWorker {
            bus,
            sessions,
            shipper,
            id,
            config,
            locks: Mutex::default(),
            releasing: Mutex::default(),
            tails_changed: Notify::new(),
            saved: Mutex::default(),
            exchanges: exchanges::Exchanges::default(),
            renewed: Mutex::new(Instant::now()),
        };
        let bus = Arc::clone(&shared.bus);
        let lease = WorkerLease::take(Arc::clone(&bus), &shared.status().await).await?;
        let questions = bus.questions(&shared.config.name).await?;
        Ok(Self { shared: Arc::new(shared), lease, stopped, questions })
    }

    /// Settles which sessions of the journal are this worker's. Agents of sessions that others have taken over
    /// are ended, take-overs that were cut off are finished, and sessions of which the servers have more than the
    /// journal are replayed. Must be called before sessions are recovered: their agents would do everything twice.
    pub async fn settle(&self) -> Result<(), WorkerError> {
        self.shared.finish_takeovers().await?;
        self.shared.give_up_fenced().await
    }

    /// Works until `shutdown`. Agents are left running.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) {
        let shared = Arc::clone(&self.shared);
        // Dropped, and with it its tasks, at the end.
        let mut tasks = JoinSet::new();
        tasks.spawn(shared.shipper.clone().run());
        let this = Arc::clone(&shared);
        tasks.spawn(async move { this.deliver_tails().await });
        let this = Arc::clone(&shared);
        tasks.spawn(async move { this.save_ended_turns().await });
        if let Some(after) = shared.config.takeover {
            let (this, that) = (Arc::clone(&shared), Arc::clone(&shared));
            tasks.spawn(async move { this.take_over_from_absent(after).await });
            tasks.spawn(async move { that.end_agents_when_alone(after).await });
        }
        let (stop, stopping) = watch::channel(false);
        let renewal = tokio::spawn(renew(Arc::clone(&shared), self.lease, stopping));
        let mut answers = JoinSet::new();
        let mut pause = FIRST_PAUSE;
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                question = self.questions.recv(), if answers.len() < CONCURRENT_QUESTIONS =>
                if let Some(question) = question {
                    pause = FIRST_PAUSE;
                    let shared = Arc::clone(&shared);
                    answers.spawn(async move { shared.handle(question).await });
                } else {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LAST_PAUSE);
                    match shared.bus.questions(&shared.config.name).await {
                        Ok(questions) => self.questions = questions,
                        Err(error) => debug!(%error, "questions cannot be received"),
                    }
                },
                Some(StoppedShipping { session, .. }) = self.stopped.recv() => {
                    let shared = Arc::clone(&shared);
                    tasks.spawn(async move { shared.fence(session).await });
                }
                Some(_) = tasks.join_next() => {}
                Some(_) = answers.join_next(), if !answers.is_empty() => {}
            }
        }
        let _ = stop.send(true);
        let _ = renewal.await;
    }
}

impl SharedWorker {
    async fn status(&self) -> WorkerStatus {
        let records = self.sessions.journal().sessions().await.unwrap_or_default();
        let works = |status| matches!(status, SessionStatus::Running | SessionStatus::Waiting);
        let used = records.iter().filter(|record| works(record.status)).count();
        WorkerStatus {
            worker: self.id.clone(),
            pool: self.config.pool.clone(),
            slots: self.config.slots,
            used: u32::try_from(used).unwrap_or(u32::MAX),
            roots: self.config.roots.directories().to_vec(),
            version: self.config.version.clone(),
        }
    }

    async fn handle(&self, question: BusQuestion) {
        let answer = match WorkerQuestion::decode(&question.payload) {
            Ok(WorkerQuestion::Project(step)) => {
                let service = |session| self.project_service(session);
                encode_reply(&self.exchanges.take(step, service).await)
            }
            Ok(asked) => encode_answer(&self.answer(asked).await),
            Err(failure) => encode_answer(&Err(failure)),
        };
        // The asker may have given up.
        let _ = question.reply.send(answer);
    }

    /// Who answers requests about the project of a session.
    fn project_service(
        &self,
        session: SessionId,
    ) -> Result<Arc<dyn ProjectService>, WorkerFailure> {
        self.require_owner(session)?;
        let none = || WorkerFailure::Failed("the worker does not show files".to_owned());
        self.config.projects.clone().ok_or_else(none)
    }

    /// Ends what runs for clients in a session that is not this worker's any more.
    async fn release_project(&self, session: SessionId) {
        if let Some(projects) = &self.config.projects {
            projects.release(session).await;
        }
    }

    async fn answer(&self, question: WorkerQuestion) -> WorkerAnswer {
        match question {
            WorkerQuestion::Object { name } => {
                let failed = |reason: String| WorkerFailure::Failed(reason);
                let found =
                    self.bus.get_object(&name).await.map_err(|it| failed(it.to_string()))?;
                let missing = || failed("the question is missing on the servers".to_owned());
                let question = WorkerQuestion::decode(&found.ok_or_else(missing)?)?;
                Box::pin(self.carry_out(question)).await
            }
            question => Box::pin(self.carry_out(question)).await,
        }
    }

    async fn carry_out(&self, question: WorkerQuestion) -> WorkerAnswer {
        match question {
            WorkerQuestion::Create { id, title, options, resume, new_worktree } => {
                let spec = SessionSpec { id: Some(id), title, options: *options, resume };
                self.create(id, spec, new_worktree).await
            }
            WorkerQuestion::Command { session, command } => {
                let tenure = self.require_owner(session)?;
                self.require_directories(directories::extra_directories(&command)).await?;
                let output = self.sessions.open(session).await?.command(*command).await;
                // Also a refusal may be about something that is not shipped yet.
                match output {
                    Ok(output) => self.shipped(session, tenure, output).await,
                    Err(error) => {
                        self.shipped(session, tenure, CommandOutput::None).await?;
                        Err(error.into())
                    }
                }
            }
            WorkerQuestion::Rename { session, title } => {
                let tenure = self.require_owner(session)?;
                self.sessions.rename(session, title).await?;
                self.shipped(session, tenure, CommandOutput::None).await
            }
            WorkerQuestion::Delete { session, worktree } => {
                let tenure = self.require_owner(session)?;
                self.delete(session, tenure, worktree).await
            }
            WorkerQuestion::TakeOver { session } => self.take_over(session, None).await,
            WorkerQuestion::Release { session } => self.release(session).await,
            WorkerQuestion::Tail { session, worker, epoch, text } => {
                self.take_tail(session, worker, epoch, text).await
            }
            WorkerQuestion::Watched { sessions } => {
                for session in sessions {
                    self.shipper.watch(session, watching::LIFETIME);
                }
                Ok(CommandOutput::None)
            }
            WorkerQuestion::RevokeGrant { grant } => {
                self.sessions.revoke_grant(grant).await?;
                Ok(CommandOutput::None)
            }
            WorkerQuestion::Object { .. } | WorkerQuestion::Project(_) => {
                Err(WorkerFailure::Failed("an object cannot have this question".to_owned()))
            }
        }
    }

    /// Waits until everything that a session has written so far is in its log. The tenure is that in which it was
    /// written: a copy that was given up since has an empty outbox too.
    async fn shipped(
        &self,
        session: SessionId,
        tenure: Tenure,
        output: CommandOutput,
    ) -> WorkerAnswer {
        let page = self.sessions.journal().read_outbox(session, 1).await;
        let last = page.map_err(|error| WorkerFailure::Failed(error.to_string()))?.last;
        let shipped = self.shipper.shipped(session, tenure, last);
        match tokio::time::timeout(SHIPPING_TIMEOUT, shipped).await {
            Ok(Ok(())) => Ok(output),
            Ok(Err(reason)) => Err(stopped(&reason)),
            Err(_) => Err(WorkerFailure::Failed(
                "the worker has stored it, but the servers have not confirmed it in time"
                    .to_owned(),
            )),
        }
    }

    /// The present tenure of a session that is this worker's, as far as is known.
    fn require_owner(&self, session: SessionId) -> Result<Tenure, WorkerFailure> {
        if self.releasing().contains(&session) {
            return Err(WorkerFailure::Moving);
        }
        let tenure = self.shipper.tenure(session);
        match self.shipper.stop_reason(session) {
            Some(reason) => Err(stopped(&reason)),
            None => Ok(tenure),
        }
    }

    /// Gives up a session that is not this worker's any more, or replays one whose copy is too old. Tries again until
    /// that succeeds.
    async fn fence(&self, session: SessionId) {
        let mut pause = FIRST_PAUSE;
        while let Err(error) = self.fence_once(session).await {
            warn!(%session, %error, "the copy of a session could not be given up; trying again");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    async fn fence_once(&self, session: SessionId) -> Result<(), WorkerError> {
        let lock = self.session_lock(session);
        let _lock = lock.lock().await;
        match self.shipper.stop_reason(session) {
            Some(ShipStop::Fenced { by, epoch }) => {
                info!(%session, by = by.name, "another worker has taken a session over");
                self.give_up_copy(session, &by, epoch).await
            }
            Some(ShipStop::Outdated { journal, log }) => {
                warn!(%session, journal, log, "the copy of a session is too old");
                match self.log_header(session).await? {
                    Some(header) => self.replace_copy(session, &header).await,
                    None => Ok(()),
                }
            }
            // It may have been taken back in the meantime.
            Some(ShipStop::Released | ShipStop::Replaced) | None => Ok(()),
        }
    }

    /// Gives up the sessions of the journal that other workers own, and replays those of which the servers have more
    /// than the journal: an older copy of the data directory is in use.
    async fn give_up_fenced(&self) -> Result<(), WorkerError> {
        let journal = self.sessions.journal();
        let epochs = self.owned_epochs().await?;
        for record in journal.sessions().await? {
            let session = record.id;
            let epoch = epochs.get(&session).copied();
            if self.compare_copy(session, epoch).await?.0 == LocalCopyState::Present {
                continue;
            }
            let lock = self.session_lock(session);
            let _lock = lock.lock().await;
            // It may have been given away or taken over while this waited.
            if journal.session(session).await?.is_none() {
                continue;
            }
            match self.copy_state(session).await? {
                (LocalCopyState::Fenced, Some(header)) => {
                    info!(%session, by = header.worker.name, "another worker has taken a session over");
                    self.give_up_copy(session, &header.worker, header.epoch).await?;
                }
                (LocalCopyState::Outdated, Some(header)) => {
                    warn!(%session, log = header.last, "the copy of a session is too old");
                    self.replace_copy(session, &header).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What the log of a session says about the copy of this worker, and its last message.
    async fn copy_state(
        &self,
        session: SessionId,
    ) -> Result<(LocalCopyState, Option<PackHeader>), WorkerError> {
        let epoch = self.owned_epochs().await?.get(&session).copied();
        self.compare_copy(session, epoch).await
    }

    async fn compare_copy(
        &self,
        session: SessionId,
        epoch: Option<u64>,
    ) -> Result<(LocalCopyState, Option<PackHeader>), WorkerError> {
        let end = self.log_header(session).await?;
        // Read after the log, which does not get ahead of the journal.
        let last = self.sessions.journal().change_number(session).await?;
        Ok((LocalCopyState::of(LocalCopy { last, epoch }, &self.id, end.as_ref()), end))
    }

    /// In which epochs this worker got its copies.
    async fn owned_epochs(&self) -> Result<HashMap<SessionId, u64>, journal::Error> {
        let state = self.sessions.journal().read_state(FOLLOWER).await?;
        let owned = state.into_iter().filter_map(|(key, value)| {
            let session = key.strip_prefix(OWNED)?.parse().ok()?;
            Some((session, std::str::from_utf8(&value).ok()?.parse().ok()?))
        });
        Ok(owned.collect())
    }

    /// The change of the state that records in which epoch this worker got its copy of a session.
    fn owned_since(session: SessionId, epoch: Option<u64>) -> StateChange {
        let value = epoch.map(|it| it.to_string().into_bytes());
        StateChange { key: format!("{OWNED}{session}"), value }
    }

    /// The header of the last message of a log; none if there is no message, or it cannot be read.
    async fn log_header(&self, session: SessionId) -> Result<Option<PackHeader>, BusError> {
        let last = self.bus.last(session).await?;
        Ok(last.and_then(|last| Pack::decode(last.payload).ok()).map(|it| it.header))
    }

    fn session_lock(&self, session: SessionId) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(locks.entry(session).or_default())
    }

    fn releasing(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        self.releasing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Renews the lease until the worker stops, and gives it back then.
async fn renew(
    shared: Arc<SharedWorker>,
    mut lease: WorkerLease,
    mut stopping: watch::Receiver<bool>,
) {
    let mut was_away = false;
    // Waits for sessions that are being moved, and the lease must be renewed meanwhile.
    let mut settling = JoinSet::new();
    loop {
        tokio::select! {
            _ = stopping.changed() => break,
            Some(settled) = settling.join_next() => was_away |= !settled.unwrap_or(false),
            () = tokio::time::sleep(RENEWAL) => {
                let begun = Instant::now();
                let renewal = lease.renew(&shared.status().await).await;
                if renewal != Renewal::Failed {
                    *shared.renewed.lock().unwrap_or_else(PoisonError::into_inner) = begun;
                }
                // While this worker was away, others may have taken its sessions over.
                was_away |= renewal != Renewal::Kept;
                if was_away && renewal != Renewal::Failed && settling.is_empty() {
                    was_away = false;
                    let shared = Arc::clone(&shared);
                    settling.spawn(async move {
                        let settled = shared.give_up_fenced().await;
                        if let Err(error) = &settled {
                            debug!(%error, "the logs of the sessions cannot be read");
                        }
                        settled.is_ok()
                    });
                }
            }
        }
    }
    lease.release(&shared.id).await;
}

fn stopped(reason: &ShipStop) -> WorkerFailure {
    match reason {
        ShipStop::Fenced { by, .. } => WorkerFailure::NotOwner { owner: by.name.clone() },
        ShipStop::Outdated { journal, log } => WorkerFailure::Failed(format!(
            "the worker uses an older copy of its data: it has {journal} changes of the session, and the \
             servers have {log}"
        )),
        ShipStop::Released | ShipStop::Replaced => WorkerFailure::Moving,
    }
}

/// The id of the data directory of a journal. It is made once.
async fn data_id(journal: &Journal) -> Result<Uuid, journal::Error> {
    let state = journal.read_state(FOLLOWER).await?;
    let found = state.iter().find(|(key, _)| key == DATA_ID);
    if let Some(id) = found.and_then(|(_, value)| Uuid::try_parse_ascii(value).ok()) {
        return Ok(id);
    }
    let id = Uuid::new_v4();
    let value = Some(id.to_string().into_bytes());
    let change = StateChange { key: DATA_ID.to_owned(), value };
    journal.write_state(FOLLOWER, vec![change]).await?;
    Ok(id)
}
