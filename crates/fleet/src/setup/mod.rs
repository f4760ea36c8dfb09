//! Setting up the servers of a fleet, and checking that they keep what Towpath promises.
//!
//! [`init`](FleetSetup::init) creates the streams, [`check`](FleetSetup::check) says what breaks the
//! promise that nothing which was acknowledged is lost, [`status`](FleetSetup::status) what there is, and
//! [`prune`](FleetSetup::prune) removes what deleted sessions leave behind.

mod check;
mod finding;
mod init;
mod monitor;
mod prune;
mod status;
mod stream_plan;
mod user_key;

pub use check::CheckOptions;
pub use finding::{FindingSeverity, SetupFinding};
pub use init::{InitAction, InitStep};
pub use prune::{PruneOptions, PrunedSession};
pub use status::{FleetStatus, FleetWorker, StreamStatus};
pub use user_key::UserKey;

use std::fmt;

use serde_json::Value;

use crate::bus::BusError;
use crate::bus::nats::{
    FirstConnection, JetStreamError, NatsConfig, NatsConnection, RequestFailure,
};

/// The oldest version of the servers that Towpath works with. Older ones have no keys that expire, or
/// accept appends that they should refuse, without saying so.
const OLDEST_VERSION: (u64, u64) = (2, 12);

/// On how many servers each message is stored, unless there is only one.
const REPLICAS: u64 = 3;

/// How many servers a fleet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetSize {
    /// Three or more: one of them may fail.
    Cluster,
    /// One, for trying out or where its loss is acceptable.
    Single,
}

/// A connection with the rights of an administrator.
pub struct FleetSetup {
    connection: NatsConnection,
    config: NatsConfig,
}

impl FleetSize {
    fn replicas(self) -> u64 {
        match self {
            Self::Cluster => REPLICAS,
            Self::Single => 1,
        }
    }
}

impl fmt::Debug for FleetSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetSetup").field("connection", &self.connection).finish_non_exhaustive()
    }
}

impl FleetSetup {
    pub async fn connect(config: &NatsConfig) -> Result<Self, BusError> {
        let connection = NatsConnection::connect(config, FirstConnection::Now).await?;
        Ok(Self { connection, config: config.clone() })
    }

    async fn api(
        &self,
        subject: &str,
        body: Option<&Value>,
    ) -> Result<Result<Value, JetStreamError>, BusError> {
        self.connection.api(subject, body).await.map_err(RequestFailure::into_error)
    }

    /// What JetStream says about a stream; none if there is no such stream.
    async fn stream_info(&self, stream: &str) -> Result<Option<Value>, BusError> {
        match self.api(&format!("STREAM.INFO.{stream}"), None).await? {
            Ok(info) => Ok(Some(info)),
            Err(error) if error.is_missing_stream() => Ok(None),
            Err(error) => Err(error.into_error()),
        }
    }
}

/// Whether a version such as `2.15.1` is at least `OLDEST_VERSION`. A version that cannot be read is
/// not.
pub fn is_supported(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map(str::parse::<u64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= OLDEST_VERSION,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_supported;

    #[test]
    fn the_packages_of_debian_12_and_13_are_too_old() {
        for version in ["2.9.10", "2.10.27", "2.11.0", "1.99.0", "", "nightly"] {
            assert!(!is_supported(version), "{version}");
        }
        for version in ["2.12.0", "2.15.1", "2.15.1-beta.1", "3.0.0"] {
            assert!(is_supported(version), "{version}");
        }
    }
}
