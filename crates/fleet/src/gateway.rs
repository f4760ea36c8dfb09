//! What a gateway knows of its fleet: the mirror, the workers, and the way to the owners of sessions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use journal::{SessionId, SessionStatus};
use session::{
    CommandOutput, CommandRelay, Error, FleetConnection, LostConnection, OpenError, OwningWorker,
    Placement, ProjectAnswer, ProjectBody, ProjectRequest, RelayFuture, SessionCommand,
    SessionSpec, WorkerPresence, WorkerSummary, WorktreeRemoval,
};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::debug;
use uuid::Uuid;

use crate::bus::{Bus, BusError, KeyChange, KeyTable, MAX_MESSAGE};
use crate::lease::WorkerStatus;
use crate::mirror::Mirror;
use crate::pack::WorkerId;
use crate::place::place;
use crate::question::{WorkerAnswer, WorkerFailure, WorkerQuestion, decode_answer};

/// How long a worker may take to answer. An agent may have to be started first.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// How long the mirror may take to have what a worker has confirmed.
const MIRROR_TIMEOUT: Duration = Duration::from_secs(20);

/// How many workers are asked for a directory.
const MAX_CANDIDATES: usize = 16;

/// The pauses until a lost subscription is tried again: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// How long a lost connection is nothing to speak of. An election of the servers is shorter.
const LOST_AFTER: Duration = Duration::from_secs(5);

/// What a person is told about a session while there is no connection.
const NO_CONNECTION: &str = "this gateway has no connection to the fleet's servers: nothing can be sent, and what is \
                             shown may have changed";

/// A worker as a gateway knows it.
#[derive(Clone, Debug)]
pub struct KnownWorker {
    pub status: WorkerStatus,
    /// Since when its lease is gone; none while it is connected.
    pub away_since: Option<Instant>,
    /// The same in milliseconds since 1970, for people.
    pub away_at: Option<u64>,
}

impl KnownWorker {
    /// Its lease is gone.
    fn leave(&mut self) {
        if self.away_since.is_none() {
            (self.away_since, self.away_at) = (Some(Instant::now()), Some(now()));
        }
    }
}

/// The fleet, for a gateway. Clones are the same.
#[derive(Clone, Debug)]
pub struct Fleet {
    shared: Arc<SharedFleet>,
}

#[derive(Debug)]
struct SharedFleet {
    bus: Arc<dyn Bus>,
    mirror: Mirror,
    workers: Mutex<BTreeMap<String, KnownWorker>>,
    /// Counts the changes of `workers`.
    changes: watch::Sender<u64>,
    /// Whether all workers were listed once.
    listed: watch::Sender<bool>,
}

impl Fleet {
    pub fn new(bus: Arc<dyn Bus>, mirror: Mirror) -> Self {
        let (workers, changes) = (Mutex::default(), watch::Sender::new(0));
        let listed = watch::Sender::new(false);
        Self { shared: Arc::new(SharedFleet { bus, mirror, workers, changes, listed }) }
    }

    /// Keeps the mirror and the list of workers up to date until it is dropped.
    pub async fn run(self) {
        let SharedFleet { bus, mirror, .. } = &*self.shared;
        let announced = crate::watching::announce(Arc::clone(bus), mirror.clone());
        tokio::join!(
            mirror.clone().run(),
            self.watch_workers(),
            self.watch_connection(),
            announced
        );
    }

    /// Makes those who follow the changes look at the connection when it is lost and when it is back.
    async fn watch_connection(&self) {
        let mut behind = self.shared.mirror.behind();
        loop {
            let since = *behind.borrow_and_update();
            let changed = behind.changed();
            if let Some(since) = since {
                let lost = since.instant + LOST_AFTER;
                if let Ok(changed) = tokio::time::timeout_at(lost, changed).await {
                    if changed.is_err() {
                        return;
                    }
                } else {
                    // It is lost, and stays so until it is back.
                    self.shared.changes.send_modify(|count| *count += 1);
                    if behind.changed().await.is_err() {
                        return;
                    }
                }
            } else if changed.await.is_err() {
                return;
            }
            self.shared.changes.send_modify(|count| *count += 1);
        }
    }

    /// Since when there is no connection, unless that is a moment ago.
    fn lost_connection(&self) -> Option<LostConnection> {
        let behind = (*self.shared.mirror.behind().borrow())?;
        let lasted = behind.instant.elapsed();
        let since = milliseconds(behind.time);
        (lasted >= LOST_AFTER).then_some(LostConnection { since, lasted })
    }

    /// Waits until the mirror has what was stored when it started, and all workers are known.
    pub async fn ready(&self) {
        self.shared.mirror.complete().await;
        // The sender is never dropped while this waits.
        let _ = self.shared.listed.subscribe().wait_for(|listed| *listed).await;
    }

    /// All workers that were connected since this gateway started, by name.
    pub fn workers(&self) -> Vec<KnownWorker> {
        self.known().values().cloned().collect()
    }

    /// The name of the worker that owns a session.
    pub fn owner(&self, session: SessionId) -> Option<String> {
        let cursor = self.shared.mirror.cursor(session)?;
        cursor.owner().map(|(worker, _)| worker.name.clone())
    }

    /// The name of the worker that has given a session away that no other worker has taken yet.
    fn former_owner(&self, session: SessionId) -> Option<String> {
        let cursor = self.shared.mirror.cursor(session)?;
        cursor.former_owner().map(|worker| worker.name.clone())
    }

    /// Changes whenever a worker comes, goes or says something else about itself.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    async fn watch_workers(&self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let reconnected = self.shared.bus.reconnected();
            match self.shared.bus.watch(KeyTable::Workers).await {
                Ok(mut changes) => {
                    pause = FIRST_PAUSE;
                    let mut listed = Vec::new();
                    let mut complete = false;
                    while let Some(change) = changes.recv().await {
                        match change {
                            Some(change) => {
                                listed.push(change.key.clone());
                                self.set_worker(change);
                            }
                            None if complete => {}
                            // What expired while there was no connection is not in the list.
                            None => {
                                complete = true;
                                self.keep_workers(&listed);
                            }
                        }
                    }
                }
                Err(error) => {
                    debug!(%error, "the workers cannot be watched; trying again");
                    pause = (pause * 2).min(LAST_PAUSE);
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = reconnected => pause = FIRST_PAUSE,
            }
        }
    }

    fn set_worker(&self, change: KeyChange) {
        let status = change.value.map(|value| serde_json::from_slice::<WorkerStatus>(&value));
        match status {
            Some(Ok(status)) => {
                let known = KnownWorker { status, away_since: None, away_at: None };
                self.known().insert(change.key, known);
            }
            Some(Err(error)) => debug!(%error, worker = change.key, "a lease cannot be read"),
            None => {
                if let Some(known) = self.known().get_mut(&change.key) {
                    known.leave();
                }
            }
        }
        self.shared.changes.send_modify(|count| *count += 1);
    }

    fn keep_workers(&self, listed: &[String]) {
        for (name, known) in &mut *self.known() {
            if !listed.contains(name) {
                known.leave();
            }
        }
        self.shared.listed.send_replace(true);
        self.shared.changes.send_modify(|count| *count += 1);
    }

    /// All workers with what they do, also those that own sessions and were never connected since this gateway
    /// started. What they do is counted in the mirror, which is newer than their leases.
    async fn summaries(&self) -> Vec<WorkerSummary> {
        let records = self.shared.mirror.journal().sessions().await.unwrap_or_default();
        let mut counts: BTreeMap<String, (usize, u32)> = BTreeMap::new();
        for record in &records {
            let Some(owner) = self.owner(record.id) else { continue };
            let (sessions, used) = counts.entry(owner).or_default();
            *sessions += 1;
            let works = matches!(record.status, SessionStatus::Running | SessionStatus::Waiting);
            *used += u32::from(works);
        }
        let known = self.known();
        for name in known.keys() {
            counts.entry(name.clone()).or_default();
        }
        let summary = |(name, (sessions, used)): (String, (usize, u32))| {
            let status = known.get(&name).map(|it| it.status.clone());
            WorkerSummary {
                presence: presence(known.get(&name)),
                pool: status.as_ref().and_then(|it| it.pool.clone()),
                slots: status.as_ref().map_or(0, |it| it.slots),
                version: status.as_ref().map(|it| it.version.clone()),
                roots: status.map(|it| it.roots).unwrap_or_default(),
                name,
                used,
                sessions,
            }
        };
        counts.into_iter().map(summary).collect()
    }

    /// Asks the owner of a session.
    async fn ask_owner(&self, session: SessionId, question: &WorkerQuestion) -> WorkerAnswer {
        let Some(owner) = self.owner(session) else {
            return Err(match self.former_owner(session) {
                Some(worker) => WorkerFailure::Failed(no_owner(&worker)),
                None => WorkerFailure::NoSuchSession(session),
            });
        };
        let answer = self.ask(&owner, question).await;
        if matches!(answer, Err(WorkerFailure::NotOwner { .. } | WorkerFailure::Moving)) {
            // The mirror does not have the take-over yet.
            let before = Some(owner);
            let is_moved = || async {
                self.owner(session).is_some_and(|owner| Some(&owner) != before.as_ref())
            };
            self.wait(is_moved).await;
            if let Some(owner) = self.owner(session) {
                return self.ask(&owner, question).await;
            }
        }
        answer
    }

    async fn ask(&self, worker: &str, question: &WorkerQuestion) -> WorkerAnswer {
        let bus = &self.shared.bus;
        let mut payload: Bytes = question.encode();
        if payload.len() > MAX_MESSAGE {
            let name = format!("question/{}", Uuid::new_v4());
            let stored = bus.put_object(&name, payload).await;
            stored.map_err(|error| WorkerFailure::Failed(error.to_string()))?;
            payload = WorkerQuestion::Object { name }.encode();
        }
        decode_answer(&self.ask_bytes(worker, payload, ANSWER_TIMEOUT).await?)
    }

    /// Asks a worker, and says why there is no answer.
    pub(crate) async fn ask_bytes(
        &self,
        worker: &str,
        payload: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, WorkerFailure> {
        let answer = self.shared.bus.ask(worker, payload, timeout).await;
        answer.map_err(|error| match error {
            BusError::NoListener => WorkerFailure::Failed(self.away(worker)),
            error => WorkerFailure::Failed(format!("worker `{worker}`: {error}")),
        })
    }

    /// What a person is told about a worker that is not connected.
    fn away(&self, worker: &str) -> String {
        let since = self.known().get(worker).and_then(|known| known.away_since);
        match since {
            Some(since) => {
                format!("worker `{worker}` is away (for {} s)", since.elapsed().as_secs())
            }
            None => format!("worker `{worker}` is not connected"),
        }
    }

    /// Waits until something is true of the mirror, and not for ever.
    async fn wait<F: Future<Output = bool>>(&self, is_true: impl Fn() -> F) -> bool {
        let mut progress = self.shared.mirror.progress();
        let wait = async {
            loop {
                progress.borrow_and_update();
                if is_true().await {
                    return;
                }
                if progress.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::time::timeout(MIRROR_TIMEOUT, wait).await.is_ok()
    }

    async fn is_mirrored(&self, session: SessionId) -> bool {
        self.shared.mirror.journal().session(session).await.is_ok_and(|it| it.is_some())
    }

    async fn create_session(
        &self,
        spec: SessionSpec,
        placement: Placement,
    ) -> Result<SessionId, OpenError> {
        let id = spec.id.unwrap_or_else(|| SessionId(Uuid::new_v4()));
        if self.is_mirrored(id).await {
            return Err(OpenError::Journal(journal::Error::SessionExists(id)));
        }
        let workers = self.summaries().await;
        let candidates = place(&workers, &placement, &spec.options.directory);
        let candidates = candidates.map_err(|error| OpenError::Relayed(error.to_string()))?;
        let question = WorkerQuestion::create(id, spec, placement.new_worktree);
        self.create_on_first(&candidates, &question).await?;
        if !self.wait(|| self.is_mirrored(id)).await {
            let text =
                "the session was created, but this gateway does not have it yet; reload the list";
            return Err(OpenError::Relayed(text.to_owned()));
        }
        Ok(id)
    }

    /// Creates a session on the first worker that has its directory.
    async fn create_on_first(
        &self,
        candidates: &[&WorkerSummary],
        question: &WorkerQuestion,
    ) -> Result<(), WorkerFailure> {
        let mut first_failure = None;
        for worker in candidates.iter().take(MAX_CANDIDATES) {
            match self.ask(&worker.name, question).await {
                Ok(_) => return Ok(()),
                // Another gateway placed the same session elsewhere a moment ago.
                Err(WorkerFailure::NotOwner { owner }) => {
                    return self.ask(&owner, question).await.map(drop);
                }
                Err(failure @ WorkerFailure::NoDirectory { .. }) => {
                    first_failure.get_or_insert(failure);
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(first_failure.unwrap_or_else(|| WorkerFailure::Failed("there is no worker".to_owned())))
    }

    async fn delete_session(
        &self,
        session: SessionId,
        worktree: Option<WorktreeRemoval>,
    ) -> Result<(), OpenError> {
        self.ask_owner(session, &WorkerQuestion::Delete { session, worktree }).await?;
        self.wait(|| async { !self.is_mirrored(session).await }).await;
        Ok(())
    }

    /// Has a worker take a session over.
    async fn take_over(&self, session: SessionId, to: &str) -> Result<(), OpenError> {
        if !self.is_mirrored(session).await {
            return Err(OpenError::NoSuchSession(session));
        }
        self.ask(to, &WorkerQuestion::TakeOver { session }).await?;
        let is_moved = || async {
            let cursor = self.shared.mirror.cursor(session).unwrap_or_default();
            cursor.owner().is_some_and(|(it, _)| it.name == to && !self.is_reinstalled(it))
        };
        self.wait(is_moved).await;
        self.shared.changes.send_modify(|count| *count += 1);
        Ok(())
    }

    async fn revoke(&self, grant: Uuid) -> Result<(), OpenError> {
        let mut away = Vec::new();
        for known in self.workers() {
            let worker = &known.status.worker.name;
            if self.ask(worker, &WorkerQuestion::RevokeGrant { grant }).await.is_err() {
                away.push(format!("`{worker}`"));
            }
        }
        if away.is_empty() {
            return Ok(());
        }
        Err(OpenError::Relayed(format!(
            "the rule is not revoked on {}, which cannot be reached; revoke it again later",
            away.join(", ")
        )))
    }

    /// Whether another data directory has the name of a worker now: the machine was installed again.
    fn is_reinstalled(&self, owner: &WorkerId) -> bool {
        let known = self.known();
        let connected = known.get(&owner.name).filter(|it| it.away_since.is_none());
        connected.is_some_and(|it| it.status.worker.data != owner.data)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, KnownWorker>> {
        self.shared.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a person is told about a session between two workers.
fn no_owner(worker: &str) -> String {
    format!("worker `{worker}` has given the session away, and no other has it yet; move it again")
}

impl CommandRelay for Fleet {
    fn create(
        &self,
        spec: SessionSpec,
        placement: Placement,
    ) -> RelayFuture<'_, Result<SessionId, OpenError>> {
        Box::pin(self.create_session(spec, placement))
    }

    fn command(
        &self,
        session: SessionId,
        command: SessionCommand,
    ) -> RelayFuture<'_, Result<CommandOutput, Error>> {
        Box::pin(async move {
            let question = WorkerQuestion::Command { session, command: Box::new(command) };
            Ok(self.ask_owner(session, &question).await?)
        })
    }

    fn rename(&self, session: SessionId, title: String) -> RelayFuture<'_, Result<(), OpenError>> {
        Box::pin(async move {
            self.ask_owner(session, &WorkerQuestion::Rename { session, title: title.clone() })
                .await?;
            let journal = self.shared.mirror.journal();
            let has_title = || async {
                let record = journal.session(session).await.ok().flatten();
                record.is_none_or(|record| record.title.as_ref() == Some(&title))
            };
            self.wait(has_title).await;
            Ok(())
        })
    }

    fn delete(
        &self,
        session: SessionId,
        worktree: Option<WorktreeRemoval>,
    ) -> RelayFuture<'_, Result<(), OpenError>> {
        Box::pin(self.delete_session(session, worktree))
    }

    fn move_to(&self, session: SessionId, to: String) -> RelayFuture<'_, Result<(), OpenError>> {
        Box::pin(async move { self.take_over(session, &to).await })
    }

    fn project(
        &self,
        session: SessionId,
        request: ProjectRequest,
        body: ProjectBody,
    ) -> RelayFuture<'_, Result<(ProjectAnswer, ProjectBody), Error>> {
        Box::pin(async move { Ok(self.exchange(session, request, body).await?) })
    }

    fn revoke_grant(&self, grant: Uuid) -> RelayFuture<'_, Result<(), OpenError>> {
        Box::pin(self.revoke(grant))
    }

    fn connection(&self) -> FleetConnection {
        FleetConnection { lost: self.lost_connection(), problems: self.shared.mirror.problems() }
    }

    fn problem(&self, session: SessionId) -> Option<String> {
        if self.lost_connection().is_some() {
            return Some(NO_CONNECTION.to_owned());
        }
        if let Some(problem) = self.shared.mirror.problem(session) {
            return Some(problem);
        }
        if let Some(worker) = self.former_owner(session) {
            return Some(no_owner(&worker));
        }
        let cursor = self.shared.mirror.cursor(session)?;
        let (owner, _) = cursor.owner()?;
        if self.is_reinstalled(owner) {
            return Some(format!(
                "worker `{}` was installed again and does not have this session any more; move it to a worker",
                owner.name
            ));
        }
        let known = self.known().get(&owner.name).map(|it| it.away_since.is_none());
        (known != Some(true)).then(|| self.away(&owner.name))
    }

    fn workers(&self) -> RelayFuture<'_, Vec<WorkerSummary>> {
        Box::pin(self.summaries())
    }

    fn worker(&self, session: SessionId) -> Option<OwningWorker> {
        let cursor = self.shared.mirror.cursor(session)?;
        let (owner, _) = cursor.owner()?;
        let presence = if self.is_reinstalled(owner) {
            WorkerPresence::Away { since: None }
        } else {
            presence(self.known().get(&owner.name))
        };
        Some(OwningWorker { name: owner.name.clone(), presence })
    }

    fn problem_changes(&self) -> watch::Receiver<u64> {
        self.changes()
    }
}

fn presence(known: Option<&KnownWorker>) -> WorkerPresence {
    match known {
        Some(known) if known.away_since.is_none() => WorkerPresence::Connected,
        Some(known) => WorkerPresence::Away { since: known.away_at },
        None => WorkerPresence::Away { since: None },
    }
}

/// The present time in milliseconds since 1970.
fn now() -> u64 {
    milliseconds(SystemTime::now())
}

/// A time in milliseconds since 1970.
fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use session::{CommandOutput, CommandRelay as _, WorkerPresence, WorkerSummary};
    use tokio::time::Instant;

    use super::{Fleet, LOST_AFTER};
    use crate::bus::Bus as _;
    use crate::bus::memory::{MemoryBus, MemoryServers};
    use crate::mirror::tests::{TestMachine, TestTask, id, spawn};
    use crate::question::{WorkerAnswer, WorkerFailure, WorkerQuestion, encode_answer};

    /// A worker that answers one question.
    async fn answering(bus: MemoryBus, name: &'static str, answer: WorkerAnswer) -> TestTask {
        let mut questions = bus.questions(name).await.unwrap();
        spawn(async move {
            let question = questions.recv().await.unwrap();
            question.reply.send(encode_answer(&answer)).unwrap();
        })
    }

    fn summary(name: &str) -> WorkerSummary {
        WorkerSummary {
            name: name.to_owned(),
            pool: None,
            slots: 1,
            used: 0,
            roots: vec!["/src".into()],
            version: None,
            presence: WorkerPresence::Connected,
            sessions: 0,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_without_the_directory_is_passed_over_and_a_lost_connection_is_a_problem() {
        let servers = MemoryServers::default();
        let gateway = TestMachine::new(&servers);
        let (mirror, _mirroring) = gateway.mirror().await;
        let fleet = Fleet::new(Arc::clone(&gateway.bus) as _, mirror);
        let no_directory = |worker: &str| WorkerFailure::NoDirectory {
            worker: worker.to_owned(),
            directory: "/src/x".to_owned(),
        };
        let question = WorkerQuestion::create(id(1), session::SessionSpec::default(), None);
        let workers = ["w1", "w2"].map(summary);
        let candidates: Vec<_> = workers.iter().collect();
        let _first = answering(servers.connect(), "w1", Err(no_directory("w1"))).await;
        let _second = answering(servers.connect(), "w2", Ok(CommandOutput::None)).await;
        fleet.create_on_first(&candidates, &question).await.unwrap();
        let _first = answering(servers.connect(), "w1", Err(no_directory("w1"))).await;
        let _second = answering(servers.connect(), "w2", Err(no_directory("w2"))).await;
        let refused = fleet.create_on_first(&candidates, &question).await;
        assert_eq!(refused, Err(no_directory("w1")));

        fleet.shared.mirror.complete().await;
        assert_eq!((fleet.connection().lost, fleet.problem(id(1))), (None, None));
        let mut changes = fleet.changes();
        let _running = spawn(fleet.clone().run());
        changes.borrow_and_update();
        gateway.bus.set_cut(true);
        let begun = Instant::now();
        while fleet.connection().lost.is_none() {
            changes.changed().await.unwrap();
        }
        assert!(begun.elapsed() >= LOST_AFTER, "an election is not spoken of");
        assert!(fleet.problem(id(1)).is_some_and(|problem| problem.contains("no connection")));
        gateway.bus.set_cut(false);
        while fleet.connection().lost.is_some() {
            changes.changed().await.unwrap();
        }
    }
}
