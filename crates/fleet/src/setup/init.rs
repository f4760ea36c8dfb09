//! Creating the streams of a fleet.

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::stream_plan::StreamPlan;
use super::{FleetSetup, FleetSize, is_supported};
use crate::bus::BusError;

/// How long servers that were started a moment ago may take to elect a leader.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(20);

const ELECTION_PAUSE: Duration = Duration::from_millis(200);

/// The servers are not a cluster, or the cluster has too few servers.
const TOO_FEW_SERVERS: [u64; 2] = [10074, 10005];

/// What was done about one stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InitStep {
    pub stream: String,
    #[serde(flatten)]
    pub action: InitAction,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum InitAction {
    Created,
    /// These settings were changed.
    Changed {
        settings: Vec<String>,
    },
    Unchanged,
}

impl FleetSetup {
    /// Creates what is missing and corrects what loses messages. Run again, it changes nothing. It never
    /// reduces the number of servers that store a stream.
    pub async fn init(&self, size: FleetSize) -> Result<Vec<InitStep>, BusError> {
        let server = self.connection.client().server_info();
        if !is_supported(&server.version) {
            return Err(BusError::Setup(format!(
                "the servers run NATS {}, which is too old: install 2.15 (2.12 at least)",
                server.version
            )));
        }
        let mut steps = Vec::new();
        for plan in StreamPlan::all(size) {
            let deadline = Instant::now() + ELECTION_TIMEOUT;
            let action = loop {
                match self.prepare(&plan, size).await {
                    Err(BusError::Unavailable(_)) if Instant::now() < deadline => {
                        tokio::time::sleep(ELECTION_PAUSE).await;
                    }
                    result => break result?,
                }
            };
            steps.push(InitStep { stream: plan.name, action });
        }
        Ok(steps)
    }

    async fn prepare(&self, plan: &StreamPlan, size: FleetSize) -> Result<InitAction, BusError> {
        let (subject, settings, action) = match self.stream_info(&plan.name).await? {
            None => ("CREATE", plan.creation(), InitAction::Created),
            Some(info) => {
                let differences = plan.differences(&info["config"]);
                if differences.is_empty() {
                    return Ok(InitAction::Unchanged);
                }
                let settings = differences.into_iter().map(|it| it.setting).collect();
                ("UPDATE", plan.corrected(&info["config"]), InitAction::Changed { settings })
            }
        };
        let subject = format!("STREAM.{subject}.{}", plan.name);
        match self.api(&subject, Some(&settings)).await? {
            Ok(_) => Ok(action),
            Err(error) if TOO_FEW_SERVERS.contains(&error.code) && size == FleetSize::Cluster => {
                Err(BusError::Setup(format!(
                    "stream `{}` needs three servers with JetStream in one cluster ({}): start them, or \
                     use --single if the loss of the one server is acceptable",
                    plan.name, error.description
                )))
            }
            Err(error) => Err(error.into_error()),
        }
    }
}
