//! What there is on the servers: workers, sessions, streams.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::Serialize;
use serde_json::Value;

use super::stream_plan::StreamPlan;
use super::{FleetSetup, FleetSize};
use crate::bus::nats::NatsBus;
use crate::bus::nats::subjects::LOG_STREAM;
use crate::bus::{Bus as _, BusError, KeyTable};
use crate::lease::WorkerStatus;
use crate::pack::{Pack, PackKind};

/// How many logs are asked for their owners at the same time.
const CONCURRENT_LOGS: usize = 32;

/// What there is on the servers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetStatus {
    /// The server that answered.
    pub server: String,
    pub version: String,
    pub workers: Vec<FleetWorker>,
    /// How many sessions have a log.
    pub sessions: u64,
    pub streams: Vec<StreamStatus>,
}

/// A worker that is connected, or owns sessions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetWorker {
    pub name: String,
    /// Whether its lease has not expired.
    pub connected: bool,
    /// How many logs it owns, those of deleted sessions included.
    pub sessions: u64,
    /// What the worker says about itself; null if it is away.
    pub record: Value,
}

impl FleetWorker {
    /// What the worker says about itself, if it is connected and that can be read.
    pub fn status(&self) -> Option<WorkerStatus> {
        serde_json::from_value(self.record.clone()).ok()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamStatus {
    pub name: String,
    pub messages: u64,
    pub bytes: u64,
    pub replicas: u64,
    /// The server that accepts messages for it; none during an election.
    pub leader: Option<String>,
    /// The servers that should store it and cannot be reached.
    pub offline: Vec<String>,
}

impl FleetSetup {
    pub async fn status(&self) -> Result<FleetStatus, BusError> {
        let server = self.connection.client().server_info();
        let mut streams = Vec::new();
        let mut sessions = 0;
        // The size matters to what a stream should be, not to which streams there are.
        for plan in StreamPlan::all(FleetSize::Single) {
            let Some(info) = self.stream_info(&plan.name).await? else {
                let why = format!("there is no stream `{}`: run `towpath fleet init`", plan.name);
                return Err(BusError::Setup(why));
            };
            if plan.name == LOG_STREAM {
                sessions = info["state"]["num_subjects"].as_u64().unwrap_or(0);
            }
            streams.push(StreamStatus::new(plan.name, &info));
        }
        let workers = self.workers().await?;
        let (server, version) = (server.server_name, server.version);
        Ok(FleetStatus { server, version, workers, sessions, streams })
    }

    async fn workers(&self) -> Result<Vec<FleetWorker>, BusError> {
        let bus = NatsBus::new(self.connection.clone());
        let mut changes = bus.watch(KeyTable::Workers).await?;
        let away = |name: &str| FleetWorker {
            name: name.to_owned(),
            connected: false,
            sessions: 0,
            record: Value::Null,
        };
        let mut workers: BTreeMap<String, FleetWorker> = BTreeMap::new();
        loop {
            match changes.recv().await {
                Some(Some(change)) => {
                    let worker = workers.entry(change.key.clone());
                    let worker = worker.or_insert_with(|| away(&change.key));
                    worker.connected = change.value.is_some();
                    worker.record = change.value.as_ref().map_or(Value::Null, record);
                }
                Some(None) => break,
                None => return Err(BusError::Unavailable("the list was cut off".to_owned())),
            }
        }
        let owner = async |session| {
            let header = bus.last(session).await?.and_then(|it| Pack::decode(it.payload).ok());
            let header = header.map(|it| it.header).filter(|it| it.kind != PackKind::Released);
            Ok::<_, BusError>(header.map(|it| it.worker.name))
        };
        let logs = bus.logs().await?;
        let owners = stream::iter(logs.iter().map(|(session, _)| owner(*session)));
        let owners: Vec<Option<String>> =
            owners.buffer_unordered(CONCURRENT_LOGS).try_collect().await?;
        for name in owners.into_iter().flatten() {
            let worker = workers.entry(name.clone()).or_insert_with(|| away(&name));
            worker.sessions += 1;
        }
        Ok(workers.into_values().collect())
    }
}

/// A worker's record is JSON. Text that is not is shown as it is.
fn record(value: &Bytes) -> Value {
    serde_json::from_slice(value)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(value).into_owned()))
}

impl StreamStatus {
    fn new(name: String, info: &Value) -> Self {
        let replicas = info["cluster"]["replicas"].as_array().into_iter().flatten();
        let is_offline = |it: &&Value| it["offline"].as_bool() == Some(true);
        let offline = replicas.filter(is_offline).filter_map(|it| it["name"].as_str());
        Self {
            name,
            messages: info["state"]["messages"].as_u64().unwrap_or(0),
            bytes: info["state"]["bytes"].as_u64().unwrap_or(0),
            replicas: info["config"]["num_replicas"].as_u64().unwrap_or(1),
            leader: info["cluster"]["leader"].as_str().map(str::to_owned),
            offline: offline.map(str::to_owned).collect(),
        }
    }
}
