//! Creating the streams of a fleet.

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::stream_plan::StreamPlan;
use super::{FleetSetup, FleetSize};
use crate::bus::BusError;

/// How long servers that were started a moment ago may take to find each other and elect a leader.
const START_TIMEOUT: Duration = Duration::from_secs(20);

const START_PAUSE: Duration = Duration::from_millis(200);

/// The servers are not a cluster, or the cluster has too few servers.
const TOO_FEW_SERVERS: [u64; 2] = [10074, 10005];

/// Part of the servers' reason if there would be enough of them with one that they know and do not hear.
const PEER_OFFLINE: &str = "peer offline";

/// Why a stream could not be prepared.
struct PrepareFailure {
    error: BusError,
    /// Whether servers that were started a moment ago answer like this.
    may_be_early: bool,
}

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
        self.connection.check_version()?;
        let mut steps = Vec::new();
        for plan in StreamPlan::all(size) {
            let deadline = Instant::now() + START_TIMEOUT;
            let action = loop {
                match self.prepare(&plan, size).await {
                    Ok(action) => break action,
                    Err(failure) if failure.may_be_early && Instant::now() < deadline => {
                        tokio::time::sleep(START_PAUSE).await;
                    }
                    Err(failure) => return Err(failure.error),
                }
            };
            steps.push(InitStep { stream: plan.name, action });
        }
        Ok(steps)
    }

    async fn prepare(
        &self,
        plan: &StreamPlan,
        size: FleetSize,
    ) -> Result<InitAction, PrepareFailure> {
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
                let may_be_early = error.description.contains(PEER_OFFLINE);
                let error = BusError::Setup(format!(
                    "stream `{}` needs three servers with JetStream in one cluster ({}): start them, or \
                     use --single if the loss of the one server is acceptable",
                    plan.name, error.description
                ));
                Err(PrepareFailure { error, may_be_early })
            }
            Err(error) => Err(error.into_error().into()),
        }
    }
}

impl From<BusError> for PrepareFailure {
    fn from(error: BusError) -> Self {
        let may_be_early = matches!(error, BusError::Unavailable(_));
        Self { error, may_be_early }
    }
}
