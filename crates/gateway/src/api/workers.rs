//! The machines of a fleet that drive the sessions.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use session::{WorkerPresence, WorkerSummary};
use utoipa::ToSchema;

use super::tag;
use crate::gateway::Gateway;

/// The machines that drive the sessions; none if this server does it itself.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WorkersResponse {
    /// Since when this server has no connection to the fleet, so that what it shows may be old, in milliseconds
    /// since 1970; null while it has one.
    connection_lost_since: Option<u64>,
    workers: Vec<WorkerResponse>,
}

/// A machine that drives sessions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Worker)]
pub(super) struct WorkerResponse {
    name: String,
    /// The name of a group of workers that are alike.
    pool: Option<String>,
    /// How many agents may work at the same time.
    slots: u32,
    /// How many agents work.
    used: u32,
    /// The directories below which its sessions may work.
    roots: Vec<String>,
    /// Its version of Towpath; null if it was away since this server started.
    version: Option<String>,
    connected: bool,
    /// Since when it is not connected, in milliseconds since 1970; null if it is connected, or was away
    /// before this server started.
    away_since: Option<u64>,
    /// How many sessions it has.
    sessions: usize,
}

impl From<WorkerSummary> for WorkerResponse {
    fn from(worker: WorkerSummary) -> Self {
        let (connected, away_since) = match worker.presence {
            WorkerPresence::Connected => (true, None),
            WorkerPresence::Away { since } => (false, since),
        };
        let roots = worker.roots.iter().map(|it| it.to_string_lossy().into_owned());
        Self {
            name: worker.name,
            pool: worker.pool,
            slots: worker.slots,
            used: worker.used,
            roots: roots.collect(),
            version: worker.version,
            connected,
            away_since,
            sessions: worker.sessions,
        }
    }
}

#[utoipa::path(get, path = "/workers", tag = tag::SESSIONS, responses((status = 200, body = WorkersResponse)))]
/// The machines that drive the sessions, by name; none if this server does it itself.
pub(super) async fn list(State(gateway): State<Gateway>) -> Json<WorkersResponse> {
    let workers = gateway.sessions.workers().await;
    let lost = gateway.sessions.fleet_connection().and_then(|it| it.lost);
    Json(WorkersResponse {
        connection_lost_since: lost.map(|it| it.since),
        workers: workers.into_iter().map(WorkerResponse::from).collect(),
    })
}
