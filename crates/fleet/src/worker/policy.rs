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
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::SharedWorker;
use crate::bus::{BusError, KeyTable};
use crate::lease::{RENEWAL, WorkerStatus};
use crate::pack::{PackKind, WorkerId};

/// How often the workers that are away are looked at.
const CHECK: Duration = Duration::from_secs(1);

/// How often the logs are searched for sessions of workers that stay away.
const SEARCH: Duration = Duration::from_secs(30);

/// Workers that begin at the same time do not all begin with the same session.
const SPREAD_MILLIS: u128 = 1000;

/// How long before others take over a worker ends its agents, at most.
const MARGIN: Duration = Duration::from_secs(30);

/// What is known about the other workers.
#[derive(Debug, Default)]
struct OtherWorkers {
    connected: HashMap<String, WorkerStatus>,
    /// Since when, and what it said last.
    away: HashMap<String, (Instant, WorkerStatus)>,
}

impl OtherWorkers {
    fn set(&mut self, name: String, status: Option<WorkerStatus>) {
        match status {
            Some(status) => {
                self.away.remove(&name);
                self.connected.insert(name, status);
            }
            None => {
                if let Some(status) = self.connected.remove(&name) {
                    self.away.insert(name, (Instant::now(), status));
                }
            }
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
        owner: &str,
        pool: Option<&str>,
        after: Duration,
        watched: Duration,
    ) -> bool {
        if self.connected.contains_key(owner) {
            return false;
        }
        match self.away.get(owner) {
            Some((since, status)) => since.elapsed() >= after && status.pool.as_deref() == pool,
            None => watched >= after,
        }
    }
}

impl SharedWorker {
    /// Takes over the sessions of workers that are away for longer than `after`, until it is dropped.
    pub(super) async fn take_over_from_absent(&self, after: Duration) {
        let begun = Instant::now();
        let mut others = OtherWorkers::default();
        let mut search = begun;
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
                    () = tokio::time::sleep(CHECK) => {
                        let waited = others.away.values().any(|(since, _)| since.elapsed() >= after);
                        if is_listed
                            && (waited || begun.elapsed() >= after)
                            && Instant::now() >= search
                        {
                            search = Instant::now() + SEARCH;
                            if let Err(error) = self.search(&others, after, begun.elapsed()).await {
                                debug!(%error, "the logs cannot be searched");
                            }
                        }
                    }
                }
            }
        }
    }

    /// Takes over what may be taken over, as long as there are free slots.
    async fn search(
        &self,
        others: &OtherWorkers,
        after: Duration,
        watched: Duration,
    ) -> Result<(), BusError> {
        for (session, _) in self.bus.logs().await? {
            let Ok(Some((_, header))) = self.log_end(session).await else { continue };
            let pool = self.config.pool.as_deref();
            if header.worker.data == self.id.data
                || header.kind == PackKind::Released
                || !others.may_take(&header.worker.name, pool, after, watched)
            {
                continue;
            }
            let status = self.status().await;
            if status.used >= status.slots {
                return Ok(());
            }
            self.take_over_absent(session, &header.worker).await;
        }
        Ok(())
    }

    async fn take_over_absent(&self, session: SessionId, owner: &WorkerId) {
        let spread = (session.0.as_u128() ^ self.id.data.as_u128()) % SPREAD_MILLIS;
        tokio::time::sleep(Duration::from_millis(u64::try_from(spread).unwrap_or(0))).await;
        info!(%session, owner = owner.name, "taking over a session of a worker that stays away");
        if let Err(failure) = self.take_over(session, Some(owner)).await {
            // Another worker may have been faster.
            info!(%session, %failure, "a session of a worker that stays away was not taken over");
        }
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
