//! Arguments that name the servers of a fleet, and the connection to them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fleet::bus::BusError;
use fleet::bus::nats::{NatsBus, NatsConfig};
use tracing::warn;

/// The pause until servers that cannot be reached are tried again.
const RETRY: Duration = Duration::from_secs(2);

/// The servers of a fleet.
#[derive(Args, Clone, Debug)]
pub(crate) struct NatsArgs {
    /// Addresses of NATS servers, `nats://HOST:PORT` or `tls://HOST:PORT`
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        default_value = "nats://127.0.0.1:4222",
        hide_default_value = false
    )]
    pub(crate) nats: Vec<String>,
    /// A file with the credentials of a user
    #[arg(long, value_name = "FILE")]
    pub(crate) creds: Option<PathBuf>,
    /// Certificates of the authorities to trust, in place of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

/// The servers of the fleet whose sessions are served, if any.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServedFleetArgs {
    /// Serve the sessions of a fleet: addresses of its NATS servers. Drives nothing itself
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        conflicts_with_all = ["roots", "demo", "claude", "terminal"]
    )]
    nats: Vec<String>,
    /// A file with the credentials of a user of the fleet
    #[arg(long, value_name = "FILE", requires = "nats")]
    creds: Option<PathBuf>,
    /// Certificates of the authorities to trust for the fleet's servers, in place of the system's
    #[arg(long, value_name = "FILE", requires = "nats")]
    ca: Option<PathBuf>,
    /// The name of this gateway in the permissions of its credentials
    #[arg(long, value_name = "NAME", default_value = "gateway")]
    pub(crate) gateway_name: String,
}

impl NatsArgs {
    pub(crate) fn config(&self, name: &str) -> NatsConfig {
        NatsConfig {
            servers: self.nats.clone(),
            credentials: self.creds.clone(),
            authorities: self.ca.clone(),
            name: name.to_owned(),
        }
    }

    /// Connects, and waits for servers that are away.
    pub(crate) async fn connect(&self, name: &str) -> Result<NatsBus, BusError> {
        let mut is_reported = false;
        loop {
            match NatsBus::connect(&self.config(name)).await {
                Ok(bus) => return Ok(bus),
                Err(BusError::Unavailable(reason)) => {
                    if !std::mem::replace(&mut is_reported, true) {
                        warn!(reason, "the NATS servers cannot be reached; trying again");
                    }
                    tokio::time::sleep(RETRY).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl ServedFleetArgs {
    /// The servers; none if the sessions of this machine are served.
    pub(crate) fn servers(&self) -> Option<NatsArgs> {
        let Self { nats, creds, ca, gateway_name: _ } = self.clone();
        (!nats.is_empty()).then_some(NatsArgs { nats, creds, ca })
    }
}
