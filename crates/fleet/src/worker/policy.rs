//! Taking sessions over from workers that stay away, if the administrator wants that.
//!
//! By default a worker that is away is only shown, because its agents may be working: nothing can be known
//! about a machine that does not answer. With a policy, a worker that could not renew its lease ends its own
//! agents shortly before others take its sessions over. Both run on clocks that only go forward. That keeps two
//! agents from working at the same time as long as the machine runs and its clock does not stop; what the log
//! accepts does not depend on it.

use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;
use std::time::Duration;

use journal::SessionId;
use tokio::time::{Instant, MissedTickBehavior};
use tracing::{debug, info, warn};
use uuid::Uuid;

use super::SharedWorker;
use crate::bus::{BusError, KeyTable, LogPosition};
use crate::lease::{RENEWAL, WorkerStatus};
use crate::pack::{Pack, PackHeader, PackKind, WorkerId};

/// How often the workers that are away are looked at.
const CHECK: Duration = Duration::from_secs(1);

/// The time until the logs are searched again if a search failed, or left something.
const SEARCH: Duration = Duration::from_secs(30);

/// Workers that begin at the same time do not all begin with the same session.
const SPREAD_MILLIS: u128 = 1000;

/// How long before others take over a worker ends its agents, at most.
const MARGIN: Duration = Duration::from_secs(30);

/// What is known about the other workers.
#[derive(Debug, Default)]
struct OtherWorkers {
    connected: HashMap<String, WorkerStatus>,
    /// Those whose leases are gone, by their data: another machine may have the name now.
    away: HashMap<Uuid, AwayWorker>,
}

#[derive(Debug)]
struct AwayWorker {
    since: Instant,
    /// What it said last.
    status: WorkerStatus,
}

/// The last messages of all logs, as they were when they were looked at.
#[derive(Debug, Default)]
struct KnownLogs(HashMap<SessionId, (LogPosition, Option<PackHeader>)>);

/// When the logs are searched. A worker that is away keeps its sessions until others take them, and gets no more, so
/// one search for each is enough, unless something was left.
#[derive(Debug)]
struct SearchPlan {
    after: Duration,
    /// Workers that were not seen since then may be away for as long.
    begun: Instant,
    /// Whether the sessions of workers that were never seen were searched for.
    has_searched_unseen: bool,
    /// The workers that were away in the last search, and since when.
    searched: HashSet<(Uuid, Instant)>,
    /// Whether sessions were left that may be taken.
    is_left: bool,
    /// No search before this time.
    next: Instant,
}

impl OtherWorkers {
    fn set(&mut self, name: String, status: Option<WorkerStatus>) {
        let before = match &status {
            Some(status) => self.connected.insert(name, status.clone()),
            None => self.connected.remove(&name),
        };
        let data = status.map(|it| it.worker.data);
        if let Some(data) = data {
            self.away.remove(&data);
        }
        if let Some(status) = before.filter(|it| Some(it.worker.data) != data) {
            self.away.insert(status.worker.data, AwayWorker { since: Instant::now(), status });
        }
    }

    /// Those that are not listed any more are away too.
    fn keep(&mut self, listed: &HashSet<String>) {
        let gone: Vec<String> =
            self.connected.keys().filter(|it| !listed.contains(*it)).cloned().collect();
        for name in gone {
            self.set(name, None);
        }
    }

    /// Whether sessions of a worker may be taken over by a worker of a pool. `watched` says how long the
    /// workers have been watched: one that was never there is away at least so long.
    fn may_take(
        &self,
        owner: &WorkerId,
        pool: Option<&str>,
        after: Duration,
        watched: Duration,
    ) -> bool {
        if self.connected.get(&owner.name).is_some_and(|it| it.worker.data == owner.data) {
            return false;
        }
        match self.away.get(&owner.data) {
            Some(away) => away.since.elapsed() >= after && away.status.pool.as_deref() == pool,
            None => watched >= after,
        }
    }

    /// The workers that are away for so long, and since when.
    fn away_for(&self, after: Duration) -> impl Iterator<Item = (Uuid, Instant)> {
        let all = self.away.iter().map(|(data, it)| (*data, it.since));
        all.filter(move |(_, since)| since.elapsed() >= after)
    }
}

impl SearchPlan {
    fn new(after: Duration) -> Self {
        let begun = Instant::now();
        Self {
            after,
            begun,
            has_searched_unseen: false,
            searched: HashSet::new(),
            is_left: false,
            next: begun,
        }
    }

    /// Whether the logs are to be searched now.
    fn is_due(&self, others: &OtherWorkers) -> bool {
        let is_unseen_due = !self.has_searched_unseen && self.begun.elapsed() >= self.after;
        let is_away = others.away_for(self.after).any(|it| !self.searched.contains(&it));
        Instant::now() >= self.next && (is_unseen_due || is_away || self.is_left)
    }

    /// The plan after a search that begins now and finds everything.
    fn after_search(&self, others: &OtherWorkers) -> Self {
        Self {
            has_searched_unseen: self.begun.elapsed() >= self.after,
            searched: others.away_for(self.after).collect(),
            is_left: false,
            ..*self
        }
    }

    /// Searches again after a while: this time it failed, or there were not enough free slots.
    fn again(self, is_left: bool) -> Self {
        Self { is_left, next: Instant::now() + SEARCH, ..self }
    }
}

impl SharedWorker {
    /// Takes over the sessions of workers that are away for longer than `after`, until it is dropped.
    pub(super) async fn take_over_from_absent(&self, after: Duration) {
        let mut others = OtherWorkers::default();
        let mut plan = SearchPlan::new(after);
        let mut logs = KnownLogs::default();
        loop {
            let mut changes = match self.bus.watch(KeyTable::Workers).await {
                Ok(changes) => changes,
                Err(error) => {
                    debug!(%error, "the workers cannot be watched; trying again");
                    tokio::time::sleep(CHECK).await;
                    continue;
                }
            };
            let mut listed = HashSet::new();
            let mut is_listed = false;
            // Leases are renewed more often than this, so a pause that each change begins anew would never be over.
            let mut check = tokio::time::interval(CHECK);
            check.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    change = changes.recv() => match change {
                        Some(Some(change)) => {
                            let value = change.value.as_deref();
                            let status = value.and_then(|it| serde_json::from_slice(it).ok());
                            if !is_listed {
                                listed.insert(change.key.clone());
                            }
                            others.set(change.key, status);
                        }
                        Some(None) => {
                            is_listed = true;
                            others.keep(&listed);
                        }
                        None => break,
                    },
                    _ = check.tick() => {
                        if is_listed && plan.is_due(&others) {
                            let searched = plan.after_search(&others);
                            let watched = plan.begun.elapsed();
                            plan = match self.search(&others, &mut logs, after, watched).await {
                                Ok(false) => searched,
                                Ok(true) => searched.again(true),
                                Err(error) => {
                                    debug!(%error, "the logs cannot be searched");
                                    let is_left = plan.is_left;
                                    plan.again(is_left)
                                }
                            };
                        }
                    }
                }
            }
            // Workers may have come and gone while there was no connection.
            plan.has_searched_unseen = false;
        }
    }

    /// Takes over what may be taken over, as long as there are free slots. Returns whether something is left.
    async fn search(
        &self,
        others: &OtherWorkers,
        logs: &mut KnownLogs,
        after: Duration,
        watched: Duration,
    ) -> Result<bool, BusError> {
        let ends = self.bus.logs().await?;
        let listed: HashSet<SessionId> = ends.iter().map(|(session, _)| *session).collect();
        logs.0.retain(|session, _| listed.contains(session));
        let mut is_left = false;
        for (session, position) in ends {
            if logs.0.get(&session).is_none_or(|(known, _)| *known != position) {
                let last = self.bus.last(session).await?;
                let position = last.as_ref().map_or(position, |it| it.position);
                let header = last.and_then(|it| Pack::decode(it.payload).ok()).map(|it| it.header);
                logs.0.insert(session, (position, header));
            }
            let Some((_, Some(header))) = logs.0.get(&session) else { continue };
            let pool = self.config.pool.as_deref();
            if header.worker.data == self.id.data
                || header.kind == PackKind::Released
                || !others.may_take(&header.worker, pool, after, watched)
            {
                continue;
            }
            let status = self.status().await;
            if status.used >= status.slots {
                return Ok(true);
            }
            is_left |= !self.take_over_absent(session, &header.worker).await;
        }
        Ok(is_left)
    }

    /// Returns whether it is done, by this worker.
    async fn take_over_absent(&self, session: SessionId, owner: &WorkerId) -> bool {
        let spread = (session.0.as_u128() ^ self.id.data.as_u128()) % SPREAD_MILLIS;
        tokio::time::sleep(Duration::from_millis(u64::try_from(spread).unwrap_or(0))).await;
        info!(%session, owner = owner.name, "taking over a session of a worker that stays away");
        let taken = self.take_over(session, Some(owner)).await;
        if let Err(failure) = &taken {
            // Another worker may have been faster.
            info!(%session, %failure, "a session of a worker that stays away was not taken over");
        }
        taken.is_ok()
    }

    /// Ends the agents of this worker before others take its sessions over, until it is dropped.
    pub(super) async fn end_agents_when_alone(&self, after: Duration) {
        let limit = after.saturating_sub(MARGIN.min(after / 4));
        let mut have_ended = false;
        loop {
            tokio::time::sleep(CHECK.min(RENEWAL)).await;
            let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
            if renewed.elapsed() < limit {
                have_ended = false;
            } else if !std::mem::replace(&mut have_ended, true) {
                warn!("this worker cannot reach the fleet for too long; ending its agents");
                for session in self.sessions.open_sessions() {
                    if let Err(error) = self.sessions.abandon(session.id()).await {
                        warn!(session = %session.id(), %error, "an agent could not be ended");
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::{OtherWorkers, SEARCH, SearchPlan};
    use crate::lease::WorkerStatus;
    use crate::mirror::tests::worker_id;

    const AFTER: Duration = Duration::from_mins(10);

    fn status(data: u128) -> WorkerStatus {
        let mut worker = worker_id(data);
        "box".clone_into(&mut worker.name);
        WorkerStatus {
            worker,
            pool: None,
            slots: 4,
            used: 0,
            roots: Vec::new(),
            version: "1".to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_logs_are_searched_once_for_each_worker_that_stays_away() {
        let mut others = OtherWorkers::default();
        let mut plan = SearchPlan::new(AFTER);
        others.set("box".to_owned(), Some(status(1)));
        assert!(!plan.is_due(&others), "workers that were never seen may come yet");
        advance(AFTER).await;
        assert!(plan.is_due(&others));
        plan = plan.after_search(&others);
        advance(AFTER).await;
        assert!(!plan.is_due(&others), "no worker is away");

        others.set("box".to_owned(), None);
        advance(AFTER / 2).await;
        assert!(!plan.is_due(&others));
        advance(AFTER / 2).await;
        assert!(plan.is_due(&others), "at once");
        plan = plan.again(false);
        assert!(!plan.is_due(&others), "a search that failed is repeated after a while");
        advance(SEARCH).await;
        assert!(plan.is_due(&others));
        plan = plan.after_search(&others).again(true);
        assert!(!plan.is_due(&others), "there was no free slot for all of it");
        advance(SEARCH).await;
        assert!(plan.is_due(&others));
        plan = plan.after_search(&others);
        advance(AFTER).await;
        assert!(!plan.is_due(&others), "it is still away, and has no sessions any more");

        // It comes back, and leaves again.
        others.set("box".to_owned(), Some(status(1)));
        others.set("box".to_owned(), None);
        advance(AFTER).await;
        assert!(plan.is_due(&others));
        assert!(!others.may_take(&status(1).worker, Some("other pool"), AFTER, AFTER));
        assert!(others.may_take(&status(1).worker, None, AFTER, AFTER));
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_was_installed_again_is_not_the_one_before() {
        let mut others = OtherWorkers::default();
        others.set("box".to_owned(), Some(status(1)));
        others.set("box".to_owned(), Some(status(2)));
        advance(AFTER).await;
        assert!(others.may_take(&status(1).worker, None, AFTER, AFTER));
        assert!(!others.may_take(&status(2).worker, None, AFTER, AFTER));
        // The same machine, which says something else.
        others.set("box".to_owned(), Some(status(2)));
        assert!(!others.may_take(&status(2).worker, None, AFTER, AFTER));
    }
}
