//! What there is on the servers: workers, sessions, streams.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::stream_plan::StreamPlan;
use super::{FleetSetup, FleetSize};
use crate::bus::nats::NatsBus;
use crate::bus::nats::subjects::LOG_STREAM;
use crate::bus::{Bus as _, BusError, KeyTable};

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

/// A worker whose lease has not expired.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetWorker {
    pub name: String,
    /// What the worker says about itself.
    pub record: Value,
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
        let mut workers = Vec::new();
        loop {
            match changes.recv().await {
                Some(Some(change)) => {
                    let record = change.value.as_ref().map_or(Value::Null, record);
                    workers.push(FleetWorker { name: change.key, record });
                }
                Some(None) => break,
                None => return Err(BusError::Unavailable("the list was cut off".to_owned())),
            }
        }
        workers.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(workers)
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
