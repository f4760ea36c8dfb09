//! Claiming the id of a new session: its log gets its first message, which names the owner, before the worker
//! stores the session.
//!
//! The servers accept one first message, so two gateways that place one id on two workers create it once.

use std::sync::Arc;
use std::time::Duration;

use journal::SessionId;

use crate::bus::{Bus, BusError, LogPosition};
use crate::pack::{NewPack, Pack, PackKind, WorkerId};
use crate::question::WorkerFailure;

/// How often the log is read again after an append that was refused or is not sure.
const ATTEMPTS: u32 = 5;

/// The epoch of a session that was never anywhere else.
const FIRST_EPOCH: u64 = 1;

const PAUSE: Duration = Duration::from_millis(50);

/// Makes a worker the owner of a session that does not exist yet, and returns the epoch. The same worker may do it
/// again; for another one the failure names the owner.
pub async fn claim_start(
    bus: &Arc<dyn Bus>,
    session: SessionId,
    worker: &WorkerId,
) -> Result<u64, WorkerFailure> {
    let failed = |error: BusError| WorkerFailure::Failed(error.to_string());
    for attempt in 1..=ATTEMPTS {
        if let Some(last) = bus.last(session).await.map_err(failed)? {
            let header = Pack::decode(last.payload)
                .map_err(|error| WorkerFailure::Failed(error.to_string()))?
                .header;
            if header.worker.data == worker.data {
                return match header.kind {
                    // It is not new, and its next owner has not been found yet.
                    PackKind::Released => Err(WorkerFailure::SessionExists(session)),
                    PackKind::Own | PackKind::Changes => Ok(header.epoch),
                };
            }
            return Err(WorkerFailure::NotOwner { owner: header.worker.name });
        }
        let own = NewPack::without_changes(PackKind::Own, FIRST_EPOCH, worker.clone(), 0);
        match bus.append(session, LogPosition(0), own.payload).await {
            Ok(_) => return Ok(FIRST_EPOCH),
            Err(BusError::Conflict | BusError::Unsure(_)) => {
                tokio::time::sleep(PAUSE * attempt).await;
            }
            Err(error) => return Err(failed(error)),
        }
    }
    Err(WorkerFailure::Failed("the servers did not confirm who owns the session".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::claim_start;
    use crate::bus::Bus;
    use crate::bus::memory::MemoryServers;
    use crate::mirror::tests::{id, worker_id};
    use crate::question::WorkerFailure;

    #[tokio::test]
    async fn one_of_many_workers_gets_an_id_and_may_ask_again() {
        let servers = MemoryServers::default();
        let buses: Vec<Arc<dyn Bus>> =
            (0..8).map(|_| Arc::new(servers.connect()) as Arc<dyn Bus>).collect();
        let claims = buses.iter().zip(1..).map(|(bus, number)| async move {
            (number, claim_start(bus, id(1), &worker_id(number)).await)
        });
        let outcomes = futures_util::future::join_all(claims).await;
        let winners: Vec<u128> =
            outcomes.iter().filter(|(_, it)| it.is_ok()).map(|(number, _)| *number).collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        let owner = worker_id(winners[0]);
        for (_, outcome) in outcomes.iter().filter(|(_, it)| it.is_err()) {
            assert_eq!(outcome, &Err(WorkerFailure::NotOwner { owner: owner.name.clone() }));
        }
        assert_eq!(claim_start(&buses[0], id(1), &owner).await, Ok(1));
    }
}
