//! The lease of a worker: a key that expires if the worker does not renew it.
//!
//! It says who is probably alive, how much each worker can take, and where. It decides nothing about
//! ownership.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tracing::{debug, warn};

use crate::bus::{Bus, BusError, Expected, KeyRevision, KeyTable};
use crate::pack::WorkerId;

/// How long a lease lasts, and how often it is renewed.
pub const LIFETIME: Duration = Duration::from_secs(15);
pub const RENEWAL: Duration = Duration::from_secs(5);

/// What a worker says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStatus {
    #[serde(flatten)]
    pub worker: WorkerId,
    /// A name for workers that are alike.
    pub pool: Option<String>,
    /// How many agents may work at the same time, and how many do.
    pub slots: u32,
    pub used: u32,
    /// The directories below which its sessions may work.
    pub roots: Vec<PathBuf>,
    /// The version of Towpath.
    pub version: String,
}

/// Why a worker cannot have its name.
#[derive(Debug, Error)]
pub enum LeaseError {
    #[error(
        "another machine is connected as worker `{0}`; choose another name with `--name`, or wait 15 s if \
         that machine is gone"
    )]
    NameTaken(String),
    #[error(transparent)]
    Bus(#[from] BusError),
}

/// What became of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lease never expired.
    Kept,
    /// It had expired, and this worker has it again.
    TakenAgain,
    Failed,
}

/// A lease that this process holds.
#[derive(Debug)]
pub struct WorkerLease {
    bus: Arc<dyn Bus>,
    revision: KeyRevision,
}

impl WorkerLease {
    /// Takes the lease, unless another machine has it.
    pub async fn take(bus: Arc<dyn Bus>, status: &WorkerStatus) -> Result<Self, LeaseError> {
        let name = &status.worker.name;
        let mut expected = Expected::Missing;
        // Another machine may take or lose it in between.
        for _ in 0..3 {
            match bus.put(KeyTable::Workers, name, value(status), expected, Some(LIFETIME)).await {
                Ok(revision) => return Ok(Self { bus, revision }),
                Err(BusError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
            expected = match bus.get(KeyTable::Workers, name).await? {
                None => Expected::Missing,
                Some((revision, found)) => {
                    // An earlier process of this worker may have been killed.
                    let holder = serde_json::from_slice::<WorkerStatus>(&found);
                    if holder.is_ok_and(|holder| holder.worker.data != status.worker.data) {
                        break;
                    }
                    Expected::Revision(revision)
                }
            };
        }
        Err(LeaseError::NameTaken(name.clone()))
    }

    /// Renews the lease with the present status. If it has expired or is another machine's, it is taken
    /// again as soon as that is possible.
    pub async fn renew(&mut self, status: &WorkerStatus) -> Renewal {
        let (name, expected) = (&status.worker.name, Expected::Revision(self.revision));
        let put = self.bus.put(KeyTable::Workers, name, value(status), expected, Some(LIFETIME));
        match put.await {
            Ok(revision) => {
                self.revision = revision;
                return Renewal::Kept;
            }
            Err(BusError::Conflict) => match Self::take(Arc::clone(&self.bus), status).await {
                Ok(lease) => {
                    self.revision = lease.revision;
                    return Renewal::TakenAgain;
                }
                Err(error) => warn!(%error, "the lease of this worker is lost"),
            },
            Err(error) => debug!(%error, "the lease could not be renewed"),
        }
        Renewal::Failed
    }

    /// Gives the lease back, so that the worker is known to be away at once.
    pub async fn release(self, worker: &WorkerId) {
        let expected = Expected::Revision(self.revision);
        let _ = self.bus.remove(KeyTable::Workers, &worker.name, expected).await;
    }
}

fn value(status: &WorkerStatus) -> Bytes {
    // A path that is not UTF-8 cannot be named in JSON. The lease is there nevertheless.
    serde_json::to_vec(status).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use uuid::Uuid;

    use super::{LIFETIME, LeaseError, WorkerLease, WorkerStatus};
    use crate::bus::memory::MemoryServers;
    use crate::bus::{Bus as _, KeyTable};
    use crate::pack::WorkerId;

    fn status(data: u128, used: u32) -> WorkerStatus {
        WorkerStatus {
            worker: WorkerId { name: "box".to_owned(), data: Uuid::from_u128(data) },
            pool: None,
            slots: 4,
            used,
            roots: vec!["/src".into()],
            version: "1".to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_belongs_to_one_machine_until_its_lease_expires() {
        let servers = MemoryServers::default();
        let bus = Arc::new(servers.connect());
        let mut first = WorkerLease::take(Arc::clone(&bus) as _, &status(1, 0)).await.unwrap();
        let refused = WorkerLease::take(Arc::clone(&bus) as _, &status(2, 0)).await;
        assert!(matches!(refused, Err(LeaseError::NameTaken(_))), "{refused:?}");
        tokio::time::advance(LIFETIME / 2).await;
        first.renew(&status(1, 3)).await;
        tokio::time::advance(LIFETIME / 2).await;
        let (_, found) = bus.get(KeyTable::Workers, "box").await.unwrap().unwrap();
        assert_eq!(serde_json::from_slice::<WorkerStatus>(&found).unwrap(), status(1, 3));
        // The same machine after a restart.
        WorkerLease::take(Arc::clone(&bus) as _, &status(1, 0)).await.unwrap();
        tokio::time::advance(LIFETIME).await;
        WorkerLease::take(Arc::clone(&bus) as _, &status(2, 0)).await.unwrap();
        first.renew(&status(1, 3)).await;
        let (_, found) = bus.get(KeyTable::Workers, "box").await.unwrap().unwrap();
        assert_eq!(serde_json::from_slice::<WorkerStatus>(&found).unwrap(), status(2, 0));
    }
}
