//! What only one gateway does at a time, such as the Telegram bridge: which one is decided by a key that
//! expires if it is not renewed.
//!
//! A gateway that cannot renew the key stops some seconds before it expires. One that was paused meanwhile
//! does not notice in time, which is why what it writes is [fenced](crate::fenced_state) too.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::debug;
use uuid::Uuid;

use crate::bus::{Bus, BusError, Expected, KeyRevision, KeyTable};
use crate::lease::{LIFETIME, RENEWAL};

/// How long before the end of its lease a gateway stops that could not renew it.
const MARGIN: Duration = Duration::from_secs(4);

/// The pause until servers that cannot be reached are asked again.
const RETRY: Duration = Duration::from_secs(2);

/// A candidate for a role.
#[derive(Debug)]
pub struct Election {
    bus: Arc<dyn Bus>,
    /// The name of the role: a key.
    role: String,
    holder: RoleHolder,
}

/// Who has a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleHolder {
    /// The name of the gateway, for people.
    pub gateway: String,
    /// This candidacy. Two gateways may have the same name.
    pub id: Uuid,
}

/// A role that this process has.
#[derive(Debug)]
pub struct HeldRole<'a> {
    election: &'a Election,
    revision: KeyRevision,
    /// When the renewal began that was confirmed last.
    renewed: Instant,
}

impl Election {
    pub fn new(bus: Arc<dyn Bus>, role: &str, gateway: &str) -> Self {
        let holder = RoleHolder { gateway: gateway.to_owned(), id: Uuid::new_v4() };
        Self { bus, role: role.to_owned(), holder }
    }

    /// Waits until this process is elected.
    pub async fn win(&self) -> HeldRole<'_> {
        loop {
            // Before the attempt, so that nothing is missed after it.
            let changes = self.bus.watch(KeyTable::Roles).await;
            let begun = Instant::now();
            match self.put(Expected::Missing).await {
                Ok(revision) => return HeldRole { election: self, revision, renewed: begun },
                Err(BusError::Conflict) => {}
                Err(error) => debug!(%error, role = self.role, "no election is possible"),
            }
            let Ok(mut changes) = changes else {
                sleep(RETRY).await;
                continue;
            };
            let is_vacant = async {
                while let Some(change) = changes.recv().await {
                    if change.is_some_and(|it| it.key == self.role && it.value.is_none()) {
                        return;
                    }
                }
                sleep(RETRY).await;
            };
            // What was missed for any other reason is noticed with the next attempt.
            let _ = timeout(LIFETIME, is_vacant).await;
        }
    }

    async fn put(&self, expected: Expected) -> Result<KeyRevision, BusError> {
        let value: Bytes = serde_json::to_vec(&self.holder).unwrap_or_default().into();
        self.bus.put(KeyTable::Roles, &self.role, value, expected, Some(LIFETIME)).await
    }

    /// The number of the key's value, if it is this process's.
    async fn own_revision(&self) -> Result<Option<KeyRevision>, BusError> {
        let found = self.bus.get(KeyTable::Roles, &self.role).await?;
        Ok(found.and_then(|(revision, value)| {
            let holder: RoleHolder = serde_json::from_slice(&value).ok()?;
            (holder == self.holder).then_some(revision)
        }))
    }
}

impl HeldRole<'_> {
    /// Keeps the role until it is lost.
    pub async fn keep(&mut self) {
        loop {
            sleep(RENEWAL).await;
            let deadline = self.renewed + LIFETIME - MARGIN;
            match timeout_at(deadline, self.renew()).await {
                Ok(true) => {}
                Ok(false) | Err(_) => return,
            }
        }
    }

    /// Renews the lease. Whether this process still has it.
    async fn renew(&mut self) -> bool {
        loop {
            let begun = Instant::now();
            match self.election.put(Expected::Revision(self.revision)).await {
                Ok(revision) => {
                    (self.revision, self.renewed) = (revision, begun);
                    return true;
                }
                // A renewal that was not confirmed may have been stored.
                Err(BusError::Conflict) => match self.election.own_revision().await {
                    Ok(Some(revision)) => self.revision = revision,
                    Ok(None) => return false,
                    Err(_) => sleep(RETRY).await,
                },
                Err(error) => {
                    debug!(%error, role = self.election.role, "a role could not be renewed");
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Gives the role up, so that another gateway can have it at once.
    pub async fn release(self) {
        let Election { bus, role, .. } = self.election;
        let _ = bus.remove(KeyTable::Roles, role, Expected::Revision(self.revision)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::{Instant, timeout};

    use super::Election;
    use crate::bus::memory::{MemoryBus, MemoryServers};
    use crate::lease::LIFETIME;

    fn candidate(servers: &MemoryServers, name: &str) -> (Arc<MemoryBus>, Election) {
        let bus = Arc::new(servers.connect());
        (Arc::clone(&bus), Election::new(bus, "telegram.1", name))
    }

    #[tokio::test(start_paused = true)]
    async fn one_candidate_is_elected_and_the_next_one_when_it_is_gone() {
        let servers = MemoryServers::default();
        let (_, first) = candidate(&servers, "g1");
        let (_, second) = candidate(&servers, "g2");
        let mut held = first.win().await;
        {
            let (kept, waited) = tokio::join!(
                timeout(3 * LIFETIME, held.keep()),
                timeout(3 * LIFETIME, second.win())
            );
            assert!(kept.is_err() && waited.is_err(), "the first keeps it");
        }
        // It is killed.
        let killed = Instant::now();
        let held = second.win().await;
        assert!(killed.elapsed() <= 2 * LIFETIME, "{:?}", killed.elapsed());
        held.release().await;
        let released = Instant::now();
        first.win().await;
        assert!(released.elapsed() < Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_candidate_that_is_cut_off_stops_before_another_one_starts() {
        let servers = MemoryServers::default();
        let (connection, first) = candidate(&servers, "g1");
        let (_, second) = candidate(&servers, "g2");
        let mut held = first.win().await;
        connection.set_cut(true);
        let begun = Instant::now();
        let stopped = async {
            held.keep().await;
            begun.elapsed()
        };
        let elected = async {
            second.win().await;
            begun.elapsed()
        };
        let (stopped, elected) = tokio::join!(stopped, elected);
        assert!(stopped < LIFETIME && LIFETIME <= elected, "{stopped:?} {elected:?}");
    }
}
